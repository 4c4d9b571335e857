"""Recording programs kept apart: what is there stays, what is too large gets fewer steps."""

import subprocess
from pathlib import Path

import apart
import apart_program
import harness
import pytest


class Recorder:
    """Pretends to record: so many bytes a step, an hour's clock that a program moves on."""

    def __init__(self):
        self.sizes, self.broken, self.now, self.ran = {}, set(), 0.0, []

    def run(self, command, timeout, **_):
        path = Path(command[command.index("-o") + 1])
        name = command[command.index("--name") + 1]
        assert command[1:3] == ["-m", "stalloc.record"]
        steps = apart_program.STEPS[name]
        if "--steps" in command:
            steps = int(command[command.index("--steps") + 1])
        self.ran.append((name, steps))
        self.now += 30
        if timeout < 30:
            raise subprocess.TimeoutExpired(command, timeout)
        if name in self.broken:
            return subprocess.CompletedProcess(command, 1, stderr="one\nValueError: no such\n")
        path.write_bytes(b"x" * (self.sizes.get(name, 1000) * steps))
        return subprocess.CompletedProcess(command, 0, stderr="")


@pytest.fixture
def gpu(monkeypatch):
    monkeypatch.setattr(harness, "missing", lambda *modules: "")
    return Recorder()


def run(gpu, out, *options):
    return apart.main(["--out", str(out), *options], gpu.run, lambda: gpu.now)


def test_pieces(gpu, tmp_path):
    assert run(gpu, tmp_path, "--budget", "200") == apart.EXIT_MORE
    assert 0 < len(list(tmp_path.glob("*.csv.gz"))) < len(apart_program.PROGRAMS)
    assert run(gpu, tmp_path, "--budget", "1000") == 0
    names = sorted(path.name.removesuffix(".csv.gz") for path in tmp_path.glob("[!.]*.csv.gz"))
    assert names == sorted(apart_program.PROGRAMS) and len(gpu.ran) == len(names)
    assert not list(tmp_path.glob(".*.csv.gz"))


def test_what_is_too_large_gets_fewer_steps(gpu, tmp_path, capsys):
    gpu.sizes = {"speech": 200_000, "t5": 900_000}
    assert run(gpu, tmp_path, "--only", "speech", "t5") == 1
    assert gpu.ran == [("speech", 10), ("speech", 7), ("t5", 6)]
    assert (tmp_path / "speech.csv.gz").stat().st_size == 1_400_000
    assert not (tmp_path / "t5.csv.gz").exists()
    assert "t5: 5,400,000 bytes, and with 4 steps still above" in capsys.readouterr().err


def test_what_cannot_be_recorded_is_said(gpu, tmp_path, capsys, monkeypatch):
    gpu.broken = {"grpo"}
    monkeypatch.setattr(harness, "missing", lambda *modules: "no monai" * ("monai" in modules))
    assert run(gpu, tmp_path, "--only", "grpo", "unet3d", "images") == 1
    said = capsys.readouterr().err
    assert "grpo: exit status 1: ValueError: no such" in said and "unet3d: no monai" in said
    assert (tmp_path / "images.csv.gz").exists()


def test_every_program_says_what_it_needs():
    assert len(apart_program.PROGRAMS) >= 8
    assert set(apart_program.STEPS) == set(apart_program.PROGRAMS)
    assert min(apart_program.STEPS.values()) >= apart.FEWEST
    assert all(needs for _, needs in apart_program.PROGRAMS.values())
