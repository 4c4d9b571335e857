"""Steps of some parameters after the other, over the real PyTorch on the CPU."""

import copy

import pytest
from offload_kit import adam, closures, memory, train
from stalloc import StallocError, StallocWarning, _offload, _offload_step

__all__ = ["memory"]
pytestmark = pytest.mark.torch


@pytest.fixture
def parts(memory, monkeypatch):
    """Each layer of the model is a part of its own."""
    monkeypatch.setattr(_offload_step, "PART", 4 << 20)
    return memory


def deep(depth=4):
    import torch

    torch.manual_seed(1)
    layers = [torch.nn.Linear(800, 800) for _ in range(depth - 1)]
    return torch.nn.Sequential(torch.nn.Linear(600, 800), *layers)


def optimizers():
    import torch

    made = {
        "AdamW": lambda x: torch.optim.AdamW(x, lr=0.01),
        "AdamW, in a loop": lambda x: torch.optim.AdamW(x, lr=0.01, foreach=False, amsgrad=True),
        "SGD": lambda x: torch.optim.SGD(x, lr=0.01, momentum=0.9),
        "Adagrad": lambda x: torch.optim.Adagrad(x, lr=0.01),
        "NAdam": lambda x: torch.optim.NAdam(x, lr=0.01),
        "ASGD": lambda x: torch.optim.ASGD(x, lr=0.01),
        "Rprop": lambda x: torch.optim.Rprop(x, lr=0.01),
        "Adafactor": lambda x: torch.optim.Adafactor(x, lr=0.01),
    }
    return {name: make for name, make in made.items() if hasattr(torch.optim, name.split(",")[0])}


@pytest.mark.parametrize("name", ["AdamW", "AdamW, in a loop", "SGD", "Adagrad", "NAdam", "ASGD",
                                  "Rprop", "Adafactor"])  # fmt: skip
def test_part_by_part(parts, name):
    """The same bits, though never more than one part of the states is there."""
    make = optimizers()[name]
    plain = deep()
    expected = train(plain, make(plain.parameters()), 4)
    net = deep()
    optimizer = _offload.offload(make(net.parameters()), when="always")
    assert train(net, optimizer, 4) == expected
    for x, y in zip(plain.parameters(), net.parameters()):
        assert x.equal(y)
    if name != "Adafactor":  # whose states are small
        assert len(parts.regions) == 4
        assert parts.calls[-24:] == ["begin", "always"] * 12
        assert parts.more[-4:] == [True, True, True, False]


def test_one_step_where_all_is_there(parts):
    """The same bits, and each part is woken once, before the step."""
    plain, net = deep(), deep()
    other, optimizer = adam(plain), _offload.offload(adam(net))
    assert train(net, optimizer, 1) == train(plain, other, 1)
    parts.stays = True
    parts.calls.clear()
    assert train(net, optimizer, 3) == train(plain, other, 3)
    assert parts.calls == (["begin"] * 4 + ["end"] * 4) * 3


def test_hooks_schedulers_and_closures_see_one_step(parts):
    import torch

    net = deep()
    seen = []
    optimizer = _offload.offload(adam(net))
    optimizer.register_step_pre_hook(
        lambda o, a, k: seen.append(sum(len(g["params"]) for g in o.param_groups))
    )
    optimizer.register_step_post_hook(lambda *_: seen.append("after"))
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    closures(net, optimizer, 2)
    scheduler.step()
    assert seen == [8, "after"] * 2
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.001)


@pytest.mark.filterwarnings("error::UserWarning")
def test_under_a_scheduler_of_before(parts):
    """As in Trainer, which makes it before training begins."""
    import torch

    def run(offload):
        net = deep()
        optimizer = adam(net)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
        if offload:
            _offload.offload(optimizer, when="always")
        losses = []
        for _ in range(3):
            losses += train(net, optimizer, 1)
            scheduler.step()
        return losses

    assert run(True) == run(False)
    assert parts.calls == ["always"] * 4 + ["begin", "always"] * 8


def test_groups_and_later_parameters(parts):
    """Parts go across groups; what is added later gets a part of its own."""
    import torch

    def run(offload):
        net, more = deep(), torch.nn.Linear(800, 800)
        groups = [{"params": net[0].parameters()}, {"params": net[1:].parameters(), "lr": 0.02}]
        optimizer = torch.optim.AdamW(groups, lr=0.01)
        if offload:
            _offload.offload(optimizer, when="always")
        losses = train(net, optimizer, 2)
        optimizer.add_param_group({"params": more.parameters(), "lr": 0.03})
        losses += train(torch.nn.Sequential(net, more), optimizer, 2)
        return losses, optimizer.state_dict()["state"]

    (losses, state), (expected, of) = run(True), run(False)
    assert losses == expected and len(parts.regions) == 5
    for number, values in of.items():
        assert all(torch.equal(values[name], state[number][name]) for name in values)


def test_states_without_a_group_stay_away(parts):
    """As of layers that are frozen from some step on: nothing of theirs is updated."""
    import torch

    net = deep()
    groups = [{"params": layer.parameters()} for layer in net]
    optimizer = _offload.offload(torch.optim.AdamW(groups, lr=0.01), when="always")
    train(net, optimizer, 2)
    del optimizer.param_groups[1]
    before = parts.calls.count("begin")
    train(net, optimizer, 2)
    assert parts.calls.count("begin") == before + 2 * 3


