"""Allocators in turns of some steps, over processes that only pretend; and what the table says."""

import json
import os
import threading

import harness
import ledger
import pretend
import pytest
import together
import together_brief
import together_table
import turnstile
from machine import Machine

SPEED = {"native": 1.0, "expandable": 1.01, "stalloc": 1.05}
OTHERS = {"async": 1.02, "stalloc:pool=gmlake": 1.2}
GIB = 1 << 30


class Machinery:
    """What all processes share: whose turn it is, and the host's speed."""

    def __init__(self):
        self.order, self.slow, self.fail, self.bits, self.profiler = [], set(), {}, "abc", True
        self.ended = 0

    def make(self, script, allocator, gpu, share):
        return Pretend(self, allocator)


class Pretend:
    """A process: in the turns of Machinery.slow the host is 1.4 slower, as the third turn's native
    steps are, which its yardstick shows."""

    def __init__(self, machinery, allocator):
        self.of, self.allocator, self.steps = machinery, allocator, []
        self.answers, wake = map(os.fdopen, os.pipe(), "rw")
        wake.write("there is an answer")
        wake.close()

    def ready(self):
        pass

    def go(self, options, environment, turns):
        self.first, self.every = turns
        self.last = int(options[options.index("--steps") + 1])
        self.train(self.first)

    def train(self, until):
        while len(self.steps) < min(until, self.last):
            turn = (len(self.steps) - self.first) // self.every
            slow = 1.4 if (self.allocator, turn) in self.of.slow else 1
            number = len(self.steps)
            seconds = 0.1 * {**SPEED, **OTHERS}[self.allocator] * slow * (1 + number % 3)
            self.steps.append(pretend.step(seconds, host_us=200 * slow))

    def tell(self, line):
        self.told = line
        if "profile" not in line:
            self.of.order.append(self.allocator)
            self.train(len(self.steps) + self.every)

    def answer(self):
        if self.allocator in self.of.fail:
            return self.of.fail[self.allocator]
        if "profile" in getattr(self, "told", {}):
            return {"device_ms": 60.0} if self.of.profiler else {"failed": "exit status 1"}
        if len(self.steps) < self.last:
            return {"paused": len(self.steps)}
        held = {"native": 10 * GIB, "expandable": 9.3 * GIB}.get(self.allocator, 9.1 * GIB)
        load = 0 if self.allocator == "async" else 9 * GIB
        summary = {"median_step_seconds": 0.1, "median_items_per_second": 1,
                   "peak_load": load, "peak_reserved": held}  # fmt: skip
        bits = self.of.bits if self.allocator == "stalloc" else "abc"
        return {"steps": self.steps, "summary": summary, "checksum": bits, "device": "Some GPU"}

    def kill(self):
        self.of.ended += 1

    def end(self):
        self.answers.close()


