"""The rows of features.py: each takes torch, and asserts that a feature of PyTorch works."""

import os
import pickle
import signal
import sys
import tempfile
import threading
from pathlib import Path

MIB = 1 << 20
ROWS, SLOW, LATE = {}, set(), set()


class Absent(Exception):
    """This PyTorch or machine has nothing to try the feature with."""


def row(name, slow=False, late=False):
    """`slow`: it compiles something. `late`: it enables stalloc itself, when CUDA has started."""

    def register(function):
        ROWS[name] = function
        if slow:
            SLOW.add(name)
        if late:
            LATE.add(name)
        return function

    return register


def block(torch, size=10 * MIB):
    return torch.empty(size, dtype=torch.uint8, device="cuda")


def model(torch, width=256):
    torch.manual_seed(0)
    layers = [torch.nn.Linear(width, width), torch.nn.GELU(), torch.nn.Linear(width, width)]
    return torch.nn.Sequential(*layers).cuda()


def train(torch, net, x, steps=3, backward=None):
    optimizer = torch.optim.AdamW(net.parameters())
    for _ in range(steps):
        loss = (net(x) - x).float().square().mean()
        (backward or (lambda value: value.backward()))(loss)
        optimizer.step()
        optimizer.zero_grad()
    assert torch.isfinite(loss)
    return loss


def checked_snapshot(torch):
    """A snapshot, which must say the same as the statistics."""
    segments = torch.cuda.memory_snapshot()
    stats = torch.cuda.memory_stats()
    for size, key in (("total_size", "reserved"), ("allocated_size", "allocated"),
                      ("active_size", "active"), ("requested_size", "requested")):  # fmt: skip
        told = sum(segment[size] for segment in segments)
        counted = stats[f"{key}_bytes.all.current"]
        assert told == counted, f"{key}: {told} in the snapshot, {counted} in the statistics"
    return segments


@row("`memory_stats` and all on it")
def memory_stats(torch):
    before = torch.cuda.memory_allocated()
    x, y = block(torch), block(torch, 1000)
    assert torch.cuda.memory_allocated() - before == 10 * MIB + 1024
    stats = torch.cuda.memory_stats()
    assert stats["requested_bytes.all.current"] >= 10 * MIB + 1000
    assert stats["active_bytes.all.current"] >= stats["allocated_bytes.all.current"]
    assert torch.cuda.memory_reserved() >= torch.cuda.memory_allocated()
    assert torch.cuda.memory_stats_as_nested_dict()["num_ooms"] == 0
    del x, y
    assert torch.cuda.memory_allocated() == before
    assert torch.cuda.max_memory_allocated() >= before + 10 * MIB
    assert torch.cuda.max_memory_reserved() >= torch.cuda.max_memory_allocated()


@row("`reset_peak_memory_stats`, `reset_accumulated_memory_stats`")
def resets(torch):
    block(torch)
    torch.cuda.reset_peak_memory_stats()
    assert torch.cuda.max_memory_allocated() == torch.cuda.memory_allocated()
    torch.cuda.reset_accumulated_memory_stats()
    assert torch.cuda.memory_stats()["allocation.all.allocated"] == 0
    x = block(torch)
    assert torch.cuda.memory_stats()["allocated_bytes.all.allocated"] == 10 * MIB
    assert torch.cuda.max_memory_allocated() >= x.numel()


@row("`memory_summary`")
def memory_summary(torch):
    x = block(torch, 64 * MIB)
    assert "65536 KiB" in torch.cuda.memory_summary(), x.shape


@row("`memory_snapshot`")
def memory_snapshot(torch):
    x, y = block(torch), block(torch, 3000)
    del y
    z = block(torch, 7000)
    blocks = [b for s in checked_snapshot(torch) for b in s["blocks"]]
    live = {b["address"]: b for b in blocks if b["state"] == "active_allocated"}
    assert live[x.data_ptr()]["requested_size"] == 10 * MIB
    assert live[z.data_ptr()]["requested_size"] == 7000


