"""empty_cache, tensors without elements, and sizes of all kinds."""

import gpu
from gpu import GIB, MIB

torch, stalloc = gpu.start()


def check_empty_cache_gives_memory_back():
    kept = torch.arange(1 << 20, device="cuda")
    torch.cuda.empty_cache()
    reserved, free = torch.cuda.memory_reserved(), torch.cuda.mem_get_info()[0]
    x = torch.empty(GIB, dtype=torch.uint8, device="cuda")
    assert torch.cuda.memory_reserved() >= GIB
    del x
    torch.cuda.empty_cache()
    torch.cuda.synchronize()
    left = torch.cuda.memory_reserved() - reserved
    assert left <= 4 * MIB, f"{left / MIB} MiB of 1 GiB are still reserved"
    assert free - torch.cuda.mem_get_info()[0] <= 64 * MIB
    assert bool((kept == torch.arange(1 << 20, device="cuda")).all())


def check_empty_cache_between_planned_steps():
    def step():
        blocks = [torch.full((n * MIB,), n, dtype=torch.uint8, device="cuda") for n in range(1, 9)]
        for n, block in enumerate(blocks, start=1):
            assert bool((block == n).all()), n

    gpu.steps_until_planned(stalloc, step)
    for _ in range(5):
        torch.cuda.empty_cache()
        step()
        stalloc.step()
    return f"planned again after {gpu.steps_until_planned(stalloc, step)} steps"


def check_tensors_without_elements():
    before = torch.cuda.memory_allocated()
    kept = [torch.empty(0, device="cuda") for _ in range(100)]
    kept += [torch.empty(3, 0, 5, device="cuda"), torch.ones(4, device="cuda")[:0].clone()]
    assert torch.cuda.memory_allocated() - before <= 512
    assert all(x.numel() == 0 and float(x.sum()) == 0 for x in kept)
    assert torch.cat([*kept[:3], torch.ones(2, device="cuda")]).tolist() == [1.0, 1.0]
    assert (torch.empty(0, 8, device="cuda") @ torch.ones(8, 3, device="cuda")).shape == (0, 3)


def check_sizes_and_alignment():
    sizes = [1, 511, 512, 513, MIB - 1, MIB, MIB + 1, 2 * MIB, 2 * MIB + 1, 33 * MIB + 7]
    blocks = []
    for turn in range(3):
        for size in sizes:
            block = torch.full((size,), len(blocks), dtype=torch.uint8, device="cuda")
            assert block.data_ptr() % 512 == 0, size
            blocks.append(block)
        if turn == 1:
            blocks[::2] = [None] * len(blocks[::2])
    for value, block in enumerate(blocks):
        assert block is None or bool((block == value).all()), value
    spans = sorted((b.data_ptr(), b.data_ptr() + b.numel()) for b in blocks if b is not None)
    assert all(end <= begin for (_, end), (begin, _) in zip(spans, spans[1:])), "overlap"


if __name__ == "__main__":
    gpu.run(globals())
