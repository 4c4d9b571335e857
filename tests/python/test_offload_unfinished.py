"""Steps that stop between two parts, and what others see of the optimizer meanwhile."""

import copy

import pytest
from offload_kit import adam, closures, memory, train
from stalloc import StallocError, _offload, _offload_step
from test_offload_parts import deep, parts

__all__ = ["memory", "parts"]
pytestmark = pytest.mark.torch


def backward(net, n):
    import torch

    loss = net(torch.full((4, 600), 0.01 * (n + 1))).square().mean()
    loss.backward()


def stopped(parts, error=StallocError, after=2):
    """A model and its optimizer, whose third step stops after some parts; and the same natively."""
    plain, net = deep(), deep()
    reference, optimizer = adam(plain), _offload.offload(adam(net), when="always")
    train(plain, reference, 2)
    train(net, optimizer, 2)
    backward(plain, 2)
    backward(net, 2)
    reference.step()
    reference.zero_grad()
    begin = parts.begin_awake

    def refuse(device, tag, stream):
        if parts.calls.count("begin") == 4 + after:
            raise error("it stays on the host")
        begin(device, tag, stream)

    parts.begin_awake = refuse
    with pytest.raises(StallocError if after else error) as caught:
        optimizer.step()
    parts.begin_awake = begin
    return plain, net, optimizer, caught.value


def same(plain, net):
    return [x.equal(y) for x, y in zip(plain.parameters(), net.parameters())]


@pytest.mark.parametrize("error", [StallocError, MemoryError])
def test_the_next_call_finishes_the_step(parts, error):
    """Each parameter is updated once, and hooks that follow a step see one."""
    seen = []
    plain, net, optimizer, caught = stopped(parts, error)
    optimizer.register_step_post_hook(lambda *_: seen.append(same(plain, net)))
    assert "updated 2 of 4 parts" in str(caught) and "call step() again" in str(caught)
    assert isinstance(caught.__cause__, error)
    assert sum(same(plain, net)) == 4
    optimizer.step()
    assert seen == [[True] * 8]
    optimizer.zero_grad()
    other = adam(plain)
    other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    assert train(net, optimizer, 2) == train(plain, other, 2)


def test_a_part_that_is_updated_in_part_is_not_to_be_updated_again(parts, monkeypatch):
    """Its second update would begin with moments of which some are new."""
    import torch

    net = deep()
    optimizer = _offload.offload(adam(net, foreach=False), when="always")
    train(net, optimizer, 2)
    backward(net, 2)
    root, calls = torch.Tensor.sqrt, []

    def refuse(*x):
        calls.append(x)
        if len(calls) == 4:
            raise torch.cuda.OutOfMemoryError("short")
        return root(*x)

    monkeypatch.setattr(torch.Tensor, "sqrt", refuse)
    with pytest.raises(StallocError, match="updated 1 of 4 .* load a checkpoint: short"):
        optimizer.step()


def test_a_closure_is_not_called_again(parts):
    """It would compute gradients of weights of which some are updated."""
    plain, net = deep(), deep()
    reference, optimizer = adam(plain), _offload.offload(adam(net), when="always")
    expected = closures(plain, reference, 2) + closures(plain, reference, 2)
    losses = closures(net, optimizer, 2)
    step, begin = optimizer.step, parts.begin_awake

    def twice(closure):
        one = parts.calls.count("begin") + 1

        def refuse(*of):
            if parts.calls.count("begin") == one:
                raise StallocError("it stays on the host")
            begin(*of)

        parts.begin_awake = refuse
        with pytest.raises(StallocError, match="updated 1 of 4 parts"):
            step(closure)
        parts.begin_awake = begin
        return step(closure)

    optimizer.step = twice
    assert losses + closures(net, optimizer, 2) == expected
    assert all(same(plain, net))


