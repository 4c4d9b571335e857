"""The search for the limit, over a script that fits where it is told to."""

import json
import random

import limit
import pytest
import suite


@pytest.mark.parametrize("most", [1, 2, 7, 100, 129])
def test_largest_is_found_from_any_guess(most):
    for answer in range(most + 1):
        for guess in {1, answer, most // 2 + 1, most}:
            calls = []
            assert limit.largest(lambda n: calls.append(n) or n <= answer, guess, most) == answer  # noqa: B023
            assert len(calls) == len(set(calls)) and all(1 <= n <= most for n in calls)


def test_a_good_guess_needs_few_probes():
    draw = random.Random(1)
    for _ in range(200):
        most = draw.randint(50, 400)
        answer = draw.randint(int(0.8 * most), most)
        calls = []
        limit.largest(lambda n: calls.append(n) or n <= answer, int(0.9 * most), most)  # noqa: B023
        assert len(calls) <= 9


# Holds 1 MiB a token, and twice that under "native", in whole GiB of --memory-cap. Under "late"
# what hardly fits runs out of memory behind the steps of a probe.
SCRIPT = """
import json, sys
options = dict(zip(sys.argv[1::2], sys.argv[2::2]))
length, allocator = int(options["--seq"]), options["--allocator"]
load = length << 20
reserved = load * (2 if allocator == "native" else 1)
cap = float(options.get("--memory-cap", 1000)) * (1 << 30)
steps = [{"retries": 1}] * int(options["--steps"])
summary = {
    "peak_load": load, "peak_reserved": reserved, "median_step_seconds": 0.5,
    "median_items_per_second": length / 0.5,
}
report = {"steps": steps, "summary": summary}
late = allocator == "late" and len(steps) > 6 and length > 1024 - 3 * 16
short = reserved > cap or late
if short:
    report["out_of_memory"] = {"step": 9 if late else 1, "message": "out of memory"}
json.dump(report, open(options["--json"], "w"))
sys.exit(3 if short else int(options.get("--status", 0)))
"""


@pytest.fixture
def models(tmp_path, monkeypatch):
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    monkeypatch.setattr(limit, "MODELS", {"one": str(script)})
    return ["--cap", "1", "--short", "4", "--allocators", "native", "other", "--models", "one"]


def test_the_search(models, tmp_path, capsys):
    out = tmp_path / "limit.json"
    assert limit.main([*models, "--json", str(out)]) == 0
    found = json.loads(out.read_text())
    assert found["limits"] == {"one": 64}
    lengths = {name: result["length"] for name, result in found["results"]["one"].items()}
    assert lengths == {"native": 512, "other": 1024}
    printed = capsys.readouterr().out
    assert "| one | native | 512 | 1.000 | 1,024 | 1.000 |" in printed
    assert "| one | other | 1024 | 2.000 | 2,048 | 2.000 |" in printed


def test_a_limit_that_does_not_last_is_lowered(models, tmp_path):
    out = tmp_path / "limit.json"
    assert limit.main([*models, "--allocators", "other", "late", "--json", str(out)]) == 0
    found = json.loads(out.read_text())["results"]["one"]
    assert found["other"]["length"] == 1024 and found["late"]["length"] == 1024 - 3 * 16
    assert found["late"]["report"]["summary"]["peak_load"] == (1024 - 3 * 16) << 20


def test_the_fastest_turn_counts(models, tmp_path, monkeypatch):
    speeds = iter([100, 300, 200] * 2)
    run = limit.Probe.run

    def measured(probe, units, steps, cap=True):
        report = run(probe, units, steps, cap)
        if steps == probe.args.final_steps:
            report["summary"]["median_items_per_second"] = next(speeds)
        return report

    monkeypatch.setattr(limit.Probe, "run", measured)
    out = tmp_path / "limit.json"
    assert limit.main([*models, "--turns", "3", "--json", str(out)]) == 0
    found = json.loads(out.read_text())["results"]["one"]
    # Each in turn: native 100, 200, 300; other 300, 100, 200.
    assert [limit.speed_of(found[name]) for name in ("native", "other")] == [300, 300]
    assert next(speeds, None) is None


def test_a_load_that_is_flat_at_first(models, monkeypatch):
    """What a short sequence holds may be the optimizer's, which says little about a long one."""
    args = limit.parse_arguments(models)
    loads = lambda units: max(600 + units, 10 * units) << 20  # noqa: E731
    monkeypatch.setattr(limit, "load_of", lambda args, model, units, end: loads(units))
    assert limit.load_limit(args, "one", 0) == 102  # 10 MiB a unit, 1 GiB


def test_a_run_that_breaks_is_no_limit(models, capsys):
    assert limit.main([*models, "--status", "1"]) == 1
    assert capsys.readouterr().out.count("one at length 64: exit status 1") == 2


def test_time_up_is_told(models, capsys):
    assert limit.main([*models, "--budget", "0"]) == 1
    assert capsys.readouterr().out.count("the time is up") == 2


def test_suite_starts_the_planning_allocator_twice_where_wanted():
    names = ["native", "stalloc:plan=off", "stalloc", "stalloc:pool=gmlake"]
    assert suite.allocators_of(suite.RUNS["llama"], names) == [*names, "stalloc"]
    assert suite.allocators_of(suite.RUNS["qwen"], names) == names


def test_suite_runs_and_writes_both_files(tmp_path, monkeypatch, capsys):
    script = tmp_path / "train.py"
    script.write_text("import sys; sys.exit(5)")
    monkeypatch.setattr(suite, "RUNS", {"a": suite.Run(str(script), "--x 1", again=True)})
    assert suite.main(["--only", "a", "--out", str(tmp_path), "--allocators", "stalloc"]) == 1
    results = json.loads((tmp_path / "suite.json").read_text())
    assert results == {
        "a": {"stalloc": {"failed": "exit status 5"}, "stalloc (2)": {"failed": "exit status 5"}}
    }
    assert "| a | stalloc (2) | exit status 5 |" in (tmp_path / "suite.md").read_text()
    assert suite.main(["--out", str(tmp_path), "--budget", "0", "--only", "a"]) == 1
    assert "not run: the time is up" in capsys.readouterr().out


def test_suite_skips_what_is_not_installed_and_says_why(tmp_path, monkeypatch, capsys):
    script = tmp_path / "train.py"
    script.write_text("import sys; sys.exit(5)")
    absent = suite.Run(str(script), "", missing=lambda: "not installed: x")
    monkeypatch.setattr(suite, "RUNS", {"a": absent})
    assert suite.main(["--only", "a", "--out", str(tmp_path), "--allocators", "stalloc"]) == 0
    assert json.loads((tmp_path / "suite.json").read_text()) == {
        "a": {"skipped": "not installed: x"}
    }
    assert "| a | skipped: not installed: x |" in capsys.readouterr().out


def test_suite_knows_what_its_runs_need(monkeypatch):
    monkeypatch.delenv("MEGATRON_PATH", raising=False)
    monkeypatch.setattr(suite.harness.importlib.util, "find_spec", lambda name: None)
    absent = {name: run.missing() for name, run in suite.RUNS.items() if run.missing()}
    assert set(absent) == {"hf", "hf_lora", "pyg", "megatron_dense", "megatron_moe"}
    assert "peft" in absent["hf_lora"] and "peft" not in absent["hf"]
    assert "MEGATRON_PATH is not set" in absent["megatron_moe"]
