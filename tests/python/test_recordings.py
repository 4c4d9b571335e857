"""The tables of recordings say what is in the data, and the data what a replay says."""

import ast
import gzip
import json
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs" / "plots"))

import constants  # noqa: E402
import recordings  # noqa: E402
import tables  # noqa: E402
import versions  # noqa: E402

# Those that take a second or two. All of them are replayed by `make recordings`.
SMALL = [("more", "resnet50"), ("tuned", "multiscale_resnet"), ("tuned", "llama_naive")]
FIGURES = (
    "fits_in_bytes", "full_speed_in_bytes", "peak_load_bytes", "peak_reserved_bytes",
    "fragmentation", "driver_calls", "steady_driver_time_us", "steady_time_us", "steady_retries",
    "hits", "oom",
)  # fmt: skip


def test_every_recording_is_in_the_data():
    assert set(recordings.kept()) == set(recordings.files()), "run make recordings"


def test_the_page_says_what_is_in_the_data():
    page = recordings.TABLES.read_text()
    for name, lines in tables.pages(recordings.kept()).items():
        written = page.split(f"<!-- {name}: written by make recordings -->\n")[1]
        assert written.split("\n<!-- end -->")[0].splitlines() == lines, "run make recordings"


def test_the_readme_says_what_is_in_the_data():
    for page, short in recordings.SUMMARISED.items():
        text = page.read_text().split(f"<!-- {recordings.SUMMARY} -->\n")[1]
        written = text.split("\n<!-- end -->")[0].splitlines()
        assert written == tables.summary(recordings.kept(), short), "run make recordings"
    apart = [name for group, name in recordings.kept() if group == "apart"]
    assert set(apart) == set(named_in_the_picture())


def test_the_page_of_messages_says_what_recordings_reserve():
    of = [kinds["stalloc"] for kinds in recordings.kept().values()]
    more = [100 * (r["peak_reserved_bytes"] / r["peak_load_bytes"] - 1) for r in of]
    text = (ROOT / "docs" / "troubleshooting.md").read_text()
    assert f"recordings reserve {min(more):.1f} to {max(more):.1f} %" in text


@pytest.mark.parametrize("name", ["sizes.png", "steps.png"])
def test_the_pictures_are_of_the_data(name):
    drawn = (ROOT / "docs" / "figures" / name).read_bytes()
    assert f"Source\0{recordings.digest()}".encode() in drawn, "run make plots"


def test_the_data_set_is_described():
    text = (ROOT / "tests" / "traces" / "README.md").read_text()
    rows = {line.split(" | ")[0].strip("| "): line for line in text.splitlines() if "|" in line}
    for (_, name), of in recordings.kept().items():
        said, peak = of["stalloc"], of["stalloc"]["peak_load_bytes"] / tables.GIB
        facts = f"| {len(said['steps'])} | {said['requests']:,} | {peak:.3f} |"
        assert rows[name].endswith(facts), f"{name}: expected {facts}"


def test_what_the_description_says_of_events():
    late, events = set(), 0
    for (_, name), path in recordings.files().items():
        text = gzip.decompress(path.read_bytes())
        assert not re.search(rb"(?m)^[es],", text), name
        events += len(re.findall(rb"(?m)^[arf],", text))
        if re.search(rb"(?m)^r,(\d+),\d+\n(?!f,\1,)", text):
            late.add(name)
    text = (ROOT / "tests" / "traces" / "README.md").read_text()
    assert f"{events / 1e6:.1f} million events" in text
    held = sum(path.stat().st_size for path in recordings.files().values())
    assert f"{held / 1e6:.0f} MB" in text
    named = {name for _, name in recordings.files() if name.startswith("megatron")}
    assert late == {"vit_streams"} | named and len(late) == 10


@pytest.mark.parametrize("key", SMALL, ids=lambda key: key[1])
def test_the_data_say_what_a_replay_says(key):
    kept, path = recordings.kept()[key], recordings.files()[key]
    binary = str(ROOT / "bin" / "stalloc")
    now = recordings.replay(binary, path, key[0], "now")
    for allocator in tables.ALLOCATORS:
        for figure in FIGURES:
            want, got = kept[allocator].get(figure), now[allocator].get(figure)
            assert got == want, f"{allocator}: {figure}: run make recordings"


def test_pieces(tmp_path, monkeypatch):
    """What is there, and none older than what serves, is not replayed again."""
    data, ran = tmp_path / "recordings.json", []

    def said(*command):
        if command[0] == "git":
            return "abc1234\n" if "log" in command else ""
        ran.append(Path(command[-1]).name)
        result = {"trace": Path(command[-1]).name.removesuffix(".csv.gz"), "steps": []}
        return "\n".join(json.dumps({**result, "allocator": a}) for a in tables.ALLOCATORS)

    monkeypatch.setattr(recordings, "DATA", data)
    monkeypatch.setattr(recordings, "said", said)
    monkeypatch.setattr(recordings, "write_tables", lambda found: None)
    clock = iter(range(0, 10_000, 40))
    monkeypatch.setattr(recordings, "time", types.SimpleNamespace(monotonic=lambda: next(clock)))
    monkeypatch.setattr(sys, "argv", ["recordings.py", "--budget", "600", "--jobs", "1"])
    pieces = 1
    while recordings.main() == 1:
        pieces += 1
    assert pieces > 1 and sorted(ran) == sorted(path.name for path in recordings.files().values())
    assert recordings.main() == 0 and len(ran) == len(recordings.files())
    monkeypatch.setattr(recordings, "version", lambda: "def5678")
    monkeypatch.setattr(sys, "argv", ["recordings.py"])
    assert recordings.main() == 0 and len(ran) == 2 * len(recordings.files())


