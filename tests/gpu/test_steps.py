"""Steps whose end the program tells, or its optimizer, or nobody, are all served from a plan."""

import gpu

STEPS, COUNTED = 60, 10

TRAIN = f"""
import json, sys, time
sys.path.insert(0, {str(gpu.ROOT / "python")!r})
import stalloc
stalloc.enable(cache="off")
import torch
torch.manual_seed(0)
def counts():
    s = stalloc.stats()
    return s.hits, s.misses, s.requests
layer = lambda: torch.nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True, device="cuda")
model = torch.nn.Sequential(*(layer() for _ in range(6)))
batch = torch.randn(32, 128, 256, device="cuda")
parameters = list(model.parameters())
optimizer = torch.optim.AdamW(parameters, lr=1e-4) if MODE != "unmarked" else None
for number in range({STEPS}):
    if number == {STEPS - COUNTED}:
        before = counts()
    if MODE == "cleared first":
        optimizer.zero_grad()
    model(batch).square().mean().backward()
    if optimizer is not None:
        optimizer.step()
    else:
        with torch.no_grad():
            for parameter in parameters:
                parameter -= 1e-4 * parameter.grad
    if MODE != "cleared first":
        for parameter in parameters:
            parameter.grad = None
    if MODE in ("marked", "cleared first"):
        stalloc.step()
    time.sleep(0.02)  # the planner works beside the steps
torch.cuda.synchronize()
after = counts()
print(json.dumps([b - a for a, b in zip(before, after)]))
"""


def served(mode):
    hits, misses, requests = gpu.child(f"MODE = {mode!r}\n{TRAIN}")
    assert hits >= 0.95 * requests, f"{hits} hits, {misses} misses of {requests} requests"
    return f"{hits} of {requests} requests in the last {COUNTED} steps are hits"


def check_steps_that_are_marked():
    return served("marked")


def check_steps_that_are_marked_while_gradients_live():
    return served("cleared first")


def check_steps_that_the_optimizer_tells():
    return served("optimizer")


def check_steps_that_nobody_tells():
    return served("unmarked")


gpu.run(globals())
