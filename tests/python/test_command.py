"""The command `stalloc`: what it hands over to the binary."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import sys
from pathlib import Path
from stalloc import __main__
path = Path(sys.argv.pop(1))
__main__.binary = lambda: path
sys.exit(__main__.main())
"""


@pytest.fixture
def command(tmp_path):
    """command(words): what the command does with a binary that prints its arguments."""
    binary = tmp_path / "stalloc"
    binary.write_text('#!/bin/sh\necho "$@"\n')
    binary.chmod(0o755)

    def run(*words):
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
        line = [sys.executable, "-c", PROGRAM, str(binary), *words]
        return subprocess.run(line, env=environment, capture_output=True, text=True, timeout=300)

    run.binary = binary
    return run


def test_fit_runs_programs_by_this_python(command):
    own = f"--python={sys.executable}"
    for words in (["train.py", "--python=3"], ["--python", "other", "train.py"]):
        assert command("fit", *words).stdout.split() == ["fit", own, *words]
    assert command("report", "run.csv").stdout.split() == ["report", "run.csv"]


def test_a_binary_that_cannot_be_run(command):
    command.binary.write_bytes(b"\x7fELF of another machine")
    done = command("top")
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert f"{command.binary} cannot be run: Exec format error" in done.stderr
