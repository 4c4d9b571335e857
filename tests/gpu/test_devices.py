"""Several GPUs in one process: copies and kernels reach across, under a plan too.

With one GPU there is nothing to test, and the table says so.
"""

import time

import gpu
from gpu import GIB, MIB

torch, stalloc = gpu.start()
FIRST, SECOND = torch.device("cuda:0"), torch.device("cuda:1")
TWO = torch.cuda.device_count() > 1 and torch.cuda.can_device_access_peer(0, 1)


def check_what_is_live_when_the_second_one_comes():
    if not TWO:
        return "not run: there are no two GPUs that reach each other"
    data = torch.randn(GIB // 4, device=FIRST)
    torch.cuda.synchronize()
    begin = time.perf_counter()
    copy = data[: MIB // 4].to(SECOND)
    seconds = time.perf_counter() - begin
    assert torch.equal(copy.cpu(), data[: MIB // 4].cpu())
    assert torch.equal(data.to(SECOND).cpu(), data.cpu())
    return f"1 GiB was live; the second GPU was opened in {seconds * 1e3:.0f} ms"


def check_copies_both_ways():
    if not TWO:
        return "not run"
    for here, there in ((FIRST, SECOND), (SECOND, FIRST)):
        data = torch.randn(2048, 2048, device=here)
        host = data.cpu()
        assert torch.equal(data.to(there).cpu(), host)
        assert torch.equal(data.to(there, dtype=torch.float64).cpu(), host.double())
        assert torch.equal(data.t().to(there).cpu(), host.t())
        into = torch.zeros(2048, 2048, device=there)
        into.t().copy_(data)
        assert torch.equal(into.cpu(), host.t())
    return "as they are, converted, transposed"


def check_a_pipeline_over_both():
    if not TWO:
        return "not run"
    torch.manual_seed(0)
    first = torch.nn.Sequential(torch.nn.Linear(1024, 4096), torch.nn.GELU()).to(FIRST)
    second = torch.nn.Linear(4096, 1024).to(SECOND)
    optimizer = torch.optim.AdamW([*first.parameters(), *second.parameters()], lr=1e-3)
    batch = torch.randn(512, 1024, device=FIRST)
    losses = []

    def step():
        optimizer.zero_grad()
        out = second(first(batch).to(SECOND))
        loss = (out - batch.to(SECOND)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())

    for _ in range(40):
        before = [stalloc.stats(device).hits for device in (0, 1)]
        step()
        stalloc.step()
        hits = [stalloc.stats(device).hits - n for device, n in enumerate(before)]
        if min(hits) > 0:
            break
        time.sleep(0.02)  # the planners work beside the steps
    assert min(hits) > 0, f"no step of 40 was served from both devices' plans: {hits} hits"
    assert losses[-1] < losses[0], losses
    return f"after {len(losses)} steps {hits} hits; loss {losses[0]:.3f} to {losses[-1]:.3f}"


gpu.run(globals())