@row("memory history with Python frames")
def history(torch):
    torch.cuda.memory._record_memory_history()
    x, y = block(torch), block(torch, 20 * MIB)
    address = y.data_ptr()
    del y
    snapshot = torch.cuda.memory._snapshot()
    events = snapshot["device_traces"][0]
    made = [e for e in events if e["action"] == "alloc" and e["size"] == 10 * MIB][-1]
    assert made["addr"] == x.data_ptr()
    assert any(f["filename"] == __file__ and f["name"] == "history" for f in made["frames"])
    last = [e["action"] for e in events if e["addr"] == address and "segment" not in e["action"]]
    assert last[-3:] == ["alloc", "free_requested", "free_completed"], last
    held = [b for s in snapshot["segments"] for b in s["blocks"] if b["address"] == x.data_ptr()]
    assert any(f["filename"] == __file__ for f in held[0]["frames"])
    torch.cuda.memory._record_memory_history(enabled=None)


@row("memory history with C++ frames")
def history_cpp(torch):
    torch.cuda.memory._record_memory_history(stacks="all", max_entries=100)
    x = block(torch)
    events = torch.cuda.memory._snapshot()["device_traces"][0]
    frames = [f for e in events if e["addr"] == x.data_ptr() for f in e["frames"]]
    assert any("empty" in f["name"] and "::" in f["name"] for f in frames), frames[:5]


@row("`_dump_snapshot` and PyTorch's viewers")
def dump_snapshot(torch):
    torch.cuda.memory._record_memory_history()
    kept = train(torch, model(torch), torch.randn(64, 256, device="cuda"))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "snapshot.pickle"
        torch.cuda.memory._dump_snapshot(str(path))
        snapshot = pickle.loads(path.read_bytes())
    from torch.cuda import _memory_viz

    assert kept is not None and len(snapshot["device_traces"][0]) > 50
    assert "<html" in _memory_viz.trace_plot(snapshot).lower()
    assert "<html" in _memory_viz.segment_plot(snapshot).lower()
    assert _memory_viz.segsum(snapshot) and _memory_viz.trace(snapshot)


@row("`empty_cache`")
def empty_cache(torch):
    x = block(torch, 256 * MIB)
    del x
    held = torch.cuda.memory_reserved()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() <= held - 256 * MIB


