"""What plans serve, by what marks the ends of steps, and by what is live there.

Steps that end after their gradients are freed repeat, and are served from a plan. Gradients that
stay live lie elsewhere in each step, around which no plan fits. Without marks nothing is planned.
The driver has hardly any part in these steps.
"""

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
    torch.cuda.synchronize()
    s = stalloc.stats()
    return s.hits, s.misses, s.requests, s.driver_ns, time.monotonic_ns()
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
after = counts()
print(json.dumps([b - a for a, b in zip(before, after)]))
"""


def served(mode):
    hits, misses, requests, driver, spent = gpu.child(f"MODE = {mode!r}\n{TRAIN}")
    words = f"{hits} hits, {misses} misses of {requests} requests in the last {COUNTED} steps"
    assert driver <= 0.005 * spent, f"the driver takes {driver / spent:.2%} of the time; {words}"
    return hits / requests, words


def check_steps_that_are_marked():
    share, words = served("marked")
    assert share >= 0.95, words
    return words


def check_steps_that_are_marked_while_gradients_live():
    return served("cleared first")[1]


def check_steps_that_the_optimizer_tells():
    return served("optimizer")[1]


def check_steps_that_nobody_tells():
    share, words = served("unmarked")
    assert share == 0, words
    return words


gpu.run(globals())
