"""A simulator of forty lines scores, and the leaderboard says what is in the data."""

import json
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs" / "plots"))

import leaderboard  # noqa: E402
import paper  # noqa: E402
import recordings  # noqa: E402

BINARY = str(ROOT / "bin" / "stalloc")
FIRST_FIT = [sys.executable, str(ROOT / "examples" / "first_fit.py")]
TRACE = str(ROOT / "tests" / "traces" / "llama_naive.csv.gz")


def score(*arguments, simulator=FIRST_FIT):
    words = [BINARY, "score", *arguments, "--", *simulator]
    return subprocess.run(words, capture_output=True, text=True, timeout=300)


def test_first_fit():
    """Its pages are those of a first fit that is computed here, apart from the protocol."""
    done = score("--smallest", "--json", "--name", "mine", TRACE)
    assert done.returncode == 0, done.stderr
    r = json.loads(done.stdout)
    page = 2 << 20
    assert r["allocator"] == "mine" and r["peak_reserved_bytes"] % page == 0
    assert r["fits_in_bytes"] == r["peak_reserved_bytes"]  # which is all that it knows of devices
    assert "full_speed_in_bytes" not in r  # it does not tell
    assert r["peak_reserved_bytes"] == highest(TRACE, page)


def highest(trace, page):
    """By the plainest means: the gaps of a sorted list, again for each request."""
    live, top = {}, 0
    for line in recordings.said("zcat", trace).splitlines():
        kind, *fields = line.split(",")
        if kind == "f":
            live.pop(fields[0], None)
        elif kind == "a":
            size, at = max(512, -(-int(fields[1]) // 512) * 512), 0
            for begin, end in sorted(live.values()):
                if begin - at >= size:
                    break
                at = end
            live[fields[0]] = (at, at + size)
            top = max(top, at + size)
    return -(-top // page) * page


def test_a_full_device():
    done = score("--capacity", "20GiB", TRACE)
    assert done.returncode == 1 and "full" in done.stdout
    assert "it says full at request" in done.stderr and "--capacity" in done.stderr


def test_bad_answers_are_named():
    liar = "import sys\nfor line in sys.stdin:\n  if line[0] in '#aq': print(0, 0, flush=True)"
    done = score(TRACE, simulator=[sys.executable, "-c", liar])
    assert done.returncode == 1 and 'got "0 0"' in done.stderr
    assert 'event 1, "' in done.stderr and "line 1 of the simulator's output" in done.stderr


def test_every_score_is_in_the_data():
    every = {(n, trace) for n in leaderboard.commands(BINARY) for trace in leaderboard.files()}
    assert set(leaderboard.kept()) == every, "run make leaderboard"


def test_the_page_says_what_is_in_the_data():
    text = leaderboard.PAGE.read_text().split(f"<!-- {leaderboard.MARK} -->\n")[1]
    written = text.split("\n<!-- end -->")[0].splitlines()
    assert written == leaderboard.page(leaderboard.kept()), "run make leaderboard"


@pytest.mark.parametrize("name", leaderboard.OURS)
def test_scores_are_what_replays_say(name):
    """Of all nine recordings, whose replays are in other ledgers."""
    for (simulator, trace), r in leaderboard.kept().items():
        if simulator != name:
            continue
        if name == "paper":
            replayed = paper.kept()["paper", "apart", trace]
        else:
            replayed = recordings.kept()["apart", trace][name]
        for figure in ("fits_in_bytes", "full_speed_in_bytes", "fragmentation"):
            assert r.get(figure) == replayed.get(figure), f"{trace}, {figure}"


def test_the_data_say_what_a_score_says():
    path, command = leaderboard.files()["unet3d"], leaderboard.commands(BINARY)["first_fit"]
    now = leaderboard.score(BINARY, "first_fit", command, path, "now")
    assert now == dict(leaderboard.kept()["first_fit", "unet3d"], serves="now")


def test_pieces_and_ones_own(tmp_path, monkeypatch, capsys):
    ran = []

    def score(binary, name, command, path, serves):
        ran.append((name, path.stem))
        size = 110 if name == "mine" else 120
        figures = {"peak_load_bytes": 100, "fits_in_bytes": size, "fragmentation": 0.1}
        return {"simulator": name, "trace": path.stem, "serves": serves, **figures}

    clock = iter(range(10_000))
    monkeypatch.setattr(leaderboard, "DATA", tmp_path / "leaderboard.json")
    monkeypatch.setattr(leaderboard, "score", score)
    monkeypatch.setattr(leaderboard, "put", lambda page, mark, lines: None)
    monkeypatch.setattr(leaderboard, "commands", lambda binary: {"a": ["a"], "b": ["b"]})
    monkeypatch.setattr(leaderboard, "files", lambda: {"x": Path(__file__)})
    monkeypatch.setattr(leaderboard, "time", types.SimpleNamespace(monotonic=lambda: next(clock)))
    monkeypatch.setattr(recordings, "version", lambda: "abc1234")
    monkeypatch.setattr(sys, "argv", ["leaderboard.py", "--budget", "1", "--jobs", "1"])
    monkeypatch.setattr(leaderboard, "files", lambda: {Path(__file__).stem: Path(__file__)})
    assert [leaderboard.main() for _ in range(3)] == [1, 0, 0] and len(ran) == 2
    monkeypatch.setattr(sys, "argv", ["leaderboard.py", "--name", "mine", "--", "./simulator"])
    assert leaderboard.main() == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2] == "| mine | 10.0, 10.0, 10.0 | not told | 10.0, 10.0, 10.0 |"
    assert len(lines) == 5 and ("mine", "test_score") not in leaderboard.kept()


def test_the_page_has_the_costs_that_replays_charge():
    page = (ROOT / "docs" / "score.md").read_text().split("## What driver calls take")[1]
    rows = dict(re.findall(r"^\| `(\w+)`[^|]*\| (.*) \|$", page, re.MULTILINE))
    source = (ROOT / "internal" / "cost" / "cost.go").read_text()
    calls = dict(re.findall(r"^\t(\w+) .*// (cuMem\w+)", source, re.MULTILINE))
    costs = re.findall(r"^\t(\w+): +\{(.*)\},$", source, re.MULTILINE)
    assert rows == {calls[of]: figures.replace(", ", " | ") for of, figures in costs}
    assert f"costs {re.search('InRange = (.*)', source)[1]} more a handle" in page
    beside = (ROOT / "cuda" / "sim" / "costs.go").read_text()
    for name, does in (("Record", "recording"), ("Done", "querying")):
        nanoseconds = int(re.search(rf"cost{name} += (\d+) ", beside)[1])
        assert f"{nanoseconds / 1000:.2f} for {does}" in page
