"""Allocators in turns, over processes and GPUs that only pretend; and FSDP2 on the CPU."""

import sys
import threading
import types

import ledger
import pretend
import pytest
import turns
import turns_table
from machine import Machine

MIB = 1 << 20


class Pretend:
    """Stands for workers: runs take their programs' seconds, of a clock that all GPUs share."""

    RESERVED = {"native": 1250, "expandable": 1100, "stalloc": 1010}

    def __init__(self):
        self.now, self.started, self.runs, self.crash, self.full = 0.0, [], [], None, None
        self.lock, self.weights = threading.Lock(), "abc"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def prepare(self, runs):
        self.started.append([(script.name, allocator, gpus) for script, allocator, gpus in runs])
        self.now += 20

    def launch(self, script, options, allocator, timeout, gpus):
        turn = len(self.started) - 1
        with self.lock:
            self.runs.append((turn, script.name, allocator, gpus))
            self.now += 10
        if self.crash == (script.name, allocator):
            return {"failed": "exit status 1: KeyError: 'x'"}
        if self.full == (script.name, allocator):
            return {"failed": "out of memory in step 2", "out_of_memory": {"step": 2}}
        reports = [self.report(allocator, rank, turn) for rank in range(len(gpus))]
        return {**reports[0], **({"others": reports[1:]} if reports[1:] else {})}

    def report(self, allocator, rank, turn):
        """The machine is twice as slow in the second turn, and stalloc's first steps always."""
        slow = (2 if turn == 1 else 1) * (1.01 if allocator == "stalloc" else 1)
        first = 2 if allocator == "stalloc" else 1
        steps = [
            pretend.step(
                slow * 0.1 * (first if number < 8 else 1),
                driver=(0.5, 100) if number < 8 else (0, 3),
                peak_allocated=(1000 - rank) * MIB,
            )
            for number in range(12)
        ]
        summary = {
            "median_step_seconds": slow * 0.1, "median_items_per_second": 1,
            "peak_load": 990 * MIB, "peak_reserved": self.RESERVED[allocator] * MIB,
        }  # fmt: skip
        return {
            "steps": steps,
            "summary": summary,
            "checksum": f"{self.weights}{rank}",
            "device": "Some GPU",
        }


@pytest.fixture
def gpus(monkeypatch, tmp_path):
    monkeypatch.setattr(turns.train_megatron, "missing", lambda: "")
    monkeypatch.setattr(turns.harness, "missing", lambda *modules: "")
    monkeypatch.setattr(ledger, "commit", lambda: "abc1234")
    fake = Pretend()

    def run(*options, count=2):
        words = ["--json", str(tmp_path / "t.jsonl"), *options]
        return turns.main(words, fake, Machine(count, 80, "Some GPU"))

    fake.run, fake.path = run, tmp_path / "t.jsonl"
    return fake


def test_a_turn_starts_at_once_and_gpus_are_busy_together(gpus, capsys):
    assert gpus.run("--turns", "2") == 0
    assert [len(turn) for turn in gpus.started] == [21, 21] and len(gpus.runs) == 42
    for turn, started in enumerate(gpus.started):
        on = {script: where for script, _, where in started}
        assert on["train_fsdp.py"] == on["train_artifact.py"] == (0, 1)
        assert on["train_megatron.py"] == (turn,)
        assert on["train_deepseek.py"] == on["train_megatron.py"]
        assert on["train_hf.py"] == on["train_moe.py"] == on["generate.py"] == (1 - turn,)
        ran = [run for run in gpus.runs if run[0] == turn]
        assert all(len(run[3]) == 2 for run in ran[:6])  # two ranks before what runs side by side
        assert sorted(run[1:] for run in ran) == sorted(started)
    order = [run[2] for run in gpus.runs if run[1] == "train_hf.py"]
    assert order == ["stalloc", "native", "expandable", "native", "expandable", "stalloc"]


def test_the_tables(gpus, capsys):
    assert gpus.run("--turns", "3") == 0
    said = capsys.readouterr().out
    assert "--preset mixtral --steps 18`, the same bits in the weights of all 9 runs." in said
    row = "| FSDP2, Llama 0.55B, rank 1 | 999 | 1,250 | 1,100 | 1,010 | 20.08 % | 9.18 % | 1.09 % |"
    assert row in said
    # Of each turn's own peer: that one turn is slower changes nothing.
    assert (
        "| HF Trainer, variable lengths | 100.0 (100.0 to 200.0) | 100.0 (100.0 to 200.0) "
        "| 101.0 (101.0 to 202.0) | 1.010 (1.010 to 1.010) | 0.80 (0.80 to 1.60) "
        "| 0.80 (0.80 to 1.60) | 1.62 (1.62 to 3.23) | 2.020 (2.020 to 2.020) |"
    ) in said
    host = "| 30.0 | 30.0 | 30.0 | 5.0 | 5.0 | 5.0 | 0.00 | 2.00 | 3.0 | 1.0 |"
    assert f"| Mixtral-like, 8 experts {host}" in said


