"""NCCL or symmetric memory beside stalloc, on as many ranks as torchrun starts.

    torchrun ... neighbours.py stalloc plain graph    or: native plain graph

Each way (neighbour_ways.py) does its collectives before and after memory goes back to the driver,
is made anew and sleeps, and compares what arrives with what must. Rank 0 prints a line when a way
begins and a line of JSON when it has passed; NCCL's log of the way stands between them.
"""

import ctypes
import datetime
import json
import os
import re
import sys

import stalloc
import torch
import torch.distributed as dist
from neighbour_ways import SIZES, WAYS, meet, new
from stalloc import _stats

GIB = 1 << 30


class Ranks:
    """What a way has to work with, and how much of what slept the driver did not get back."""

    def __init__(self):
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.device = torch.device("cuda", torch.cuda.current_device())
        self.backend = dist.group.WORLD._get_backend(self.device)
        self.slept = self.stuck = 0
        self.awake = ""  # what explain() names of what does not sleep, where a way has looked

    def sum(self, turn):
        return sum(range(self.world)) + self.world * turn

    def sleeps(self):
        meet()
        torch.cuda.synchronize()
        before = torch.cuda.mem_get_info()[0]
        asleep = stalloc.pause()
        given = torch.cuda.mem_get_info()[0] - before
        self.slept = max(self.slept, asleep)
        self.stuck = max(self.stuck, asleep - given)
        stalloc.resume()

    def names(self, kind, memory):
        """Looks that explain() counts a pool's memory as PyTorch does, and names its kind."""
        if not stalloc.is_enabled():
            return
        held = sum(segment["total_size"] for segment in memory.snapshot(include_traces=False))
        found = re.search(rf"^  {re.escape(kind)} +(\S+) +(\S+)", stalloc.explain(), re.M)
        assert found and held, f"no {kind} of {held} bytes in {stalloc.explain()}"
        self.awake = f"{kind} {found[1]} {found[2]}"
        assert self.awake == f"{kind} {_stats.size(held)}", f"{self.awake} of {held} bytes"

    def changes(self, do):
        """Turns of do(turn), with other memory behind the addresses each time."""
        for turn in range(0, 9, 3):
            do(turn)
            torch.cuda.empty_cache()
            hole = torch.empty(5 << 20, device="cuda")
            do(turn + 1)
            self.sleeps()
            do(turn + 2)
            del hole

    def collectives(self, make, turn):
        """An all-reduce and an all-gather of each size, of numbers that floats hold exactly."""
        for size in SIZES:
            mine = make(size).fill_(self.rank + turn)
            dist.all_reduce(mine)
            want = self.sum(turn)
            assert bool((mine == want).all()), f"all-reduce of {size}: {mine[0]}, want {want}"
            mine.fill_(self.rank + turn)
            every = make(size * self.world)
            dist.all_gather_into_tensor(every, mine)
            self.gathered(every, turn)

    def gathered(self, every, turn):
        for rank, part in enumerate(every.chunk(self.world)):
            right = bool((part == rank + turn).all())
            assert right, f"all-gather of {part.numel()} from rank {rank}: {part[0]}"


def range_of(tensor):
    """What the driver says of where a tensor's memory ends: of all its handles, or of one."""
    driver = ctypes.CDLL("libcuda.so.1")
    base, size = ctypes.c_uint64(), ctypes.c_size_t()
    at = ctypes.c_uint64(tensor.data_ptr())
    assert driver.cuMemGetAddressRange_v2(ctypes.byref(base), ctypes.byref(size), at) == 0
    return base.value + size.value - tensor.data_ptr()


def warm():
    """Steps with a load, after which memory is of large handles, as a training's is."""
    room = torch.cuda.mem_get_info()[0]
    for _ in range(3):
        load = [new(GIB >> 2) for _ in range(min(32, room // 2 // GIB))]
        load.clear()
        torch.cuda.synchronize()
        stalloc.step()


def main():
    allocator, *ways = sys.argv[1:]
    if allocator == "stalloc":
        stalloc.enable()
    local = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    warm()
    timeout = datetime.timedelta(seconds=60)
    dist.init_process_group("nccl", timeout=timeout, device_id=torch.device("cuda", local))
    for name in ways:
        ranks = Ranks()
        dist.barrier()
        if ranks.rank == 0:
            print(f"way {name}", flush=True)
        WAYS[name](ranks)
        meet()
        stats = stalloc.stats()
        assert allocator == "native" or (stats.reserved > 0 and not stats.fallback), stats
        if ranks.rank == 0:
            large = new(SIZES[2])
            said = {"way": name, "world": ranks.world, "slept": ranks.slept, "stuck": ranks.stuck}
            said["awake"] = ranks.awake
            print(json.dumps({**said, "range": [range_of(large), large.nbytes]}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
