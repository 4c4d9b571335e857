"""Training steps in graphs: a whole step, layer by layer, and torch.compile's reduce-overhead mode.

A case says losses, a digest of the parameters, what was reserved, the bytes that must live for it
(cases.Lives), and what a step takes."""

import hashlib
import time

from cases import Lives, clean, full, pools_hold, reserved, run, torch


class Block(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first, self.second = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.inner = torch.nn.Linear(width, 3 * width)
        self.outer = torch.nn.Linear(width, width)
        self.wide = torch.nn.Linear(width, 4 * width)
        self.narrow = torch.nn.Linear(4 * width, width)

    def forward(self, x):
        heads = self.inner(self.first(x)).unflatten(-1, (3, -1, 64))
        q, k, v = heads.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.outer(mixed.transpose(1, 2).flatten(2))
        return x + self.narrow(torch.nn.functional.gelu(self.wide(self.second(x))))


def decoder(layers, width):
    return torch.nn.Sequential(*(Block(width) for _ in range(layers))).cuda().bfloat16()


def digest(model):
    """Of the bits of all parameters."""
    parts = hashlib.sha256()
    for p in model.parameters():
        parts.update(p.detach().view(torch.int16).cpu().numpy().tobytes())
    return parts.hexdigest()[:16]


def warm_up(step, times=3):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(times):
            step()
    torch.cuda.current_stream().wait_stream(side)


def replayed(step, lives, model):
    """Ten steps beside blocks that come and go, then what remains and what a step takes."""
    losses = []
    for _ in range(10):
        junk = [full(16 + 7 * i, 255) for i in range(8)]
        losses.append(step().item())
        del junk
    bits = digest(model)
    clean()
    held, lived = reserved(), lives.end()
    for _ in range(10):  # a plan is made meanwhile
        step()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(40):
        step()
    torch.cuda.synchronize()
    more = {"ms": 1e3 * (time.perf_counter() - begin) / 40, "in_pools": pools_hold()}
    must = lived["left"] + lived["inside"]
    return {"losses": losses, "bits": bits, "reserved": held, "must": must, **lived, **more}


def whole_step():
    torch.manual_seed(1)
    lives = Lives()
    model = decoder(8, 1024)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, capturable=True)
    x = torch.randn(8, 512, 1024, device="cuda", dtype=torch.bfloat16)

    def step():
        loss = (model(x) - x).float().square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss

    warm_up(step)
    clean()
    lives.begin()
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        loss = step()

    def replay():
        g.replay()
        return loss

    return replayed(replay, lives, model)


def layer_by_layer():
    torch.manual_seed(2)
    lives = Lives()
    model = decoder(6, 1024)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    x = torch.randn(8, 512, 1024, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    lives.begin()
    layers = torch.cuda.make_graphed_callables(tuple(model), ((x,),) * 6)

    def step():
        y = x
        for layer in layers:
            y = layer(y)
        loss = (y - x.detach()).float().square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        return loss

    return replayed(step, lives, model)


def train_compiled(shapes, steps):
    """The first half of the steps records its graphs, the second is measured."""
    torch.manual_seed(3)
    lives = Lives()
    model = decoder(4, 768)
    compiled = torch.compile(model, mode="reduce-overhead", dynamic=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    inputs = [torch.randn(*s, 768, device="cuda", dtype=torch.bfloat16) for s in shapes]
    losses, lived = [], {}
    for k in range(steps):
        if not lived:
            lives.mark()
        if k == len(shapes):  # each has been compiled, and has run without a capture
            lives.begin()
        if k == steps // 2:
            lived = lives.end()
            clean()
            torch.cuda.reset_peak_memory_stats()
            begin = time.perf_counter()
        torch.compiler.cudagraph_mark_step_begin()
        x = inputs[k % len(inputs)]
        loss = (compiled(x) - x).float().square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    took = 1e3 * (time.perf_counter() - begin) / (steps - steps // 2)
    held, must = torch.cuda.max_memory_reserved(), lived["outside"] + lived["inside"]
    lived |= {"bits": digest(model), "ms": took, "in_pools": pools_hold()}
    return {"losses": losses, "reserved": held, "must": must, **lived}


def reduce_overhead():
    return train_compiled([(8, 512)], 60)


def reduce_overhead_of_three_shapes():
    return train_compiled([(8, 512), (8, 384), (4, 512)], 60)


run(globals())
