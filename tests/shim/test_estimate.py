"""What a run says that PyTorch's own allocator would have reserved."""

import json
import subprocess

import programs
from programs import ROOT

TRACE = ROOT / "tests" / "traces" / "pyg_gat.csv.gz"

# Waits until each step was looked at.
THEN = """
L.stalloc_step(0)
stats = library.stats(0)
while {ON} and stats.native_steps < stats.steps:
    time.sleep(0.01)
    stats = library.stats(0)
print(json.dumps([stats.native_peak_reserved, stats.native_steps, stats.native_ooms]))
"""


def played(run, more=""):
    return programs.play(run, TRACE, THEN.replace("{ON}", str("native:off" not in more)), more)


def test_it_is_what_the_replay_of_the_recording_says(run):
    command = [ROOT / "bin" / "stalloc", "replay", "--json", "--allocator", "native", TRACE]
    replayed = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    reserved, steps, ooms = played(run)
    assert reserved == replayed["peak_reserved_bytes"] and steps > 30 and ooms == 0


def test_switched_off_nothing_is_told(run):
    assert played(run, ",native:off") == [0, 0, 0]
    assert played(run, ",plan:off,native:off") == [0, 0, 0]
