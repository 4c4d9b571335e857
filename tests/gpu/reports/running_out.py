"""Reports about running out of memory, and about what an allocator says of itself."""

import contextlib
import gc

import ballast
from case import MIB, case


@case(
    "pytorch/pytorch#188008", "pytorch/pytorch#191076", alone=True,
    pattern="the device itself is full: a mapping fails half-way, again and again",
    expected="an out-of-memory error each time; what is freed serves again",
)  # fmt: skip
def full_device(c):
    torch = c.torch
    c.new(1)  # loads the kernel that fills
    torch.cuda.empty_cache()
    ballast.take(torch.cuda.mem_get_info()[0] - 2304 * MIB)
    for _ in range(3):
        blocks = []
        with contextlib.suppress(torch.OutOfMemoryError):
            while len(blocks) < 64:
                blocks.append(c.new(96, len(blocks)))
        c.check(16 <= len(blocks) < 64, "early", f"full after {len(blocks)} blocks of 96 MiB")
        blocks[1::2] = [None] * len(blocks[1::2])
        some = [c.new(48, 7) for _ in range(8)]
        for i in range(0, len(blocks), 2):
            c.holds(blocks[i], i)
        c.holds(some[-1], 7)
        del blocks, some
    c.holds(c.new(1792, 9), 9)


@case(
    "pytorch/pytorch#18853", "pytorch/pytorch#27600", "petuum/adaptdl#90", live=3562,
    pattern="a batch too large runs out of memory; the error is caught, statistics stay",
    expected="the smaller batch fits",
)  # fmt: skip
def smaller_batch(c):
    torch, statistics = c.torch, []

    def train(batch):
        layers = []
        for number in range(12):
            hidden = c.new(4.9 * batch, number)
            del hidden
            statistics.append(c.new(4, number))
            layers.append(c.new(4.5 * batch, number))

    with contextlib.suppress(torch.OutOfMemoryError):
        train(96)
    gc.collect()
    c.check(len(statistics) == 8, "early", f"the first batch failed after {len(statistics)} layers")
    train(64)
    for number, tensor in enumerate(statistics):
        c.holds(tensor, number if number < 8 else number - 8)


@case(
    "pytorch/pytorch#173049", live=512,
    pattern="memory runs out; the error advises a setting",
    expected="the advice is not what is on, or replaced, already",
)  # fmt: skip
def advice(c):
    try:
        c.new(1024)
    except c.torch.OutOfMemoryError as error:
        text = str(error)
        c.check(c.allocator == "native" or "expandable_segments:True" not in text, "misleads",
                f"advises expandable segments under {c.allocator}")  # fmt: skip
        return
    c.check(False, "error", "more than the limit was served")


@case(
    "pytorch/pytorch#40989", "pytorch/pytorch#135726", "pytorch/pytorch#186809",
    pattern="statistics and snapshot beside each other, in the midst of work on two streams",
    expected="reserved >= active >= allocated >= requested, and the snapshot says the same",
)  # fmt: skip
def sums(c):
    torch, side, live = c.torch, c.stream(), []
    for number in range(60):
        block = c.new(0.3 + number * 1.7 % 40, number)
        with c.on(side):
            other = block.clone()
        block.record_stream(side)
        live += [block, other]
        if number % 3 == 2:
            del live[:3]
        del block, other
        s = torch.cuda.memory_stats()
        each = [s[f"{kind}_bytes.all.current"]
                for kind in ("reserved", "active", "allocated", "requested")]  # fmt: skip
        c.check(each == sorted(each, reverse=True), "sums", f"{each} are not in order")
    torch.cuda.synchronize()
    parts = torch.cuda.memory_snapshot()
    s = torch.cuda.memory_stats()
    for kind, key in (("reserved", "total_size"), ("allocated", "allocated_size")):
        both = sum(part[key] for part in parts), s[f"{kind}_bytes.all.current"]
        c.check(both[0] == both[1], "sums", f"{kind}: {both[0]} in the snapshot, {both[1]} counted")


@case(
    "NVIDIA-NeMo/Megatron-Bridge#3487", "pytorch/pytorch#190575",
    pattern="history is recorded, the newest 1,000 entries of it; a snapshot is taken",
    expected="it has these entries, each with the code that asked",
)  # fmt: skip
def history(c):
    memory = c.torch.cuda.memory
    memory._record_memory_history(max_entries=1000, stacks="python")
    for number in range(3000):
        c.new(0.01 + number % 7, number)
    block = c.new(77, 1)
    trace = memory._snapshot()["device_traces"][0]
    memory._record_memory_history(enabled=None)
    c.check(0 < len(trace) <= 1000, "lost", f"{len(trace)} entries")
    mine = [e for e in trace if e["action"] == "alloc" and e["size"] >= 77 * MIB]
    c.check(mine and mine[-1]["addr"] == block.data_ptr(), "lost", "the newest entry is not there")
    c.check(any("new" in f["name"] for f in mine[-1]["frames"]), "lost", "it has no frames")


@case(
    "vllm-project/vllm#56410", "sgl-project/sglang#36562", "pytorch/pytorch#150517",
    pattern="pinned host memory of 1.1 GiB",
    expected="takes at most 1.1 of what is asked for",
)  # fmt: skip
def pinned(c):
    asked = int(1.1 * 1024) * MIB
    block = c.torch.empty(asked, dtype=c.torch.uint8, pin_memory=True)
    took = c.torch.cuda.host_memory_stats()["allocated_bytes.current"]
    c.say(f"{took / asked:.2f} of what was asked for")
    c.check(block.is_pinned() and took <= 1.1 * asked, "rounds", c.said[-1])
