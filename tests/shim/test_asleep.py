"""Memory that sleeps, as a program sees it: over the real libraries and the simulated driver."""

import pytest
from training import Training

PROGRAM = """
import ctypes, types
import stalloc, torch

stalloc.enable(native=False)
torch.start_cuda()
MIB = 1 << 20

def tensor(size, value):
    at = torch.malloc(size)
    ctypes.memset(at, value, size)
    return types.SimpleNamespace(at=at, size=size, value=value)

def holds(t):
    return ctypes.string_at(t.at, t.size) == bytes([t.value]) * t.size

def drop(t):
    torch.free(t.at, t.size)

with stalloc.region("weights"):
    weights = [tensor(5 * MIB + n, n) for n in range(1, 5)]
rest = [tensor(3 * MIB + n, 9 * n) for n in range(1, 9)]
for t in rest[::2]:
    drop(t)
rest = rest[1::2]
"""

ALL = """
before = stalloc.stats()
for _ in range(20):
    asleep = stalloc.pause()
    s = stalloc.stats()
    assert asleep == s.asleep == before.reserved and s.reserved == 0, s
    assert s.backup == s.allocated == before.allocated, s
    assert not torch.malloc(700), "a request was served of what sleeps"
    stalloc.step()
    stalloc.resume()
    assert all(map(holds, weights + rest))
    assert stalloc.stats().reserved == before.reserved
print("same")
"""

SOME = """
held = stalloc.stats().reserved
asleep = stalloc.pause("weights", "discard")
assert 20 * MIB <= asleep < held and stalloc.stats().reserved == held - asleep
assert all(map(holds, rest))
drop(weights.pop())
rest.append(tensor(7 * MIB, 77))
stalloc.resume("weights")
for t in weights:
    ctypes.memset(t.at, t.value, t.size)
assert all(map(holds, weights + rest))
try:
    stalloc.pause("wieghts")
except stalloc.StallocError as error:
    assert "known are: weights" in str(error), error
waste = stalloc.stats().reserved - stalloc.stats().allocated
print("some", waste)
"""


@pytest.fixture(scope="module")
def training(tmp_path_factory):
    return Training(tmp_path_factory.mktemp("sleep"))


@pytest.mark.parametrize(("text", "said"), [(ALL, "same"), (SOME, "some")])
def test_sleep(training, text, said):
    out, _ = training.start("-c", PROGRAM + text)
    assert said in out
