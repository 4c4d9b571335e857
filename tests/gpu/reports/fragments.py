"""Reports about fragmentation: gaps that nothing fits into, memory that does not come back."""

import random

from case import case


@case(
    "meta-pytorch/torchrec#4584", live=4096,
    pattern="an embedding table is freed in a step, allocated while every second activation lives",
    expected="fits in 1.05 times the peak load",
)  # fmt: skip
def comb(c):
    weights, table = c.new(512, 1), c.new(2048, 2)
    for step in range(10):
        early = [c.new(64, i) for i in range(16)]
        del table
        late = [c.new(64, 100 + i) for i in range(32)]
        early[1::2] = [None] * 8
        late[1::2] = [None] * 16
        table = c.new(2048, step)
        c.holds(table, step)
        c.holds(early[-2], 14)
        c.holds(late[-2], 130)
        del early, late
    c.holds(weights, 1)


@case(
    "sgl-project/sglang#24854", "NovaSky-AI/SkyRL#716", "verl-project/verl#6912",
    pattern="a few small tensors survive a phase, each where a large one was",
    expected="after empty_cache at most 1.5 times the live bytes are reserved",
)  # fmt: skip
def survivors(c):
    kept, large = [], [c.new(96, i) for i in range(32)]
    for i in range(32):
        large[i] = None
        kept.append(c.new(12, i))
        large[i] = c.new(80, i)
    large.clear()
    c.torch.cuda.synchronize()
    c.torch.cuda.empty_cache()
    c.say(f"{c.allocated():,.0f} MiB live, {c.reserved():,.0f} reserved")
    c.check(c.reserved() <= 1.5 * c.allocated(), "kept", c.said[-1])
    for i, tensor in enumerate(kept):
        c.holds(tensor, i)


@case(
    "NVIDIA/Megatron-LM#4241", "verl-project/verl#5282", live=4608,
    pattern="optimizer states leave for the host and return around each update; activations differ",
    expected="fits in 1.05 times the peak load, round after round",
)  # fmt: skip
def states_away(c):
    draw = random.Random(4)
    weights = [c.new(48, i) for i in range(32)]
    for number in range(30):
        left, activations = 3072, []
        while left:
            size = min(left, draw.randrange(8, 200, 4))
            activations.append(c.new(size, number))
            left -= size
        c.holds(activations[0], number)
        activations.clear()
        states = [c.new(96, number) for _ in weights]
        c.holds(states[-1], number)
        del states
    c.holds(weights[-1], 31)


@case(
    "huggingface/transformers#30536", live=2800,
    pattern="keys and values grow by concatenation: each block is a bit too large for the old gap",
    expected="fits in 1.05 times the peak load with at most 4 cache flushes",
)  # fmt: skip
def growing_cache(c):
    cache = [c.new(64, i) for i in range(24)]
    for _ in range(48):
        for i in range(24):
            cache[i] = c.torch.cat([cache[i], c.new(1, i)])
        logits = c.new(60, 1)
        del logits
    for i in range(24):
        c.holds(cache[i], i)
    c.say(f"{c.retries()} flushes")
    c.check(c.retries() <= 4, "flushes", c.said[-1])


@case(
    "facebookresearch/detectron2#433", "facebookresearch/detectron2#163", live=3659, factor=1.1,
    pattern="feature pyramids of images whose sizes vary, masks of instances whose number varies",
    expected="fits in 1.1 times what the largest image needs",
)  # fmt: skip
def image_sizes(c):
    draw = random.Random(2)
    weights = c.new(300, 1)
    for number in range(120):
        area = 2000 if number == 5 else draw.randrange(700, 2000)
        levels = [c.new(area / 4**level / depth, number) for level in range(4) for depth in (1, 5)]
        masks = [c.new(draw.randrange(1, 7), i) for i in range(draw.randrange(2, 60))]
        del masks
        while levels:
            gradient = c.new(levels[-1].numel() / c.unit / 8, number)
            c.holds(levels.pop(), number)
            del gradient
    c.holds(weights, 1)