@pytest.fixture
def gpu(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(ledger, "commit", lambda: "abc1234")
    of = Machinery()

    def run(*options):
        words = ["--json", str(tmp_path / "t.jsonl"), "--programs", "mixtral"]
        words += ["--allocators", *SPEED, "--every", "4", *options]
        of.status = together.main(words, Machine(1, 80, "Some GPU"), of.make)
        return capsys.readouterr().out

    of.run = run
    return of


def test_all_have_a_turn_before_anyone_has_two_and_the_order_varies(gpu):
    said = gpu.run("--turns", "6")
    rounds = [tuple(gpu.order[at : at + 3]) for at in range(0, 18, 3)]
    assert all(sorted(those) == sorted(SPEED) for those in rounds) and len(set(rounds)) > 1
    assert gpu.status == 0 and gpu.ended == 3
    row = "| Mixtral-like, 8 experts | 200.0 | 202.0 | 210.0 | 1.050 (1.050 to 1.050) |"
    assert row in said and "--preset mixtral --steps 32`, 6 turns;" in said
    assert "| Mixtral-like, 8 experts | 9.0 | 11.1 | 3.3 | 1.1 |" in said
    known = json.loads(said.splitlines()[0])
    assert known["step beside native"] == known["step beside expandable"] == "slower"
    assert known["cpu beside native"] == "no difference seen"
    assert "| **all** |  |  |  | 1.050 (1.050 to 1.050) |" in said
    assert "| Mixtral-like, 8 experts | 100 %: 1.050 (1.050 to 1.050) |" in said
    assert known["device_ms"] == dict.fromkeys(SPEED, 60.0)


def test_steps_at_the_slow_speed_do_not_count_whoever_ran_them(gpu):
    gpu.slow = {("native", 1), ("native", 2), ("stalloc", 4)}
    known = json.loads(gpu.run("--turns", "6").splitlines()[0])
    assert known["step/native"] == "1.050 (1.050 to 1.050)"
    assert known["step/native, all"] == "1.050 (0.750 to 1.260)"
    assert known["kept"] == {"native": 0.5, "expandable": 0.83}


def test_two_turns_have_no_interval(gpu):
    gpu.slow = {("native", turn) for turn in range(4)}
    known = json.loads(gpu.run("--turns", "6").splitlines()[0])
    assert known["step/native"] == known["step beside native"] == "–"


def test_what_is_there_is_not_run_again_and_sets_are_put_together(gpu):
    gpu.run()
    once = len(gpu.order)
    gpu.run("--sets", "2")
    assert len(gpu.order) == 2 * once
    assert ", 14 turns; the same bits." in gpu.run("--sets", "2", "--table")
    assert len(gpu.order) == 2 * once


@pytest.mark.parametrize("budget, status", [("200", 75), ("580", 1)])
def test_a_process_that_does_not_answer(gpu, monkeypatch, budget, status):
    """Where the piece had little time left, the next one tries again; else it hangs."""
    monkeypatch.setattr(together.select, "select", lambda *_: ([], [], []))
    gpu.run("--budget", budget)
    assert gpu.status == status and gpu.ended == 3


def test_other_bits_and_a_profiler_that_does_not_work(gpu):
    gpu.bits, gpu.profiler = "xyz", False
    said = gpu.run()
    assert "NOT the same bits" in said and "| – | – | – |" in said


def test_all_five_and_one_that_does_not_count_what_was_asked_for(gpu):
    those = ["native", "expandable", "async", "stalloc:pool=gmlake", "stalloc"]
    said = gpu.run("--allocators", *those)
    assert "| native | expandable segments | cudaMallocAsync | GMLake's | stalloc |" in said
    assert "| Mixtral-like, 8 experts | 9.0 | 11.1 | 3.3 | 1.1 | 1.1 | 1.1 |" in said
    assert (
        "| 1.050 (1.050 to 1.050) | 1.040 (1.040 to 1.040) | 1.029 (1.029 to 1.029) | 0.8" in said
    )


def test_a_process_that_fails_ends_its_program(gpu):
    gpu.fail = {"stalloc": {"failed": "exit status 1: KeyError: 'x'"}}
    gpu.run()
    assert gpu.status == 1 and gpu.ended == 3


def test_no_time_no_run(gpu):
    gpu.run("--budget", "5")
    assert gpu.status == ledger.EXIT_MORE and not gpu.order


def test_the_turnstile_stops_steps_from_the_first_turn_on():
    read, write = (os.fdopen(end, mode) for end, mode in zip(os.pipe(), "rw"))
    said, tell = (os.fdopen(end, mode) for end, mode in zip(os.pipe(), "rw"))
    passed = []
    turnstile.open_to(read, tell, 2, 3)
    try:
        thread = threading.Thread(
            target=lambda: [turnstile.wait(n) or passed.append(n) for n in range(6)]
        )
        thread.start()
        for step in (2, 5):
            assert json.loads(said.readline()) == {"paused": step}
            assert passed == list(range(step))
            write.write("go\n")
            write.flush()
        thread.join(10)
        assert passed == list(range(6))
    finally:
        turnstile.close()
    assert not turnstile.wait(2) and harness.turnstile is turnstile


def test_nothing_is_made_of_nothing():
    assert together_table.with_interval([]) == "–"
    assert together_table.verdict([1.02, 1.03, 1.04]) == "slower"
    assert together_table.verdict([0.98, 1.03, 1.04]) == "no difference seen"


def test_the_brief_tables_are_medians_over_programs(gpu, tmp_path):
    gpu.run("--programs", "mixtral", "fsdp", "--turns", "6")
    words = ["--json", str(tmp_path / "t.jsonl"), "--programs", "mixtral", "fsdp", "micro"]
    args = together.parse_arguments([*words, "--allocators", *SPEED, "--turns", "6"])
    bench = together.Bench(args, ledger.Ledger(args.json, 0))
    assert together_brief.measured(bench) == ["mixtral", "fsdp"]
    full = together_brief.tables(bench, together.PROGRAMS)
    assert "| FSDP2, Llama 0.55B, beside a fake rank | 9.0 | 11.1 | 3.3 | 1.1 |" in full
    row = "fake rank | 6 | 200.0 | 1.010 (1.010 to 1.010) | 1.050 (1.050 to 1.050) |"
    assert row in full
    brief = together_brief.brief(bench).splitlines()
    assert brief[0].startswith("| 2 programs | native |")
    assert brief[2].endswith("median, worst | 11.1, 11.1 | 3.3, 3.3 | 1.1, 1.1 |")
    assert brief[3].endswith("| 1 | 1.010 (1.010 to 1.010) | 1.050 (1.050 to 1.050) |")
