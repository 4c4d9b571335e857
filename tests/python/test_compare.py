"""The comparison's judgement, and the examples' option parsing, without PyTorch."""

import copy
import json
import sys

import compare
import harness
import judge
import launch
import measure
import pytest
import train_llama


def report(name, losses=(1.0, 0.5), hits=10, checksum="00ff"):
    """A finished run as the examples write it."""
    steps = [
        {
            "step": n, "phase": "train", "loss": loss, "loss_bits": measure.bits(loss),
            "seconds": 0.25, "hits": hits // 2, "misses": 0, "peak_reserved": 100 << 20,
            "plan_generation": int(n > 0), "items": 8, "peak_load": 90 << 20,
        }
        for n, loss in enumerate(losses)
    ]  # fmt: skip
    phases = {"train": {"steps": len(steps), "hits": hits, "misses": 1}}
    summary = {
        "peak_reserved": 100 << 20, "peak_load": 90 << 20, "fragmentation": 0.1,
        "steady_reserved": 95 << 20, "hits": hits, "misses": 1, "plan_generation": 1,
        "median_step_seconds": 0.25, "median_driver_seconds": 0.005, "phases": phases,
    }  # fmt: skip
    setup = {"hits": 0, "misses": 0, "plan_generation": 0}
    return {
        "allocator": name, "setup": setup, "device": "Some GPU", "torch": "2.11.0", "cuda": "13.0",
        "arguments": {"layers": 2, "steps": 2, "recompute": False}, "steps": steps,
        "summary": summary, "checksum": checksum,
    }  # fmt: skip


@pytest.fixture
def reports():
    return {name: report(name) for name in ("native", "expandable", "stalloc:a=1")}


def faults(reports):
    reference = judge.reference_of(reports)
    return {
        name: found
        for name, each in reports.items()
        if (found := judge.faults_of(name, each, reference))
    }


def test_agreement(reports):
    assert faults(reports) == {}


def test_one_differing_bit_is_found(reports):
    step = reports["stalloc:a=1"]["steps"][1]
    step["loss_bits"] = f"{int(step['loss_bits'], 16) ^ 1:08x}"
    assert "step 1: loss 0.5 (3f000001), expected 0.5 (3f000000)" in str(faults(reports))
    assert "| NO |" in judge.table(reports)


def test_differing_weights_are_found(reports):
    reports["expandable"]["checksum"] = "00fe"
    assert list(faults(reports)) == ["expandable"]


def test_missing_steps_are_found(reports):
    reports["stalloc:a=1"]["steps"].pop()
    assert faults(reports) == {"stalloc:a=1": ["1 steps, expected 2"]}


def test_differing_evaluation_is_found(reports):
    for each in reports.values():
        each["steps"][1].update(evaluation=2.0, evaluation_bits=measure.bits(2.0))
    assert faults(reports) == {}
    reports["expandable"]["steps"][1]["evaluation_bits"] = measure.bits(2.5)
    assert list(faults(reports)) == ["expandable"]


LONG = (6.0, 5.0, 4.0, 3.0, 2.0, 1.0)


def test_no_hits_is_a_fault_of_stalloc_alone():
    reports = {name: report(name, LONG, hits=0) for name in ("native", "stalloc:a=1")}
    assert faults(reports) == {"stalloc:a=1": ["no request was served from a plan (0 hits)"]}


@pytest.mark.parametrize("key", ["items", "peak_load", "phase"])
def test_steps_that_do_not_repeat_need_no_plan(key):
    reports = {name: report(name, LONG, hits=0) for name in ("native", "stalloc:a=1")}
    assert faults(reports)
    for each in reports.values():
        each["steps"][3][key] = "another"
    assert faults(reports) == {}


def test_failed_run_is_a_fault_and_no_reference(reports):
    reports["native"] = {"failed": "out of memory in step 3"}
    assert faults(reports) == {"native": ["out of memory in step 3"]}
    assert "| native | out of memory in step 3 |" in judge.table(reports)


def test_all_failed():
    reports = {name: {"failed": "exit status 1"} for name in compare.DEFAULT}
    assert len(faults(reports)) == 3
    assert "no run got as far" in judge.title(compare.HERE / "x.py", reports)
    assert judge.table(reports).count("exit status 1") == 3


def test_table_and_title(reports):
    lines = judge.table(reports).splitlines()
    assert len({line.count("|") for line in lines}) == 1
    assert "| 100 MiB | 95 MiB | 90 MiB | 10.00% | 10 | 1 | 250.0 ms | 5.0 ms | yes |" in lines[-1]
    assert "| – | – |" in lines[2]
    assert "Some GPU, PyTorch 2.11.0" in judge.title(compare.HERE / "train_llama.py", reports)


def test_phases_are_shown_when_there_are_several(reports):
    assert judge.phase_table(reports) == ""
    more = copy.deepcopy(reports)
    more["stalloc:a=1"]["summary"]["phases"]["train+eval"] = {"steps": 1, "hits": 3, "misses": 1}
    assert "| stalloc:a=1 | train+eval | 1 | 3 | 1 | 75.00% |" in judge.phase_table(more)


