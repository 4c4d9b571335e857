"""make figures: pieces, parts that cannot be made here, and what of limits is drawn."""

import json
import re
import sys
import types
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs" / "plots"))

import figures  # noqa: E402
import frontier_search  # noqa: E402
import frontier_table  # noqa: E402
import frontiers  # noqa: E402
import limits  # noqa: E402
import offload_tables  # noqa: E402
import once  # noqa: E402
import recordings  # noqa: E402


@pytest.fixture
def parts(monkeypatch):
    """Parts that all can be made, of so many seconds each; what was run, and a clock."""
    state = types.SimpleNamespace(now=0.0, ran=[], status={}, takes=70.0)

    def run(part, seconds):
        assert seconds > figures.LEAST
        state.ran.append(part)
        state.now += state.takes
        return state.status.get(part, 0)

    monkeypatch.setattr(figures, "run", run)
    monkeypatch.setattr(figures, "missing", lambda part: "")
    monkeypatch.setattr(figures, "time", types.SimpleNamespace(monotonic=lambda: state.now))
    for name in ("gpu_tables", "pictures"):
        monkeypatch.setattr(figures, name, lambda name=name: state.ran.append(name))
    monkeypatch.setattr(figures.recordings, "write_tables", lambda found: state.ran.append("own"))
    return state


def test_all_parts_in_turn(parts):
    parts.takes = 50.0
    assert figures.main([]) == 0
    own = ["own", "pictures", "gpu_tables"]
    assert parts.ran == [*figures.REPLAYS, *figures.ON_GPUS, *own]


def test_no_part_begins_without_time(parts, capsys):
    parts.takes = 300
    assert figures.main(["--budget", "580"]) == figures.EXIT_MORE
    assert parts.ran == ["recordings", "constants", "own", "pictures", "gpu_tables"]
    assert "run this again" in capsys.readouterr().err


def test_a_failure_is_one(parts):
    parts.status = {"recordings": figures.EXIT_MORE, "limit": 1, "artifact": figures.EXIT_MORE}
    assert figures.main([]) == 1


def test_what_cannot_be_made_is_said(parts, monkeypatch, capsys):
    monkeypatch.setattr(figures, "missing", lambda part: "no GPU here" * (part == "limit"))
    assert figures.main(["--only", "limit", "tables"]) == 0
    assert "limit: left out: no GPU here" in capsys.readouterr().err
    assert parts.ran == ["own", "pictures", "gpu_tables"]


@pytest.mark.parametrize("part", [*figures.REPLAYS, *figures.ON_GPUS])
def test_every_part_is_a_command_that_there_is(part):
    words = figures.command(part, 99.6)
    script = ROOT / words[0]
    assert script.exists() and words[-2:] == ["--budget", "100"]
    text = script.read_text() + (ROOT / "examples" / "ledger.py").read_text()
    assert all(f'"{word}"' in text for word in words if word.startswith("--"))


@pytest.mark.parametrize("part", figures.ON_GPUS)
def test_the_page_says_what_was_measured(part):
    page = figures.page_of(part).read_text()
    written = page.split(f"<!-- {part}: written by make figures -->\n")[1]
    assert written.split("\n<!-- end -->")[0].splitlines() == figures.gpu_lines(part)


@pytest.mark.parametrize("part", figures.PAGES)
def test_what_the_text_says_is_in_the_table(part):
    """Ratios, speeds and gains."""
    page = figures.page_of(part).read_text()
    text, table = page.split(f"<!-- {part}: written by make figures -->")
    said = re.findall(r"[01]\.\d{3}(?: \([^)]*\))?|\d\d,\d{3}|[+-]\d+\.\d %", text)
    assert said and [word for word in said if word not in table.replace("32,768", "")] == []


def test_what_was_measured_once_is_in_the_tables():
    page = recordings.TABLES.read_text().split(f"<!-- {once.MARK} -->\n")[1]
    assert page.split("\n<!-- end -->")[0].splitlines() == once.lines()


def test_the_papers_runs_are_in_the_table():
    text = (ROOT / "docs" / "benchmarks.md").read_text().split("## The paper's own runs")[1]
    table = "\n".join(figures.gpu_lines("artifact"))
    said = re.findall(r"[01]\.\d{3}(?: \([^)]*\))?|\d\d\.\d %", text.split("\n## ")[0])
    # The paper's own two figures stand there, too.
    assert len(said) > 5 and [word for word in said if word not in table] == ["85.1 %", "32.5 %"]


