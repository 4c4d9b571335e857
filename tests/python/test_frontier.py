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
from frontier_search import GIB, Way
from machine import Machine


class Pretend:
    """Weights and states take 20 GiB, a sequence 4, a sixth of that where all is recomputed.

    native needs 1.2 of the peak load, expandable 1.05, stalloc 1.01.
    """

    NEED = {"native": 1.2, "expandable": 1.05, "async": 1.1, "stalloc": 1.01,
            "stalloc:pool=gmlake": 1.08}  # fmt: skip
    DEVICE = 76
    KERNELS = 1.0  # of a step's time

    def __init__(self):
        self.runs, self.fail, self.ready = [], None, 0

    def __call__(self, share):
        return self

    def __exit__(self, *_):
        pass

    def prepare(self, runs):
        self.ready += len(runs)

    def launch(self, script, options, allocator, timeout, gpus, profile=False):
        if script:
            self.ready -= 1
            assert self.ready >= 0, "a process started beside a run"
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
        kernels = {"device_ms": 1000 * self.KERNELS * slow} if profile else {}
        return {"steps": steps, "summary": summary, "checksum": "a", "device": "Some GPU",
                "finite": True, **kernels}  # fmt: skip


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
    assert gpu.run("--columns", "native", "expandable", "async", "stalloc", "--turns", "1") == 0
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line[:1] == "{"]
    assert len(said) == 4 * 15
    for row in said:
        want = exhaustive(row["column"], row["GiB"])
        (found,) = row.get("tokens/s", [0])
        assert abs(found - want) <= (1 - frontier_search.SAME) * want + 1, row
    assert len(gpu.runs) < 72  # of 12 ways x 4 allocators x 15 sizes


def test_offloading_trains_faster_and_where_nobody_else_does(gpu, capsys):
    assert gpu.run("--sizes", "24", "21", "--columns", *frontier.COLUMNS) == 0
    rows = capsys.readouterr().out.split("| GiB |")[1].splitlines()
    assert rows[3].startswith("| 24 | does not train | 25,904 ±0.0 % (1, every second layer) |")
    assert rows[3].endswith("| 29,789 ±0.0 % (1, none + states) | +0.0 % | +15.0 % |")
    assert rows[2].startswith("| 21 | does not train | does not train | does not train |")
    assert rows[2].endswith("(1, none + states) | alone | alone |")


def test_what_the_host_bounds_is_told_as_measured_too(gpu, capsys):
    gpu.KERNELS = 0.5
    columns = "native", "expandable", "stalloc"
    assert gpu.run("--sizes", "24", "--columns", *columns, "--turns", "1") == 0
    (row,) = [line for line in capsys.readouterr().out.splitlines() if line[:4] == "| 24"]
    assert row.startswith("| 24 | does not train | 51,644 (1, every second layer) [25,904] |")


def test_kernels_of_earlier_runs_are_profiled_later_but_not_for_a_table(gpu):
    assert gpu.run("--sizes", "32", "--columns", "native", "expandable", "--turns", "1") == 0
    lines = [json.loads(line) for line in gpu.path.read_text().splitlines()]
    of_host = [line for line in lines if "device_ms" in line["result"]]
    small = [line["key"]["options"].split()[1] for line in of_host]
    assert sorted(small) == ["1"] * 3 + ["2"] * 3
    for line in of_host:
        del line["result"]["device_ms"]
    gpu.path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    count = len(gpu.runs)
    assert gpu.run("--table") == 0 and len(gpu.runs) == count
    assert gpu.run("--sizes", "32", "--columns", "native", "--turns", "1") == 0
    assert len(gpu.runs) == count + 6


def test_a_run_that_is_not_finite_fails_its_column(gpu, capsys):
    gpu.fail = "--offload"
    assert gpu.run("--sizes", "24", "40") == 1
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line[:1] == "{"]
    failed = [row for row in said if "failed" in row]
    assert [row["column"] for row in failed] == ["offload"]
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
    assert "over the best peer, 2 sizes: median" in whole  # 30 GiB are proven by other runs
    assert gpu.run("--budget", "0") == ledger.EXIT_MORE


def test_gains_are_over_the_better_peer():
    found = {name: frontier_search.Found(Way(1, 0), (rate,)) for name, rate in
             {"native": 80, "expandable": 100, "async": 90, "stalloc": 110}.items()}  # fmt: skip
    row = frontier_table.Row(24, {**found, "offload": None})
    assert row.gain("stalloc") == pytest.approx(10) and row.gain("offload") is None
    nobody = frontier_table.Row(20, {"native": None, "expandable": None, "stalloc": None,
                                     "offload": found["stalloc"]})  # fmt: skip
    assert frontier_table.gain(nobody, "offload") == "alone"
    assert list(frontier_table.summaries([row, nobody]))[0].endswith("least +10.0 % at 24 GiB.")


def test_what_tried_again_at_the_hosts_speed_is_compared_with_nothing():
    slow = frontier_search.Found(Way(1, 0), (80,), (80,), retried=True)
    found = {"native": slow, "stalloc": frontier_search.Found(Way(1, 0), (99,))}
    row = frontier_table.Row(24, found)
    assert frontier_table.cell(row.found, "native") == "[80] (1, none)"
    assert row.gain("stalloc") is None and frontier_table.gain(row, "stalloc") == "–"


def test_what_trains_at_a_smaller_size_does_so_at_a_larger_one():
    few = frontier_search.Found(Way(1, 0), (100,))
    many = frontier_search.Found(Way(2, 0), (120,))
    found = {"native": few, "expandable": None, "stalloc": many}
    frontier_table.carry({"native": many, "expandable": few, "stalloc": few, "offload": few}, found)
    assert (found["native"].rate, found["native"].least) == (120, True)
    assert (found["stalloc"].rate, found["stalloc"].least) == (120, False)
    assert found["offload"].least and found["expandable"] is None
    row = frontier_table.Row(32, found)
    assert row.gain("stalloc") is None  # ways of the peer that were not run may be faster
    row = frontier_table.Row(32, {"native": few, "offload": found["offload"]})
    assert frontier_table.gain(row, "offload") == "≥ +0.0 %"
    assert list(frontier_table.summaries([row])) == []


@pytest.mark.torch
@pytest.mark.parametrize("more", [[], ["--lengths"], ["--recompute", "2"]])
def test_the_program_on_a_cpu(tmp_path, more):
    out = tmp_path / "r.json"
    words = ["--tiny", "--batch", "4", "--steps", "3", "--no-deterministic", "--json", str(out)]
    command = [sys.executable, str(frontier.HERE / "train_frontier.py"), *words, *more]
    subprocess.run(command, env={**os.environ, "CUDA_VISIBLE_DEVICES": ""}, check=True)
    report = json.loads(out.read_text())
    assert report["finite"] and [step["items"] for step in report["steps"]] == [16 * 64] * 3


def test_lengths_differ_and_sum_up_to_the_same():
    import train_frontier

    args = train_frontier.parse_arguments(["--lengths", "--batch", "2"])
    some = [train_frontier.lengths(args, number) for number in range(9)]
    assert {sum(lengths) for lengths in some} == {8 * 2048} and len(set(map(tuple, some))) == 9
    assert all(1024 <= length <= 3072 for lengths in some for length in lengths)
