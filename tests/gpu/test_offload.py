"""Optimizer states and regions that lend their memory: the same bits, within the limit."""

import time

import gpu
from gpu import GIB, MIB

torch, stalloc = gpu.start()

LAYERS, WIDTH = 24, 2048
TOTAL = torch.cuda.get_device_properties(0).total_memory


def net():
    torch.manual_seed(1)
    layers = [torch.nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)]
    return torch.nn.Sequential(*layers).cuda()


def train(steps, activations, wrap=lambda optimizer: optimizer, each=lambda n: None, **options):
    """Losses; each step holds so many bytes beside weights, gradients and states."""
    model = net()
    optimizer = wrap(torch.optim.AdamW(model.parameters(), lr=1e-3, **options))
    losses = []
    for n in range(steps):
        x = torch.full((64, WIDTH), 0.01 * (n + 1), device="cuda")
        loss = model(x).square().mean()
        held = [torch.empty(64 * MIB, dtype=torch.uint8, device="cuda").fill_(n)
                for _ in range(activations // (64 * MIB))]  # fmt: skip
        loss.backward()
        assert all(int(x[-1]) == n for x in held[:2])
        del held
        optimizer.step()
        optimizer.zero_grad()
        each(optimizer)
        losses.append(loss.item())
    return losses


def forget():
    import gc

    gc.collect()
    torch.cuda.empty_cache()


def limited(size):
    torch.cuda.set_per_process_memory_fraction(size / TOTAL)


def check_states_lend():
    """1.5 GiB of weights, gradients and states, 1 GiB of activations, in 2 GiB."""
    for options in ({"fused": True}, {"foreach": True}):
        expected = train(6, GIB, **options)
        forget()
        limited(2 * GIB)
        seen = []
        got = train(
            6, GIB, stalloc.offload, lambda o, seen=seen: seen.append(stalloc.stats()), **options
        )
        limited(TOTAL)
        assert got == expected, (got, expected)
        assert all(s.reserved <= 2 * GIB for s in seen), [s.reserved for s in seen]
        assert seen[-1].backup > 0
        forget()
        print(f"  {options}: {seen[-1].backup / MIB:.0f} MiB on the host")


def check_states_that_do_not_fit_together():
    """0.75 GiB of weights and gradients and as much of states, in 1.25 GiB, an eighth at a time."""
    from stalloc import _offload_step

    expected = train(6, 256 * MIB, fused=True)
    forget()
    _offload_step.PART = 48 * MIB
    limited(1280 * MIB)
    seen = []
    got = train(6, 256 * MIB, stalloc.offload, lambda o: seen.append(stalloc.stats()), fused=True)
    limited(TOTAL)
    assert got == expected, (got, expected)
    assert all(s.reserved <= 1280 * MIB for s in seen), [s.reserved for s in seen]
    forget()
    print(f"  {seen[-1].backup / MIB:.0f} MiB on the host, {seen[-1].reserved / MIB:.0f} held")


def check_an_unfinished_step():
    """The second part that is away does not come back once; the next call does what is left."""
    from stalloc import _offload_step
    from stalloc._library import Library

    def break_off(optimizer):
        whole, begun, begin = optimizer.step, [], Library.begin_awake

        def refuse(self, *of):
            begun.append(of)
            if len(begun) == 2:
                Library.begin_awake = begin
                raise torch.cuda.OutOfMemoryError("so says this check")
            begin(self, *of)

        def step():
            if len(seen) == 3:
                Library.begin_awake = refuse
            try:
                whole()
            except stalloc.StallocError as error:
                stopped.append(str(error))
                whole()
            finally:
                Library.begin_awake = begin

        optimizer.step = step
        return optimizer

    expected = train(6, 256 * MIB, fused=True)
    forget()
    _offload_step.PART = 48 * MIB
    limited(1280 * MIB)
    seen, stopped = [], []
    got = train(
        6, 256 * MIB, lambda o: break_off(stalloc.offload(o)), lambda _: seen.append(0), fused=True
    )
    limited(TOTAL)
    assert got == expected, (got, expected)
    assert len(stopped) == 1 and "has updated" in stopped[0], stopped
    forget()
    print(f"  {stopped[0]}")


def check_nothing_moves_where_all_fits():
    train(3, 0, stalloc.offload)
    assert stalloc.stats().backup == 0
    forget()


def check_reading_states():
    def read(optimizer):
        saved = optimizer.state_dict()
        for values in saved["state"].values():
            assert bool(values["exp_avg"].isfinite().all())

    expected = train(4, 0, fused=True)
    got = train(4, 0, lambda o: stalloc.offload(o, when="always"), read, fused=True)
    assert got == expected
    forget()


def check_time():
    """GiB a second of states that make room for a request and come back, beside pinned copies; no
    bound."""
    weight = torch.nn.Parameter(torch.zeros(GIB // 2, device="cuda"))
    optimizer = stalloc.offload(torch.optim.AdamW([weight], lr=1e-3, fused=True))
    words = []
    for n in range(7):
        weight.grad = torch.ones_like(weight)
        optimizer.step()
        weight.grad = None
        if n < 2:  # states move into their region
            continue
        limited(8 * GIB + 256 * MIB)
        torch.cuda.synchronize()
        begin = time.perf_counter()
        activations = torch.empty(6 * GIB, dtype=torch.uint8, device="cuda")
        left = time.perf_counter()
        size = stalloc.stats().lent / GIB
        del activations
        freed = time.perf_counter()
        states = optimizer.state[weight]
        torch.cuda.synchronize()
        back = time.perf_counter()
        assert bool(states["exp_avg"][-1] > 0)
        del states
        if n > 2:  # before, memory is pinned for them
            assert 3 < size <= 4, size
            words.append(f"{size / (left - begin):.1f} out, {size / (back - freed):.1f} back")
    del weight, optimizer
    limited(TOTAL)
    forget()
    return f"{gpu.pinned_copies()}; states: {'; '.join(words)} GiB/s"


def check_a_reference_model():
    with stalloc.region("reference"), torch.no_grad():
        reference = net()
    x = torch.full((64, WIDTH), 0.01, device="cuda")
    with torch.no_grad():
        expected = reference(x).clone()
        torch.cuda.empty_cache()
        most = stalloc.stats().reserved + 128 * MIB
        for _ in range(4):
            with stalloc.awake("reference", changed=False):
                assert torch.equal(reference(x), expected)
            limited(most)
            held = torch.empty(300 * MIB, dtype=torch.uint8, device="cuda").fill_(1)
            assert stalloc.stats().asleep >= 128 * MIB
            del held
            stalloc.prefetch("reference")
        limited(TOTAL)
        with stalloc.awake("reference", changed=False):
            assert torch.equal(reference(x), expected)


if __name__ == "__main__":
    gpu.run(globals())
