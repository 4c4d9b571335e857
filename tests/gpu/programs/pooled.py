"""Private pools, one group of cases a run: `pools`, `steps` or `compiled`. Prints results as JSON.

With --allocator native it shows what PyTorch's own allocator does."""

import argparse
import contextlib
import gc
import json
import os
import sys
import time
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("group", choices=("pools", "steps", "compiled"))
parser.add_argument("--allocator", default="stalloc", choices=("stalloc", "native"))
args = parser.parse_args()
if args.allocator == "stalloc":
    sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "python"))
    import stalloc

    assert stalloc.enable() and stalloc.route() == "adapter"
import torch  # noqa: E402

MIB = 1 << 20
CASES = {}
torch.use_deterministic_algorithms(True, warn_only=True)
torch.cuda.init()


def case(group):
    def put(function):
        CASES.setdefault(group, []).append(function)
        return function

    return put


def full(mib, value):
    return torch.full((mib * MIB,), value, dtype=torch.uint8, device="cuda")


def reserved():
    return torch.cuda.memory_reserved()


def clean():
    gc.collect()
    with contextlib.suppress(RuntimeError):
        torch.cuda.synchronize()
    torch.cuda.empty_cache()


def cap(mib):
    """Bounds what may be reserved."""
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(min(1.0, mib * MIB / total))


@case("pools")
def mempool_retry():
    pool = torch.cuda.MemPool()
    cap((reserved() >> 20) + 4400)
    try:
        with torch.cuda.use_mem_pool(pool):
            a = full(3072, 1)
            del a
            b = full(4096, 2)
        assert int(b[-1]) == 2
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    return "4 GiB after 3 GiB were freed"


@case("pools")
def mempool_streams():
    pool, side, most, before = torch.cuda.MemPool(), torch.cuda.Stream(), 0, reserved()
    with torch.cuda.use_mem_pool(pool):
        for i in range(32):
            a = full(64, i)
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                a.add_(1)
            a.record_stream(side)
            del a
            torch.cuda.synchronize()
            most = max(most, reserved() - before)
    assert most <= 256 * MIB, f"{most >> 20} MiB for one block of 64 at a time"
    return f"{most >> 20} MiB at most"


@case("pools")
def mempool_nested():
    outer, inner = torch.cuda.MemPool(), torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(outer), torch.cuda.use_mem_pool(inner):
        a = full(8, 1)
    found = [s["segment_pool_id"] for s in torch.cuda.memory_snapshot() if s["allocated_size"]]
    assert tuple(inner.id) in map(tuple, found), found
    del a


@case("pools")
def mempool_comes_back():
    clean()
    before, pool = reserved(), torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        kept = full(16, 1)
        dropped = full(512, 1)
        del dropped
    snapshot = pool.snapshot()
    live = sum(s["allocated_size"] for s in snapshot)
    assert live == 16 * MIB, live
    del kept, pool, snapshot
    clean()
    assert reserved() <= before + 2 * MIB, f"{(reserved() - before) >> 20} MiB stay"


@case("pools")
def graph_shapes():
    w, graphs, pool = torch.randn(2048, 2048, device="cuda") / 45, [], None
    for rows in (4096, 2048, 1024, 512):
        x, side = torch.ones(rows, 2048, device="cuda"), torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            torch.relu(x @ w) @ w
        torch.cuda.current_stream().wait_stream(side)
        clean()
        free, g = torch.cuda.mem_get_info()[0], torch.cuda.CUDAGraph()
        with torch.cuda.graph(g, **({"pool": pool} if pool else {})):
            y = torch.relu(x @ w) @ w
        pool = pool or g.pool()
        graphs.append((g, x, y))
        grown = torch.cuda.mem_get_info()[0] - free
        assert grown <= 0, f"free memory grew by {grown >> 20} MiB during a capture"
    for k in range(16):
        junk = [full(30 + 11 * ((k + j) % 9), 255) for j in range(10)]
        del junk
        if k % 4 == 3:
            torch.cuda.empty_cache()
        g, x, y = graphs[k % 4]
        x.fill_(k + 1.0)
        g.replay()
        want = (k + 1) * torch.relu(w.sum(0)) @ w
        assert torch.allclose(y[-1], want, rtol=2e-2, atol=2e-2 * (k + 1)), f"replay {k}"
    held = reserved()
    del graphs, g, x, y, want
    clean()
    left = reserved() - torch.cuda.memory_allocated()
    assert left <= 64 * MIB, f"{left >> 20} MiB of dead graphs stay"
    return f"{held >> 20} MiB held"


def drop(model, x):
    """Captures a graph and drops it."""
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g), torch.no_grad():
        y = model(x)
    g.replay()
    del y, g


