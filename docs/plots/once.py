"""Puts what was measured once into docs/tables.md: `make figures`.

docs/data/once.jsonl has a table a line, as commands have printed it that keep no ledger.
"""

from __future__ import annotations

import json
import sys

import recordings

sys.path.insert(0, str(recordings.ROOT / "examples"))

from turns_table import table  # noqa: E402

DATA = recordings.FOLDER / "once.jsonl"
MARK = "once: written by make figures"


def lines() -> list[str]:
    """What stands between the marks."""
    found = []
    for line in DATA.read_text().splitlines():
        of = json.loads(line)
        found += [f"### {of['title']}", "", of["text"], "", "```sh", *of["command"], "```", ""]
        found += [*table(of["heads"], of["rows"]).splitlines(), ""]
    return found[:-1]
