"""Random programs with an offloaded optimizer beside one that is not: the same bits, whatever the
programs do to groups and states, hold or load, and however many regions fit on the device."""

import copy
import random
import warnings

import pytest
from offload_kit import memory
from stalloc import StallocError, StallocWarning, _offload, _offload_part, _offload_step

__all__ = ["memory"]
pytestmark = pytest.mark.torch

KINDS = [("AdamW", {"amsgrad": True}), ("AdamW", {"fused": True}), ("Adam", {"foreach": True}),
         ("SGD", {"momentum": 0.9}), ("RMSprop", {"momentum": 0.9}), ("NAdam", {}),
         ("Adafactor", {})]  # fmt: skip
ACTS = ["step"] * 8 + ["some", "closure", "read", "hold", "drop", "save", "load", "add", "remove",
                       "lr", "copy", "exchange", "fail"]  # fmt: skip


class Full:
    """A device on which so many regions can be awake; now and then it refuses one."""

    def __init__(self, double, monkeypatch, most):
        self.double, self.most, self.fails = double, most, False
        self.begin, self.awake = double.begin_awake, set()
        self.end = double.end_awake
        monkeypatch.setattr(double, "begin_awake", self.begin_awake)
        monkeypatch.setattr(double, "end_awake", self.end_awake)

    def begin_awake(self, device, tag, stream):
        if tag not in self.awake and (len(self.awake) >= self.most or self.fails):
            self.fails = False
            raise StallocError("full")
        self.begin(device, tag, stream)
        self.awake.add(tag)

    def end_awake(self, device, tag, *how):
        self.end(device, tag, *how)
        self.awake -= self.double.away


class Program:
    """Two optimizers of the same class with equal parameters."""

    def __init__(self, seed, full):
        import torch

        self.torch, self.seed, self.full = torch, seed, full
        self.random, self.acts = random.Random(seed), []
        kind, self.options = self.random.choice(KINDS)
        self.kind = getattr(torch.optim, kind)
        self.sides = [self.squares(4) for _ in range(2)]
        self.optimizers = [self.kind(x, lr=0.01, **self.options) for x in self.sides]
        _offload.offload(self.optimizers[1], when=self.random.choice(["always", "short"]))
        self.held, self.saved = [], []
        self.fits = full.most > 99  # all states do

    def squares(self, count):
        torch = self.torch
        torch.manual_seed(self.seed + 100 * len(self.acts))
        return [torch.randn(40, 40).requires_grad_() for _ in range(count)]

    def act(self):
        self.acts.append(self.random.choice(ACTS))
        getattr(self, self.acts[-1])()
        for x, y in zip(*self.sides):
            assert self.torch.equal(x, y)
        for state, then in self.held:  # poisoned, if it is away
            for tensor, value in zip(state, then):
                assert tensor.isfinite().all() and (tensor.shape == value)

    def step(self, without=None, closure=None):
        generator = self.torch.Generator().manual_seed(self.seed + len(self.acts))
        for i, pair in enumerate(zip(*self.sides)):
            grad = self.torch.randn(40, 40, generator=generator)
            for x in pair:
                x.grad = None if i == without else grad.clone()
        self.optimizers[0].step(closure)
        for _ in range(20):
            try:
                return self.optimizers[1].step(closure)
            except StallocError:
                pass  # called again, it finishes the step
        raise AssertionError("the step never ends")

    def some(self):
        self.step(without=self.random.randrange(len(self.sides[0])))

    def closure(self):
        assert self.step(closure=lambda: 3.0) == 3.0

    def fail(self):
        self.full.fails = self.fits and bool(self.random.randrange(2))

    def whole(self, act):
        """Does what needs all states, if they fit."""
        if self.fits:
            self.full.fails = False
            act(self.optimizers[1])

    def read(self):
        self.whole(lambda optimizer: len(optimizer.state))

    def hold(self):
        def hold(optimizer):
            tensors = [x for state in optimizer.state.values() for x in state.values()]
            tensors = [x for x in tensors if self.torch.is_tensor(x)]
            some = self.random.sample(tensors, min(2, len(tensors)))
            self.held.append((some, [x.shape for x in some]))

        self.whole(hold)

    def drop(self):
        self.held.clear()

    def copy(self):
        self.whole(lambda optimizer: copy.deepcopy(optimizer).zero_grad())

    def shape(self):
        return [len(group["params"]) for group in self.optimizers[0].param_groups]

    def save(self):
        self.full.fails = False
        both = [copy.deepcopy(optimizer.state_dict()) for optimizer in self.optimizers]
        assert both[0]["param_groups"] == both[1]["param_groups"]
        assert both[0]["state"].keys() == both[1]["state"].keys()
        for number, state in both[0]["state"].items():
            for name, value in state.items():
                other = both[1]["state"][number][name]
                assert self.torch.equal(self.torch.as_tensor(value), self.torch.as_tensor(other))
        self.saved.append((self.shape(), both))

    def load(self):
        self.full.fails = False
        fitting = [both for shape, both in self.saved if shape == self.shape()]
        for optimizer, saved in zip(self.optimizers, fitting[-1] if fitting else ()):
            optimizer.load_state_dict(copy.deepcopy(saved))

    def add(self):
        for x, optimizer in zip(self.sides, self.optimizers):
            new = self.squares(2)
            optimizer.add_param_group({"params": new, "lr": 0.02})
            x += new

    def remove(self):
        if len(self.sides[0]) > 4:
            for x, optimizer in zip(self.sides, self.optimizers):
                group = optimizer.param_groups.pop()
                for old in group["params"]:
                    optimizer.__dict__["state"].pop(old, None)
                del x[-len(group["params"]) :]

    def lr(self):
        for optimizer in self.optimizers:
            optimizer.param_groups[0]["lr"] *= 0.9

    def exchange(self):
        """A parameter becomes another tensor, with the same state."""
        which = self.random.randrange(4)
        for x, optimizer in zip(self.sides, self.optimizers) if self.fits else ():
            self.full.fails = False
            old, new = x[which], x[which].detach().clone().requires_grad_()
            optimizer.param_groups[0]["params"][which] = x[which] = new
            if old in optimizer.state:
                optimizer.state[new] = optimizer.state.pop(old)


@pytest.mark.parametrize("most", [100, 2, 1])
def test_random_programs(memory, monkeypatch, most):
    import torch

    monkeypatch.setattr(_offload_step, "PART", 8 << 10)  # a parameter is a part of its own
    monkeypatch.setattr(_offload_part, "LEAST", 1 << 10)
    cast = torch.optim.Optimizer._process_value_according_to_param_policy
    monkeypatch.setattr(  # as from the host to the device
        torch.optim.Optimizer,
        "_process_value_according_to_param_policy",
        lambda *args, **kwargs: cast(*args, **kwargs).clone(),
    )
    for seed in range(40):
        with monkeypatch.context() as patch, warnings.catch_warnings():
            warnings.simplefilter("ignore", StallocWarning)
            memory.__init__()
            program = Program(seed, Full(memory, patch, most))
            try:
                for _ in range(40):
                    program.act()
            except Exception as error:
                raise AssertionError(f"seed {seed}, {program.kind}: {program.acts}") from error
