"""The rows of features.py: each takes torch, and asserts that a feature of PyTorch works.

Here the memory API; the others are in feature_modes.py.
"""

import os
import pickle
import tempfile
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


@row("profiler's memory events")
def profiler(torch):
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities, profile_memory=True) as profile:
        x = block(torch, 64 * MIB)
        del x
    # 2.11: events named [memory] carry each request and free; the averages carry the sums.
    usage = [abs(e.self_device_memory_usage) for e in profile.events()]
    assert max(usage) == 64 * MIB, max(usage)


@row("an allocator that comes after CUDA has started", late=True)
def late(torch):
    older = torch.ones(5 * MIB, device="cuda")
    before = torch.cuda.max_memory_allocated()
    if os.environ["FEATURE_ALLOCATOR"] == "stalloc":
        import stalloc

        assert stalloc.enable() and stalloc.route() == "adapter"
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
