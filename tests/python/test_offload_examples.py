"""The programs that measure offload() on a GPU: rows, time, and packages that are missing."""

import json
import subprocess
import sys
import types
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = [f"examples/{name}.py" for name in (
    "offload", "offload_states", "offload_largest", "offload_trial", "offload_picture", "frontier",
    "together",
)] + ["tests/gpu/offload_steps.py"]  # fmt: skip


@pytest.mark.parametrize("script", COMMANDS)
def test_the_options_are_described(script):
    done = subprocess.run([sys.executable, ROOT / script, "--help"], capture_output=True, text=True)
    assert done.returncode == 0 and "usage" in done.stdout, done.stderr


@pytest.mark.parametrize("most", [0, 1, 7, 19, 23, 30, 64, 150])
@pytest.mark.parametrize("way", ["native", "stalloc, offload"])
def test_the_largest_model_is_found(most, way):
    import offload_largest

    tried = []

    def attempt(layers):
        tried.append(layers)
        if layers > most:
            return {"out of memory": f"{layers} layers"}
        # Natively what is held says how far the search may go; with offloading it does not.
        held = 24.0 - (most - layers) * (0.9 if way == "native" else 0.0)
        return {"losses": [1.0], "held, GiB": held}

    options = types.SimpleNamespace(shape=[2048, 5504, 32000], batch=2, length=2048)
    found = offload_largest.search(options, way, 24.0, 400, attempt)
    assert found == (most, f"{most + 1} layers"), tried
    assert len(tried) <= 14 and len(set(tried)) == len(tried), tried
    assert offload_largest.search(options, way, 24.0, min(most, 5), attempt)[0] == min(most, 5)


def test_a_failing_trial_ends_the_search_of_the_largest_model():
    import offload_largest

    options = types.SimpleNamespace(shape=[2048, 5504, 32000], batch=2, length=2048)
    found = offload_largest.search(options, "native", 24.0, 400, lambda layers: {"failed": "bug"})
    assert found == (0, "bug")


@pytest.mark.torch
def test_a_trial_of_the_largest_model():
    import offload_trial

    options = types.SimpleNamespace(
        shape=[64, 128, 100], layers=2, batch=1, accumulate=2, length=16, steps=4
    )
    losses, seconds, wrong = offload_trial.train(options, "adamw")
    assert len(losses) == 8 and seconds > 0 and not wrong


class Fits:
    """Trials in which 3 layers train, in place of a GPU's; `most` of them in a piece."""

    def __init__(self, monkeypatch, most=1000, losses=lambda way: [1.0, 2.0]):
        import offload_states

        self.words, self.most, self.losses = [], most, losses
        monkeypatch.setattr(offload_states, "Alone", lambda *_: self)

    def row(self, words):
        import ledger

        if len(self.words) == self.most:
            raise ledger.OutOfTime
        self.words.append(words)
        of = dict(zip(words[::2], words[1::2]))
        if of["--limit"] and of["--layers"] > 3:
            return {"out of memory": "full"}
        return {"losses": self.losses(of["--way"]), "wrong": "", "held, GiB": 20.0, "tokens/s": 7}


def rows(path, part="largest"):
    found = map(json.loads, path.read_text().splitlines())
    return [row for row in found if row["part"] == part]


def options(path, *ways):
    return ["--json", str(path), "--limits", "24", "--ways", *ways]


def test_a_search_of_the_largest_model_goes_on(monkeypatch, tmp_path):
    """Where the time was up; what was tried is not tried again, and a row is kept once."""
    import offload_largest
    import offload_trial

    path, ways = tmp_path / "new" / "a.jsonl", ("native", "stalloc, offload")
    asked, statuses = [], []
    for _ in range(20):
        parsed = offload_largest.parse_arguments(options(path, *ways))
        fits = Fits(monkeypatch, most=2)
        statuses.append(offload_largest.main(options(path, *ways), offload_trial.Trials(parsed)))
        asked += map(str, fits.words)
        if statuses[-1] == 0 and not fits.words:
            break
    assert statuses[0] == 75 and statuses[-1] == 0
    assert len(set(asked)) == len(asked) == len(rows(path, "trial"))
    native, offload = rows(path)
    assert native["layers"] == offload["layers"] == 3 and native["one more"] == "full"
    assert offload["same losses as native"] is True and "losses" not in offload
    for row in rows(path):
        assert {"commit", "date", "command", "cores", "tokens/s"} <= row.keys()