@case("pools")
def captures_and_drops():
    model = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024) for _ in range(4))).cuda()
    x = torch.randn(4096, 1024, device="cuda")
    with torch.no_grad():
        model(x)
    for _ in range(5):
        drop(model, x)
    clean()
    before, begin = reserved(), time.perf_counter()
    for _ in range(200):
        drop(model, x)
    took = time.perf_counter() - begin
    after = reserved()
    assert after <= before + 64 * MIB, (
        f"{before >> 20} MiB before 200 captures, {after >> 20} after"
    )
    return f"{before >> 20} MiB, then {after >> 20}; {1e3 * took / 200:.1f} ms each"


@case("pools")
def graph_failed():
    for _ in range(2):
        with torch.cuda.stream(torch.cuda.Stream()):
            x = full(64, 1)
    del x
    clean()
    before, failed = reserved(), 0
    for _ in range(4):
        g, a = torch.cuda.CUDAGraph(), None
        try:
            with torch.cuda.graph(g):
                a = full(256, 1)
                a.sum().item()
        except RuntimeError:
            failed += 1
        del a, g
        clean()
    after, y = reserved(), full(64, 7)
    assert int(y[-1]) == 7 and failed == 4
    assert after <= before + 32 * MIB, f"{before >> 20} MiB before, {after >> 20} after"
    return f"{before >> 20} MiB, then {after >> 20}"


def decoder(layers, width):
    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
            self.inner = torch.nn.Linear(width, 3 * width)
            self.outer = torch.nn.Linear(width, width)
            self.wide = torch.nn.Linear(width, 4 * width)
            self.narrow = torch.nn.Linear(4 * width, width)

        def forward(self, x):
            heads = self.inner(self.first(x)).unflatten(-1, (3, -1, 64))
            q, k, v = heads.permute(2, 0, 3, 1, 4).unbind(0)
            mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.outer(mixed.transpose(1, 2).flatten(2))
            return x + self.narrow(torch.nn.functional.gelu(self.wide(self.second(x))))

    return torch.nn.Sequential(*(Block() for _ in range(layers))).cuda().bfloat16()


def warm_up(step, times=3):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(times):
            step()
    torch.cuda.current_stream().wait_stream(side)


def timed(step, times):
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(times):
        step()
    torch.cuda.synchronize()
    return 1e3 * (time.perf_counter() - begin) / times


def summary(losses, ms):
    clean()
    return {"losses": losses, "reserved": reserved(), "ms": ms}


@case("steps")
def whole_step():
    torch.manual_seed(1)
    model = decoder(8, 1024)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, capturable=True)
    x = torch.randn(8, 512, 1024, device="cuda", dtype=torch.bfloat16)

    def step():
        loss = (model(x) - x).float().square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss

    warm_up(step)
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        loss = step()
    losses = []
    for _ in range(10):
        junk = [full(16 + 7 * i, 255) for i in range(8)]
        g.replay()
        losses.append(loss.item())
        del junk
    return summary(losses, timed(g.replay, 20))


@case("steps")
def layer_by_layer():
    torch.manual_seed(2)
    model = decoder(6, 1024)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    x = torch.randn(8, 512, 1024, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    layers = torch.cuda.make_graphed_callables(tuple(model), ((x,),) * 6)

    def step():
        y = x
        for layer in layers:
            y = layer(y)
        loss = (y - x.detach()).float().square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        return loss

    losses = []
    for _ in range(10):
        junk = [full(16 + 7 * i, 255) for i in range(8)]
        losses.append(step().item())
        del junk
    return summary(losses, timed(step, 10))


def train_compiled(shapes, steps):
    """Waste over the steps after the first half, and what a step takes."""
    torch.manual_seed(3)
    model = decoder(6, 768)
    compiled = torch.compile(model, mode="reduce-overhead", dynamic=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    inputs = [torch.randn(*s, 768, device="cuda", dtype=torch.bfloat16) for s in shapes]
    losses = []
    for k in range(steps):
        if k == steps // 2:
            clean()
            torch.cuda.reset_peak_memory_stats()
            begin = time.perf_counter()
        torch.compiler.cudagraph_mark_step_begin()
        x = inputs[k % len(inputs)]
        loss = (compiled(x) - x).float().square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    took = 1e3 * (time.perf_counter() - begin) / (steps - steps // 2)
    most, live = torch.cuda.max_memory_reserved(), torch.cuda.max_memory_allocated()
    return {"losses": losses, "reserved": most, "live": live, "ms": took}


@case("compiled")
def reduce_overhead():
    return train_compiled([(8, 512)], 40)


@case("compiled")
def reduce_overhead_of_three_shapes():
    return train_compiled([(8, 512), (8, 384), (4, 512)], 60)


results = {}
for function in CASES[args.group]:
    begin = time.perf_counter()
    try:
        said, ok = function() or "", True
    except Exception as error:  # the others still run
        said, ok = f"{type(error).__name__}: {(str(error).splitlines() or ['?'])[0][:300]}", False
    clean()
    results[function.__name__] = {"ok": ok, "said": said, "s": time.perf_counter() - begin}
print(json.dumps(results), flush=True)
os._exit(0)  # a capture that failed may leave PyTorch's own state behind
