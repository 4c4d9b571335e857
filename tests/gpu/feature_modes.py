"""The other rows of features.py: graphs, compilers, processes, distributed training, other code."""

import os
import signal
import sys
import tempfile
import threading
from pathlib import Path

from feature_rows import MIB, Absent, block, checked_snapshot, model, row, train


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
    capability = ".".join(map(str, torch.cuda.get_device_capability()))
    os.environ.setdefault("TORCH_CUDA_ARCH_LIST", capability)
    folder = Path(tempfile.gettempdir()) / f"stalloc-features-{os.getppid()}"  # both build it once
    folder.mkdir(exist_ok=True)
    source = """
    __global__ void twice(float *x, int n) {
        for (int i = threadIdx.x; i < n; i += blockDim.x) x[i] *= 2;
    }
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
