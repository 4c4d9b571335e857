"""What pages show of a command's output is what it prints."""

import gzip
import re
import subprocess

import pytest
from documented import ROOT

COMMAND = ROOT / "bin" / "stalloc"
TRACES = ROOT / "tests" / "traces"


def printed(line, folder=ROOT):
    """What a line of a page prints; the page's files are in the folder."""
    words = [str(COMMAND), *line.split()[1:]]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True).stdout


def shown(page, first):
    """The blocks of a page that begin with a word."""
    text = (ROOT / "docs" / page).read_text()
    return re.findall(rf"^```text\n({first} .*?\n)```$", text, re.MULTILINE | re.DOTALL)


def command(page, begin, *ends):
    """The line of a page that begins and ends so."""
    lines = (line.strip() for line in (ROOT / "docs" / page).read_text().splitlines())
    return next(x for x in lines if x.startswith(begin) and x.endswith(tuple(ends)))


@pytest.mark.parametrize(
    "page, first, begin, end",
    [
        ("tutorial.md", "recording", "stalloc replay", "llama_naive.csv.gz"),
        ("compare.md", "peak", "stalloc diff", "llama_recompute.csv.gz"),
    ],
)
def test_of_the_recordings(page, first, begin, end):
    assert shown(page, first) == [printed(command(page, begin, end))]


def larger(path, times):
    """llama_naive with blocks of a step that are so many times as large."""
    with gzip.open(TRACES / "llama_naive.csv.gz", "rt") as recording:
        lines = recording.read().splitlines()
    step, began, of_a_step = 0, {}, set()
    for line in lines:
        step += line.startswith("# step")
        kind, *fields = line.split(",")
        if kind == "a":
            began[fields[0]] = step
        elif kind == "r" and step and began[fields[0]] == step:
            of_a_step.add(fields[0])
    with gzip.open(path, "wt", compresslevel=1) as made:
        for line in lines:
            kind, *fields = line.split(",")
            if kind == "a" and fields[0] in of_a_step:
                fields[1] = str(int(fields[1]) * times)
            made.write(",".join([kind, *fields]) + "\n")


@pytest.fixture(scope="module")
def sizes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sizes")
    for times in (1, 2, 3):
        larger(folder / f"b{4 * times}.csv.gz", times)
    return folder


def test_of_fit(sizes):
    line = command("compare.md", "stalloc fit", "--at 12=b12.csv.gz")
    alone, offloaded = shown("compare.md", "largest")
    assert alone in printed(line, sizes)
    told = printed(f"{line} --offload", sizes)
    for part in offloaded.split("...\n"):
        assert part in told