def test_what_is_referenced_stays_of_one_part(parts):
    net = deep()
    optimizer = _offload.offload(adam(net), when="always")
    train(net, optimizer, 2)
    held = optimizer.state[net[1].weight]
    with pytest.warns(StallocWarning, match="referenced from outside"):
        train(net, optimizer, 1)
    parts.calls.clear()
    train(net, optimizer, 1)
    assert parts.calls == ["begin", "always"] * 3
    assert parts.more[-3:] == [True, True, False]
    del held
    train(net, optimizer, 1)
    assert parts.calls.count("always") == 3 + 4
    held = optimizer.state[net[3].weight]  # of the last part
    train(net, optimizer, 2)
    assert parts.more[-3:] == [True, True, False]
    del held


class Room:
    """A device on which one region can be awake, and on which the `loads`-th state does not fit."""

    def __init__(self, parts, monkeypatch):
        import torch

        self.awake, self.begin, self.end = set(), parts.begin_awake, parts.end_awake
        monkeypatch.setattr(parts, "begin_awake", self.begin_awake)
        monkeypatch.setattr(parts, "end_awake", self.end_awake)
        cast = torch.optim.Optimizer._process_value_according_to_param_policy

        def loaded(*args, **kwargs):
            self.loads -= 1
            if self.loads in (0, self.again):
                raise torch.OutOfMemoryError
            return cast(*args, **kwargs).clone()  # as from the host to the device

        self.loads = self.again = 0
        monkeypatch.setattr(
            torch.optim.Optimizer, "_process_value_according_to_param_policy", loaded
        )

    def begin_awake(self, device, tag, stream):
        if self.awake:
            raise StallocError("stalloc: it stays on the host: out of memory")
        self.awake.add(tag)
        self.begin(device, tag, stream)

    def end_awake(self, device, tag, stream, changed, always, more):
        self.awake.discard(tag)
        self.end(device, tag, stream, changed, always, more)


def test_states_that_do_not_fit_are_saved_and_loaded(parts, monkeypatch):
    """state_dict() has them on the host; load_state_dict() loads one part after the other."""
    import torch

    plain, net = deep(), deep()
    reference, optimizer = adam(plain), _offload.offload(adam(net), when="always")
    train(plain, reference, 2)
    train(net, optimizer, 2)
    room = Room(parts, monkeypatch)
    parts.changed.clear()
    saved, of = optimizer.state_dict(), reference.state_dict()
    assert parts.changed == [False] * 5  # the first was awake for a read of all, and left again
    assert saved["param_groups"] == of["param_groups"]
    assert saved["state"].keys() == of["state"].keys()
    for number, values in of["state"].items():
        assert all(torch.equal(values[name], saved["state"][number][name]) for name in values)
    assert not room.awake
    expected = train(plain, reference, 2)
    assert train(net, optimizer, 2) == expected
    again = deep()
    train(again, adam(again), 2)
    other = _offload.offload(adam(again), when="always")
    room.loads = 9
    other.load_state_dict(saved)
    assert room.loads < 0
    assert train(again, other, 2) == expected
    assert not room.awake


def test_states_that_are_loaded_in_part_say_so(parts, monkeypatch):
    """Steps that follow would begin the missing states with zeros."""
    net = deep()
    optimizer = _offload.offload(adam(net), when="always")
    train(net, optimizer, 2)
    saved = copy.deepcopy(optimizer.state_dict())
    room = Room(parts, monkeypatch)
    room.loads, room.again = 9, -9
    with pytest.raises(StallocError, match="states are lost: 1 of 4 .* again"):
        optimizer.load_state_dict(saved)
    optimizer.load_state_dict(saved)
    assert len(optimizer.__dict__["state"]) == 8


@pytest.mark.parametrize("name", ["AdamW", "SGD"])
def test_states_are_loaded_while_others_are_away(parts, monkeypatch, name):
    """As when a program goes back to a checkpoint, and old states do not fit beside new ones."""
    import torch

    def made(net):
        return getattr(torch.optim, name)(net.parameters(), lr=0.01, **momentum)

    momentum = {"momentum": 0.9} if name == "SGD" else {}
    plain, net = deep(), deep()
    reference, optimizer = made(plain), _offload.offload(made(net), when="always")
    train(plain, reference, 2)
    train(net, optimizer, 2)
    saved = copy.deepcopy((net.state_dict(), optimizer.state_dict()))
    train(net, optimizer, 1)
    Room(parts, monkeypatch)
    net.load_state_dict(saved[0])
    optimizer.load_state_dict(saved[1])
    del saved
    assert train(net, optimizer, 2) == train(plain, reference, 2)


def test_a_read_that_fails_leaves_room(parts, monkeypatch):
    """What came back for it leaves again: a forward pass may need its memory."""
    net = deep()
    optimizer = _offload.offload(adam(net), when="always")
    train(net, optimizer, 2)
    room = Room(parts, monkeypatch)
    parts.changed.clear()
    with pytest.raises(StallocError, match="stays on the host"):
        _ = optimizer.state
    assert not room.awake and "begin" in parts.calls
    assert parts.changed == [False]  # so it is not copied again
