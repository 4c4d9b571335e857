"""Reports about streams: memory that waits for one, or that each keeps for itself."""

import random
import threading

from case import case


@case(
    "vllm-project/vllm#52950",
    pattern="each weight sync packs buffers on newly created streams",
    expected="each sync reuses the memory of the one before: reserved memory stays flat",
)  # fmt: skip
def new_streams(c):
    weights, kept = [c.new(64, 1 + i) for i in range(8)], []
    for _ in range(24):
        packs = []
        for half in range(2):
            stream = c.stream()
            with c.on(stream):
                packs.append(c.torch.cat(weights[4 * half : 4 * half + 4]))
            stream.synchronize()
        c.check([int(pack[-1]) for pack in packs] == [4, 8], "values", "a pack has others' bytes")
        del packs
        kept.append(c.reserved())
    c.flat(kept, 64)


@case(
    "pytorch/pytorch#189504", live=1024,
    pattern="the only block that fits is freed but awaits an event of another stream",
    expected="the request waits and is served",
)  # fmt: skip
def pending_block(c):
    whole = c.new(1024, 1)
    del whole
    small, block, side = c.new(16, 2), c.new(1008, 3), c.stream()
    with c.on(side):
        c.busy(0.5)
        block.add_(1)
    block.record_stream(side)
    del block
    again = c.new(1008, 5)
    c.holds(again, 5)
    c.holds(small, 2)


@case(
    "microsoft/onnxruntime#12920", "pytorch/pytorch#186232",
    pattern="a stream for each request, one request after the other",
    expected="streams share idle memory: reserves at most 1.5 times the peak load",
)  # fmt: skip
def stream_per_request(c):
    for number in range(24):
        stream = c.stream()
        with c.on(stream):
            block = c.new(384, number)
            c.holds(block, number)
        stream.synchronize()
        del block
    most = c.torch.cuda.max_memory_allocated() / c.unit
    held = c.torch.cuda.max_memory_reserved() / c.unit
    c.say(f"{most:,.0f} MiB live, {held:,.0f} reserved at most")
    c.check(held <= 1.5 * most, "grows", c.said[-1])


@case(
    "microsoft/DeepSpeedExamples#186", "huggingface/trl#1100", "pytorch/pytorch#82001",
    live=2108, factor=1.08,
    pattern="parameters are gathered on a side stream, used, dropped and gathered again",
    expected="no cache flush in later steps, within 1.08 times the peak load",
)  # fmt: skip
def gathered_parameters(c):
    draw, side, main = random.Random(1), c.stream(), c.torch.cuda.current_stream()
    sizes = [draw.randrange(64, 256, 4) for _ in range(12)]
    shards, late = [c.new(size / 8, i) for i, size in enumerate(sizes)], 0

    def gather(i):
        with c.on(side):
            whole = c.torch.cat([shards[i]] * 8)
        main.wait_stream(side)
        return whole

    def drop(tensor, stream):
        tensor.record_stream(stream)

    for step in range(12):
        before, activations = c.retries(), []
        for i in range(12):
            whole = gather(i)
            activations.append(c.new(40 + (7 * i + 13 * step) % 90 * 2, i))
            drop(whole, main)
            del whole
        for i in reversed(range(12)):
            whole, gradient = gather(i), c.new(sizes[i], 3)
            drop(whole, main)
            with c.on(side):
                reduced = gradient[: len(gradient) // 8].clone()
            drop(gradient, side)
            del whole, gradient, reduced
            c.holds(activations.pop(), i)
        late += c.retries() - before if step >= 6 else 0
    c.say(f"{late} flushes in the second half")
    c.check(late == 0, "flushes", c.said[-1])


@case(
    "rapidsai/rmm#1245", live=2048, factor=1.1,
    pattern="threads with a stream each allocate and free blocks of many sizes",
    expected="no thread runs out of memory in 1.1 times what all may hold at once",
)  # fmt: skip
def threads(c):
    failed = []

    def work(number):
        draw, stream = random.Random(number), c.stream()
        try:
            with c.torch.cuda.stream(stream):
                for turn in range(40):
                    block = c.new(draw.randrange(64, 512), turn)
                    c.holds(block, turn)
                    del block
        except Exception as error:
            failed.append(error)

    those = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in those:
        thread.start()
    for thread in those:
        thread.join()
    if failed:
        raise failed[0]
