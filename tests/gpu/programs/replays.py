"""What the programs of test_captured.py share: a model's bits, and steps that are measured."""

import hashlib
import itertools
import statistics
import time

from cases import clean, driver, full, pools_hold, reserved, torch

SECONDS = 4  # that steps are measured: a shared host's speed changes many times a second
MEASURED = 100  # steps at least


def digest(model):
    """Of the bits of all parameters, in bfloat16."""
    parts = hashlib.sha256()
    for p in model.parameters():
        parts.update(p.detach().view(torch.int16).cpu().numpy().tobytes())
    return parts.hexdigest()[:16]


def adam(model):
    return torch.optim.AdamW(model.parameters(), lr=1e-4, capturable=True)


def update(loss, optimizer):
    """The rest of a step."""
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss


def warm_up(step, times=3):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(times):
            step()
    torch.cuda.current_stream().wait_stream(side)


def capture(step, lives):
    """A function that replays a whole step."""
    warm_up(step)
    clean()
    lives.begin()
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        loss = step()

    def replay():
        g.replay()
        return loss

    return replay


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
    lived |= {"bits": bits, **steady(step), "in_pools": pools_hold()}
    must = lived["left"] + lived["inside"]
    return {"losses": losses, "reserved": held, "must": must, **lived}


def steady(step):
    """The median time of a step, once its memory is there and a plan is made; and the driver's
    calls in one."""
    for _ in range(30):
        step()
    torch.cuda.synchronize()
    times, calls = [], driver()[0]
    while len(times) < MEASURED or sum(times) < 1e3 * SECONDS:
        begin = time.perf_counter()
        step()
        torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - begin))
    return {"ms": statistics.median(times), "calls": (driver()[0] - calls) / len(times)}


def trained(lives, model, loss_of, inputs, steps):
    """Training in reduce-overhead mode: the first half of the steps records its graphs, the second
    shows what is reserved, and more are timed. Inputs take turns."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    losses, lived = [], {}

    def step(k):
        torch.compiler.cudagraph_mark_step_begin()
        return update(loss_of(inputs[k % len(inputs)]), optimizer)

    for k in range(steps):
        if not lived:
            lives.mark()
        if k == len(inputs):  # each has been compiled, and has run without a capture
            lives.begin()
        if k == steps // 2:
            lived = lives.end()
            clean()
            torch.cuda.reset_peak_memory_stats()
        losses.append(step(k).item())
    held, must = torch.cuda.max_memory_reserved(), lived["outside"] + lived["inside"]
    turns = itertools.count()
    lived |= {"bits": digest(model), **steady(lambda: step(next(turns)))}
    return {"losses": losses, "reserved": held, "must": must, "in_pools": pools_hold(), **lived}


def compiled(module):
    return torch.compile(module, mode="reduce-overhead", dynamic=False)
