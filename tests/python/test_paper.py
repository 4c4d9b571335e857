"""The page of the paper's allocator says what is in the data, and the data what a replay says."""

import json
import sys
import types
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs" / "plots"))

import paper  # noqa: E402
import recordings  # noqa: E402

# Those that take a second or two.
SMALL = [("more", "resnet50"), ("tuned", "llama_naive"), ("tuned", "vit_streams")]


def test_every_recording_is_in_the_data():
    every = {(kind, *key) for kind in paper.KINDS for key in recordings.files()}
    assert set(paper.kept()) == every, "run make paper"


def test_the_page_says_what_is_in_the_data():
    text = paper.PAGE.read_text().split(f"<!-- {paper.MARK} -->\n")[1]
    written = text.split("\n<!-- end -->")[0].splitlines()
    assert written == paper.page(paper.kept(), recordings.kept()), "run make paper"


@pytest.mark.parametrize("kind", paper.KINDS)
@pytest.mark.parametrize("recording", SMALL, ids=lambda key: key[1])
def test_the_data_say_what_a_replay_says(recording, kind):
    key = (kind, *recording)
    binary = str(ROOT / "bin" / "stalloc")
    now = paper.replay(binary, key, recordings.files()[recording], "now")
    was = dict(paper.kept()[key], serves="now")
    assert now == was, "run make paper"


def test_where_the_paper_is_better():
    def row(stalloc, others):
        sizes = dict(zip(paper.KINDS, others, strict=True), stalloc=stalloc)
        return {name: {"fits_in_bytes": size, "full_speed_in_bytes": size or None}
                for name, size in sizes.items()}  # fmt: skip

    rows = {("tuned", "a"): row(102, (110, 101, 110, 100)),
            ("more", "b"): row(102, (102, 102, 101, 101)),
            ("apart", "c"): row(102, (0, 0, 0, 0))}  # fmt: skip
    lines = paper.better(rows)
    assert lines[0] == "- **paper** fits in less than stalloc in 0 of 3."
    assert lines[2] == "- **paper, second start** fits in less than stalloc in 1 of 3: a."
    assert lines[6].endswith("in 2 of 3: b, a.") and "second start** fits" in lines[6]


def test_pieces(tmp_path, monkeypatch):
    """What is there, and as new as what serves, is not replayed again."""
    ran = []

    def replay(binary, key, path, serves):
        ran.append(key)
        kind, group, name = key
        return {"kind": kind, "group": group, "trace": name, "serves": serves}

    files = {("tuned", "a"): Path("a"), ("apart", "b"): Path("b")}
    clock = iter(range(10_000))
    monkeypatch.setattr(paper, "DATA", tmp_path / "paper.json")
    monkeypatch.setattr(paper, "replay", replay)
    monkeypatch.setattr(paper, "put", lambda page, mark, lines: None)
    monkeypatch.setattr(paper, "page", lambda found, others: [])
    monkeypatch.setattr(paper, "time", types.SimpleNamespace(monotonic=lambda: next(clock)))
    monkeypatch.setattr(recordings, "files", lambda: files)
    monkeypatch.setattr(recordings, "version", lambda: "abc1234")
    monkeypatch.setattr(sys, "argv", ["paper.py", "--budget", "4", "--jobs", "1"])
    assert [paper.main() for _ in range(3)] == [1, 0, 0]
    assert len(ran) == len(set(ran)) == 8
    assert len(json.loads("[" + ",".join(paper.DATA.read_text().split("\n")[:-1]) + "]")) == 8
    monkeypatch.setattr(recordings, "version", lambda: "def5678")
    assert paper.main() == 1 and len(ran) == 12
