"""One way to use NCCL or symmetric memory beside stalloc, on as many ranks as torchrun starts.

Argument: which. Each way does its collectives before and after memory goes back to the driver, is
made anew and sleeps, and compares what arrives with what must. Rank 0 prints a line of JSON.
"""

import json
import os
import sys

import stalloc
import torch
import torch.distributed as dist

SIZES = (1000, 3 << 20, 24 << 20)  # floats: small, of one handle, of several


def collectives(make, turn):
    """An all-reduce and an all-gather of each size, of numbers that floats hold exactly."""
    rank, world = dist.get_rank(), dist.get_world_size()
    for size in SIZES:
        mine = make(size).fill_(rank + turn)
        dist.all_reduce(mine)
        want = sum(range(world)) + world * turn
        assert bool((mine == want).all()), f"all-reduce of {size}: {mine[0]}, want {want}"
        mine.fill_(rank + turn)
        every = make(size * world)
        dist.all_gather_into_tensor(every, mine)
        for other in range(world):
            part = every[other * size : (other + 1) * size]
            assert bool((part == other + turn).all()), f"all-gather of {size} from rank {other}"
        del mine, every


def changes(turn, do):
    """Turns of do(turn), with other memory behind the addresses each time."""
    for _ in range(3):
        do(turn := turn + 1)
        torch.cuda.empty_cache()
        hole = torch.empty(5 << 20, device="cuda")
        do(turn := turn + 1)
        dist.barrier()
        stalloc.pause()
        stalloc.resume()
        do(turn := turn + 1)
        del hole


def new(size):
    return torch.empty(size, device="cuda")


def plain():
    changes(0, lambda turn: collectives(new, turn))


def pool():
    """Of memory that NCCL allocates, in a MemPool that is registered."""
    backend = dist.group.WORLD._get_backend(torch.device("cuda"))
    memory = torch.cuda.MemPool(backend.mem_allocator)

    def make(size):
        with torch.cuda.use_mem_pool(memory):
            return torch.empty(size, device="cuda")

    collectives(make, 0)
    backend.register_mem_pool(memory)
    changes(0, lambda turn: collectives(make, turn))
    backend.deregister_mem_pool(memory)


def graph():
    """Captured, on tensors that were allocated outside. They stay where they are, and awake."""
    rank, world = dist.get_rank(), dist.get_world_size()
    mine, every = new(SIZES[1]), new(SIZES[1] * world)
    collectives(new, 0)
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        dist.all_gather_into_tensor(every, mine)
        dist.all_reduce(mine)
    for turn in range(10):
        mine.fill_(rank + turn)
        captured.replay()
        assert bool((mine == sum(range(world)) + world * turn).all())
        for other in range(world):
            part = every[other * SIZES[1] : (other + 1) * SIZES[1]]
            assert bool((part == other + turn).all())
        new(SIZES[2])
        torch.cuda.empty_cache()


def symmetric():
    import torch.distributed._symmetric_memory as symmetric_memory

    group, rank, world = dist.group.WORLD, dist.get_rank(), dist.get_world_size()
    mine = symmetric_memory.empty(SIZES[0], device="cuda")
    symmetric_memory.rendezvous(mine, group=group)

    def reduce(turn):
        mine.fill_(rank + turn)
        torch.cuda.synchronize()
        dist.barrier()
        done = torch.ops.symm_mem.one_shot_all_reduce(mine, "sum", group.group_name)
        assert bool((done == sum(range(world)) + world * turn).all())
        dist.barrier()

    changes(0, reduce)


WAYS = {f.__name__: f for f in (plain, pool, graph, symmetric)}


def main():
    stalloc.enable()
    local = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    dist.init_process_group("nccl", device_id=torch.device("cuda", local))
    WAYS[sys.argv[1]]()
    torch.cuda.synchronize()
    dist.barrier()
    stats = stalloc.stats()
    served = stats.reserved > 0 and not stats.fallback
    last = dist.get_rank() == 0
    dist.destroy_process_group()
    if last:
        print(json.dumps({"served": served, "world": int(os.environ["WORLD_SIZE"])}), flush=True)


main()
