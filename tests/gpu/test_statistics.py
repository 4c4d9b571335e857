"""torch.cuda's memory statistics under stalloc: what they count, and all keys of native's."""

import gpu
from gpu import MIB

torch, stalloc = gpu.start()

KEYS = """
import json, torch
torch.ones(1, device="cuda")
print(json.dumps([list(torch.cuda.memory_stats()), list(torch.cuda.memory_stats_as_nested_dict())]))
"""


def check_allocated_follows_every_tensor():
    before = torch.cuda.memory_allocated()
    x = torch.empty(10 * MIB, dtype=torch.uint8, device="cuda")
    assert torch.cuda.memory_allocated() - before == 10 * MIB
    y = torch.empty(1000, dtype=torch.uint8, device="cuda")
    assert torch.cuda.memory_allocated() - before == 10 * MIB + 1024
    del x, y
    assert torch.cuda.memory_allocated() == before


def check_requested_is_not_rounded():
    stat = "requested_bytes.all.current"
    before = torch.cuda.memory_stats()[stat]
    x = torch.empty(1000, dtype=torch.uint8, device="cuda")
    assert torch.cuda.memory_stats()[stat] - before == x.numel()


def check_peaks_and_their_reset():
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    assert torch.cuda.max_memory_allocated() == before
    x = torch.empty(64 * MIB, dtype=torch.uint8, device="cuda")
    del x
    assert torch.cuda.max_memory_allocated() == before + 64 * MIB
    torch.cuda.reset_peak_memory_stats()
    assert torch.cuda.max_memory_allocated() == torch.cuda.memory_allocated() == before


def check_reserved_contains_what_is_allocated():
    x = torch.empty(100 * MIB, dtype=torch.uint8, device="cuda")
    reserved, most = torch.cuda.memory_reserved(), torch.cuda.max_memory_reserved()
    assert most >= reserved >= torch.cuda.memory_allocated() >= x.numel()
    total = torch.cuda.get_device_properties(0).total_memory
    assert most < total, (most, total)
    return f"{reserved / MIB:.0f} MiB"


def check_reserved_is_the_devices_memory():
    torch.cuda.empty_cache()
    free, reserved = torch.cuda.mem_get_info()[0], torch.cuda.memory_reserved()
    x = torch.empty(512 * MIB, dtype=torch.uint8, device="cuda")
    taken = free - torch.cuda.mem_get_info()[0]
    grown = torch.cuda.memory_reserved() - reserved
    assert abs(taken - grown) <= 32 * MIB, (taken, grown)
    assert grown >= x.numel() - 64 * MIB
    return f"device {taken / MIB:.0f} MiB, reserved {grown / MIB:.0f} MiB"


def check_all_keys_of_the_native_allocator():
    flat, nested = gpu.child(KEYS)
    ours = torch.cuda.memory_stats(), torch.cuda.memory_stats_as_nested_dict()
    missing = [key for keys, have in zip((flat, nested), ours) for key in keys if key not in have]
    assert not missing, missing
    assert all(isinstance(value, int) for value in ours[0].values())
    return f"{len(flat)} keys"


def check_totals_count_and_reset():
    torch.cuda.reset_accumulated_memory_stats()
    for _ in range(3):
        torch.empty(MIB, dtype=torch.uint8, device="cuda")
    stats = torch.cuda.memory_stats()
    assert stats["allocated_bytes.all.allocated"] == 3 * MIB
    assert stats["allocated_bytes.all.freed"] == 3 * MIB
    assert stats["allocation.all.allocated"] == stats["allocation.all.freed"] == 3


def check_summary_and_accelerator():
    assert "Allocated memory" in torch.cuda.memory_summary()
    accelerator = getattr(torch, "accelerator", None)
    if hasattr(accelerator, "memory_allocated"):
        assert accelerator.memory_allocated() == torch.cuda.memory_allocated()
        assert accelerator.max_memory_reserved() == torch.cuda.max_memory_reserved()
    return f"explain(): {len(stalloc.explain())} characters"


def check_memory_fraction_is_kept():
    torch.cuda.set_per_process_memory_fraction(0.5)
    try:
        assert torch.cuda.get_per_process_memory_fraction() == 0.5
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)


if __name__ == "__main__":
    gpu.run(globals())