@row("`set_per_process_memory_fraction`, enforced")
def fraction(torch):
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(1 / 16)
    assert torch.cuda.get_per_process_memory_fraction() == 1 / 16
    held = []
    try:
        for _ in range(20):
            held.append(block(torch, total // 64))
    except torch.cuda.OutOfMemoryError:
        pass
    assert 2 <= len(held) <= 4, len(held)
    torch.cuda.set_per_process_memory_fraction(1.0)
    held.append(block(torch, total // 64))


@row("`mem_get_info`")
def mem_get_info(torch):
    free, total = torch.cuda.mem_get_info()
    x = block(torch, 1024 * MIB)
    assert 0 < free <= total and torch.cuda.mem_get_info()[0] < total - x.numel()


@row("`caching_allocator_alloc`, `caching_allocator_delete`")
def raw(torch):
    before = torch.cuda.memory_allocated()
    side = torch.cuda.Stream()
    first = torch.cuda.caching_allocator_alloc(MIB)
    second = torch.cuda.caching_allocator_alloc(MIB, stream=side)
    assert torch.cuda.memory_allocated() == before + 2 * MIB and first != second
    torch.cuda.caching_allocator_delete(first)
    torch.cuda.caching_allocator_delete(second)
    assert torch.cuda.memory_allocated() == before


@row("`MemPool`, `use_mem_pool`")
def mem_pool(torch):
    if not hasattr(torch.cuda, "use_mem_pool"):
        raise Absent("older than use_mem_pool")
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        x = block(torch, 32 * MIB)
    y = block(torch, 16 * MIB)

    def inside(segments, tensor):
        return any(
            s["address"] <= tensor.data_ptr() < s["address"] + s["total_size"] for s in segments
        )

    assert inside(pool.snapshot(), x) and not inside(pool.snapshot(), y)
    assert pool.use_count() >= 1
    checked_snapshot(torch)
    del x, pool
    torch.cuda.empty_cache()
    checked_snapshot(torch)


@row("allocator settings at run time")
def settings(torch):
    torch.cuda.memory._set_allocator_settings("max_split_size_mb:200")
    block(torch)
    assert torch.cuda.get_allocator_backend() == "native"


def captured(torch, net, x, **options):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side), torch.no_grad():
        for _ in range(3):
            net(x)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, **options), torch.no_grad():
        out = net(x)
    return graph, out


@row("CUDA graphs")
def graphs(torch):
    net, x = model(torch), torch.randn(64, 256, device="cuda")
    graph, out = captured(torch, net, x)
    second, again = captured(torch, net, out, pool=graph.pool())
    for value in range(5):
        garbage = [torch.full((MIB * (1 + n % 4),), float(value), device="cuda") for n in range(8)]
        x.copy_(torch.randn_like(x))
        graph.replay()
        second.replay()
        with torch.no_grad():
            assert torch.allclose(again, net(net(x)), rtol=1e-3, atol=1e-4)
        assert all(bool((g == value).all()) for g in garbage)
    checked_snapshot(torch)
    before = torch.cuda.memory_allocated()
    del graph, out, second, again
    assert torch.cuda.memory_allocated() < before


@row("`make_graphed_callables`")
def graphed_callables(torch):
    net, x = model(torch), torch.randn(64, 256, device="cuda")
    graphed = torch.cuda.make_graphed_callables(net, (x,))
    train(torch, graphed, torch.randn(64, 256, device="cuda"), steps=5)


def compiled(torch, mode, backward=True):
    net = model(torch)
    fast = torch.compile(net, mode=mode)
    x = torch.randn(64, 256, device="cuda")
    if backward:
        train(torch, fast, x, steps=4)
    with torch.no_grad():
        torch.compiler.cudagraph_mark_step_begin()
        for _ in range(3):
            assert torch.allclose(fast(x), net(x), rtol=1e-2, atol=1e-3)


@row("`torch.compile`", slow=True)
def compile_default(torch):
    compiled(torch, None)


@row("`torch.compile`, reduce-overhead", slow=True)
def compile_reduce_overhead(torch):
    compiled(torch, "reduce-overhead")


@row("`torch.compile`, max-autotune", slow=True)
def compile_max_autotune(torch):
    compiled(torch, "max-autotune", backward=False)  # which would take a minute more


@row("graph trees", slow=True)
def graph_trees(torch):
    @torch.compile(mode="reduce-overhead")
    def first(x):
        return (x @ x).relu() + 1

    @torch.compile(mode="reduce-overhead")
    def second(x, scale):
        return (x * scale).sin() @ x

    @torch.compile(mode="reduce-overhead")
    def third(x):
        return x.cos() - 3

    x = torch.randn(256, 256, device="cuda") / 16
    for number in range(12):  # paths of different lengths, results that live on or die
        torch.compiler.cudagraph_mark_step_begin()
        y = first(x)
        want = (x @ x).relu() + 1
        if number % 3:
            z = second(y, 2.0)
            want = (want * 2.0).sin() @ want
            if number % 2:
                del y
                z = third(z)
                want = want.cos() - 3
            assert torch.allclose(z, want, rtol=1e-2, atol=1e-2), number
        else:
            assert torch.allclose(y, want, rtol=1e-2, atol=1e-2), number
    checked_snapshot(torch)


@row("`cudnn.benchmark`")
def cudnn_benchmark(torch):
    torch.backends.cudnn.benchmark = True
    assert torch.backends.cudnn.benchmark
    conv = torch.nn.Conv2d(16, 32, 3).cuda()
    for size in (32, 48):
        conv(torch.randn(4, 16, size, size, device="cuda")).square().mean().backward()
    assert conv.weight.grad.abs().sum() > 0


def _consumer(taken, given):
    tensor = taken.get(timeout=60)
    tensor += 1
    import torch

    torch.cuda.synchronize()
    given.put(float(tensor.sum()))
    taken.get(timeout=60)  # the owner has looked


@row("IPC: a tensor shared with another process")
def ipc(torch):
    context = torch.multiprocessing.get_context("spawn")
    to, back = context.Queue(), context.Queue()
    process = context.Process(target=_consumer, args=(to, back))
    process.start()
    x = torch.ones(MIB, device="cuda")
    view = x[5:10]
    to.put(x)
    assert back.get(timeout=90) == 2 * MIB
    assert bool((x == 2).all()) and bool((view == 2).all())
    to.put(None)
    process.join(60)
    assert process.exitcode == 0, process.exitcode


@row("`record_stream`")
def record_stream(torch):
    side = torch.cuda.Stream()
    for _ in range(5):
        x = torch.ones(4 * MIB, device="cuda")
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            torch.cuda._sleep(20_000_000)
            total = x.sum()
        x.record_stream(side)
        del x
        y = torch.zeros(4 * MIB, device="cuda")
        torch.cuda.synchronize()
        assert float(total) == 4 * MIB and float(y.sum()) == 0
    checked_snapshot(torch)


@row("`torch.accelerator.*`")
def accelerator(torch):
    if not hasattr(torch, "accelerator") or not hasattr(torch.accelerator, "memory_stats"):
        raise Absent("older than torch.accelerator's memory functions")
    own = torch.accelerator
    before = own.memory_allocated()
    x = block(torch)
    assert own.memory_allocated() == before + 10 * MIB == torch.cuda.memory_allocated()
    assert own.memory_reserved() == torch.cuda.memory_reserved()
    own.reset_peak_memory_stats()
    own.reset_accumulated_memory_stats()
    assert own.max_memory_allocated() >= x.numel() and own.max_memory_reserved() > 0
    own.empty_cache()
    if hasattr(own, "get_memory_info"):
        assert own.get_memory_info()[0] > 0


@row("`torch.OutOfMemoryError`, and life after it")
def out_of_memory(torch):
    net, x = model(torch), torch.randn(64, 256, device="cuda")
    for _ in range(3):
        before = torch.cuda.memory_stats()["num_ooms"]
        try:
            block(torch, 1 << 50)
        except torch.OutOfMemoryError as error:
            assert "CUDA out of memory. Tried to allocate 1048576.00 GiB" in str(error), error
        else:
            raise AssertionError("a pebibyte was given out")
        assert torch.cuda.memory_stats()["num_ooms"] == before + 1
        train(torch, net, x)


@row("out-of-memory observers")
def oom_observers(torch):
    seen = []
    torch._C._cuda_attach_out_of_memory_observer(lambda *values: seen.append(values))
    try:
        block(torch, 1 << 50)
    except torch.cuda.OutOfMemoryError:
        pass
    assert len(seen) == 1 and seen[0][0] == 0 and seen[0][1] >= 1 << 50, seen


class _Numbers:
    def __len__(self):
        return 64

    def __getitem__(self, index):
        import torch

        return torch.full((1000,), float(index))


def _load(torch, **options):
    net, total = torch.nn.Linear(1000, 10).cuda(), 0
    loader = torch.utils.data.DataLoader(_Numbers(), batch_size=8, num_workers=2, **options)
    for _ in range(2):
        for batch in loader:
            net(batch.cuda(non_blocking=True)).sum().backward()
            total += int(batch[:, 0].sum())
    assert total == 2 * sum(range(64))


@row("`DataLoader` workers by fork")
def loader_fork(torch):
    block(torch)
    _load(torch, multiprocessing_context="fork")


@row("`DataLoader` workers by spawn")
def loader_spawn(torch):
    _load(torch, multiprocessing_context="spawn")


@row("`pin_memory`")
def pin_memory(torch):
    _load(torch, pin_memory=True, multiprocessing_context="fork")
    host = torch.randn(MIB).pin_memory()
    assert torch.equal(host.cuda(non_blocking=True).cpu(), host)


@row("Ctrl-C")
def interrupt(torch):
    net, x = model(torch), torch.randn(64, 256, device="cuda")
    train(torch, net, x)
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        while True:
            train(torch, net, x)
            torch.cuda.synchronize()
    except KeyboardInterrupt:
        pass
    train(torch, net, x)


@row("exit with live tensors")
def live_at_exit(torch):
    sys.live = [block(torch, MIB * n) for n in range(1, 9)]
    torch.live = model(torch)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        torch.cuda._sleep(100_000_000)
        sys.live[0].record_stream(side)
    threading.Thread(target=sys.live.append, args=(block(torch),)).start()


@row("frees in other threads")
def other_threads(torch):
    before = torch.cuda.memory_allocated()
    held = [block(torch, MIB * (1 + n % 7)) for n in range(64)]
    threads = [threading.Thread(target=lambda n=n: held.__setitem__(n, None)) for n in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert torch.cuda.memory_allocated() == before


@row("profiler's memory events")
def profiler(torch):
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities, profile_memory=True) as profile:
        x = block(torch, 64 * MIB)
        del x
    # 2.11: events named [memory] carry each request and free; the averages carry the sums.
    usage = [abs(e.self_device_memory_usage) for e in profile.events()]
    assert max(usage) == 64 * MIB, max(usage)


@row("`save_on_cpu`")
def save_on_cpu(torch):
    with torch.autograd.graph.save_on_cpu(pin_memory=True):
        train(torch, model(torch), torch.randn(64, 256, device="cuda"))


@row("`autocast` and `GradScaler`")
def autocast(torch):
    net, scaler = model(torch), torch.amp.GradScaler("cuda")
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    x = torch.randn(64, 256, device="cuda")
    for _ in range(4):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = (net(x) - x).square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    assert torch.isfinite(loss)


@row("activation checkpointing")
def checkpointing(torch):
    from torch.utils.checkpoint import checkpoint

    net = model(torch)
    wrapped = torch.nn.Module()
    wrapped.net = net
    wrapped.forward = lambda x: checkpoint(net, x, use_reentrant=False)
    train(torch, wrapped, torch.randn(64, 256, device="cuda"))


def _one_rank(torch):
    store = tempfile.NamedTemporaryFile(delete=False)
    torch.cuda.set_device(0)
    torch.distributed.init_process_group(
        "nccl", init_method=f"file://{store.name}.store", rank=0, world_size=1
    )


@row("`DistributedDataParallel`, one rank")
def ddp(torch):
    _one_rank(torch)
    net = torch.nn.parallel.DistributedDataParallel(model(torch), device_ids=[0])
    train(torch, net, torch.randn(64, 256, device="cuda"), steps=5)
    torch.distributed.destroy_process_group()


@row("FSDP2, one rank")
def fsdp(torch):
    _one_rank(torch)
    from torch.distributed.fsdp import fully_shard

    net = model(torch)
    for layer in (net[0], net[2]):
        fully_shard(layer)
    fully_shard(net)
    train(torch, net, torch.randn(64, 256, device="cuda"), steps=5)
    torch.distributed.destroy_process_group()


@row("a kernel of `torch.utils.cpp_extension`", slow=True)
def cpp_extension(torch):
    from torch.utils import cpp_extension

    if cpp_extension.CUDA_HOME is None:
        raise Absent("no CUDA toolkit")
    os.environ.setdefault("TORCH_CUDA_ARCH_LIST", "%d.%d" % torch.cuda.get_device_capability())
    folder = Path(tempfile.gettempdir()) / f"stalloc-features-{os.getppid()}"  # both build it once
    folder.mkdir(exist_ok=True)
    source = """
    __global__ void twice(float *x, int n) { for (int i = threadIdx.x; i < n; i += blockDim.x) x[i] *= 2; }
    torch::Tensor doubled(torch::Tensor x) {
        auto y = x.clone();
        twice<<<1, 256>>>(y.data_ptr<float>(), y.numel());
        return y;
    }"""
    built = cpp_extension.load_inline(
        "stalloc_features", "torch::Tensor doubled(torch::Tensor x);", source,
        functions=["doubled"], build_directory=str(folder),
    )  # fmt: skip
    x = torch.randn(1000, device="cuda")
    assert torch.equal(built.doubled(x), x * 2)


@row("CuPy beside it")
def cupy(torch):
    try:
        import cupy
    except ImportError:
        raise Absent("CuPy is not installed") from None
    x = torch.arange(1000, device="cuda", dtype=torch.float32)
    array = cupy.from_dlpack(x)
    array *= 2
    assert float(array.sum()) == float(x.sum()) == 999000
    assert torch.equal(torch.from_dlpack(array), x)


@row("Triton beside it", slow=True)
def triton_kernel(torch):
    try:
        import feature_triton
    except ImportError:
        raise Absent("Triton is not installed") from None
    x = torch.randn(1000, device="cuda")
    assert torch.equal(feature_triton.doubled(x), x * 2)


@row("an allocator that comes after CUDA has started", late=True)
def late(torch):
    older = torch.ones(5 * MIB, device="cuda")
    before = torch.cuda.max_memory_allocated()
    if os.environ["FEATURE_ALLOCATOR"] == "stalloc":
        import stalloc

        assert stalloc.enable(cache="off") and stalloc.route() == "adapter"
    assert torch.cuda.memory_allocated() >= 20 * MIB and torch.cuda.max_memory_allocated() == before
    newer = older * 2
    assert torch.cuda.memory_allocated() >= 40 * MIB
    checked_snapshot(torch)
    older.record_stream(torch.cuda.Stream())
    del older
    train(torch, model(torch), torch.randn(64, 256, device="cuda"))
    assert float(newer.sum()) == 10 * MIB
    if os.environ["FEATURE_ALLOCATOR"] == "stalloc":
        assert stalloc.stats().requests > 10
