"""The pieces of all benchmarks over several GPUs, without one."""

import importlib
import resource
import shlex
import subprocess
import threading
from pathlib import Path

import ledger
import ledgers
import pytest


class Clock:
    def __init__(self):
        self.now = 0

    def __call__(self):
        return self.now


class Calls:
    """Stands for subprocess.run: what was called, and with which GPU."""

    def __init__(self, statuses=(), meet=0):
        self.seen, self._statuses = [], dict(statuses)
        self._meet = threading.Barrier(meet) if meet else None
        self._lock = threading.Lock()

    def __call__(self, command, stdout, stderr, env):
        if self._meet:
            self._meet.wait(timeout=60)
        script = next(Path(word).name for word in command if word.endswith(".py"))
        words = " ".join(command).partition(script)[2]
        with self._lock:
            self.seen.append((f"{script}{words}", env["CUDA_VISIBLE_DEVICES"], command))
        stdout.write("measured\n")
        status = next((s for part, s in self._statuses.items() if part in words), 0)
        return subprocess.CompletedProcess(command, status)


def test_each_piece_runs_once_on_a_gpu_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,6")
    calls = Calls(meet=2)  # two at a time, or nobody goes on
    names = ["frontier-hf", "frontier-megatron", "largest-24", "largest-40"]
    assert ledgers.Queue(names, tmp_path, 580, ["--x"], calls).run(2) == 0
    assert sorted(gpu for _, gpu, _ in calls.seen) == ["4", "4", "6", "6"]
    assert sorted(words.split(" --x")[0] for words, _, _ in calls.seen) == sorted(
        ledgers.PIECES[name][1] for name in names
    )
    cores = {gpu: command[2] for _, gpu, command in calls.seen if command[0] == "taskset"}
    assert not set(cores.get("4", "").split(",")) & set(cores.get("6", "-").split(","))
    for name in names:
        assert (tmp_path / f"{name}.log").read_text() == "measured\n"


def test_time(tmp_path):
    clock = Clock()

    def call(command, **how):
        assert command[-2:] == ["--budget", f"{100 - clock.now - 10}"]
        clock.now += 30
        return Calls()(command, **how)

    queue = ledgers.Queue(list(ledgers.PIECES), tmp_path, 100, call=call, clock=clock)
    assert queue.run(1) == ledger.EXIT_MORE
    assert list(queue.statuses) == list(ledgers.PIECES)[:2]


@pytest.mark.parametrize(
    "statuses, status",
    [({}, 0), ({"--models hf": 75}, 75), ({"--models hf": 75, "megatron": 1}, 1)],
)
def test_exit_status(tmp_path, statuses, status):
    names = ["frontier-hf", "frontier-megatron", "largest-24"]
    queue = ledgers.Queue(names, tmp_path, 580, call=Calls(statuses))
    assert queue.run(1) == status
    assert list(queue.statuses) == names, "what fails or has no time stops no other piece"


@pytest.mark.parametrize("name", ledgers.PIECES)
def test_pieces_are_commands(name, tmp_path):
    kept, command = ledgers.PIECES[name]
    script, *options = shlex.split(command)
    module = importlib.import_module(Path(script).stem)
    args = module.parse_arguments([*options, "--json", str(tmp_path / "x.jsonl"), "--budget", "9"])
    assert args.budget == 9 and not getattr(args, "rest", [])


def test_lines_of_several_processes_stay_whole(tmp_path):
    path, line = tmp_path / "x.jsonl", "x" * 30_000
    threads = [
        threading.Thread(target=lambda: [ledger.add(path, line) for _ in range(50)])
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert path.read_text().splitlines() == [line] * 200


def test_a_line_that_is_cut_off_is_an_error(tmp_path):
    path, limits = tmp_path / "x.jsonl", resource.getrlimit(resource.RLIMIT_FSIZE)
    ledger.add(path, "x" * 60)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))  # stands for a full disk
    try:
        with pytest.raises(OSError):
            ledger.add(path, "x" * 60)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
