"""Optimizer states that lend their memory, over the real PyTorch on the CPU and a double of the
library that overwrites what is away."""

import copy

import pytest
from stalloc import StallocWarning, _offload

pytestmark = pytest.mark.torch


class Memory:
    """The calls that offload() makes, in order; what is away is poisoned until it is back."""

    def __init__(self):
        self.calls, self.moved, self.saved = [], [], {}
        self.inside = None

    def begin_region(self, tag):
        self.inside = tag

    def end_region(self):
        self.inside = None

    def begin_awake(self, device, tag, stream):
        self.calls.append("begin")
        for tensor in self.moved:
            tensor.copy_(self.saved[tensor.data_ptr()])

    def end_awake(self, device, tag, stream, changed, always):
        self.calls.append("always" if always else "end")
        for tensor in self.moved:
            self.saved[tensor.data_ptr()] = tensor.clone()
            tensor.fill_(0xFF)


@pytest.fixture
def memory(monkeypatch):
    import torch

    memory = Memory()
    empty = torch.empty

    def allocate(*args, **kwargs):
        tensor = empty(*args, **kwargs)
        if memory.inside:
            memory.moved.append(tensor)
        return tensor

    monkeypatch.setattr(torch, "empty", allocate)
    monkeypatch.setattr(_offload._Offloaded, "kind", "cpu")
    monkeypatch.setattr(_offload, "_stream", lambda torch, device: 0)
    monkeypatch.setattr(_offload, "_capturing", lambda torch: memory.capturing)
    monkeypatch.setattr(_offload._session, "active", lambda: (torch, memory))
    # A storage that the double refers to as well has one more owner.
    uses = _offload._Offloaded._uses
    monkeypatch.setattr(
        _offload._Offloaded,
        "_uses",
        lambda self, x: uses(self, x) - any(x.data_ptr() == m.data_ptr() for m in memory.moved),
    )
    memory.capturing = False
    return memory


def model():
    import torch

    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(600, 600), torch.nn.Linear(600, 8))


def train(net, optimizer, steps=3):
    import torch

    losses = []
    for n in range(steps):
        x = torch.full((4, 600), 0.01 * (n + 1))
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def adam(net, **more):
    import torch

    return torch.optim.AdamW(net.parameters(), lr=0.01, **more)


@pytest.mark.parametrize("foreach", [True, False])
def test_same_bits_and_large_states_leave(memory, foreach):
    plain = model()
    expected = train(plain, adam(plain, foreach=foreach))
    net = model()
    optimizer = _offload.offload(adam(net, foreach=foreach))
    assert train(net, optimizer) == expected
    assert len(memory.moved) == 2  # the first layer's weights have two states above 1 MiB
    assert memory.calls == ["end", "begin", "end", "begin", "end"]


def test_reading_the_state_wakes_it(memory):
    net = model()
    optimizer = _offload.offload(adam(net), when="always")
    train(net, optimizer, 2)
    assert memory.calls[-1] == "always"
    first = next(iter(net.parameters()))
    assert optimizer.state[first]["exp_avg"].isfinite().all()
    assert memory.calls[-1] == "begin"
    train(net, optimizer, 1)
    assert memory.calls[-1] == "always"


@pytest.mark.parametrize("keep", ["state_dict", "state", "dictionary", "tensor", "view"])
def test_what_is_referenced_stays(memory, keep):
    net = model()
    optimizer = _offload.offload(adam(net))
    train(net, optimizer, 2)
    first = next(iter(net.parameters()))
    held = {
        "state_dict": lambda: optimizer.state_dict(),
        "state": lambda: optimizer.state,
        "dictionary": lambda: optimizer.state[first],
        "tensor": lambda: optimizer.state[first]["exp_avg"],
        "view": lambda: optimizer.state[first]["exp_avg"][3:5],
    }[keep]()
    with pytest.warns(StallocWarning, match="referenced from outside"):
        train(net, optimizer, 1)
    assert memory.calls[-1] == "begin"
    del held
    train(net, optimizer, 1)
    assert memory.calls[-1] == "end"


def test_loaded_states_leave_too(memory):
    net = model()
    optimizer = adam(net)
    train(net, optimizer, 2)
    saved = copy.deepcopy(optimizer.state_dict())
    expected = train(net, optimizer, 2)
    again = model()
    train(again, adam(again), 2)
    other = _offload.offload(adam(again))
    other.load_state_dict(saved)
    del saved  # which has the same tensors
    assert len(memory.moved) == 2
    assert train(again, other, 2) == expected
    assert memory.calls[-1] == "end"


def test_shared_with_others_stays(memory):
    """A state that is a view of a flat buffer of the program cannot move."""
    import torch

    net = model()
    optimizer = adam(net)
    train(net, optimizer, 1)
    first = next(iter(net.parameters()))
    flat = torch.zeros(2, 600, 600)
    optimizer.state[first]["exp_avg"] = flat[0]
    _offload.offload(optimizer)
    assert len(memory.moved) == 1
    flat[0].fill_(3)
    assert optimizer.state[first]["exp_avg"][5, 5] == 3


def test_captured_steps_end_it(memory):
    net = model()
    optimizer = _offload.offload(adam(net))
    train(net, optimizer, 2)
    memory.capturing = True
    train(net, optimizer, 1)
    memory.capturing = False
    train(net, optimizer, 1)
    assert memory.calls[-1] == "begin"


def test_wrappers_and_bad_input(memory):
    class Wrapper:
        def __init__(self, optimizer):
            self.optimizer = optimizer

    net = model()
    optimizer = adam(net)
    wrapper = Wrapper(Wrapper(optimizer))
    assert _offload.offload(wrapper) is wrapper and "_stalloc" in optimizer.__dict__
    assert isinstance(optimizer, type(adam(net))) and type(optimizer).__name__ == "AdamW"
    with pytest.raises(_offload.StallocError, match="got a Sequential"):
        _offload.offload(net)
    with pytest.raises(ValueError, match="'now': expected"):
        _offload.offload(optimizer, when="now")
    copied = copy.deepcopy(optimizer)
    assert copied.state is copied.__dict__["state"]