@case(
    "huggingface/transformers#46692",
    pattern="a convolutional network trains on images of varying sizes, epoch after epoch",
    expected="reserves at most 1.15 times what is allocated",
)  # fmt: skip
def convolutions(c):
    torch, draw = c.torch, random.Random(3)
    widths = (3, 64, 128, 256)
    layers = [
        torch.nn.Sequential(torch.nn.Conv2d(a, b, 3, 2, 1), torch.nn.BatchNorm2d(b),
                            torch.nn.ReLU())
        for a, b in zip(widths, widths[1:])
    ]  # fmt: skip
    net = torch.nn.Sequential(*layers).to(c.device)
    optimizer = torch.optim.AdamW(net.parameters())
    largest = 1333 if c.device == "cuda" else 64
    for _ in range(40):
        high, wide = (draw.randrange(largest // 3, largest) for _ in range(2))
        x = torch.rand(draw.randrange(4, 9), 3, high, wide, device=c.device)
        net(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    most, held = (f() / c.unit for f in (c.torch.cuda.max_memory_allocated,
                                         c.torch.cuda.max_memory_reserved))  # fmt: skip
    c.say(f"{most:,.0f} MiB allocated, {held:,.0f} reserved at most")
    c.check(held <= 1.15 * most, "waste", c.said[-1])


@case(
    "huggingface/transformers#32282", "researchmm/FTVSR#18", live=2652,
    pattern="evaluation with few large tensors between steps with many; running sums survive",
    expected="fits in 1.05 times the peak load",
)  # fmt: skip
def evaluation(c):
    weights, sums = c.new(512, 1), []
    for epoch in range(5):
        for step in range(4):
            activations = [c.new(32 + 8 * (i % 5), step) for i in range(40)]
            c.holds(activations[-1], step)
            del activations
        for batch in range(3):
            outputs = [c.new(490, batch) for _ in range(4)]
            sums.append(c.new(12, epoch))
            c.holds(outputs[-1], batch)
            del outputs
    c.holds(weights, 1)
    c.holds(sums[-1], 4)


@case(
    "huggingface/peft#1639", "huggingface/diffusers#11423", live=3200, factor=1.1,
    pattern="adapters of several ranks are loaded and dropped; the last four stay",
    expected="fits in 1.1 times the peak load; reserves at most 1.2 times what is left at the end",
)  # fmt: skip
def adapters(c):
    draw, base, loaded = random.Random(5), [c.new(64, i) for i in range(32)], []
    for number in range(60):
        size = 3 if number == 20 else draw.choice((0.5, 1, 1.5, 2, 3))
        if 17 <= number < 20:
            size = 3
        loaded.append([c.new(size, number) for _ in range(96)])
        del loaded[:-3]
        c.holds(loaded[0][-1], max(0, number - 2))
        outputs = c.new(288, number)
        del outputs
    loaded.clear()
    c.torch.cuda.synchronize()
    c.torch.cuda.empty_cache()
    c.say(f"{c.allocated():,.0f} MiB live, {c.reserved():,.0f} reserved")
    c.check(c.reserved() <= 1.2 * c.allocated(), "kept", c.said[-1])
    c.holds(base[-1], 31)


@case(
    "pytorch/pytorch#123548", "pytorch/pytorch#193400", conf="max_split_size_mb:128",
    pattern="max_split_size_mb: small tensors stay between large ones that come and go",
    expected="reserves at most twice the peak load",
)  # fmt: skip
def split_size(c):
    stay = []
    for number in range(80):
        large, medium = c.new(200, 1), c.new(90, 2)
        stay.append(c.new(2, number))
        del large, medium
    most = c.torch.cuda.max_memory_allocated() / c.unit
    c.say(f"{most:,.0f} MiB live at most, {c.reserved():,.0f} reserved")
    c.check(c.reserved() <= 2 * most + 64, "grows", c.said[-1])
    c.holds(stay[0], 0)


@case(
    "pytorch/pytorch#137151", live=2949,
    pattern="between steps a checkpoint gathers each sharded weight; the shards stay",
    expected="reserves at most 1.03 times as much after the save as before",
)  # fmt: skip
def gathered_save(c):
    shards = [c.new(8 + i, i) for i in range(24)]
    kept = []
    for epoch in range(4):
        for step in range(3):
            activations = [c.new(40 + 4 * ((i + step) % 9), step) for i in range(44)]
            del activations
        before = c.reserved()
        for i, shard in enumerate(shards):
            whole = c.torch.cat([shard] * 16)
            c.holds(whole, i)
            metadata = c.new(0.25, epoch)
            del whole
        kept.append(metadata)
        c.say(f"{before:,.0f} MiB before, {c.reserved():,.0f} after")
        c.check(c.reserved() <= 1.03 * before, "grows", c.said[-1])
