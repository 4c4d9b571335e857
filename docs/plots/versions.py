"""Puts the versions of PyTorch that were run into docs/pytorch.md: `make versions`.

docs/data/versions.jsonl    what tests/torch_headers.py compiled and ran, a line a version
docs/data/*.jsonl           what was measured on GPUs: each run names its PyTorch
"""

from __future__ import annotations

import json
import re

import recordings

DATA = recordings.FOLDER / "versions.jsonl"
PAGE = recordings.ROOT / "docs" / "pytorch.md"
MARK = "versions: written by make versions"


def release(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)[:3]))


def on_gpus() -> list[tuple[str, str, str]]:
    """The version, the device and the day of each run in a ledger, the newest version last."""
    found = set()
    for file in recordings.FOLDER.glob("*.jsonl"):
        for line in file.read_text().splitlines():
            row = json.loads(line)
            if isinstance(row.get("torch"), str) and "device" in row:
                found.add((row["torch"], row["device"], row["date"]))
    return sorted(found, key=lambda run: (release(run[0]), run[2], run[1]))


def page() -> list[str]:
    """What stands between the marks."""
    lines = [
        "| PyTorch | compiled, and run over a simulated driver |",
        "|---|---|",
    ]
    for line in DATA.read_text().splitlines():
        row = json.loads(line)
        lines.append(f"| {row['torch']} | {row['date']}, commit {row['commit']} |")
    version, device, day = on_gpus()[-1]
    return [*lines, "", f"The newest that was run on a GPU is {version} ({device}, {day})."]


if __name__ == "__main__":
    recordings.put(PAGE, MARK, page())
