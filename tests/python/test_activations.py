"""Activations on the host: the same bits as without, under the limit, with as little as need be.

The device is the CPU with a link that copies as late as it may; the planner is the real one.
"""

import contextlib
import importlib.util

import pytest
from stalloc import _activation_saved as saved
from stalloc import activations
from stalloc._activation_offloader import Offloader

if importlib.util.find_spec("torch") is not None:
    import activation_programs as programs
    import torch
    from slow_link import Meter, SlowLink

    torch.set_num_threads(1)

pytestmark = pytest.mark.torch

MIB = 1 << 20

# Programs, with the reasons for which tensors stay.
WORK = {
    "plain": [],
    "views_of_one_storage": [],
    "retain_graph": [],
    "double_backward": [],
    "double_backward_within": [saved.BACKWARD],
    "checkpointed": [],
    "reentrant": [saved.BACKWARD, saved.PARAMETER],
    "autocast": [saved.CAST],
    "held_by_the_program": [],
    "no_backward": [],
    "expanded": [],
    "conjugated": [saved.LAYOUT, saved.PARAMETER],
    "nested": [saved.LAYOUT],
    "own_function": [],
    "other_thread": [],
    "subclass": [saved.SUBCLASS],
    "gathered_parameter": [saved.PARAMETER],
    "exchanged_parameter": [saved.PARAMETER],
}
RAISE = ["changed_before", "changed_after", "changed_parameter"]


@contextlib.contextmanager
def offloading(limit, always=False, **options):
    """An offloader, its hooks and the meter that it goes by."""
    with Meter() as meter:
        offloader = Offloader(torch, SlowLink(meter, **options), limit, always)
        yield offloader, lambda: activations.hooks(torch, lambda device: offloader), meter


@pytest.mark.parametrize("name", WORK)
@pytest.mark.parametrize("limit, polls, always", [(2 * MIB, 99, True), (7 * MIB, 1, False)])
def test_same_bits(name, limit, polls, always):
    program = getattr(programs, name)
    expected = program(contextlib.nullcontext)
    with offloading(limit, always, polls=polls) as (offloader, hooks, _):
        for _ in range(4):
            assert torch.equal(program(hooks), expected)
            offloader.kinds.settle()
        assert sorted(offloader.stayed) == WORK[name]
        assert offloader.counts()["out"] > 0
        assert not offloader._records and not offloader._live
        offloader._storages.settle()
        assert not any(event.lost() for event in offloader._link.events)


def test_a_storage_moves_once_and_views_alias():
    class Halves(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x[:300], x[200:], x.t())
            return x.sum()

        @staticmethod
        def backward(ctx, gradient):
            first, second, turned = ctx.saved_tensors
            assert first[200].data_ptr() == second[0].data_ptr() == turned[:, 200].data_ptr()
            return gradient * turned.t()

    with offloading(2 * MIB, always=True, polls=1) as (offloader, hooks, _):
        p = torch.nn.Parameter(torch.ones(512, 1024))
        with hooks():
            loss = Halves.apply(p.exp()) + p.sin().exp().sum()
        loss.backward()
        counts = offloader.counts()
    # Two storages were saved, in five tensors; the last need not come back.
    assert (counts["out"], counts["back"]) == (4 * MIB, 2 * MIB)


def test_an_exception_leaves_nothing():
    """Though copies are under way, and nothing is saved after it."""
    with offloading(2 * MIB, always=True, polls=99) as (offloader, hooks, meter):
        x = torch.ones(1 << 19, requires_grad=True)
        before = meter.look()
        for _ in range(2):
            with contextlib.suppress(MemoryError), hooks():
                y = x
                for _ in range(4):
                    y = (y * 2).sin()
                raise MemoryError
            y = None
            link = offloader._link
            assert any(not event.done for event in link.events)
            for event in link.events:
                event.pass_by()  # as time goes by
            assert meter.look() == before
        pinned = link.host.pinned
        with hooks():
            (x * 2).sin().sum().backward()
        assert link.host.pinned == pinned  # the same host memory serves again


def test_what_is_compiled_stays():
    expected = programs.compiled(contextlib.nullcontext)
    offloader = Offloader(torch, SlowLink(Meter()), 12 * MIB)  # nothing is compiled under a mode
    for _ in range(2):
        same = programs.compiled(lambda: activations.hooks(torch, lambda device: offloader))
        assert torch.equal(same, expected)
    assert set(offloader.stayed) == {saved.COMPILED}


@pytest.mark.parametrize("name", RAISE)
@pytest.mark.parametrize("limit", [2 * MIB, 1 << 30])
def test_a_change_in_place_raises(name, limit):
    program = getattr(programs, name)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        program(contextlib.nullcontext)
    with offloading(limit, always=True) as (_, hooks, _):
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            program(hooks)


