"""Optimizer states that lend their memory, over the real PyTorch on the CPU."""

import copy

import pytest
from offload_kit import adam, closures, memory, model, train
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


class Masters:
    """A wrapper that steps fp32 copies of the weights, which it keeps itself, as Megatron's."""

    def __init__(self, net, step):
        self.net = net
        self.masters = [x.detach().clone().requires_grad_() for x in net.parameters()]
        self.optimizer = step(self.masters)

    def step(self):
        for x, master in zip(self.net.parameters(), self.masters):
            master.grad = x.grad.float()
        self.optimizer.step()
        for x, master in zip(self.net.parameters(), self.masters):
            x.data.copy_(master)

    def zero_grad(self):
        self.net.zero_grad()


def test_masters_outside_of_the_state_stay(memory):
    import torch

    def step(masters):
        return torch.optim.AdamW(masters, lr=0.01)

    net = model()
    expected = train(net, Masters(net, step))
    net = model()
    masters = Masters(net, step)
    assert train(net, _offload.offload(masters)) == expected
    assert len(memory.moved) == 2 and memory.calls[-1] == "end"
    assert masters.masters[0].isfinite().all()  # they are not away


def test_states_made_anew_in_each_step_end_it(memory):
    """LBFGS: the same losses, and a warning in place of a move in each step."""
    import torch

    def lbfgs(net):
        return torch.optim.LBFGS(net.parameters(), lr=0.1, max_iter=3, history_size=3)

    net = model()
    expected = closures(net, lbfgs(net), 8)
    net = model()
    optimizer = _offload.offload(lbfgs(net))
    with pytest.warns(StallocWarning, match="each step makes them anew"):
        assert closures(net, optimizer, 8) == expected
    assert len(memory.calls) < 2 * 8 and memory.calls[-1] == "begin"


def test_closures(memory):
    net = model()
    expected = closures(net, adam(net), 4)
    net = model()
    optimizer = _offload.offload(adam(net))
    assert closures(net, optimizer, 4) == expected
    assert memory.calls == ["end", *["begin", "end"] * 3]


def quantized(step, wrap):
    """An optimizer whose states have 8 bits and scales, as bitsandbytes' (wrap: as torchao's)."""
    import torch

    class Eight(torch.optim.Optimizer):
        def __init__(self, parameters):
            super().__init__(parameters, {})
            self.table = torch.linspace(-1, 1, 256)  # all states refer to it

        @torch.no_grad()
        def step(self):
            for x in self.param_groups[0]["params"]:
                state = self.state[x]
                if not state:
                    codes = torch.zeros(4 * x.numel(), dtype=torch.uint8)
                    state["codes"] = wrap(codes)
                    state["absmax"], state["table"] = torch.zeros(1), self.table
                codes = getattr(state["codes"], "codes", state["codes"])
                part = codes[: x.numel()]
                state["absmax"].copy_(x.grad.abs().max())
                part.copy_((x.grad.flatten() / state["absmax"] * 127 + 127).round())
                x -= step * (state["table"][part.long()] * state["absmax"]).view_as(x)

    return Eight


class Wrapped:
    """Built late: torch is not imported with this file."""

    @staticmethod
    def of(codes):
        import torch

        class Codes(torch.Tensor):
            @staticmethod
            def __new__(cls, codes):
                return torch.Tensor._make_wrapper_subclass(cls, codes.shape)

            def __init__(self, codes):
                self.codes = codes

            def __tensor_flatten__(self):
                return ["codes"], None

            @classmethod
            def __torch_dispatch__(cls, function, kinds, args=(), kwargs=None):
                raise AssertionError(f"{function} of a state")

        return Codes(codes)


@pytest.mark.parametrize("wrap", [lambda codes: codes, Wrapped.of])
def test_eight_bits_leave_and_scales_stay(memory, wrap):
    import torch

    net = model()
    expected = train(net, quantized(0.1, wrap)(net.parameters()))
    net = model()
    optimizer = _offload.offload(quantized(0.1, wrap)(net.parameters()))
    assert train(net, optimizer) == expected
    assert [x.dtype for x in memory.moved] == [torch.uint8]
    assert memory.calls[-1] == "end" and optimizer.table[0] == -1


def test_statistics_say_what_is_away():
    text = str(Stats(asleep=3 << 30, backup=10 << 30))
    assert "away       3.00 GiB, 10.00 GiB kept on the host" in text
    assert "away" not in str(Stats())


def accelerated(optimizer):
    """As accelerate wraps it: an Optimizer by its class, which never was one."""
    import torch

    class Accelerated(torch.optim.Optimizer):
        def __init__(self, optimizer):
            self.optimizer = optimizer

    return Accelerated(optimizer)


def test_wrappers_and_bad_input(memory):
    class Wrapper:
        def __init__(self, optimizer):
            self.optimizer = optimizer

    net = model()
    optimizer = adam(net)
    wrapper = Wrapper(Wrapper(optimizer))
    assert _offload.offload(wrapper) is wrapper and "_stalloc" in optimizer.__dict__
    optimizer = adam(net)
    alike = accelerated(Wrapper(optimizer))
    assert _offload.offload(alike) is alike and "_stalloc" in optimizer.__dict__
    assert isinstance(optimizer, type(adam(net))) and type(optimizer).__name__ == "AdamW"
    with pytest.raises(_offload.StallocError, match="got a Sequential"):
        _offload.offload(net)
    with pytest.raises(ValueError, match="'now': expected"):
        _offload.offload(optimizer, when="now")
    copied = copy.deepcopy(optimizer)
    assert copied.state is copied.__dict__["state"]
