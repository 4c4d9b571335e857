"""Saved tensors that move, where memory or what is saved is not as usual."""

import contextlib
import importlib.util

import pytest

if importlib.util.find_spec("torch") is not None:
    import torch
    from slow_link import Meter
    from test_activations import MIB, offloading, train

pytestmark = pytest.mark.torch


def test_memory_that_is_short_in_a_backward_pass_loses_nothing():
    """The next pass over the same graph brings back what could not come."""
    with offloading(2 * MIB, always=True, polls=1) as (offloader, hooks, _):
        x = torch.ones(1 << 19, requires_grad=True)
        (x * 2).sin().sin().sum().backward()
        expected, x.grad = x.grad, None
        with hooks():
            loss = (x * 2).sin().sin().sum()
        back, short = offloader._link.back, [True]

        def refuse(source):
            if short[0]:
                raise torch.cuda.OutOfMemoryError("short")
            return back(source)

        offloader._link.back = refuse
        with pytest.raises(torch.cuda.OutOfMemoryError):
            loss.backward(retain_graph=True)
        short[0], x.grad = False, None
        loss.backward()
        assert torch.equal(x.grad, expected)


def test_steps_that_are_short_of_memory_are_planned():
    """Something else is short in each step. The limit falls as long as more can leave by it."""
    with Meter() as meter:
        before, *_ = train(4, contextlib.nullcontext, meter)
    with offloading(before[-1] - 16 * MIB) as (offloader, hooks, meter):
        retries = iter(range(99))
        offloader._link.retries = lambda: next(retries)
        limits = []

        def settle():
            offloader.kinds.settle()
            limits.append(offloader.kinds.limit)

        train(22, hooks, meter, settle)
        assert limits[1] == before[-1] - 16 * MIB > limits[-1] == limits[-6]
        assert offloader.counts()["planned"] >= 6