def test_offload_md_says_what_was_measured():
    page = (ROOT / "docs" / "offload.md").read_text()
    for mark, lines in offload_tables.pages().items():
        written = page.split(f"<!-- {mark} -->\n")[1]
        assert written.split("\n<!-- end -->")[0].splitlines() == lines
        page = page.replace(written.split("<!-- end -->")[0], "")
    rows = [json.loads(line) for line in offload_tables.DATA.read_text().splitlines()]
    found = {f"{row['tokens/s']:,.0f}" for row in rows if row.get("tokens/s")}
    paragraphs = [text for text in page.split("\n\n") if "were not kept" not in text]
    said = re.findall(r"\b\d{1,2},\d{3}\b", "\n\n".join(paragraphs))
    assert said and [speed for speed in said if speed not in found] == []


def test_what_the_readme_says_of_the_frontier_is_on_its_page():
    caption = (ROOT / "README.md").read_text().split("frontier.png)")[1].split("On GPUs")[0]
    said = re.findall(r"\d\d,\d{3}|\d+\.\d %", caption)
    page = figures.page_of("frontier").read_text()
    assert len(said) == 2 and [word for word in said if word not in page] == []
    largest = r"trains in (\d+) GiB\nhas \[(\S+).*`offload`, (\S+) with .*,\n(\S+) with expandable"
    limit, *billions = re.search(largest, caption).groups()
    table = "\n".join(offload_tables.pages()["largest: written by make figures"])
    ways = "stalloc, states offloaded", "native", "expandable segments"
    for way, size in zip(ways, billions, strict=True):
        assert re.search(rf"\| {limit} \| {way} \| \d+ \| {size} ", table)


def test_a_ratio_over_all_turns_is_the_same_on_both_pages():
    brief = (ROOT / "README.md").read_text().split("| a step's time over native's")[1]
    whole = figures.page_of("together").read_text().split("| **all** |")[1]
    ours = brief.splitlines()[0].strip(" |").rsplit(" | ", 1)[1]
    assert ours == whole.splitlines()[0].strip(" |").split(" | ")[0]


def test_points(tmp_path):
    """The curve of what came to its end, and where it did not."""
    lines = []

    def ran(allocator, at, step, turn=0):
        key = {"program": "mixtral", "options": "--preset mixtral --steps 18",
               "allocator": allocator, "limit": at, "size": None, "cap": None, "steps": None,
               "turn": turn, "alone": True}  # fmt: skip
        result = {"oom": step is None, "step_ms": step, "wall_seconds": 9}
        lines.append({"key": key, "result": result, "commit": "a", "date": "b"})

    for allocator, at, step in (
        ("native", None, 110), ("native", 1.5, 121), ("native", 1.3, None),
        ("stalloc", None, 100), ("stalloc", 1.5, 101), ("stalloc", 1.005, 103),
    ):  # fmt: skip
        ran(allocator, at, step)
    ran("stalloc", 1.005, 107, turn=1)
    data = tmp_path / "limit.jsonl"
    data.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (bench,) = limits.benches(data)
    assert limits.points(bench, "native") == ([1.5, limits.UNLIMITED], [1.21, 1.1], 1.3)
    xs, ys, dead = limits.points(bench, "stalloc")
    assert (xs, ys, dead) == ([1.005, 1.5, limits.UNLIMITED], [1.05, 1.01, 1.0], None)
    assert limits.points(bench, "expandable") == ([], [], None)
    assert limits.benches(tmp_path / "none.jsonl") == []


def test_a_frontier_has_gains_where_a_peer_trains_and_says_where_none_does(tmp_path, monkeypatch):
    way = frontier_search.Way(2, 0)

    def row(size, **rates):
        found = {name: rate and frontier_search.Found(way, (rate,)) for name, rate in rates.items()}
        return frontier_table.Row(size, found)

    rows = [
        row(20, native=None, expandable=None, stalloc=None, offload=50.0),
        row(24, native=None, expandable=80.0, stalloc=76.0, offload=100.0),
        row(32, native=120.0, expandable=100.0, stalloc=126.0),
    ]
    assert frontiers.speeds(rows, "expandable") == ([1, 2], [80.0, 100.0])
    assert frontiers.gains(rows, "offload") == [(0, None), (1, pytest.approx(25))]
    assert frontiers.gains(rows, "stalloc") == [(1, pytest.approx(-5)), (2, pytest.approx(5))]
    monkeypatch.setattr(frontiers, "models", list)
    assert not frontiers.draw(tmp_path, None, {})


def test_the_link_of_a_step_with_offloading():
    import offloads

    times = [float(t) for t in range(100)]
    away = [0.0] * 20 + [0.05 * n for n in range(40)] + [1.95] * 40  # 50 GiB/s go out
    rates = offloads.link(times, away)
    assert rates[0] == rates[99] == 0 and rates[40] == pytest.approx(-50)
    assert min(rates) == pytest.approx(-50) and max(rates) == pytest.approx(0)
