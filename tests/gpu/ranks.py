"""A program of several ranks that knows nothing of stalloc: DDP, then FSDP2, over NCCL.

Run by torchrun. Rank 0 prints losses and what was reserved, as one line of JSON.
"""

import json
import os
import sys

import torch
import torch.distributed as dist
from torch import nn

STEPS, WIDTH, LAYERS, BATCH, SEQUENCE = 16, 1024, 6, 4, 512


def model():
    layer = nn.TransformerEncoderLayer(
        WIDTH, WIDTH // 64, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True
    )
    return nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)


def train(trained, rank):
    """The losses of STEPS steps; each rank has data of its own."""
    optimizer = torch.optim.AdamW(trained.parameters(), lr=1e-4)
    generator = torch.Generator().manual_seed(rank)
    losses = []
    for _ in range(STEPS):
        data = torch.randn(BATCH, SEQUENCE, WIDTH, generator=generator).cuda(non_blocking=True)
        with torch.autocast("cuda", torch.bfloat16):
            loss = (trained(data) - data).float().square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        dist.all_reduce(loss, dist.ReduceOp.AVG)
        losses.append(loss.item())
    return losses


def main():
    rank, local = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    torch.use_deterministic_algorithms(True)
    dist.init_process_group("nccl", device_id=torch.device("cuda", local))
    result = {"world": dist.get_world_size()}

    torch.manual_seed(0)
    wrapped = nn.parallel.DistributedDataParallel(model().cuda(), device_ids=[local])
    result["ddp"] = train(wrapped, rank)
    del wrapped

    from torch.distributed.fsdp import fully_shard

    torch.manual_seed(0)
    sharded = model().cuda()
    for layer in sharded.layers:
        fully_shard(layer)
    fully_shard(sharded)
    result["fsdp2"] = train(sharded, rank)

    result["reserved"] = torch.cuda.max_memory_reserved()
    result["allocated"] = torch.cuda.max_memory_allocated()
    result["stalloc"] = False
    if "stalloc" in sys.modules:
        stats = sys.modules["stalloc"].stats()
        result["stalloc"] = stats.reserved > 0 and not stats.fallback
        result["hits"], result["requests"] = stats.hits, stats.hits + stats.misses
    dist.barrier()
    dist.destroy_process_group()
    if rank == 0:
        print(json.dumps(result), flush=True)


main()
