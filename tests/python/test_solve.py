"""stalloc.solve, through the engine's library."""

import csv
from pathlib import Path

import numpy
import pytest
import stalloc

HARD = Path(__file__).parents[2] / "plan/solve/testdata/minimalloc"


def overlaps(lower, upper, size, offsets):
    for i in range(len(size)):
        together = (lower < upper[i]) & (lower[i] < upper)
        share = (offsets < offsets[i] + size[i]) & (offsets[i] < offsets + size)
        together[i] = False
        if (together & share).any():
            return True
    return False


def test_a_hard_problem_fits():
    with open(HARD / "E.1048576.csv") as file:
        rows = [[int(x) for x in row[1:]] for row in list(csv.reader(file))[1:]]
    lower, upper, size = numpy.array(rows).T  # not contiguous
    placed = stalloc.solve(lower, upper, size, capacity=1 << 20)
    assert placed.fits and placed.top <= 1 << 20
    assert not overlaps(lower, upper, size, placed.offsets)
    again = stalloc.solve(lower, upper, size, capacity=1 << 20, warm=placed.offsets)
    assert again.units == 0 and (again.offsets == placed.offsets).all()


def test_pins_gaps_alignment_and_capacity():
    placed = stalloc.solve(
        [0, 0, 3], [9, 4, 6], [8, 4, 6], pinned=[0, 8, -1], gaps=[(0, 3, 6, 0, 2)]
    )
    assert placed.offsets.tolist() == [0, 8, 2] and placed.optimal
    placed = stalloc.solve([0, 0], [4, 4], [3, 3], alignment=[4, 4])
    assert sorted(placed.offsets.tolist()) == [0, 4] and placed.top == 7
    placed = stalloc.solve([0, 0], [4, 4], [3, 3], capacity=5, solver="exact")
    assert placed.never and not placed.fits
    placed = stalloc.solve([], [], [])
    assert placed.offsets.tolist() == [] and placed.top == 0


def test_progress_ends_it():
    told = []

    def enough(top, bound, units):
        told.append((top, bound, units))
        return len(told) == 3

    rng = numpy.random.default_rng(1)
    lower = rng.integers(0, 1000, 3000)
    upper = lower + rng.integers(1, 300, 3000)
    size = rng.integers(1, 1000, 3000)
    placed = stalloc.solve(lower, upper, size, progress=enough)
    assert len(told) == 3 and placed.units == told[-1][2] and placed.top <= told[0][0]
    assert not overlaps(lower, upper, size, placed.offsets)
    with pytest.raises(KeyError):
        stalloc.solve(lower, upper, size, progress=lambda *_: {}["none"])


def test_refuses():
    for arguments, settings, what in [
        (([0], [1, 2], [1]), {}, "upper"),
        (([0.5], [1], [1]), {}, "whole numbers"),
        (([0], [1], [-1]), {}, "-1 bytes"),
        (([0], [1], [1]), {"solver": "magic"}, "choose from"),
        (([0], [1], [1]), {"gaps": [(7, 0, 1)]}, "buffer 7"),
        (([0], [1], [1]), {"gaps": [(0, 0)]}, "one of 2 numbers"),
        (([0], [1], [1]), {"gaps": [(1 << 64, 0, 1)]}, "gaps has 18446744073709551616"),
        (([0], [1], [1]), {"capacity": 1 << 64}, "capacity has 18446744073709551616"),
        (([0], [1], [1]), {"seed": 1 << 64}, "less than 2.64"),
        (([0, 0], [1, 1], [4, 4]), {"pinned": [0, 2]}, "overlap"),
    ]:
        with pytest.raises(ValueError, match=what):
            stalloc.solve(*arguments, **settings)
