"""The frontier of tokens a second over memory, on a GPU that only pretends; one run on a CPU."""

import json
import os
import re
import subprocess
import sys

import frontier
import frontier_search
import frontier_table
import ledger
import pretend
import pytest
from frontier_search import GIB, Search, Way
from machine import Machine


class Pretend:
    """Weights and states take 20 GiB, a sequence 4, a sixth of that where all is recomputed.

    native needs 1.2 of the live memory, expandable 1.05, stalloc 1.01.
    """

    NEED = {"native": 1.2, "expandable": 1.05, "async": 1.1, "stalloc": 1.01,
            "stalloc:pool=gmlake": 1.08}  # fmt: skip
    DEVICE = 76

    def __init__(self):
        self.runs, self.fail = [], None

    def __call__(self, share):
        return self

    def __exit__(self, *_):
        pass

    def ahead(self, script, allocator, gpus, most):
        assert allocator != "async"

    def launch(self, script, options, allocator, timeout, gpus):
        known = dict(re.findall(r"--(\S+) ([^-\s]\S*)", " ".join(options)))
        self.runs.append((allocator, " ".join(options)))
        if self.fail and self.fail in options:
            return {"failed": "the loss of step 2 is nan: nothing here counts"}
        batch, recompute = int(known["batch"]), int(known["recompute"])
        each = {0: 4, 2: 2.5, 1: 0.7}[recompute]
        live, slow = 20 + batch * each, {0: 1, 2: 1.15, 1: 1.3}[recompute] * (1 + 0.1 / batch)
        cap = float(known.get("memory-cap", self.DEVICE))
        if "--offload" in options:
            short = max(0, live - cap)
            live, slow = min(live, cap), slow * (1 + 0.01 * short)
        held = live * self.NEED[allocator]
        if "--offload" in options:
            held = min(held, cap)
        if held > cap:
            return {"failed": "out of memory in step 0", "out_of_memory": {"step": 0}}
        steps = [pretend.step(slow, peak_allocated=int(live * GIB)) for _ in range(6)]
        summary = {"median_step_seconds": slow, "median_items_per_second": 32768 / slow,
                   "peak_load": int(live * GIB), "peak_reserved": int(held * GIB)}  # fmt: skip
        return {"steps": steps, "summary": summary, "checksum": "a", "device": "Some GPU",
                "finite": True}  # fmt: skip


@pytest.fixture
def gpu(monkeypatch, tmp_path):
    monkeypatch.setattr(ledger, "commit", lambda: "abc1234")
    fake = Pretend()

    def run(*options, count=1):
        words = ["--json", str(tmp_path / "f.jsonl"), "--models", "1.3b", *options]
        return frontier.main(words, Machine(count, 79, "Some GPU"), fake)

    fake.run, fake.path = run, tmp_path / "f.jsonl"
    return fake


def exhaustive(allocator, size):
    """What a search through all ways finds."""
    best = 0
    for recompute in frontier_search.RECOMPUTED:
        for batch in (1, 2, 4, 8):
            options = f"--batch {batch} --recompute {recompute} --memory-cap {size}".split()
            report = Pretend().launch(None, options, allocator, 0, (0,))
            if "failed" not in report:
                best = max(best, report["summary"]["median_items_per_second"])
    return best


def test_it_finds_what_a_search_through_all_finds_with_fewer_runs(gpu, capsys):
    assert gpu.run("--columns", "native", "expandable", "async", "stalloc") == 0
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line[:1] == "{"]
    assert len(said) == 4 * 18
    for row in said:
        want = exhaustive(row["column"], row["GiB"])
        assert abs(row.get("tokens/s", 0) - want) <= (1 - frontier_search.SAME) * want + 1, row
    assert len(gpu.runs) < 72  # of 12 ways x 4 allocators x 18 sizes


def test_offloading_trains_faster_and_where_nobody_else_does(gpu, capsys):
    assert gpu.run("--sizes", "24", "21", "--columns", *frontier.COLUMNS) == 0
    rows = capsys.readouterr().out.split("| GiB |")[1].splitlines()
    assert rows[3].startswith("| 24 | does not train | 25,904 (1, every second layer) (h) |")
    assert rows[3].endswith("| 29,789 (1, none + states) (h) | +0.0 % | +15.0 % |")
    assert rows[2].startswith("| 21 | does not train | does not train | does not train |")
    assert rows[2].endswith("(1, none + states) (h) | alone | alone |")


def test_a_way_that_is_out_of_memory_is_not_tried_with_less(gpu):
    bench = frontier.Bench("1.3b", frontier.parse_arguments(["--json", "x"]), FakeBook())
    search = Search(bench, lambda *_: pytest.fail("it was run"))
    way = Way(4, 0)
    bench.book.put(bench.key("native", way, None), live=36, held=40, seconds=1.0)
    search._profiles = {way: frontier_search.Profile(32768.0, 36 * GIB)}
    bench.book.put(bench.key("stalloc", way, 37), live=36, held=36.4, seconds=1.0)
    bench.book.put(bench.key("expandable", way, 37), None)
    assert search.rate("stalloc", way, 40) == search.rate("stalloc", way, 37) == 32768
    assert search.rate("native", way, 41) == 32768
    assert search.rate("expandable", way, 36) is None


