"""What a run says that PyTorch's own allocator would have reserved."""

import json
import subprocess

from programs import DRIVER, ENGINE, ROOT

TRACE = ROOT / "tests" / "traces" / "pyg_gat.csv.gz"
CAPACITY = 80 << 30

# Plays a recording of one stream, and waits until each step was looked at.
REPLAY = """
import gzip, json
sys.path.insert(0, os.environ["PACKAGE"])
from stalloc import _library
library = _library.Library(os.environ["SHIM"])
live = {}
for line in gzip.open(os.environ["TRACE"], "rt"):
    words = line.strip().split(",")
    if line.startswith("# step"):
        L.stalloc_step(0)
    elif words[0] == "a":
        live[words[1]] = malloc(int(words[2]))
        assert live[words[1]], error()
    elif words[0] == "r":
        free(live.pop(words[1]))
L.stalloc_step(0)
stats = library.stats(0)
while {ON} and stats.native_steps < stats.steps:
    time.sleep(0.01)
    stats = library.stats(0)
print(json.dumps([stats.native_peak_reserved, stats.native_steps, stats.native_ooms]))
"""


def played(run, more=""):
    text = REPLAY.replace("{ON}", str("native:off" not in more))
    conf = f"driver:{DRIVER},engine:{ENGINE}{more}"
    environment = {"FAKECUDA_CAPACITY": str(CAPACITY), "FAKECUDA_POISON": "0"}
    environment |= {"TRACE": str(TRACE), "PACKAGE": str(ROOT / "python")}
    out, _ = run(text, conf=conf, **environment)
    return json.loads(out)


def test_it_is_what_the_replay_of_the_recording_says(run):
    command = [ROOT / "bin" / "stalloc", "replay", "--json", "--allocator", "native", TRACE]
    replayed = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    reserved, steps, ooms = played(run)
    assert reserved == replayed["peak_reserved_bytes"] and steps > 30 and ooms == 0


def test_switched_off_nothing_is_told(run):
    assert played(run, ",native:off") == [0, 0, 0]
    assert played(run, ",plan:off,native:off") == [0, 0, 0]
