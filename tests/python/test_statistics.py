"""torch.cuda's statistics under stalloc."""

import pytest
import stalloc
from stalloc import Stats, _statistics

MIB = 1 << 20


def test_functions_answer(torch, stub):
    stub.set(allocated=5, peak_allocated=9, peak_reserved=4 * MIB)
    assert torch.cuda.memory_allocated() == 5
    assert torch.cuda.max_memory_allocated() == 9
    assert torch.cuda.max_memory_reserved() == 4 * MIB
    torch.cuda.reset_peak_memory_stats()
    assert torch.cuda.max_memory_allocated() == 5


def test_before_cuda_starts_there_are_none(process):
    torch = process()
    stalloc.enable()
    assert torch.cuda.memory_stats() == {}


def test_every_key_of_the_native_allocator(torch):
    keys = set(torch.cuda.memory_stats())
    for group in ("allocated", "reserved", "active", "requested", "inactive_split"):
        for pool in ("all", "small_pool", "large_pool"):
            for kind in ("current", "peak", "allocated", "freed"):
                assert f"{group}_bytes.{pool}.{kind}" in keys
    assert {"num_alloc_retries", "num_ooms", "segment.all.current"} <= keys
    assert {"oversize_allocations.current", "max_split_size"} <= keys


def test_values():
    stats = Stats(
        allocated=512, peak_allocated=1024, allocated_total=2048, freed_total=1536,
        requested=500, peak_requested=1000, active=768, peak_active=1280,
        reserved=4 * MIB, peak_reserved=6 * MIB, blocks=1, peak_blocks=2, blocks_total=4,
        ooms=1, retries=2, hits=3, misses=4, plan_generation=5, fallback=6,
    )  # fmt: skip
    got = _statistics.nested(stats, Stats())
    assert got["allocated_bytes"]["all"] == dict(current=512, peak=1024, allocated=2048, freed=1536)
    assert got["requested_bytes"]["all"]["current"] == 500
    assert got["active_bytes"]["all"]["peak"] == 1280
    assert got["reserved_bytes"]["all"]["peak"] == 6 * MIB
    assert got["inactive_split_bytes"]["all"]["current"] == 4 * MIB - 768
    assert got["allocation"]["all"] == dict(current=1, peak=2, allocated=4, freed=3)
    assert got["segment"]["all"]["current"] == 2 and got["segment"]["all"]["peak"] == 3
    assert (got["num_ooms"], got["num_alloc_retries"]) == (1, 2)
    assert got["stalloc"] == {"hits": 3, "misses": 4, "plan_generation": 5, "fallback": 6}


def test_pools_add_up_and_totals_agree_with_current():
    stats = Stats(*range(1000, 0, -10)[: len(Stats.__dataclass_fields__)])
    for name, group in _statistics.nested(stats, Stats()).items():
        if not isinstance(group, dict) or "all" not in group:
            continue
        for kind, value in group["all"].items():
            assert value == group["small_pool"][kind] + group["large_pool"][kind], name
    for group in ("reserved_bytes", "requested_bytes", "active_bytes", "segment"):
        total = _statistics.nested(stats, Stats())[group]["all"]
        assert total["allocated"] - total["freed"] == total["current"]
        assert total["allocated"] >= total["peak"]


def test_reset_of_the_accumulated_statistics(torch, stub):
    stub.set(allocated_total=100, freed_total=60, blocks_total=10, blocks=4, ooms=1, hits=8)
    torch._C._cuda_resetAccumulatedMemoryStats(0)
    stats = torch.cuda.memory_stats()
    for key in ("allocated_bytes.all", "allocation.all"):
        assert stats[f"{key}.allocated"] == stats[f"{key}.freed"] == 0
    assert stats["num_ooms"] == stats["stalloc.hits"] == 0
    assert stats["allocation.all.current"] == 4
    stub.set(allocated_total=150, freed_total=70, blocks_total=12, blocks=5)
    stats = torch.cuda.memory_stats()
    assert stats["allocated_bytes.all.allocated"] == 50
    assert stats["allocated_bytes.all.freed"] == 10
    assert stats["allocation.all.allocated"] == 2 and stats["allocation.all.freed"] == 1
    assert stalloc.stats().allocated_total == 150  # our own count goes on


def test_accelerator_functions_no_longer_answer_zero(torch, stub):
    stub.set(allocated=5, peak_allocated=9)
    low = torch._C
    assert low._accelerator_isAllocatorInitialized()
    assert low._accelerator_getDeviceStats(0)["allocated_bytes"]["all"]["current"] == 5
    low._accelerator_resetPeakStats(0)
    assert low._accelerator_getDeviceStats(0)["allocated_bytes"]["all"]["peak"] == 5
    low._accelerator_emptyCache()
    assert stub.calls == ["init", "reset"]


def test_pytorch_without_accelerator_functions(process):
    torch = process(version="2.3.0")
    del torch._C._accelerator_getDeviceStats
    assert stalloc.enable()


def test_memory_fraction_can_be_asked_for(torch):
    assert torch._C._cuda_getMemoryFraction(0) == 1.0
    torch._C._cuda_setMemoryFraction(0.5, 0)
    assert torch._C._cuda_getMemoryFraction(0) == 0.5
    assert torch._C._cuda_getMemoryFraction(1) == 1.0


def test_what_cannot_work_keeps_pytorch_s_error_and_adds_the_remedy(torch):
    with pytest.raises(RuntimeError, match=r"does not yet support .*stalloc\.explain\(\)"):
        torch.cuda.memory.memory_snapshot()
    with pytest.raises(RuntimeError, match=r"does not yet support .*without stalloc\.enable\(\)"):
        torch._C._cuda_record_memory_history("all")


def test_other_errors_pass_unchanged(process):
    torch = process()

    def fail(*args):
        raise RuntimeError("the device fell off")

    torch._C._cuda_memorySnapshot = fail
    stalloc.enable()
    with pytest.raises(RuntimeError, match="^the device fell off$"):
        torch.cuda.memory.memory_snapshot()