def train(steps, hooks, meter, after=lambda: None):
    """Trains a small model with 3 MiB of activations a layer; returns peaks, losses, weights."""
    torch.manual_seed(1)
    layers = [
        torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.GELU(), torch.nn.LayerNorm(512))
        for _ in range(8)
    ]
    model = torch.nn.Sequential(*layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    peaks, losses = [], []
    for step in range(steps):
        meter.highest = meter.look()
        x = torch.randn(512, 512, generator=torch.Generator().manual_seed(step))
        with hooks():
            loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        peaks.append(meter.highest)
        after()
    return peaks, losses, list(model.parameters())


def test_a_plan_keeps_the_limit_with_fewer_bytes():
    with Meter() as meter:
        before, losses, weights = train(9, contextlib.nullcontext, meter)
    limit = before[-1] - 8 * MIB
    outs = []

    def settle():
        offloader.kinds.settle()
        outs.append(offloader.counts()["out"] - sum(outs))

    with offloading(limit) as (offloader, hooks, meter):
        after, same, others = train(9, hooks, meter, settle)
        assert offloader.counts()["planned"] >= 3 and offloader.counts()["over"] == 0
    assert losses == same and all(torch.equal(a, b) for a, b in zip(weights, others))
    assert after[-1] <= limit < before[-1]
    # All leaves at first, then hardly more than the limit is too small by.
    assert outs[0] >= 16 * MIB and 8 * MIB <= outs[-1] <= 10 * MIB


def test_nothing_moves_where_all_fits():
    moved = []

    def settle():
        offloader.kinds.settle()
        moved.append(offloader.counts()["out"])

    with offloading(1 << 30) as (offloader, hooks, meter):
        train(8, hooks, meter, settle)
    assert 0 < moved[0] and moved[2] == moved[-1]  # the second step has optimizer states


def test_another_step_than_planned():
    """Steps of two lengths in turns, then a longer one under a plan, and back again."""
    program = programs.plain

    def odd(hooks, n):
        p = programs.weight()
        with hooks():
            y = programs.batch() @ p
            for _ in range(n):
                y = y.sin()
            loss = y.sum()
        loss.backward()
        return p.grad

    with offloading(8 * MIB) as (offloader, hooks, _):
        for n in (3, 3, 3, 3, 3, 5, 2, 3, 3, 3, 3, 3):
            expected = odd(contextlib.nullcontext, n)
            assert torch.equal(odd(hooks, n), expected)
            offloader.kinds.settle()
            assert torch.equal(program(hooks), program(contextlib.nullcontext))
        assert offloader.counts()["planned"] >= 4


def test_what_the_program_holds_is_not_copied_back():
    """Of a batch and two outputs, one is held; the last need not leave."""
    with offloading(2 * MIB, always=True, polls=1) as (offloader, hooks, meter):
        programs.held_by_the_program(hooks)
        assert offloader.counts()["out"] == 3 * MIB and offloader.counts()["back"] == MIB
    with offloading(4 * MIB, polls=1) as (offloader, hooks, _):
        for _ in range(5):
            programs.held_by_the_program(hooks)
            offloader.kinds.settle()
        assert offloader.counts()["observed"] == 4 and offloader.counts()["over"] > 0
        held = [item.held for item in offloader._kind.cycles[-1].items]
        assert held == [False, True, False]


def test_without_host_memory_all_stays():
    with offloading(4 * MIB, host=0) as (offloader, hooks, _):
        expected = programs.plain(contextlib.nullcontext)
        assert torch.equal(programs.plain(hooks), expected)
        assert set(offloader.stayed) == {saved.HOST} and offloader.counts()["out"] == 0


def test_another_stream_stays():
    with offloading(4 * MIB) as (offloader, hooks, _):
        offloader._link.here = False
        expected = programs.plain(contextlib.nullcontext)
        assert torch.equal(programs.plain(hooks), expected)
        assert set(offloader.stayed) == {saved.STREAM}


def test_a_bug_of_ours_ends_nothing(capsys, monkeypatch):
    with offloading(4 * MIB, always=True) as (offloader, hooks, _):
        expected = programs.plain(contextlib.nullcontext)
        monkeypatch.setattr(offloader._link, "leave", lambda *_: 1 / 0)
        for _ in range(2):
            assert torch.equal(programs.plain(hooks), expected)
        assert set(offloader.stayed) == {saved.FAILED}
    assert capsys.readouterr().err.count("all stays on the device from here on") == 1


def test_on_the_cpu_it_does_nothing():
    with activations.offload_activations("1GiB"):
        loss = (programs.batch() @ programs.weight()).exp().sum()
    loss.backward()