def test_never_and_no_steady_part():
    def of(fits, speed, steady):
        return {"peak_load_bytes": 100, "fits_in_bytes": fits, "full_speed_in_bytes": speed,
                "steady_time_us": steady}  # fmt: skip

    rows = {
        "a": {name: of(110, 120, 5) for name in tables.ALLOCATORS},
        "b": {name: of(130, None, 5) for name in tables.ALLOCATORS},
        "c": {name: of(100, None, 0) for name in tables.ALLOCATORS},
    }
    table = tables.sizes_table(rows)
    assert table[2].endswith("| 10.0 | 10.0 | 10.0 | 10.0 | 20.0 | 20.0 | 20.0 | 20.0 |")
    assert table[3].endswith("| 30.0 | never | never | never | never |")
    assert table[4].endswith("| 0.0 | – | – | – | – |")
    assert table[5].startswith("| **average** | | **13.3** |") and "**20.0 of 1/2**" in table[5]
    assert "**30.0**" in table[6]


def test_the_readme_says_where_nothing_is_won():
    def of(expandable, stalloc):
        found = {"native": 120, "expandable": expandable, "stalloc": stalloc}
        return {name: {"peak_load_bytes": 100, "fits_in_bytes": 110, "full_speed_in_bytes": size,
                       "steady_time_us": 5} for name, size in found.items()}  # fmt: skip

    sizes = [(102, 103), (104, 101), (103, 103), (None, 105), (106, None)]
    found = {("more", str(n)): of(*each) for n, each in enumerate(sizes)}
    lines = tables.summary(found)
    ten = "10.0, 10.0, 10.0"
    assert lines[4] == (f"| 5 others: to fit | {ten} | {ten} | {ten} |")
    assert lines[5].endswith("| 3.5, 3.8, 6.0; never: 1 of 5 | 3.0, 3.0, 5.0; never: 1 of 5 |")
    assert lines[-1] == (
        "Expandable segments fit in less memory than stalloc in 0 of 5, run at full speed in "
        "less in 2 of 5."
    )
    kept_apart = {("apart", "x"): of(101, None)}
    assert tables.summary(found | kept_apart)[4:6] == [
        f"| 1 runs that nothing was tuned on: to fit | {ten} | {ten} | {ten} |",
        "| at full speed | 20.0, 20.0, 20.0 | 1.0, 1.0, 1.0 | never: 1 of 1 |",
    ]


def named_in_the_picture():
    """The names of runs in plots.py, which needs matplotlib."""
    text = (ROOT / "docs" / "plots" / "plots.py").read_text()
    return ast.literal_eval(text.split("APART = ")[1].split("}")[0] + "}")


def test_the_command_is_there():
    done = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "plots" / "recordings.py"), "--help"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "--budget" in done.stdout


def test_the_page_of_constants_says_what_is_in_the_data():
    known = constants.mechanisms(str(ROOT / "bin" / "stalloc"))
    found = constants.kept()
    every = {(off, *key) for off in ("", *known) for key in recordings.files()}
    assert set(found) == every, "run make constants"
    written = constants.PAGE.read_text().splitlines()
    assert written == constants.page(known, found), "run make constants"


def test_constants_in_pieces(tmp_path, monkeypatch):
    ran, files = (
        [],
        {("tuned", "a"): Path("a"), ("more", "b"): Path("b"), ("apart", "c"): Path("c")},
    )

    def said(*command):
        if "list" in command:
            return "one: this\ntwo: that\n"
        ran.append(command[5:])
        sizes = {"a": 0.01, "b": 0.02, "c": 0.03}
        waste = sizes[command[-1]] * (2 if "two" in command else 1)
        times = {"steady_driver_time_us": 1, "steady_time_us": 100}
        return json.dumps({"fragmentation": waste, **times})

    monkeypatch.setattr(constants, "DATA", tmp_path / "constants.json")
    monkeypatch.setattr(constants, "PAGE", tmp_path / "constants.md")
    monkeypatch.setattr(constants, "said", said)
    monkeypatch.setattr(recordings, "files", lambda: files)
    monkeypatch.setattr(recordings, "version", lambda: "abc1234")
    clock = iter(range(10_000))
    monkeypatch.setattr(constants, "time", types.SimpleNamespace(monotonic=lambda: next(clock)))
    monkeypatch.setattr(sys, "argv", ["constants.py", "--budget", "4", "--jobs", "1"])
    assert [constants.main() for _ in range(3)] == [1, 1, 0]
    assert len(ran) == len(set(ran)) == 9
    text = constants.PAGE.read_text()
    assert "| nothing | 1.000 / 1.000 | 2.000 / 1.000 | 3.000 / 1.000 | 3.00 / 1.00 |" in text
    assert "| two | 2.000 / 1.000 | 4.000 / 1.000 | 6.000 / 1.000 | 6.00 / 1.00 |" in text
    assert "- **two**: that." in text and constants.main() == 0 and len(ran) == 9
    monkeypatch.setattr(recordings, "version", lambda: "def5678")
    assert constants.main() == 1 and len(ran) == 13


def test_the_page_of_pytorch_says_which_versions_ran():
    written = versions.PAGE.read_text().split(f"<!-- {versions.MARK} -->\n")[1]
    assert written.split("\n<!-- end -->")[0].splitlines() == versions.page(), "run make versions"
