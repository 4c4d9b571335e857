"""examples/offload.py: activations on the host beside other ways, and what its table says."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.mark.torch
def test_offload_has_the_same_bits_each_way(tmp_path):
    words = ["--tiny", "--allocator", "native", "--shares", "0.5", "--turns", "2"]
    words += ["--json", str(tmp_path / "new" / "runs.jsonl")]
    done = subprocess.run(  # an allocator is chosen before PyTorch is imported
        [sys.executable, str(EXAMPLES / "offload.py"), *words], check=True, capture_output=True,
        text=True, env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
    )  # fmt: skip
    rows = [line.split(" | ")[0] for line in done.stdout.splitlines()[3:]]
    assert rows[:3] == ["| nothing, no limit", "| recomputed, no limit", "| stalloc, no limit"]
    assert "| stalloc at the peak of save_on_cpu" in rows
    assert "| nothing, no limit | 2 | " in done.stdout
    assert "not run: No module named 'trl'" in done.stdout or "| TRL | 2" in done.stdout
    runs = [json.loads(line) for line in (tmp_path / "new" / "runs.jsonl").open()]
    assert len(runs) == done.stderr.count("tokens/s")
    assert all({"host_us", "command", "commit", "date", "wrong"} <= run.keys() for run in runs)
    # What is timed comes after steps that are not.
    assert all(len(run["losses"]) >= 4 for run in runs)


def test_offload_fails_where_bits_differ():
    import offload_activations_table

    row = {"tokens/s": 1.0, "live": 1, "held": 2, "losses": [1.0, 2.0], "wrong": "", "limit": None}
    other = {**row, "losses": [1.0, 2.5, 3.0], "limit": 1}
    rows = {"one": [row], "two": [{**row, "losses": [1.0]}], "three": [row, other]}
    text = offload_activations_table.table(rows, "one", "two")
    assert text.splitlines()[-2:] == [
        "WRONG: three: held more than the limit",
        "WRONG: three: other bits",
    ]


def test_offload_compares_speeds_within_a_turn():
    import offload_activations_table

    rows = {
        "plain": [{"tokens/s": 100.0}, {"tokens/s": 50.0}, {"tokens/s": 80.0}],
        "other": [{"tokens/s": 90.0}, {"failed": "out of memory"}, {"tokens/s": 88.0}],
    }
    beside = offload_activations_table.ratios(rows["other"], rows["plain"])
    assert beside == pytest.approx([0.9, 1.1])
    assert offload_activations_table.shown(beside, "{:.2f}") == "1.00 (0.90..1.10)"
