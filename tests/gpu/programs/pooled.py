"""MemPools and graphs: memory is used again, comes back, and no replay meets another's block."""

import time

from cases import MIB, clean, driver, full, reserved, run, torch

CAPTURES = 1000


def cap(mib):
    """Bounds what may be reserved."""
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(min(1.0, mib * MIB / total))


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


def mempool_nested():
    outer, inner = torch.cuda.MemPool(), torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(outer), torch.cuda.use_mem_pool(inner):
        a = full(8, 1)
    found = [s["segment_pool_id"] for s in torch.cuda.memory_snapshot() if s["allocated_size"]]
    assert tuple(inner.id) in map(tuple, found), found
    del a


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


def captures_and_drops():
    model = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024) for _ in range(4))).cuda()
    x = torch.randn(4096, 1024, device="cuda")
    with torch.no_grad():
        model(x)
    for _ in range(5):
        drop(model, x)
    clean()
    before, calls, begin = reserved(), driver(), time.perf_counter()
    for _ in range(CAPTURES):
        drop(model, x)
    took = time.perf_counter() - begin
    calls, ms = ((now - was) / CAPTURES for now, was in zip(driver(), calls))
    after = reserved()
    said = f"{before >> 20} MiB, after {CAPTURES} captures {after >> 20}"
    assert after <= before + 64 * MIB, said
    told = f", {ms:.2f} of them in {calls:.1f} calls of the driver" if calls else ""
    return f"{said}; {1e3 * took / CAPTURES:.2f} ms each{told}"


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


run(globals())
