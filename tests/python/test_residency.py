"""The way to the planner of what leaves the device, through the engine's library."""

import ctypes

import pytest
from stalloc import _residency

GB = 10**9


def two_items(limit):
    """The problem of plan/residency's package documentation, in half units."""
    load = [(0, 2), (4, 4), (6, 8), (8, 2)]
    return {
        "Limit": limit,
        "Handle": 1,
        "Link": {"Out": GB, "Back": GB},
        "Load": [{"From": at, "Bytes": size} for at, size in load],
        "Items": [
            {"Size": 2, "Idle": 0, "Need": 16, "Parts": True},
            {"Size": 1, "Idle": 2, "Need": 14},
        ],
    }


def test_what_leaves_and_when():
    plan = _residency.solve(two_items(9))
    assert [(move["Item"], move["Size"]) for move in plan["Moves"]] == [(0, 1), (0, 1)]
    assert (plan["Left"], plan["Peak"], plan["Wait"]) == (2, 9, 0)
    for move in plan["Moves"]:
        assert move["OutUntil"] <= 6 and 8 <= move["BackFrom"] and move["BackUntil"] <= 16
    assert _residency.solve(two_items(11)) == {
        "Moves": [], "Waits": [], "Wait": 0, "Peak": 11, "Left": 0, "Over": 0,
    }  # fmt: skip
    assert _residency.solve(two_items(7))["Over"] == 1


def test_a_plan_of_many_moves_is_complete():
    items = [{"Size": 1, "Idle": i, "Need": 9000 - i} for i in range(3000)]
    problem = {
        **two_items(5),
        "Items": items,
        "Load": [{"From": 4000, "Bytes": 5}, {"From": 5000, "Bytes": 0}],
    }
    plan = _residency.solve(problem)
    assert sorted(move["Item"] for move in plan["Moves"]) == list(range(3000))


def test_refuses():
    for change, what in [
        ({"Limits": 3}, "unknown field"),
        ({"Limit": "all"}, "residency.Problem in JSON"),
        ({"Link": {}}, "0 bytes a second out"),
        ({"Items": [{"Size": -1}]}, "item 0 has -1 bytes"),
    ]:
        with pytest.raises(ValueError, match=what):
            _residency.solve({**two_items(9), **change})
    assert _residency._function()(None, ctypes.create_string_buffer(9), 9) == -5
