"""SMS-EMOA with contributions to the hypervolume that are counted by random points.

pymoo computes them exactly, which takes more than a minute a generation with five objectives. As in
PlatEMO, 10,000 random points of the box from the ideal to a tenth beyond the nadir are counted
instead: a member contributes the points that it alone dominates. The rest is pymoo's: a generation
has as many children as members.
"""

from __future__ import annotations

import numpy as np
from pymoo.algorithms.moo.sms import SMSEMOA
from pymoo.core.population import Population
from pymoo.core.survival import Survival
from pymoo.util.nds.non_dominated_sorting import NonDominatedSorting
from pymoo.util.normalization import normalize

SAMPLES = 10_000
BEYOND = 1.1  # the reference point, in units of the nadir


class SampledSurvival(Survival):
    """Keeps whole fronts, and of the one that does not fit what contributes most."""

    def __init__(self) -> None:
        super().__init__(filter_infeasible=True)

    def _do(  # noqa: ANN202
        self, problem, pop, *args, n_survive, ideal=None, nadir=None, random_state=None, **kwargs
    ):  # noqa: ANN001
        values = pop.get("F").astype(float, copy=False)
        if ideal is None:  # there is no population yet
            ideal, nadir = values.min(axis=0), values.max(axis=0)
        survivors: list = []
        for rank, front in enumerate(NonDominatedSorting().do(values, n_stop_if_ranked=n_survive)):
            pop[front].set("rank", rank)
            excess = len(survivors) + len(front) - n_survive
            if excess > 0:
                scaled = normalize(values[front], ideal, nadir)
                front = front[kept(scaled, excess, random_state)]
            survivors.extend(pop[front])
        return Population.create(*survivors)


def kept(values: np.ndarray, excess: int, random_state) -> np.ndarray:  # noqa: ANN001
    """Which rows are left when the one that contributes least is removed so many times."""
    n, objectives = values.shape
    points = random_state.random((objectives, SAMPLES)) * BEYOND
    dominated = np.ones((n, SAMPLES), bool)
    for j in range(objectives):
        dominated &= values[:, j, None] <= points[j]
    count = dominated.sum(axis=0)
    # Random fractions decide between equals.
    contribution = dominated[:, count == 1].sum(axis=1) + random_state.random(n) / 2
    alive = np.ones(n, bool)
    for _ in range(excess):
        least = int(contribution.argmin())
        alive[least], contribution[least] = False, np.inf
        lost = np.flatnonzero(dominated[least])
        dominated[least] = False
        count[lost] -= 1
        single = lost[count[lost] == 1]
        np.add.at(contribution, dominated[:, single].argmax(axis=0), 1)
    return alive


def sms_emoa(population: int) -> SMSEMOA:
    return SMSEMOA(pop_size=population, survival=SampledSurvival())
