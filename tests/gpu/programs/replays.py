"""What the programs of test_captured.py share: a model's bits, and steps that are measured."""

import hashlib
import time

from cases import clean, full, pools_hold, reserved, torch


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


def trained(lives, model, loss_of, inputs, steps):
    """Training in reduce-overhead mode: the first half of the steps records its graphs, the second
    is measured. Inputs take turns."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    losses, lived = [], {}
    for k in range(steps):
        if not lived:
            lives.mark()
        if k == len(inputs):  # each has been compiled, and has run without a capture
            lives.begin()
        if k == steps // 2:
            lived = lives.end()
            clean()
            torch.cuda.reset_peak_memory_stats()
            begin = time.perf_counter()
        torch.compiler.cudagraph_mark_step_begin()
        losses.append(update(loss_of(inputs[k % len(inputs)]), optimizer).item())
    took = 1e3 * (time.perf_counter() - begin) / (steps - steps // 2)
    held, must = torch.cuda.max_memory_reserved(), lived["outside"] + lived["inside"]
    lived |= {"bits": digest(model), "ms": took, "in_pools": pools_hold()}
    return {"losses": losses, "reserved": held, "must": must, **lived}


def compiled(module):
    return torch.compile(module, mode="reduce-overhead", dynamic=False)
