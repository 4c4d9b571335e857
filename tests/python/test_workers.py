"""Workers, with a program and a PyTorch that only pretend."""

import os

import pytest
import workers

# Keeps what it is told to keep, and says how often this process ran it.
PROGRAM = """
import json, os, sys, torch
runs = 0
def main(argv):
    global runs
    runs += 1
    said = dict(zip(argv, argv[1:]))
    print("this is no answer")
    if argv[0] == "--die":
        print("one\\nlast words", file=sys.stderr, flush=True)
        os._exit(7)
    torch.cuda.reserved = int(said.get("--keep", 0)) << 20
    report = {"run": runs, "process": os.getpid(), "allocator": said["--allocator"]}
    report["limited"], torch.cuda.limited = torch.cuda.limited, True
    if argv[0] == "--full":
        report["out_of_memory"] = {"step": 4}
    with open(said["--json"], "w") as file:
        json.dump(report, file)
    return 3 if argv[0] == "--full" else 0
"""
TORCH = """
import types
class cuda:
    reserved, limited, cached = 0, True, True
    is_available = lambda: True
    synchronize = reset_peak_memory_stats = reset_accumulated_memory_stats = lambda: None
    memory_reserved = lambda: cuda.reserved + (cuda.cached << 30)
    def empty_cache(): cuda.cached = False
    def set_per_process_memory_fraction(share): cuda.limited = share < 1
_C = types.SimpleNamespace()
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    (tmp_path / "torch.py").write_text(TORCH)
    (tmp_path / "torch-2.11.0.dist-info").mkdir()
    about = "Metadata-Version: 2.1\nName: torch\nVersion: 2.11.0\n"
    (tmp_path / "torch-2.11.0.dist-info" / "METADATA").write_text(about)
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    with workers.Workers() as those:

        def run(*options, allocator="native", turn=0, beside=()):
            words = [*options, "--x", 1]
            return those.launch(script, words, allocator, 60, quiet=True, turn=turn, beside=beside)

        run.those = those
        yield run
    assert not those._there


def test_a_turn_is_one_process_an_allocator(run):
    first, again = run(beside=("native", "expandable")), run()
    assert (first["run"], again["run"]) == (1, 2) and first["process"] == again["process"]
    assert not first["limited"] and not again["limited"]
    (other,) = (w for (_, name), (_, w) in run.those._there.items() if name == "expandable")
    assert run(allocator="expandable")["process"] == other._process.pid != first["process"]
    assert run(turn=1)["process"] != first["process"]


def test_memory_that_stays_ends_the_worker(run):
    first = run("--keep", "8")
    assert run("--keep", "9")["process"] == first["process"]
    fresh = run("--keep", "0")
    assert fresh["process"] != first["process"] and fresh["run"] == 1 and "left" not in fresh


def test_out_of_memory_and_other_ends(run):
    full = run("--full")
    assert full["failed"] == "out of memory in step 4" and full["out_of_memory"]["step"] == 4
    assert run()["process"] == full["process"] and not run()["limited"]
    assert run("--die") == {"failed": "exit status 7: last words"}
    assert run()["run"] == 1
