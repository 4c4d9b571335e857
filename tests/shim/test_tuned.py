"""A point of `stalloc tune` is what its line for STALLOC_CONF does in a program."""

import json
import subprocess

import programs
import pytest
from programs import ROOT

TRACE = ROOT / "tests" / "traces" / "llama_naive.csv.gz"

THEN = """
stats = library.stats(0)
print(json.dumps([stats.peak_allocated, stats.peak_reserved, stats.driver_calls]))
"""


def tuned():
    command = [ROOT / "bin" / "stalloc", "tune", "--noise", "0", "--replays", "8", "--json", TRACE]
    out = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    return {p["conf"]: p for p in map(json.loads, out.splitlines())}


def played(run, conf):
    return programs.play(run, TRACE, THEN, ",native:off" + (conf and "," + conf))


def test_a_line_does_what_its_point_says(run):
    # The device of a replay is behind the host, as that of a program is; this one is not. With
    # larger handles than the defaults' that changes what is wasted.
    all_points = tuned()
    points = {c: p for c, p in all_points.items() if p["waste"] <= all_points[""]["waste"]}
    assert "" in points and len(points) > 3
    waste, calls = {}, {}
    for conf, point in points.items():
        load, reserved, calls[conf] = played(run, conf)
        waste[conf] = 100 * (1 - load / reserved)
        assert waste[conf] == pytest.approx(point["waste"], abs=0.01), conf
    assert sorted(points, key=waste.get) == sorted(points, key=lambda conf: points[conf]["waste"])
    assert sorted(points, key=calls.get, reverse=True) == sorted(points, key=waste.get)
