"""offload() of other optimizers than PyTorch's own classes, and of wrappers around them."""

import copy

import pytest
from offload_kit import adam, closures, memory, model, train
from stalloc import StallocWarning, _offload

__all__ = ["memory"]
pytestmark = pytest.mark.torch


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
    with pytest.warns(StallocWarning, match="makes new states in each step"):
        assert closures(net, optimizer, 8) == expected
    assert len(memory.calls) < 2 * 8 and memory.calls[-1] == "begin"


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


def test_sparse_states_stay(memory):
    """They have no storage of their own: SGD's momentum of an embedding's sparse gradients."""
    import torch

    def run(offload):
        torch.manual_seed(1)
        net = torch.nn.Embedding(5000, 64, sparse=True)
        optimizer = offload(torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9))
        for n in range(3):
            net(torch.arange(4500) + n).square().sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        return net.weight

    assert run(_offload.offload).equal(run(lambda optimizer: optimizer))
    assert not memory.calls


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


class Forwards:
    """As Lightning wraps it: what it does not have itself, the optimizer's hooks among it, it
    forwards."""

    def __init__(self, optimizer):
        self._optimizer = optimizer

    @property
    def optimizer(self):
        return self._optimizer

    def __getattr__(self, name):
        return getattr(self._optimizer, name)


def sharded(kind, net):
    """PyTorch's wrappers of optimizers, on one rank."""
    import torch
    from torch.distributed import optim

    if kind == "ZeroRedundancyOptimizer":
        return optim.ZeroRedundancyOptimizer(net.parameters(), torch.optim.AdamW, lr=0.01)
    averager = torch.distributed.algorithms.model_averaging.averagers.PeriodicModelAverager(2)
    return optim.PostLocalSGDOptimizer(adam(net), averager)


@pytest.mark.parametrize("kind", ["Forwards", "ZeroRedundancyOptimizer", "PostLocalSGDOptimizer"])
def test_the_optimizer_inside_is_found(memory, kind, tmp_path):
    import torch

    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1
    )
    try:
        results = []
        for offload in (lambda optimizer: optimizer, _offload.offload):
            net = model()
            wrapped = Forwards(adam(net)) if kind == "Forwards" else sharded(kind, net)
            assert offload(wrapped) is wrapped
            results.append(train(net, wrapped))
    finally:
        torch.distributed.destroy_process_group()
    assert results[0] == results[1]
    assert len(memory.moved) == 2 and memory.calls == ["end", "begin", "end", "begin", "end"]