@pytest.mark.parametrize("after", [0, 2])
def test_gradients_are_unscaled_once(parts, after):
    """By fused optimizers, for which a GradScaler notes its scale before each call of step()."""
    import torch

    def run(net, optimizer, stops=False):
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        for n in range(3):
            scaler.scale(net(torch.full((4, 600), 0.01 * (n + 1))).square().mean()).backward()
            if stops and n == 2:
                stop(scaler, optimizer)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()

    def stop(scaler, optimizer):
        begin, end = parts.begin_awake, parts.calls.count("begin") + after

        def refuse(*of):
            if parts.calls.count("begin") == end:
                raise StallocError("it stays on the host")
            begin(*of)

        parts.begin_awake = refuse
        with pytest.raises(StallocError):
            scaler.step(optimizer)
        parts.begin_awake = begin

    plain, net = deep(), deep()
    run(plain, adam(plain, fused=True))
    run(net, _offload.offload(adam(net, fused=True), when="always"), stops=True)
    assert all(same(plain, net))


def test_it_is_finished_where_everything_fits_again(parts):
    plain, net, optimizer, _ = stopped(parts)
    parts.stays = True
    optimizer.step()
    assert all(same(plain, net))


def test_a_step_that_stops_before_its_first_part_has_not_begun(parts):
    plain, net, optimizer, caught = stopped(parts, after=0)
    assert str(caught) == "it stays on the host" and not any(same(plain, net))
    optimizer.step()
    assert all(same(plain, net))


def test_the_largest_part_comes_first(parts):
    """If it does not fit, nothing is updated yet; smaller parts fit where it did."""
    import torch

    torch.manual_seed(1)
    net = torch.nn.Sequential(torch.nn.Linear(600, 800), torch.nn.Linear(800, 1500))
    optimizer = _offload.offload(adam(net), when="always")
    train(net, optimizer, 1)
    largest = [sum(x.nbytes for x in parts.tensors(tag)) for tag in parts.regions]
    assert len(largest) == 2 and largest[0] > largest[1]


def test_loaded_states_begin_a_step_of_all(parts):
    plain, net, optimizer, _ = stopped(parts)
    saved = adam(plain)
    train(plain, saved, 1)
    net.load_state_dict(plain.state_dict())
    optimizer.load_state_dict(copy.deepcopy(saved.state_dict()))
    optimizer.zero_grad()
    assert train(net, optimizer, 2) == train(plain, saved, 2)


def test_no_graph_captures_the_rest_of_a_step(parts):
    plain, net, optimizer, _ = stopped(parts)
    parts.capturing = True
    with pytest.raises(StallocError, match="finish the optimizer's step first: a step is capt"):
        optimizer.step()
    parts.capturing = False
    optimizer.step()
    assert all(same(plain, net))


def test_others_see_whole_groups_while_parts_step(parts):
    """As a thread that logs the learning rate. What the step notes on the optimizer is kept."""
    import torch

    seen = []

    class Watched(torch.optim.AdamW):
        updates = 0

        def _init_group(self, group, *x):
            self.updates += 1
            seen.append((len(group["params"]), len(optimizer.param_groups[0]["params"])))
            return super()._init_group(group, *x)

    net = deep()
    optimizer = _offload.offload(Watched(net.parameters()), when="always")
    groups = optimizer.param_groups
    train(net, optimizer, 2)
    assert seen == [(2, 8)] * 8 and optimizer.updates == 8
    assert optimizer.param_groups is groups


class Counted(list):
    """Parameters that count how often they are gone through."""

    def __init__(self, *x):
        super().__init__(*x)
        self.passes = 0

    def __iter__(self):
        self.passes += 1
        return super().__iter__()


def test_parameters_are_gone_through_as_often_whatever_the_parts(parts, monkeypatch):
    def passes(size):
        monkeypatch.setattr(_offload_step, "PART", size)
        net = deep(8)
        optimizer = _offload.offload(adam(net), when="always")
        train(net, optimizer, 2)
        params = Counted(optimizer.param_groups[0]["params"])
        optimizer.param_groups[0]["params"] = params
        backward(net, 2)
        optimizer.step()
        return params.passes, len(optimizer._stalloc.parts)

    (few, one), (many, eight) = passes(1 << 30), passes(4 << 20)
    assert (one, eight) == (1, 8)
    assert few == many


def test_an_empty_parameter_first(parts):
    import torch

    net = deep()
    weights = [torch.empty(0, requires_grad=True), *net.parameters()]
    optimizer = _offload.offload(torch.optim.AdamW(weights), when="always")
    train(net, optimizer, 2)
    assert len(parts.regions) == 4
