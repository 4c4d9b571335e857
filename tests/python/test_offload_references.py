"""What refers to states, or compiles their step: the states stay while they are in use, and leave
after it."""

import copy
import warnings

import pytest
from offload_kit import adam, memory, model, offloaded, stays_while_held, train
from stalloc import StallocError, StallocWarning, _lend, _offload, _offload_part, _offload_step
from test_offload_parts import deep

__all__ = ["memory"]
pytestmark = pytest.mark.torch


def nested(parameters):
    """An optimizer that keeps tensors in containers, as Shampoo and LBFGS do."""
    import torch

    class Nested(torch.optim.Optimizer):
        @torch.no_grad()
        def step(self):
            for x in self.param_groups[0]["params"]:
                state = self.state[x]
                if not state:
                    state["list"] = [torch.zeros_like(x)]
                    state["blocks"] = {"first": {"sum": torch.zeros_like(x)}}
                state["list"][0].add_(x.grad)
                state["blocks"]["first"]["sum"].add_(state["list"][0])
                x -= 0.1 * state["blocks"]["first"]["sum"]

    return Nested(parameters, {})


HELD = {
    "in a list": lambda state: state["list"][0],
    "the list": lambda state: state["list"],
    "in a dictionary": lambda state: state["blocks"]["first"]["sum"],
    "the dictionary": lambda state: state["blocks"]["first"],
}


@pytest.mark.parametrize("what", HELD)
def test_what_is_referenced_at_any_depth_stays(memory, what):
    net = model()
    optimizer = _offload.offload(nested(net.parameters()))
    first = next(iter(net.parameters()))
    stays_while_held(memory, net, optimizer, lambda: HELD[what](optimizer.state[first]))


@pytest.mark.parametrize("gone", ["load", "clear"])
def test_what_was_a_state_stays_while_it_is_referenced(memory, gone):
    """It lies in the region, though the optimizer has others now."""
    net = model()
    optimizer = _offload.offload(adam(net))
    train(net, optimizer, 2)
    saved = copy.deepcopy(optimizer.state_dict())
    before = optimizer.state_dict()
    if gone == "load":
        optimizer.load_state_dict(saved)
    else:
        optimizer.state.clear()
    del saved
    with pytest.warns(StallocWarning, match="referenced from outside"):
        train(net, optimizer, 2)
    assert all(x.isfinite().all() for state in before["state"].values() for x in state.values())
    del before
    train(net, optimizer, 1)
    assert memory.calls[-1] == "end" and len(memory.moved) == 2


def test_the_local_tensor_of_a_shard_stays(memory, tmp_path):
    """DTensor.to_local() is the shard's own tensor where no gradients are recorded."""
    import torch
    from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh

    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1
    )
    try:
        mesh = init_device_mesh("cpu", (1,))
        whole = torch.ones(600, 600)
        x = torch.nn.Parameter(distribute_tensor(whole, mesh, [Shard(0)]))
        optimizer = _offload.offload(torch.optim.AdamW([x], foreach=False))

        def step():
            x.grad = distribute_tensor(whole, mesh, [Shard(0)])
            optimizer.step()

        step()
        step()
        assert memory.calls[-1] == "end" and len(memory.moved) == 2
        with torch.no_grad():
            held = optimizer.state[x]["exp_avg"].to_local()
        with pytest.warns(StallocWarning, match="referenced from outside"):
            step()
        assert memory.calls[-1] == "begin" and held.isfinite().all()
        del held
        step()
        assert memory.calls[-1] == "end"
    finally:
        torch.distributed.destroy_process_group()


def test_what_stayed_makes_room_for_the_next_step(memory, monkeypatch):
    """It was referenced, and is not any more; two regions do not fit on the device now."""
    monkeypatch.setattr(_offload_step, "PART", 1 << 20)
    net = deep()
    expected = train(net, adam(net), 4)
    net = deep()
    optimizer = _offload.offload(adam(net))
    losses = train(net, optimizer, 1)
    tags, begin = set(memory.away), memory.begin_awake
    kept = optimizer.state[net[2].weight]["exp_avg"]
    with pytest.warns(StallocWarning, match="referenced"):
        losses += train(net, optimizer, 2, 1)
    assert len(tags - memory.away) == 1
    assert kept.isfinite().all()
    del kept

    def tight(device, tag, stream):
        if tags - memory.away - {tag}:
            raise StallocError("full")
        begin(device, tag, stream)

    monkeypatch.setattr(memory, "begin_awake", tight)
    losses += train(net, optimizer, 4, 2)
    assert losses == expected and memory.away == tags


def test_a_step_waits_for_what_a_read_has_brought_back(memory, monkeypatch):
    """On another stream: a program that has only read need not make the streams wait."""
    net, optimizer, expected = offloaded()
    losses = train(net, optimizer, 2)
    (tag,) = memory.away
    memory.streams[tag].clear()
    with monkeypatch.context() as patch:
        patch.setattr(_lend, "current_stream", lambda torch, device: 7)
        assert len(optimizer.state) == 4
    assert memory.streams[tag] == [7]
    losses += train(net, optimizer, 4, 2)
    assert memory.streams[tag] == [7, 0, 0] and memory.calls[-1] == "end"
    assert losses == expected


@pytest.mark.parametrize("apart", [False, True])
def test_a_compiled_step_is_not_traced(memory, apart, monkeypatch):
    """It would compile each part in each step, and what it refers to itself would keep states."""
    import torch

    if apart:
        monkeypatch.setattr(_offload_step, "PART", 8 << 10)
        monkeypatch.setattr(_offload_part, "LEAST", 1 << 10)
    plain = model()
    expected = train(plain, adam(plain), 4)
    net = model()
    optimizer = _offload.offload(adam(net), when="always")
    graphs = []

    def compiled(graph, _):
        graphs.append(graph)
        return graph.forward

    torch._dynamo.reset()
    step = torch.compile(optimizer.step, backend=compiled)
    with warnings.catch_warnings():
        warnings.simplefilter("error", StallocWarning)
        monkeypatch.setattr(optimizer, "step", step)
        losses = train(net, optimizer, 4)
    assert losses == expected and not graphs
    assert all(x.equal(y) for x, y in zip(net.parameters(), plain.parameters()))
    assert memory.calls[-1] == "always"
