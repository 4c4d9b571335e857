"""Reports about torch.cuda.MemPool and CUDA graphs."""

import contextlib
import gc

from case import case


def segments(pool):
    """Of a pool: address and size of each."""
    return [(s["address"], s["total_size"]) for s in pool.snapshot()]


def inside(tensor, pool):
    return any(at <= tensor.data_ptr() < at + size for at, size in segments(pool))


@case(
    "pytorch/pytorch#159674", live=1792,
    pattern="in a MemPool: 1.5 GiB is freed, then 1.75 GiB is requested",
    expected="served: the pool's own cache is given back first",
)  # fmt: skip
def pool_retries(c):
    pool = c.torch.cuda.MemPool()
    with c.torch.cuda.use_mem_pool(pool):
        first = c.new(1536, 1)
        del first
        second = c.new(1792, 2)
    c.holds(second, 2)


@case(
    "pytorch/pytorch#175015",
    pattern="in a MemPool: blocks that another stream used, one at a time",
    expected="reserves at most four of them",
)  # fmt: skip
def pool_streams(c):
    pool, side, kept = c.torch.cuda.MemPool(), c.stream(), []
    before = c.reserved()
    with c.torch.cuda.use_mem_pool(pool):
        for number in range(32):
            block = c.new(64, number)
            with c.on(side):
                block.add_(1)
            block.record_stream(side)
            del block
            c.torch.cuda.synchronize()
            kept.append(c.reserved() - before)
    c.say(f"{max(kept):,.0f} MiB reserved for blocks of 64")
    c.check(max(kept) <= 4 * 64, "grows", c.said[-1])


@case(
    "pytorch/pytorch#161193",
    pattern="one MemPool in use within another",
    expected="the inner one serves what is allocated there",
)  # fmt: skip
def pool_in_pool(c):
    outer, inner = c.torch.cuda.MemPool(), c.torch.cuda.MemPool()
    with c.torch.cuda.use_mem_pool(outer):
        first = c.new(32, 1)
        with c.torch.cuda.use_mem_pool(inner):
            second = c.new(32, 2)
        third = c.new(32, 3)
    c.check(inside(second, inner), "elsewhere", "the inner pool has nothing")
    c.check(
        inside(first, outer) and inside(third, outer), "elsewhere", "not all is in the outer pool"
    )


@case(
    "pytorch/pytorch#167353", "pytorch/pytorch#188205",
    pattern="forward and backward pass in a MemPool; autograd has a thread of its own",
    expected="gradients come from the pool, too",
)  # fmt: skip
def pool_backward(c):
    weights = c.torch.ones(1024, 1024, device=c.device, requires_grad=True)
    pool = c.torch.cuda.MemPool()
    with c.torch.cuda.use_mem_pool(pool):
        (weights * 2).sum().backward()
    c.check(inside(weights.grad, pool), "elsewhere", "the gradient is not in the pool")


@case(
    "pytorch/pytorch#180395", "pytorch/pytorch#190348",
    pattern="captures fail halfway, four times",
    expected="empty_cache releases what they had allocated",
)  # fmt: skip
def failed_captures(c):
    torch, failed = c.torch, 0
    warm = c.new(64, 1)
    del warm
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    before = c.reserved()
    for _ in range(4):
        graph, block = torch.cuda.CUDAGraph(), None
        try:
            with torch.cuda.graph(graph):
                block = c.new(256, 1)
                block.sum().item()  # a wait, which no capture permits
        except RuntimeError:
            failed += 1
        del block, graph
        gc.collect()
        with contextlib.suppress(RuntimeError):
            torch.cuda.synchronize()
    torch.cuda.empty_cache()
    c.say(f"{failed} captures failed; {before:,.0f} MiB reserved before, {c.reserved():,.0f} after")
    c.check(c.reserved() <= before + 32, "kept", c.said[-1])
    c.holds(c.new(64, 7), 7)


@case(
    "vllm-project/vllm#44740", "vllm-project/vllm#44745", alone=True,
    pattern="a graph's memory is estimated from the device's free memory before and after capture",
    expected="the estimate is never negative",
)  # fmt: skip
def capture_estimate(c):
    torch, pool = c.torch, None
    weights, graphs = torch.ones(2048, 2048, device=c.device), []
    for rows in (8192, 4096, 2048, 1024):
        x = torch.ones(rows, 2048, device=c.device)
        with c.on(c.stream()):
            torch.relu(x @ weights)
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        free, graph = torch.cuda.mem_get_info()[0], torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool):
            y = torch.relu(x @ weights) @ weights
        pool = pool or graph.pool()
        graphs.append((graph, x, y))
        taken = (free - torch.cuda.mem_get_info()[0]) >> 20
        c.say(f"{rows} rows: {taken} MiB")
        c.check(taken >= 0, "negative", c.said[-1])


@case(
    "NVIDIA/TransformerEngine#3427", "pytorch/pytorch#121932",
    pattern="graphs of eight layers in one pool, each with a workspace that it frees",
    expected="they share it; replays beside eager work are correct; all is released in the end",
)  # fmt: skip
def shared_captures(c):
    torch, graphs, pool = c.torch, [], None
    before = c.reserved()
    x = torch.ones(1024, device=c.device)
    for number in range(8):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool):
            work = c.new(256, 0)
            y = x * (number + 1) + work[:1].sum()
            del work
        pool = pool or graph.pool()
        graphs.append((graph, y))
    held = c.reserved() - before
    c.say(f"{held:,.0f} MiB for eight workspaces of 256 in turn")
    c.check(held <= 2 * 256 + 64, "grows", c.said[-1])
    for turn in range(16):
        junk = [c.new(30 + 11 * ((turn + i) % 9), 255) for i in range(10)]
        del junk
        graph, y = graphs[turn % 8]
        x.fill_(turn)
        graph.replay()
        c.check(float(y[-1]) == turn * (turn % 8 + 1), "values", f"replay {turn} computes others")
    del graphs, graph, y, x
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    c.check(c.reserved() <= c.allocated() + 64, "kept", f"{c.reserved():,.0f} MiB in the end")


@case(
    "pytorch/pytorch#159594", "pytorch/pytorch#187795", live=1536,
    pattern="memory runs out while a graph is captured and idle memory is cached",
    expected="the memory or an out-of-memory error, no broken capture; the next one works",
)  # fmt: skip
def full_capture(c):
    torch = c.torch
    idle = c.new(768, 1)
    del idle
    graph = torch.cuda.CUDAGraph()
    with c.on(c.stream()):
        graph.capture_begin()
        try:
            block = c.new(1024, 1)
            del block
        except torch.OutOfMemoryError as error:
            c.say(str(error).split(".")[0])
        graph.capture_end()
    torch.cuda.synchronize()
    graph, x = torch.cuda.CUDAGraph(), torch.ones(1024, device=c.device)
    with torch.cuda.graph(graph):
        y = x * 2
    graph.replay()
    c.check(float(y[-1]) == 2, "values", "the next capture computes others")
