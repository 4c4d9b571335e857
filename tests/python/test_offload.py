"""Optimizer states that lend their memory, over the real PyTorch on the CPU."""

import copy

import pytest
from offload_kit import adam, closures, memory, model, stays_while_held, train
from stalloc import StallocWarning, Stats, _offload

__all__ = ["memory"]
pytestmark = pytest.mark.torch


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
    first = next(iter(net.parameters()))
    hold = {
        "state_dict": lambda: optimizer.state_dict(),
        "state": lambda: optimizer.state,
        "dictionary": lambda: optimizer.state[first],
        "tensor": lambda: optimizer.state[first]["exp_avg"],
        "view": lambda: optimizer.state[first]["exp_avg"][3:5],
    }[keep]
    stays_while_held(memory, net, optimizer, hold)


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
    with pytest.warns(StallocWarning, match="captured into a graph"):
        train(net, optimizer, 1)
    memory.capturing = False
    train(net, optimizer, 1)
    assert memory.calls[-1] == "begin"


def test_steps_inside_the_backward_pass_end_it(memory):
    net = model()
    optimizer = _offload.offload(adam(net))
    train(net, optimizer, 2)
    first = next(iter(net.parameters()))
    hook = first.register_post_accumulate_grad_hook(lambda _: optimizer.step())
    with pytest.warns(StallocWarning, match="inside the backward pass"):
        net(first.new_ones(4, 600)).sum().backward()
    hook.remove()
    assert memory.calls[-1] == "begin"
    train(net, optimizer, 1)
    assert memory.calls[-1] == "begin"


def test_closures(memory):
    net = model()
    expected = closures(net, adam(net), 4)
    net = model()
    optimizer = _offload.offload(adam(net))
    assert closures(net, optimizer, 4) == expected
    assert memory.calls == ["end", *["begin", "end"] * 3]


def test_statistics_say_what_is_away():
    text = str(Stats(asleep=3 << 30, backup=10 << 30))
    assert "away       3.00 GiB, 10.00 GiB of host memory kept" in text
    assert "away" not in str(Stats())