@pytest.mark.parametrize(
    "body, timeout, failed",
    [
        ("import sys; sys.exit(7)", 600, "exit status 7"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", 600, "killed by signal 9"),
        ("import time; time.sleep(60)", 1, "no end after 1 s"),
    ],
)
def test_runs_that_fail(tmp_path, body, timeout, failed):
    script = tmp_path / "script.py"
    script.write_text(body)
    assert launch.launch(script, [], "native", timeout)["failed"] == failed


def test_unknown_options_go_to_the_example():
    args = compare.parse_arguments(["--allocators", "native", "--", "--steps", "3", "--recompute"])
    assert args.allocators == ["native"] and args.rest == ["--steps", "3", "--recompute"]


def test_options_of_the_example():
    args = train_llama.parse_arguments(["--batch-change", "15:4", "--batch", "3"])
    assert args.batch_change == (15, 4) and args.eval_batch == 6 and args.heads == 16
    assert train_llama.parse_arguments(["--tiny"]).width == 64


@pytest.mark.parametrize(
    "options, message",
    [
        (["--batch-change", "15"], "15: expected STEP:BATCH"),
        (["--batch-change", "1:0"], "BATCH positive"),
        (["--steps", "0"], "0 is not a positive number"),
        (["--width", "100", "--heads", "3"], "must be a multiple of twice --heads 3"),
    ],
)
def test_bad_options(options, message, capsys):
    with pytest.raises(SystemExit):
        train_llama.parse_arguments(options)
    assert message in capsys.readouterr().err


def test_default_is_the_model_of_1_3_billion():
    args = train_llama.parse_arguments([])
    config = train_llama.Config(args.layers, args.width, args.heads, args.vocabulary, False)
    block = 4 * config.width**2 + 3 * config.width * config.hidden + 2 * config.width
    weights = config.layers * block + 2 * config.vocabulary * config.width + config.width
    assert 1.3e9 < weights < 1.4e9


@pytest.mark.parametrize("name", ["cuda", "native:x=1", "stallocate"])
def test_unknown_allocator(name, monkeypatch):
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    with pytest.raises(SystemExit, match="expected native, expandable"):
        harness.choose_allocator(name)


def test_allocator_after_torch_is_a_mistake(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", object())
    with pytest.raises(RuntimeError, match="torch is already imported"):
        harness.choose_allocator("native")


def test_bits():
    assert measure.bits(1.0) == "3f800000"
    assert measure.bits(-0.0) != measure.bits(0.0)


SCRIPT = """
import json, sys
options = dict(zip(sys.argv[1::2], sys.argv[2::2]))
report = json.load(open(options["--report"]))
report["allocator"] = options["--allocator"]
json.dump(report, open(options["--json"], "w"))
"""


@pytest.mark.parametrize("hits, status", [(10, 0), (0, 1)])
def test_the_whole_comparison(tmp_path, capsys, hits, status):
    script, prepared, out = (tmp_path / name for name in ("train.py", "in.json", "out.json"))
    script.write_text(SCRIPT)
    prepared.write_text(json.dumps(report("any", LONG, hits)))
    options = ["--script", str(script), "--json", str(out), "--report", str(prepared)]
    assert compare.main([*options, "--allocators", "native", "stalloc", "stalloc"]) == status
    assert list(json.loads(out.read_text())) == ["native", "stalloc", "stalloc (2)"]
    printed = capsys.readouterr().out
    assert ("agree bit for bit" in printed) == (status == 0)
    assert ("0 hits" in printed) == (status == 1)


def test_nothing_is_started_when_the_time_is_up(tmp_path):
    reports = launch.launch_all(tmp_path / "absent.py", [], ["native"], lambda: 0)
    assert reports == {"native": {"failed": "not run: the time is up"}}


def test_what_planning_costs():
    other, ours = report("native", losses=range(6)), report("stalloc", losses=range(6))
    for step, generation, seconds in zip(
        ours["steps"], (0, 0, 0, 1, 1, 1), (9.0, 0.26, 0.28, 0.5, 0.24, 0.24)
    ):
        step.update(plan_generation=generation, seconds=seconds)
    before, activation, after = judge.planning_times(ours, other)
    assert before == pytest.approx([1.04, 1.12]) and after == pytest.approx([0.96, 0.96])
    assert activation == pytest.approx([0.25])
    shown = judge.planning_table({"native": other, "stalloc": ours})
    assert "| stalloc | 2 | 1.080 | 1 | +250.0 | 0.960 |" in shown
    assert judge.planning_table({"stalloc": ours}) == ""


def test_a_run_without_plans_needs_no_hits():
    reports = {"native": report("native", LONG, hits=0)}
    reports["stalloc:plan=off"] = report("stalloc:plan=off", LONG, hits=0)
    assert faults(reports) == {}
