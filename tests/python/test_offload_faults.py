"""Offloaded optimizers that are copied and pickled, and what happens where something fails."""

import copy
import io

import pytest
from offload_kit import Memory, adam, closures, memory, model, offloaded, train
from stalloc import StallocError, StallocWarning, _lend, _offload, _offload_step

__all__ = ["memory"]
pytestmark = pytest.mark.torch


def saved(both):
    import torch

    file = io.BytesIO()
    torch.save(both, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


@pytest.mark.parametrize("again", [copy.deepcopy, saved])
def test_copies_are_optimizers_like_any_other(memory, again):
    import torch

    net = model()
    optimizer = _offload.offload(adam(net))
    train(net, optimizer, 2)
    other_net, other = again((net, optimizer))
    assert type(other) is torch.optim.AdamW
    expected = train(net, optimizer, 2)
    assert train(other_net, other, 2) == expected
    expected = train(net, optimizer, 2)
    assert train(other_net, _offload.offload(other), 2) == expected
    assert memory.calls[-1] == "end" and len(memory.moved) == 4


def test_states_stay_where_there_is_no_memory_to_move_them(memory, monkeypatch):
    import torch

    net = model()
    expected = train(net, adam(net))
    net = model()
    optimizer = _offload.offload(adam(net))
    empty, tries = torch.empty, []

    def full(*args, **kwargs):
        if memory.inside:
            tries.append(args)
            if len(tries) == 2:
                raise torch.cuda.OutOfMemoryError("full")
        return empty(*args, **kwargs)

    monkeypatch.setattr(torch, "empty", full)
    assert train(net, optimizer) == expected
    assert len(memory.moved) == 2  # the second state moved a step later


def test_states_stay_where_they_cannot_be_lent(memory, monkeypatch):
    net, optimizer, expected = offloaded()

    def refuse(self, *_):
        raise StallocError("no event")

    with monkeypatch.context() as patch:
        patch.setattr(Memory, "end_awake", refuse)
        with pytest.warns(StallocWarning, match="until the next step: no event"):
            losses = train(net, optimizer, 1)
    assert memory.calls == []
    for step in range(1, 4):
        losses += train_once(net, optimizer, step)
    assert losses == expected
    assert memory.calls == ["end", *["begin", "end"] * 2]


def test_an_end_that_fails_ends_the_use(memory, monkeypatch):
    """Then the next step, on another stream, does not close the region while it uses it."""
    net, optimizer, expected = offloaded()
    losses = train(net, optimizer, 1)

    def refuse(self, device, tag, *_):
        self.uses[tag] = 0
        raise StallocError("no event")

    with monkeypatch.context() as patch:
        patch.setattr(Memory, "end_awake", refuse)
        with pytest.warns(StallocWarning, match="until the next step: no event"):
            losses += train_once(net, optimizer, 1)
    monkeypatch.setattr(_lend, "current_stream", lambda torch, device: 7)
    losses += train(net, optimizer, 4, 2)
    assert losses == expected
    assert memory.calls == ["end", *["begin", "end"] * 2]


def train_once(net, optimizer, n):
    """Step n of train()."""
    import torch

    loss = net(torch.full((4, 600), 0.01 * (n + 1))).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return [loss.item()]


def test_each_device_is_opened_once(memory, monkeypatch):
    """Where the second of two devices has no memory, the first is open, and stays so."""
    net = model()
    optimizer = _offload.offload(adam(net))
    train(net, optimizer, 1)
    part, opened = optimizer._stalloc.parts[0], []
    part.devices, part.away = {0, 1}, {0, 1}

    def begin(self, device, tag, stream):
        opened.append(device)
        if opened == [0, 1]:
            raise StallocError("full")

    monkeypatch.setattr(Memory, "begin_awake", begin)
    with pytest.raises(StallocError, match="full"):
        part.wake()
    part.wake()
    assert opened == [0, 1, 1]


def regroup(optimizer, parameters):
    """Groups may change between steps: a part of the model is frozen, and thawed later."""
    group = optimizer.param_groups[0]["params"]
    group.append(group.pop(0))
    yield
    frozen = group.pop(2)
    yield
    yield
    group.append(frozen)
    yield
    new = parameters[0].detach().clone().requires_grad_()  # as where modules are converted
    parameters[0].grad = None
    group[2] = new
    optimizer.state[new] = optimizer.state.pop(parameters[0])
    parameters[0] = new
    yield


def test_states_of_a_parameter_that_moves_are_found(memory, monkeypatch):
    import torch

    monkeypatch.setattr(_offload_step, "PART", 1 << 20)

    def results(offload):
        torch.manual_seed(1)
        parameters = [torch.randn(600, 600).requires_grad_() for _ in range(4)]
        optimizer = offload(torch.optim.AdamW(parameters, lr=0.01))
        changes = regroup(optimizer, parameters)
        for step in range(8):
            sum(((x - step) ** 2).sum() for x in parameters).backward()
            optimizer.step()
            optimizer.zero_grad()
            next(changes, None)
        states = [optimizer.state[x]["exp_avg"] for x in parameters]
        return [x.detach().clone() for x in (*parameters, *states)]

    expected = results(lambda optimizer: optimizer)
    for one, other in zip(results(_offload.offload), expected):
        assert torch.equal(one, other)


def test_states_may_come_later(memory):
    """As of experts that no token has been sent to yet: they come in place of none."""
    import torch

    experts = [torch.zeros(600, 600).requires_grad_() for _ in range(8)]
    optimizer = _offload.offload(torch.optim.AdamW(experts), when="always")
    for x in experts:
        x.grad = torch.ones_like(x)
        optimizer.step()
    assert memory.calls[-1] == "always" and len(memory.moved) == 16


def test_a_step_that_is_done_raises_no_error(memory, monkeypatch):
    """States that are made anew are to stay on the device, but do not fit: they go on to leave."""
    import torch

    def lbfgs(net):
        return torch.optim.LBFGS(net.parameters(), lr=0.1, max_iter=3, history_size=3)

    def full(self, why):
        ends.append(why)
        raise StallocError("full")

    ends = []
    net = model()
    expected = closures(net, lbfgs(net), 8)
    net = model()
    optimizer = _offload.offload(lbfgs(net))
    monkeypatch.setattr(_offload._Offloaded, "_end", full)
    assert closures(net, optimizer, 8) == expected
    assert ends and memory.calls[-1] == "end"
