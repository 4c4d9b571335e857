"""Several GPUs in one process: copies and kernels reach across, under a plan too.

With one GPU there is nothing to test, and the table says so.
"""

import os
import time

import gpu
from gpu import GIB, MIB

os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
torch, stalloc = gpu.start()
STEPS = 40
FIRST, SECOND = torch.device("cuda:0"), torch.device("cuda:1")
TWO = torch.cuda.device_count() > 1 and torch.cuda.can_device_access_peer(0, 1)


def check_what_is_live_when_the_second_one_comes():
    if not TWO:
        return "not run: there are no two GPUs that reach each other"
    data = torch.randn(GIB // 4, device=FIRST)
    torch.cuda.synchronize()
    begin = time.perf_counter()
    copy = data[: MIB // 4].to(SECOND)
    seconds = time.perf_counter() - begin
    assert torch.equal(copy.cpu(), data[: MIB // 4].cpu())
    assert torch.equal(data.to(SECOND).cpu(), data.cpu())
    return f"1 GiB was live; the second GPU was opened in {seconds * 1e3:.0f} ms"


def check_copies_both_ways():
    if not TWO:
        return "not run"
    for here, there in ((FIRST, SECOND), (SECOND, FIRST)):
        data = torch.randn(2048, 2048, device=here)
        host = data.cpu()
        assert torch.equal(data.to(there).cpu(), host)
        assert torch.equal(data.to(there, dtype=torch.float64).cpu(), host.double())
        assert torch.equal(data.t().to(there).cpu(), host.t())
        into = torch.zeros(2048, 2048, device=there)
        into.t().copy_(data)
        assert torch.equal(into.cpu(), host.t())
    return "as they are, converted, transposed"


# Losses of as many steps as are asked for; `behind` is called after each.
TRAIN = """
import torch
def train(steps, behind=lambda number: None):
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True)
    first = torch.nn.Sequential(torch.nn.Linear(1024, 4096), torch.nn.GELU()).to("cuda:0")
    second = torch.nn.Linear(4096, 1024).to("cuda:1")
    optimizer = torch.optim.AdamW([*first.parameters(), *second.parameters()], lr=1e-3)
    batch, losses = torch.randn(512, 1024, device="cuda:0"), []
    for number in range(steps):
        optimizer.zero_grad()
        out = second(first(batch).to("cuda:1"))
        loss = (out - batch.to("cuda:1")).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        behind(number)
    return losses
"""


def check_a_pipeline_over_both():
    if not TWO:
        return "not run"
    names, hits = {}, []

    def behind(number):
        stalloc.step()
        hits.append([stalloc.stats(device).hits for device in (0, 1)])
        time.sleep(0.02)  # the planners work beside the steps

    exec(TRAIN, names)
    losses = names["train"](STEPS, behind)
    native = gpu.child(f"{TRAIN}import json\nprint(json.dumps([train({STEPS}), train({STEPS})]))")
    each = [[after[d] - before[d] for d in (0, 1)] for before, after in zip(hits, hits[1:])]
    planned = next((number for number, step in enumerate(each, start=1) if min(step) > 0), None)
    assert planned, f"no step of {STEPS} was served from both devices' plans: {each[-1]} hits"
    words = "two native runs differ"
    if native[0] == native[1]:
        words = "losses as native's"
        assert losses == native[0], f"{losses}, native {native[0]}"
    assert losses[-1] < losses[0], losses
    return f"{words}; from step {planned} on {each[planned - 1]} hits and more"


gpu.run(globals())