def test_a_slow_run_says_nothing_of_larger_sizes():
    bench = frontier.Bench("1.3b", frontier.parse_arguments(["--json", "x"]), FakeBook())
    asked = []
    search = Search(bench, lambda *run: asked.append(run[:3]) or {"oom": True})
    way = Way(4, 0)
    search._profiles = {way: frontier_search.Profile(32768.0, 36 * GIB)}
    bench.book.put(bench.key("native", way, 38), live=36, held=38, seconds=1.2)
    assert search.rate("native", way, 39) is None and asked == [("native", way, 39)]


def test_what_the_host_bounds_runs_again_until_the_host_was_fast():
    bench = frontier.Bench("1.3b", frontier.parse_arguments(["--json", "x"]), FakeBook())
    way, asked = Way(1, 0), []
    bench.book.put(bench.key("native", Way(2, 0), None), live=30, held=31, seconds=1.0, host=200)

    def run(allocator, way, cap, turn=0):
        asked.append(turn)
        host, seconds = (300, 1.5) if turn == 0 else (205, 1.1)
        key = bench.key(allocator, way, cap, turn)
        bench.book.put(key, live=28, held=29, seconds=seconds, host=host)
        return bench.book.entries[ledger.key_of(key)]

    bench.run = run
    search = Search(bench)
    search._profiles = {way: frontier_search.Profile(30000.0, 28 * GIB)}
    assert search.rate("stalloc", way, 30) == pytest.approx(32768 / 1.1) and asked == [0, 1]
    assert search.rate("stalloc", way, 30) == pytest.approx(32768 / 1.1) and asked == [0, 1]


class FakeBook:
    def __init__(self):
        self.entries = {}

    def has(self, key):
        return ledger.key_of(key) in self.entries

    def put(self, key, live=None, held=0, seconds=0.0, host=0):
        run = {"oom": live is None}
        if live is not None:
            run |= {"peak_load": live * GIB, "peak_reserved": int(held * GIB)}
            run |= {"steps_ms": [1000 * seconds] * 8, "host_us": [host] * 8}
        self.entries[ledger.key_of(key)] = run


def test_a_run_that_is_not_finite_fails_its_column(gpu, capsys):
    gpu.fail = "--offload"
    assert gpu.run("--sizes", "24", "40") == 1
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line[:1] == "{"]
    failed = [row for row in said if "failed" in row]
    assert len(said) == 11 and [row["column"] for row in failed] == ["offload"]
    assert "is nan: nothing here counts" in failed[0]["failed"]


def test_pieces_and_the_table_alone(gpu, capsys):
    assert gpu.run("--sizes", "32", "--columns", "native", "expandable", "stalloc") == 0
    whole, runs = capsys.readouterr().out.split("###")[1], len(gpu.runs)
    assert gpu.run("--sizes", "32", "--budget", "0", "--columns", "native") == 0
    assert len(gpu.runs) == runs
    capsys.readouterr()
    assert gpu.run("--table") == 0
    assert capsys.readouterr().out.split("###")[1] == whole
    assert "| 32 | 27,307 (2, none)" in whole or "(2, none)" in whole
    assert "over the better peer, 1 sizes: median" in whole
    assert gpu.run("--budget", "0") == ledger.EXIT_MORE


def test_gains_are_over_the_better_peer():
    found = {name: frontier_search.Found(rate, Way(1, 0)) for name, rate in
             {"native": 80, "expandable": 100, "async": 90, "stalloc": 110}.items()}  # fmt: skip
    row = frontier_table.Row(24, {**found, "offload": None})
    assert row.gain("stalloc") == pytest.approx(10) and row.gain("offload") is None
    nobody = frontier_table.Row(20, {"native": None, "expandable": None, "stalloc": None,
                                     "offload": found["stalloc"]})  # fmt: skip
    assert frontier_table.gain(nobody, "offload") == "alone"
    assert list(frontier_table.summaries([row, nobody]))[0].endswith("least +10.0 % at 24 GiB.")


@pytest.mark.torch
@pytest.mark.parametrize("more", [[], ["--lengths"], ["--recompute", "2"]])
def test_the_program_on_a_cpu(tmp_path, more):
    out = tmp_path / "r.json"
    words = ["--tiny", "--batch", "4", "--steps", "3", "--no-deterministic", "--json", str(out)]
    command = [sys.executable, str(frontier.SCRIPT), *words, *more]
    subprocess.run(command, env={**os.environ, "CUDA_VISIBLE_DEVICES": ""}, check=True)
    report = json.loads(out.read_text())
    assert report["finite"] and [step["items"] for step in report["steps"]] == [16 * 64] * 3


def test_lengths_differ_and_sum_up_to_the_same():
    import train_frontier

    args = train_frontier.parse_arguments(["--lengths", "--batch", "2"])
    some = [train_frontier.lengths(args, number) for number in range(9)]
    assert {sum(lengths) for lengths in some} == {8 * 2048} and len(set(map(tuple, some))) == 9
    assert all(1024 <= length <= 3072 for lengths in some for length in lengths)