def test_other_bits_are_said(gpus, capsys):
    gpus.run("--programs", "mixtral", "--turns", "1")
    gpus.weights = "xyz"
    gpus.run("--programs", "mixtral", "--turns", "2")
    assert "NOT the same bits in the weights of all 6 runs." in capsys.readouterr().out


def test_out_of_memory_and_what_fails(gpus, capsys):
    gpus.full, gpus.crash = ("train_fsdp.py", "native"), ("train_hf.py", "stalloc")
    assert gpus.run("--turns", "2") == 1
    said = capsys.readouterr()
    assert "under stalloc: exit status 1: KeyError: 'x'" in said.err
    assert "| FSDP2, Llama 0.55B, rank 1 | 999 | out of memory | 1,100 | 1,010 |" in said.out
    assert not any(script == "train_hf.py" for script, _, _ in gpus.started[1])
    assert any(script == "train_moe.py" for script, _, _ in gpus.started[1])


def test_a_ledger_is_of_one_machine(gpus):
    assert gpus.run("--turns", "1", "--programs", "mixtral") == 0
    options = ["--json", str(gpus.path)]
    with pytest.raises(SystemExit, match="has runs of Some GPU, and this is Other GPU: name"):
        turns.main(options, gpus, Machine(2, 80, "Other GPU"))


def test_no_gpu(gpus, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", torch := types.SimpleNamespace())
    torch.cuda = types.SimpleNamespace(device_count=lambda: 0)
    with pytest.raises(SystemExit, match="turns.py: no GPU here; --table shows"):
        turns.main(["--json", str(gpus.path)], gpus)


def test_one_gpu_runs_what_it_can(gpus, capsys):
    assert gpus.run("--turns", "1", count=1) == 0
    assert "pipeline: not run: needs 2 GPUs, here is 1" in capsys.readouterr().out
    assert {where for _, _, _, where in gpus.runs} == {(0,)} and len(gpus.runs) == 15


def test_pieces_come_to_the_same(gpus, capsys, monkeypatch):
    kind = ledger.Ledger

    def make(path, budget, start=None, clock=None):
        return kind(path, budget, start, lambda: gpus.now)

    monkeypatch.setattr(ledger, "Ledger", make)
    assert gpus.run("--turns", "2", "--budget", "1e9") == 0
    whole, runs = capsys.readouterr().out, len(gpus.runs)
    gpus.path.unlink()
    gpus.runs, gpus.started, pieces = [], [], 1
    gpus.report = lambda allocator, rank, turn: Pretend.report(gpus, allocator, rank, 0)
    while gpus.run("--turns", "2", "--budget", "200") == ledger.EXIT_MORE:
        pieces += 1
        assert pieces < 20
    assert pieces > 2 and len(gpus.runs) == runs
    memory = whole.split("| MiB |")[1].split("\n\n")[0]
    assert memory in capsys.readouterr().out
    assert gpus.run("--turns", "2", "--budget", "0") == 0 and len(gpus.runs) == runs
    assert gpus.run("--turns", "2", "--table") == 0


def test_the_interval_holds_the_median_and_most_of_its_samples():
    assert turns_table.interval([1.0] * 5) == (1.0, 1.0)
    low, high = turns_table.interval([1.0, 1.01, 1.02, 1.03, 1.5])
    assert low == 1.0 and high == 1.5  # five turns say no more
    values = [1 + 0.001 * (n % 7) for n in range(70)]
    low, high = turns_table.interval(values)
    assert 1.001 <= low <= 1.003 <= high <= 1.005


@pytest.mark.torch
def test_fsdp_of_two_ranks_on_the_cpu(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    options = ["--json", str(tmp_path / "t.jsonl"), "--programs", "fsdp", "--turns", "1"]
    options += ["--allocators", "native", "expandable", "--", "--tiny"]
    assert turns.main(options, here=Machine(2, device="CPU")) == 0
    said = capsys.readouterr().out
    assert (
        "--steps 14 --tiny`, the same bits in the weights of all 2 runs" in said
        and "rank 1 | 0 | 0 | 0" in said
    )
