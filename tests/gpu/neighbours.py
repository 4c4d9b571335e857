"""Ways to use NCCL or symmetric memory beside stalloc, on as many ranks as torchrun starts.

    torchrun ... neighbours.py stalloc plain graph    or: native plain graph

Each way does its collectives before and after memory goes back to the driver, is made anew and
sleeps, and compares what arrives with what must. Rank 0 prints a line when a way begins and a line
of JSON when it has passed; NCCL's log of the way stands between them.
"""

import ctypes
import datetime
import json
import os
import re
import subprocess
import sys
import tempfile

import stalloc
import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symmetric_memory
from stalloc import _stats

SIZES = (1000, 1 << 20, 24 << 20)  # floats: small, of one large handle, of several
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
        torch.cuda.synchronize()
        dist.barrier()
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


def new(size):
    return torch.empty(size, device="cuda")


def inside(memory):
    """Makes tensors in a pool."""

    def make(size):
        with torch.cuda.use_mem_pool(memory):
            return new(size)

    return make


def plain(ranks):
    ranks.changes(lambda turn: ranks.collectives(new, turn))


def pool(ranks):
    """Of memory that NCCL allocates, in a MemPool that is registered."""
    memory = torch.cuda.MemPool(ranks.backend.mem_allocator)
    ranks.collectives(inside(memory), 0)
    ranks.names("MemPools, pools that graphs share", memory)
    ranks.backend.register_mem_pool(memory)
    ranks.names("registered with NCCL", memory)
    ranks.changes(lambda turn: ranks.collectives(inside(memory), turn))
    if os.environ.get("TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK") != "1":
        ranks.backend.deregister_mem_pool(memory)  # the hook wants to do that itself


def windows(ranks):
    """Such a pool, registered as symmetric windows. To end one is a collective: they stay."""
    memory, size = torch.cuda.MemPool(ranks.backend.mem_allocator), SIZES[1]
    make = inside(memory)
    mine, every = make(size), make(size * ranks.world)
    ranks.backend.register_mem_pool(memory, symm=True)
    ranks.names("NCCL's windows", memory)

    def reduces(turn):
        mine.fill_(ranks.rank + turn)
        dist.all_gather_into_tensor(every, mine)
        ranks.gathered(every, turn)
        dist.all_reduce(mine)
        assert bool((mine == ranks.sum(turn)).all()), f"all-reduce in a window: {mine[0]}"

    ranks.changes(reduces)
    torch.cuda.synchronize()
    dist.barrier()
    ranks.backend.deregister_mem_pool(memory)


def own(ranks):
    """A MemPool with an allocator of the program's own."""
    with tempfile.TemporaryDirectory() as folder:
        library = os.path.join(folder, "own.so")
        source = os.path.join(os.path.dirname(__file__), "own.c")
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True)
        allocator = torch.cuda.memory.CUDAPluggableAllocator(library, "own_malloc", "own_free")
        live = ctypes.c_long.in_dll(ctypes.CDLL(library), "own_live")
    memory = torch.cuda.MemPool(allocator.allocator())
    kept = inside(memory)(SIZES[2]).fill_(7)
    assert live.value == 1, f"{live.value} allocations of the pool's own allocator"
    ranks.changes(lambda turn: ranks.collectives(inside(memory), turn))
    assert bool((kept == 7).all()), "a pool with its own allocator lost values while others slept"
    del kept


def graph(ranks):
    """Captured, on tensors that were allocated outside. They stay where they are, and awake."""
    mine, every = new(SIZES[1]), new(SIZES[1] * ranks.world)
    many = new(SIZES[2] * ranks.world)
    part = many.chunk(ranks.world)[ranks.rank]
    ranks.collectives(new, 0)
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        dist.all_gather_into_tensor(every, mine)
        dist.all_gather_into_tensor(many, part)
        dist.all_reduce(mine)
    for turn in range(10):
        mine.fill_(ranks.rank + turn)
        part.fill_(ranks.rank + turn)
        captured.replay()
        assert bool((mine == ranks.sum(turn)).all()), f"all-reduce in a graph: {mine[0]}"
        ranks.gathered(every, turn)
        ranks.gathered(many, turn)
        new(SIZES[2])
        torch.cuda.empty_cache()


def symmetric(ranks):
    mine, memory = (
        symmetric_memory.empty(SIZES[0], device=ranks.device),
        symmetric_memory.get_mem_pool(ranks.device),
    )
    if memory.snapshot(include_traces=False):  # else it asks the driver itself
        ranks.names("symmetric memory", memory)
    one_shot(ranks, mine)


def symmetric_pool(ranks):
    """Of the MemPool that PyTorch has for it."""
    memory = symmetric_memory.get_mem_pool(ranks.device)
    mine = inside(memory)(SIZES[0])
    ranks.names("symmetric memory", memory)
    one_shot(ranks, mine)


def one_shot(ranks, mine):
    group = dist.group.WORLD
    symmetric_memory.rendezvous(mine, group=group)

    def reduces(turn):
        mine.fill_(ranks.rank + turn)
        torch.cuda.synchronize()
        dist.barrier()
        done = torch.ops.symm_mem.one_shot_all_reduce(mine, "sum", group.group_name)
        assert bool((done == ranks.sum(turn)).all()), f"one-shot all-reduce: {done[0]}"
        dist.barrier()

    ranks.changes(reduces)


def range_of(tensor):
    """What the driver says of where a tensor's memory ends: of all its handles, or of one."""
    driver = ctypes.CDLL("libcuda.so.1")
    base, size = ctypes.c_uint64(), ctypes.c_size_t()
    at = ctypes.c_uint64(tensor.data_ptr())
    assert driver.cuMemGetAddressRange_v2(ctypes.byref(base), ctypes.byref(size), at) == 0
    return base.value + size.value - tensor.data_ptr()


WAYS = {f.__name__: f for f in (plain, pool, windows, own, graph, symmetric, symmetric_pool)}


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
    patience = datetime.timedelta(seconds=60)
    dist.init_process_group("nccl", timeout=patience, device_id=torch.device("cuda", local))
    for name in ways:
        ranks = Ranks()
        dist.barrier()
        if ranks.rank == 0:
            print(f"way {name}", flush=True)
        WAYS[name](ranks)
        torch.cuda.synchronize()
        dist.barrier()
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
