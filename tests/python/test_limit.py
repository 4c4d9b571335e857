"""The benchmark of limits over a program that only pretends: searches, ledger and tables."""

import json
import random

import ledger
import limit
import limit_bench
import limit_table
import pretend
import pytest
from machine import Machine

GIB = 1 << 30


@pytest.mark.parametrize("most", [1, 2, 7, 100, 129])
def test_largest_is_found_from_any_guess(most):
    for answer in range(most + 1):
        for guess in {1, answer, most // 2 + 1, most}:
            calls = []
            got = limit_bench.largest(
                lambda n, calls=calls, answer=answer: calls.append(n) or n <= answer, guess, most
            )
            assert got == answer
            assert len(calls) == len(set(calls)) and all(1 <= n <= most for n in calls)


def test_a_good_guess_needs_few_probes():
    draw = random.Random(1)
    for _ in range(200):
        most = draw.randint(50, 400)
        answer = draw.randint(int(0.8 * most), most)
        calls = []
        limit_bench.largest(
            lambda n, calls=calls, answer=answer: calls.append(n) or n <= answer,
            int(0.9 * most),
            most,
        )
        assert len(calls) <= 10


class Pretend:
    """A GPU: native fits in 1.153 of the peak load and is at full speed from 1.34 on, and so on.

    A unit of size is one GiB of load, on top of 2; a step takes 100 ms for the default of 8.
    """

    FITS = {"native": 1.153, "expandable": 1.028, "stalloc": 1.004}
    FAST = {"native": 1.34, "expandable": 1.119, "stalloc": 1.017}

    def __init__(self):
        self.now, self.runs, self.crash, self.slow = 0.0, [], None, 1.0
        self.gpus = {}  # what ran on each
        self.own, self.needs = [], {}  # processes of their own; by allocator what these need more

    def launch(self, script, options, allocator, timeout, turn=None, beside=(), gpus=()):
        self.runs.append((script.name, allocator, tuple(options)))
        self.gpus.setdefault(gpus, set()).add(script.name)
        said = dict(zip(options, options[1:]))
        size, steps = int(said.get("--batch", 8)), int(said["--steps"])
        load = (2 + size) * GIB
        if timeout < 20:
            self.now += timeout
            return {"failed": f"no end after {timeout} s"}
        self.now += 20
        if self.crash == allocator:
            return {"failed": "exit status 1: RuntimeError: no such kernel"}
        times = float(said.get("--memory-cap", 1000)) * GIB / load
        least = self.FITS[allocator]
        if turn is None:
            self.own.append((allocator, round(times, 4)))
            least += self.needs.get(allocator, 0)
        # A few steps need a little less than many.
        if times < least - (0.03 if steps < 10 else 0):
            return {"failed": "out of memory in step 3", "out_of_memory": {"step": 3}}
        fast = times >= self.FAST[allocator]
        step = (
            0.1 * size / 8 * (1.0 if fast else 1.2) * (self.slow if allocator == "stalloc" else 1)
        )
        each = [pretend.step(step, 0 if fast else i) for i in range(steps)]
        summary = {"median_step_seconds": step, "median_items_per_second": size / step}
        sums = {**summary, "peak_load": load, "peak_reserved": load}
        return {"steps": each, "summary": sums, "checksum": f"of {size}"}


@pytest.fixture
def gpu(monkeypatch, tmp_path):
    fake = Pretend()
    program = limit.Program("Pretend", "train.py", "--steps 12", "--batch", 1, 8)
    monkeypatch.setattr(limit, "PROGRAMS", {"one": program})
    monkeypatch.setattr(ledger, "commit", lambda: "abc1234")

    def run(*options, budget=1e9):
        args = limit.parse_arguments(["--json", str(tmp_path / "l.jsonl"), *options])
        args.programs, args.jobs, args.cap, args.device = ["one"], 1, 80, 130
        book = ledger.Ledger(args.json, budget, fake.launch, lambda: fake.now)
        bench = limit.Bench("one", program, args, book)
        bench.broken = limit.measure([bench], args)
        return bench

    fake.run, fake.path = run, tmp_path / "l.jsonl"
    return fake


def test_knees_and_largest(gpu):
    bench = gpu.run()
    for allocator in gpu.FITS:
        for suffices, true in ((bench.fits, gpu.FITS), (bench.fast, gpu.FAST)):
            low, high = bench.bracket(allocator, suffices)
            assert low < true[allocator] <= high and high - low <= limit_bench.APART + 1e-9
        size = int(80 / gpu.FITS[allocator]) - 2  # so much that the load fits into 80 GiB
        assert bench.largest()[allocator] == size
    printed = limit_table.tables([bench])
    assert "| none | 100.0 | 100.0 | 100.0 |" in printed
    assert "| 1.2 | 120.0, 8 retries | 100.0 | 100.0 |" in printed
    assert "| 1.005 | out of memory | out of memory | 120.0, 8 retries |" in printed
    assert f"| stalloc | {size} | {8 / 0.12:,.0f} | {100 * size / 8 * 1.2:.1f} | 11 |" in printed


def test_what_suffices_is_a_run_in_a_process_of_its_own(gpu):
    gpu.needs = {"stalloc": 0.02}  # what a worker has learned helps it
    bench = gpu.run("--parts", "curve", "knees")
    for allocator in gpu.FITS:
        low, high = bench.bracket(allocator, bench.fits)
        assert low < gpu.FITS[allocator] + gpu.needs.get(allocator, 0) <= high
        assert (allocator, high) in gpu.own
    assert bench.known("stalloc", 1.01, 0, True)["oom"] is False
    assert bench.fits("stalloc", 1.01) is False


def test_other_limits(gpu):
    gpu.run("--parts", "curve", "--limits", "1.2", "1.1")
    caps = {
        run[2][run[2].index("--memory-cap") + 1] for run in gpu.runs if "--memory-cap" in run[2]
    }
    assert caps == {"12.0", "11.0"}


def test_the_same_bits(gpu):
    bench = gpu.run("--turns", "2")
    runs = len(list(bench.checksums()))
    said = f"the same bits in the weights of all {runs} runs that came to their end."
    assert runs > 20 and said in limit_table.about(bench)
    text = gpu.path.read_text()
    gpu.path.write_text(text.replace("of 8", "of other", 1))
    assert "; NOT the same bits" in limit_table.about(gpu.run("--turns", "2"))
    gpu.path.write_text(text.replace('"of 8"', "null", 1))  # of an older ledger
    assert limit_table.about(gpu.run("--turns", "2")).endswith("peak load 10.00 GiB.")


def test_no_limit_below_one_that_did_not_suffice(gpu):
    gpu.run("--parts", "curve", "--turns", "2")
    caps = [float(run[2][run[2].index("--memory-cap") + 1]) / 10 for run in gpu.runs
            if run[1] == "native" and "--memory-cap" in run[2]]  # fmt: skip
    assert caps == pytest.approx([1.5, 1.3, 1.2, 1.1, 1.5, 1.3, 1.2])


def test_pieces_come_to_the_same(gpu):
    whole = limit_table.tables([gpu.run("--turns", "2")])
    runs, pieces = gpu.runs, 0
    gpu.path.unlink()
    gpu.runs = []
    while True:
        pieces += 1
        try:
            bench = gpu.run("--turns", "2", budget=200)
            break
        except ledger.OutOfTime:
            assert pieces < 100
    assert pieces > 5 and limit_table.tables([bench]) == whole
    assert sorted(gpu.runs) == sorted(runs)
    assert limit_table.tables([gpu.run("--turns", "2", budget=0)]) == whole  # nothing is run again


def test_a_line_that_was_cut_off_is_measured_again(gpu):
    gpu.run("--parts", "curve")
    lines = gpu.path.read_text().splitlines(keepends=True)
    gpu.path.write_text("".join(lines[:-1]) + lines[-1][:40] + "\n")
    gpu.runs = []
    gpu.run("--parts", "curve")
    assert len(gpu.runs) == 1
    entry = json.loads(lines[0])
    assert entry["commit"] == "abc1234" and entry["result"]["peak_load"] == 10 * GIB


def test_a_run_that_breaks_is_no_limit(gpu):
    gpu.crash = "expandable"
    broken = str(gpu.run().broken["one"])
    assert "under expandable: exit status 1: RuntimeError" in broken
    assert all('"expandable"' not in line for line in gpu.path.read_text().splitlines())


def test_full_speed_is_the_fastest_allocators(gpu):
    gpu.slow = 1.02
    bench = gpu.run("--parts", "curve", "knees")
    assert bench.bracket("stalloc", bench.fast) == (1.5, None)
    assert "| stalloc | 1.005 | never |" in limit_table.tables([bench])


one_gpu = Machine(1, 80.0, None)


def test_two_gpus_have_programs_of_their_own(gpu, capsys, monkeypatch):
    programs = {
        name: limit.Program("Pretend", f"{name}.py", "--steps 12", "--batch", 1, 8)
        for name in ("one", "two", "three")
    }
    monkeypatch.setattr(limit, "PROGRAMS", programs)
    options = ["--json", str(gpu.path), "--programs", *programs, "--budget", "1e9"]
    assert limit.main(options, gpu.launch, Machine(2, 79.6, None)) == 0
    assert gpu.gpus == {(0,): {"one.py", "three.py"}, (1,): {"two.py"}}
    said = capsys.readouterr().out
    assert said.count("| allocator | batch at 76 GiB | tokens/s") == 3
    assert limit.main([*options, "--table"]) == 0  # the ledger says what the cap was
    assert capsys.readouterr().out == said


def test_the_command(gpu, capsys, monkeypatch):
    options = ["--json", str(gpu.path), "--programs", "one", "--parts", "curve"]
    assert limit.main([*options, "--budget", "0"], gpu.launch, one_gpu) == ledger.EXIT_MORE
    assert "Not measured." in capsys.readouterr().out
    assert limit.main(options, gpu.launch, one_gpu) == 0
    assert (
        "`train.py --steps 12`; 1 turn; peak load 10.00 GiB; the same bits"
        in capsys.readouterr().out
    )
    gpu.crash = "native"
    assert limit.main([*options, "--", "--lr", "1"], gpu.launch, one_gpu) == 1
    assert "--steps 12 --lr 1 under native: exit status 1" in capsys.readouterr().err
    program = limit.Program("Pretend", "train.py", "", "--batch", 1, 8, lambda: "not there")
    monkeypatch.setattr(limit, "PROGRAMS", {"one": program})
    assert limit.main(options, gpu.launch, one_gpu) == 0
    assert "one: not run: not there" in capsys.readouterr().out
