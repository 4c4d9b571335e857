"""The ways in which ranks.py trains: each a function of the device that returns a step.

A step takes its number and returns the loss that this rank has; all but the experts' and the
pipeline's first rank's are the same on every rank.
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

CUDA = torch.cuda.is_available()
WIDTH, LAYERS, BATCH, SEQUENCE = (1024, 6, 4, 512) if CUDA else (128, 4, 4, 16)
HEAD, EXPERTS, MICROBATCHES = 64, 4, 4


class Block(nn.Module):
    """A layer of a Transformer. With its linear layers split, it has as many heads as are here."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        y = self.norm1(x)
        heads = (f(y).unflatten(-1, (-1, HEAD)).transpose(1, 2) for f in (self.q, self.k, self.v))
        x = x + self.o(F.scaled_dot_product_attention(*heads).transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


def model(device, layers=LAYERS):
    return nn.Sequential(*(Block() for _ in range(layers))).to(device)


def half(device):
    return torch.autocast(device.type, torch.bfloat16)


def data(device, number, seed=0):
    generator = torch.Generator().manual_seed(1000 * number + seed)
    batch = torch.randn(BATCH, SEQUENCE, WIDTH, generator=generator)
    return batch.to(device, non_blocking=True)


def step_of(trained, device, alike=False):
    """A step of a model that looks like any; ranks have data of their own unless `alike`."""
    # One parameter after the other: all at once must not mix those that are split with others.
    optimizer = torch.optim.AdamW(trained.parameters(), lr=1e-4, foreach=False)
    seed = 0 if alike else dist.get_rank()

    def step(number):
        batch = data(device, number, seed)
        with half(device):
            loss = (trained(batch) - batch).float().square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        loss = loss.detach() / dist.get_world_size()
        dist.all_reduce(loss)
        return loss.item()

    return step


def ddp(device):
    own = [device] if CUDA else None
    return step_of(nn.parallel.DistributedDataParallel(model(device), device_ids=own), device)


def uneven(device):
    """A model for each rank, the deeper the higher the rank: nothing but the loss is shared."""
    return step_of(model(device, LAYERS + dist.get_rank()), device)


def fsdp1(device):
    from torch.distributed.fsdp import FullyShardedDataParallel
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy

    policy = ModuleWrapPolicy({Block})
    sharded = FullyShardedDataParallel(model(device), auto_wrap_policy=policy, device_id=device)
    return step_of(sharded, device)


def fsdp2(device):
    from torch.distributed.fsdp import fully_shard

    sharded = model(device)
    for layer in sharded:
        fully_shard(layer)
    return step_of(fully_shard(sharded), device)


def tensor(device):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    split = {name: ColwiseParallel() for name in ("q", "k", "v", "up")}
    split |= {name: RowwiseParallel() for name in ("o", "down")}
    whole = model(device)
    for layer in whole:
        parallelize_module(layer, mesh, split)
    return step_of(whole, device, alike=True)


def pipeline(device):
    """Two stages on each rank, one batch forward and one backward in turns; the last has losses."""
    from torch.distributed.pipelining import PipelineStage
    from torch.distributed.pipelining.schedules import ScheduleInterleaved1F1B

    rank, world = dist.get_rank(), dist.get_world_size()
    layers, count = model(device), 2 * world
    each = LAYERS // 2  # of a stage; a pipeline is as deep as it has ranks
    numbers = [rank, rank + world]
    chunks = [nn.Sequential(*layers[:each]), nn.Sequential(*layers[each:])]
    stages = [PipelineStage(c, n, count, device) for c, n in zip(chunks, numbers)]

    def loss_of(out, target):
        return (out - target).float().square().mean()

    schedule = ScheduleInterleaved1F1B(stages, MICROBATCHES, loss_of)
    optimizer = torch.optim.AdamW(layers.parameters(), lr=1e-4)

    def step(number):
        batch, losses = data(device, number), []
        given = [batch] if rank == 0 else []
        last = {"target": batch, "losses": losses} if rank == world - 1 else {}
        with half(device):
            schedule.step(*given, **last)
        optimizer.step()
        optimizer.zero_grad()
        return torch.stack(losses).mean().item() if losses else 0.0

    return step


class Exchange(torch.autograd.Function):
    """Rows go to their experts' ranks, so many to each; gradients go back."""

    @staticmethod
    def forward(ctx, rows, sent, received):
        ctx.counts = sent, received
        out = rows.new_empty(sum(received), rows.shape[1])
        dist.all_to_all_single(out, rows.contiguous(), received, sent)
        return out

    @staticmethod
    def backward(ctx, gradient):
        sent, received = ctx.counts
        return Exchange.apply(gradient, received, sent), None, None


class Experts(nn.Module):
    """Each row goes to the best of all ranks' experts: blocks' sizes follow the routing."""

    def __init__(self):
        super().__init__()
        self.ranks = dist.get_world_size()
        self.router = nn.Linear(WIDTH, EXPERTS * self.ranks)
        torch.manual_seed(1 + dist.get_rank())  # experts differ, all else is alike
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))
            for _ in range(EXPERTS)
        )
        torch.manual_seed(2)

    def forward(self, x):
        rows = x.flatten(0, 1)
        weight, expert = self.router(rows).softmax(-1).max(-1)
        order = expert.argsort(stable=True)
        counts = torch.zeros(self.router.out_features, dtype=torch.int64, device=x.device)
        counts = counts.index_add(0, expert, torch.ones_like(expert))
        theirs = torch.empty_like(counts)
        dist.all_to_all_single(theirs, counts)
        sent = counts.view(self.ranks, -1).sum(1).tolist()
        received = theirs.view(self.ranks, -1)
        got = Exchange.apply(rows[order], sent, received.sum(1).tolist())
        whose = torch.arange(EXPERTS, device=x.device).repeat(self.ranks)
        whose = whose.repeat_interleave(received.flatten())
        done = torch.zeros_like(got)
        for number, own in enumerate(self.experts):
            place = (whose == number).nonzero().flatten()
            done = done.index_add(0, place, own(got[place]).to(done.dtype))
        back = Exchange.apply(done, received.sum(1).tolist(), sent)
        rows = torch.zeros_like(rows).index_copy(0, order, back.to(x.dtype))
        return x + (rows * weight.unsqueeze(1)).view_as(x)


def experts(device):
    """Attention is each rank's own and alike: its gradients are summed by hand."""
    layers = []
    for _ in range(LAYERS // 2):
        layers += [Block(), Experts()]
    whole = nn.Sequential(*layers).to(device)
    for name, parameter in whole.named_parameters():
        if ".experts." not in name:
            parameter.register_post_accumulate_grad_hook(lambda p: dist.all_reduce(p.grad))
    return step_of(whole, device)


TWO = ("pipeline",)  # kinds of two ranks at least
KINDS = {f.__name__: f for f in (ddp, uneven, fsdp1, fsdp2, tensor, pipeline, experts)}
