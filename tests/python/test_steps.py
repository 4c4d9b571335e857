"""Step boundaries: from optimizers, and from stalloc.step()."""

import gc

import pytest
import stalloc
from stalloc._steps import OptimizerBoundary


class Optimizer:
    """Anything with an identity."""


@pytest.fixture
def torch(process):
    torch = process()
    stalloc.enable()
    return torch


def test_optimizer_s_step_is_a_boundary(torch):
    optimizer = Optimizer()
    for count in (0, 1, 2):  # what follows the first may be a call of stalloc.step()
        torch.step(optimizer)
        assert stalloc.stats().steps == count


def test_step_takes_over_from_the_optimizer(torch):
    optimizer = Optimizer()
    torch.step(optimizer)
    for _ in range(3):
        torch.step(optimizer)
        stalloc.step()
        stalloc.step()
    # Once by the hook before the first call, then the calls.
    assert stalloc.stats().steps == 1 + 6


def test_step_from_the_first_step_on_leaves_none_to_the_optimizer(torch):
    optimizer = Optimizer()
    for count in (1, 2, 3):
        torch.step(optimizer)
        stalloc.step()
        assert stalloc.stats().steps == count


def boundaries(pattern):
    """The places of `pattern`, a sequence of optimizers' names, at which a step ends."""
    found = []
    places = iter(range(len(pattern)))
    place = None

    def boundary():
        found.append(place)

    watcher = OptimizerBoundary(boundary)
    optimizers = {name: Optimizer() for name in set(pattern)}
    for name in pattern:
        place = next(places)
        watcher._after_step(optimizers[name], (), {})
    return found


def test_one_boundary_per_step_of_several_optimizers():
    assert boundaries("ABABAB") == [2, 4]
    assert boundaries("ABCDABCD") == [4]


def test_leader_with_the_rarer_rhythm_gives_way():
    # B leads, but A steps thrice as often: from its second step in a row on, A leads.
    assert boundaries("BAAABAAABAAA") == [2, 3, 5, 6, 7, 9, 10, 11]


def test_leader_that_stops_is_replaced():
    assert boundaries("AAABBBB") == [1, 2, 4, 5, 6]


def test_leader_that_is_gone_is_replaced_at_once():
    count = []
    watcher = OptimizerBoundary(lambda: count.append(1))
    first, second = Optimizer(), Optimizer()
    watcher._after_step(first, (), {})
    del first
    gc.collect()
    watcher._after_step(second, (), {})
    assert len(count) == 1  # the first step of all is none


def test_optimizers_are_not_kept_alive():
    import weakref

    watcher = OptimizerBoundary(lambda: None)
    first, second = Optimizer(), Optimizer()
    watcher._after_step(first, (), {})
    watcher._after_step(second, (), {})
    remembered = [weakref.ref(first), weakref.ref(second)]
    del first, second
    gc.collect()
    assert [reference() for reference in remembered] == [None, None]
