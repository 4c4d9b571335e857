"""Every class of PyTorch part by part, and where parts, groups or tools are in each other's way."""

import copy
import functools
import sys
import warnings
import weakref

import pytest
from offload_kit import Memory, memory
from stalloc import StallocError, StallocWarning, _offload, _offload_part, _offload_step

__all__ = ["memory"]
pytestmark = pytest.mark.torch

CLASSES = ["Adam", "AdamW", "SGD", "RMSprop", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam",
           "ASGD", "Rprop", "Adafactor", "Muon", "SparseAdam"]  # fmt: skip
MORE = {"Adam": {"amsgrad": True, "maximize": True}, "SGD": {"momentum": 0.9, "nesterov": True},
        "RMSprop": {"momentum": 0.9, "centered": True}, "ASGD": {"t0": 1}}  # fmt: skip


@pytest.fixture
def parts(memory, monkeypatch):
    """A parameter of some KiB is a part of its own."""
    monkeypatch.setattr(_offload_step, "PART", 8 << 10)
    monkeypatch.setattr(_offload_part, "LEAST", 1 << 10)
    return memory


def squares(count=3):
    import torch

    torch.manual_seed(1)
    return [torch.randn(40, 40).requires_grad_() for _ in range(count)]


def stepped(optimizer, steps=1):
    import torch

    for _ in range(steps):
        for group in optimizer.param_groups:
            for x in group["params"]:
                x.grad = torch.ones_like(x)
        optimizer.step()
    return optimizer


def groups_of(name):
    """Groups of several dtypes, one of them empty."""
    import torch

    some = squares(5)
    if name != "Muon":  # which is for matrices
        some += [torch.randn(5).requires_grad_(), torch.randn(40, 9).double().requires_grad_()]
        some += [torch.randn(50, 50).bfloat16().requires_grad_()]
    return [{"params": some[:2]}, {"params": []}, {"params": some[2:], "lr": 0.02}], some


def results(name, options, offload):
    """Weights and states after steps in which some parameters have no gradient."""
    import torch

    groups, parameters = groups_of(name)
    optimizer = offload(getattr(torch.optim, name)(groups, **options))
    random = torch.Generator().manual_seed(5)
    for step in range(5):
        for i, x in enumerate(parameters):
            grad = torch.randn(x.shape, generator=random).to(x.dtype)
            grad = grad.to_sparse() if name == "SparseAdam" else grad
            x.grad = None if step and (i + step) % 5 == 0 else grad
        parameters[1].requires_grad_(step < 3)  # it is frozen
        optimizer.step()
    states = sorted(optimizer.state_dict()["state"].items())
    return parameters, [x for _, each in states for x in each.items()]


@pytest.mark.parametrize("mode", [{"foreach": False}, {"foreach": True}, {"fused": True}])
@pytest.mark.parametrize("name", CLASSES)
def test_each_class_has_the_same_bits(parts, name, mode):
    import torch

    options = MORE.get(name, {}) | mode
    try:
        getattr(torch.optim, name)(squares(1), **options)
    except (AttributeError, TypeError):
        pytest.skip(f"PyTorch has no {name} with {mode}")
    expected, known = results(name, options, lambda optimizer: optimizer)
    offload = functools.partial(_offload.offload, when="always")
    weights, states = results(name, options, offload)
    assert all(x.equal(y) for x, y in zip(weights, expected))
    assert [key for key, _ in states] == [key for key, _ in known]
    for (_, x), (_, y) in zip(states, known):
        assert x.equal(y) if torch.is_tensor(x) else x == y


def test_parts_of_a_group_loop_where_the_group_does(parts, monkeypatch):
    """One parameter that foreach does not support: the bits of a loop for all of its group."""
    import torch

    class Other(torch.Tensor):
        pass

    common = sys.modules[torch.optim.Optimizer.__module__]
    monkeypatch.setattr(common, "_get_foreach_kernels_supported_devices", lambda: ["cpu"])
    module, calls = sys.modules[torch.optim.Adam.__module__], []
    many = module._multi_tensor_adam
    monkeypatch.setattr(
        module, "_multi_tensor_adam", lambda *x, **more: (calls.append(1), many(*x, **more))
    )
    mixed = [*squares(2), torch.randn(40, 40).as_subclass(Other).requires_grad_()]
    optimizer = _offload.offload(torch.optim.Adam(mixed), when="always")
    stepped(optimizer, 2)
    assert not calls and optimizer.param_groups[0]["foreach"] is None
    stepped(_offload.offload(torch.optim.Adam(squares()), when="always"))
    assert len(calls) == 3


def test_warnings_that_are_errors_come_after_the_step(parts, monkeypatch):
    import torch

    weights = squares()
    optimizer = stepped(_offload.offload(torch.optim.AdamW(weights), when="always"))

    def refuse(self, *_):
        raise StallocError("no event")

    monkeypatch.setattr(Memory, "end_awake", refuse)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(StallocWarning, match="no event"):
            stepped(optimizer)
    assert [int(optimizer.state[x]["step"]) for x in weights] == [2, 2, 2]


def test_the_last_region_that_closes_is_told(parts):
    """Others leave with it, also where states of the last part are referenced and stay."""
    import torch

    weights = squares()
    optimizer = stepped(_offload.offload(torch.optim.AdamW(weights)))
    held = optimizer.state[weights[2]]
    for parts.stays in (True, False):
        parts.more.clear()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StallocWarning)
            stepped(optimizer, 2)
        assert parts.more == [True, False] * 2
    del held


def test_a_tool_that_wraps_the_class(parts):
    """Its step has hooks inside: they see all parameters, once a step."""
    import torch

    class Traced(torch.optim.AdamW):
        pass

    optimizer = Traced(squares())
    step = Traced.step
    Traced.step = functools.wraps(step)(lambda self, *x, **more: step(self, *x, **more))
    seen = []
    optimizer.register_step_post_hook(lambda o, *_: seen.append(len(o.param_groups[0]["params"])))
    stepped(_offload.offload(optimizer, when="always"), 3)
    assert seen == [3, 3, 3]
    assert parts.calls == ["always", *["begin", "always"] * 2]


def test_loading_by_parts_after_a_failed_load(parts, monkeypatch):
    """What was loaded until memory ran out is gone before; groups that are new are loaded, too."""
    import torch

    weights = squares()
    groups = [{"params": weights[:2]}, {"params": weights[2:]}]
    saved = copy.deepcopy(stepped(torch.optim.AdamW(groups), 3).state_dict())
    optimizer = stepped(_offload.offload(torch.optim.AdamW(weights[:2]), when="always"))
    optimizer.add_param_group({"params": weights[2:]})
    cast = torch.optim.Optimizer._process_value_according_to_param_policy
    made, alive = [], []

    def loaded(*args, **more):
        if len(made) == 7 and not alive:
            alive.append(None)
            raise torch.OutOfMemoryError
        if len(alive) == 1:
            alive.append(sum(tensor() is not None for tensor in made))
        new = cast(*args, **more).clone()
        made.append(weakref.ref(new))
        return new

    monkeypatch.setattr(torch.optim.Optimizer, "_process_value_according_to_param_policy", loaded)
    optimizer.load_state_dict(saved)
    assert alive == [None, 0]
    assert [int(optimizer.state[x]["step"]) for x in weights] == [3, 3, 3]
