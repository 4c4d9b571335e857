"""A program of several ranks that knows nothing of stalloc: parallel training in seven ways.

    torchrun --nproc-per-node 2 ranks.py [KIND...]

DDP, a model a rank, FSDP1, FSDP2, and by tensors, a pipeline and experts, a short training each,
over NCCL, or over gloo where there is no GPU. Rank 0 prints what all ranks say, as one line of
JSON.
"""

import gc
import json
import os
import sys

import torch
import torch.distributed as dist
from rank_kinds import CUDA, KINDS, TWO

STEPS, STEADY = (32, 6) if CUDA else (4, 2)


class Counted:
    """What the device's allocator does from here on, whichever it is."""

    def __init__(self):
        self.stalloc = sys.modules.get("stalloc") if CUDA else None
        gc.collect()  # the kind before may have left cycles
        if CUDA:
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        self.before = self.served()

    def driver_calls(self):
        if self.stalloc:
            return self.stalloc.stats().driver_calls
        stats = torch.cuda.memory_stats() if CUDA else {}
        return stats.get("num_device_alloc", 0) + stats.get("num_device_free", 0)

    def served(self):
        """Hits, and requests."""
        stats = self.stalloc.stats() if self.stalloc else None
        return (stats.hits, stats.requests) if stats else (0, 0)

    def since(self):
        hits, requests = (now - then for now, then in zip(self.served(), self.before))
        return {"hits": hits, "requests": requests}

    def waste(self):
        return 1 - torch.cuda.max_memory_allocated() / torch.cuda.max_memory_reserved()


def train(kind, device):
    """What this rank has to say about the steps of a kind."""
    torch.manual_seed(0)
    counted, losses, first = Counted(), [], None
    step = KINDS[kind](device)
    for number in range(STEPS):
        if number == STEPS - STEADY:
            calls = counted.driver_calls()
        hits = counted.since()["hits"]
        losses.append(step(number))
        if first is None and counted.since()["hits"] > hits:
            first = number  # the first step that was served from a plan
    calls, waste = counted.driver_calls() - calls, counted.waste() if CUDA else 0
    return {"losses": losses, "calls": calls, "waste": waste, "first": first, **counted.since()}


def main():
    rank, local = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
    device = torch.device("cuda", local) if CUDA else torch.device("cpu")
    torch.use_deterministic_algorithms(True)
    if CUDA:
        torch.cuda.set_device(local)
    dist.init_process_group("nccl" if CUDA else "gloo", device_id=device if CUDA else None)
    kinds, world = sys.argv[1:] or list(KINDS), dist.get_world_size()
    mine = {kind: train(kind, device) for kind in kinds if world > 1 or kind not in TWO}
    mine["stalloc"] = False
    if CUDA and "stalloc" in sys.modules:
        stats = sys.modules["stalloc"].stats()
        mine["stalloc"] = stats.reserved > 0 and not stats.fallback
    all_say = [None] * world
    dist.all_gather_object(all_say, mine)
    dist.barrier()
    dist.destroy_process_group()
    if rank == 0:
        print(json.dumps(all_say), flush=True)


main()
