"""The ways to use NCCL or symmetric memory that neighbours.py tries, each given its Ranks."""

import ctypes
import os
import subprocess
import tempfile

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symmetric_memory

SIZES = (1000, 1 << 20, 24 << 20)  # floats: small, of one large handle, of several


def meet():
    """All ranks are here, and their GPUs have done what they were given."""
    torch.cuda.synchronize()
    dist.barrier()


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
    meet()
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
    mine = symmetric_memory.empty(SIZES[0], device=ranks.device)
    memory = symmetric_memory.get_mem_pool(ranks.device)
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
        meet()
        done = torch.ops.symm_mem.one_shot_all_reduce(mine, "sum", group.group_name)
        assert bool((done == ranks.sum(turn)).all()), f"one-shot all-reduce: {done[0]}"
        dist.barrier()

    ranks.changes(reduces)


WAYS = {f.__name__: f for f in (plain, pool, windows, own, graph, symmetric, symmetric_pool)}
