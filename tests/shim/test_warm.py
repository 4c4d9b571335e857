"""A second start of a program plans the steps that the first one has left."""

from programs import DRIVER, ENGINE

# Trains a model, if EVALUATE is set with an evaluation every so many steps and a batch that grows.
# Every block is marked at both ends and looked at before it is freed. Writes the first step that
# was served by a plan, all but one in twenty of its requests, and the peaks of load and reserved
# memory.
TRAINING = """
sys.path.insert(0, os.environ["PACKAGE"])
from stalloc import _library
library = _library.Library(os.environ["SHIM"])
L.stalloc_step.argtypes = [ctypes.c_int]
count = 0

def stats():
    return library.stats(0)

class Block:
    def __init__(self, size):
        global count
        count += 1
        self.size, self.mark = size, count
        self.at = malloc(size)
        assert self.at, error()
        for end in self.ends():
            end.value = self.mark
    def ends(self):
        return [ctypes.c_uint64.from_address(self.at + i) for i in (0, self.size - 8)]
    def free(self):
        assert [end.value for end in self.ends()] == [self.mark] * 2, self.size
        free(self.at)

LAYERS, WIDTH = 12, 3 * MIB
weights = [Block(WIDTH) for layer in range(LAYERS)]
state = []

def forward(batch, training):
    kept = [Block(batch * 64 * 1024)]
    for layer in range(LAYERS):
        hidden, y = Block(batch * 192 * 1024 + 512 * layer), Block(batch * 64 * 1024)
        if training:
            kept += [hidden, y]
        else:
            hidden.free()
            kept.pop().free()
            kept.append(y)
    return kept

def train(batch):
    kept = forward(batch, True)
    gradients = []
    while kept:
        work = Block(batch * 96 * 1024 + 8192)
        if len(kept) % 2:
            gradients.append(Block(WIDTH))
        work.free()
        kept.pop().free()
    if not state:
        state.extend(Block(2 * WIDTH) for layer in range(LAYERS))
    for g in gradients:
        g.free()

evaluate = int(os.environ.get("EVALUATE", "0"))
first, before = "never", stats()
for step in range(int(os.environ["STEPS"])):
    train(8 if step < 20 or not evaluate else 12)
    if evaluate and step % evaluate == evaluate - 1:
        for block in forward(10, False):
            block.free()
    now = stats()
    hits, requests = now.hits - before.hits, now.requests - before.requests
    if first == "never" and hits > 0.95 * requests:
        first = step
    before = now
    assert L.stalloc_step(0) == 0
    while stats().native_steps <= step:  # the planner, which works beside the steps, reads this one
        time.sleep(0.001)
    time.sleep(0.03)  # and plans
print(first, before.peak_allocated, before.peak_reserved)
for block in state + weights:
    block.free()
"""


PLAN = """
def plan(what, path, device=0):
    call = getattr(L, f"stalloc_{what}_plan")
    call.argtypes = [ctypes.c_int, ctypes.c_char_p]
    assert call(device, str(path).encode()) == 0, error()
if os.path.exists(FILE): plan("load", FILE)
"""


def started(run, file, steps=40, evaluate=0):
    """A run that loads the plan in a file, if there is one, and saves its own."""
    conf = f"driver:{DRIVER},engine:{ENGINE}"
    text = f"FILE = {str(file)!r}\n" + PLAN + TRAINING + '\nplan("save", FILE)\n'
    out, _ = run(text, conf=conf, STEPS=str(steps), EVALUATE=str(evaluate))
    return [int(word) for word in out.split()]


def test_a_second_start_need_not_see_a_step_come_again(run, tmp_path):
    planned, _, first = started(run, tmp_path / "plan")
    for _ in range(2):
        again, load, reserved = started(run, tmp_path / "plan")
        assert again < planned
        assert reserved <= first
        assert reserved <= 1.005 * load + 2 * (4 << 20)


def test_a_second_start_with_steps_of_several_kinds(run, tmp_path):
    planned, _, first = started(run, tmp_path / "plan", evaluate=4)
    for _ in range(2):
        again, load, reserved = started(run, tmp_path / "plan", evaluate=4)
        assert again <= planned
        assert reserved <= first
        assert reserved <= 1.005 * load + 2 * (4 << 20)


def test_a_second_start_that_ends_early_takes_no_more(run, tmp_path):
    planned, load, _ = started(run, tmp_path / "plan")
    again, less, reserved = started(run, tmp_path / "plan", steps=5)
    assert again < planned
    assert less <= load
    assert reserved <= 1.005 * less + 2 * (4 << 20)