def test_losses_that_differ_and_packages_that_are_missing(monkeypatch, tmp_path):
    import harness
    import offload_largest
    import offload_trial

    def run(name, *ways):
        path = tmp_path / name
        trials = offload_trial.Trials(offload_largest.parse_arguments(options(path, *ways)))
        return offload_largest.main(options(path, *ways), trials), rows(path)

    Fits(monkeypatch, losses=lambda way: [1.0 if way == "native" else 1.5])
    status, (row,) = run("differ", "stalloc, offload")
    assert status == 1 and row["same losses as native"] is False
    monkeypatch.setattr(harness, "missing", lambda name: f"not installed: {name}")
    status, found = run("missing", "torchao CPUOffloadOptimizer", "bitsandbytes PagedAdamW")
    assert status == 0
    assert [row["not run"] for row in found] == [
        "not installed: torchao", "not installed: bitsandbytes"
    ]  # fmt: skip


def alone(tmp_path, code, **more):
    import offload_states

    script = tmp_path / "script.py"
    script.write_text(code)
    return offload_states.Alone(script, **{"seconds": 600, **more})


def test_a_way_of_its_own(tmp_path, monkeypatch):
    """Its last line counts; PyTorch's settings are not those of the caller."""
    monkeypatch.setenv("PYTORCH_ALLOC_CONF", "expandable_segments:True")
    code = "import json, os, sys\nprint('hello')\nprint(json.dumps({'x': sys.argv[1:],"
    code += " 'conf': os.environ.get('PYTORCH_ALLOC_CONF'), 'own': os.environ['OWN']}))"
    row = alone(tmp_path, code).row(["--n", 3], OWN="1")
    assert row == {"x": ["--n", "3"], "conf": None, "own": "1"}


FAILURES = {
    "import no_such": "No module named 'no_such'",
    "import os; os._exit(7)": "exit status 7",
    "": "exit status 0",
    "import time; time.sleep(600)": "no end in 5 s",
}


@pytest.mark.parametrize("code, said", FAILURES.items())
def test_a_way_that_fails_says_why(tmp_path, code, said):
    import offload_states

    row = alone(tmp_path, code, most=5 if "sleep" in code else 150).row([])
    assert said in row["failed"] and offload_states.failed(row)
    assert not offload_states.failed({"failed": "RuntimeError: CUDA out of memory"})


def test_no_way_begins_that_would_hardly_end(tmp_path):
    import ledger

    those = alone(tmp_path, "print('{}')")
    assert those.row([]) == {}
    those._longest = 590
    with pytest.raises(ledger.OutOfTime):
        those.row([])
    with pytest.raises(ledger.OutOfTime):  # the budget ends it
        alone(tmp_path, "import time; time.sleep(600)", seconds=0.2).row([])


def test_steps_that_are_not_timed_do_not_suffice():
    import offload_states

    made = offload_states.parser("", steps=8, turns=1, ways=["a"])
    assert made.parse_args([]).steps == 8
    with pytest.raises(SystemExit):
        made.parse_args(["--steps", "3"])


@pytest.fixture
def steps(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tests" / "gpu"))
    import offload_steps

    return offload_steps


def seen(way, ms):
    step = {"begun": 0.0, "ended": ms / 1e3, "host_us": 200.0, "parts": {"batch 1": ms},
            "ahead": {"batch 1": 0.0}}  # fmt: skip
    return {"device": "GPU", "torch": "2", "steps": [step] * 6, "losses": [1.5], "held": 24.0}


def run_steps(steps, monkeypatch, tmp_path, answers, *more):
    import ledger
    import offload_states

    rest = iter(answers)

    class Alone:
        def __init__(self, *_):
            pass

        def row(self, words, **_):
            answer = next(rest, None)
            if answer is None:
                raise ledger.OutOfTime
            return answer if isinstance(answer, dict) else seen(words[-1], answer)

    monkeypatch.setattr(offload_states, "Alone", Alone)
    path = tmp_path / "steps.jsonl"
    monkeypatch.setattr(sys, "argv", ["offload_steps.py", "--json", str(path), *more])
    return steps.main(), [json.loads(line) for line in path.read_text().splitlines()]


def test_steps_are_kept_as_they_come(steps, monkeypatch, tmp_path, capsys):
    status, kept = run_steps(steps, monkeypatch, tmp_path, [100.0, 100.0] * 5)
    assert status == 0 and len(kept) == 10
    assert kept[0]["step, ms"] == 100.0 and kept[0]["tokens/s"] == 2 * 8 * 2048 * 10
    assert "offload: 1.000 of native's speed" in capsys.readouterr().out


@pytest.mark.parametrize("end, expected", [(None, 75), ({"failed": "bug"}, 1)])
def test_steps_that_end_early_still_have_a_table(
    steps, monkeypatch, tmp_path, capsys, end, expected
):
    answers = [100.0, 100.0, *([end] if end else [])]
    status, kept = run_steps(steps, monkeypatch, tmp_path, answers)
    assert status == expected and "part of a step" in capsys.readouterr().out
    assert [row.get("failed") for row in kept] == [None, None, *(["bug"] if end else [])]
