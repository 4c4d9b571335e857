"""Puts what was measured once into docs/tables.md: `make figures`.

docs/data/once.jsonl has a table a line, as commands have printed it that keep no ledger.
"""

from __future__ import annotations

import json

import recordings

DATA = recordings.FOLDER / "once.jsonl"
MARK = "once: written by make figures"


def lines() -> list[str]:
    """What stands between the marks."""
    found = []
    for line in DATA.read_text().splitlines():
        of = json.loads(line)
        found += [f"### {of['title']}", "", of["text"], "", "```sh", *of["command"], "```", ""]
        found += [*recordings.markdown(of["heads"], of["rows"], of["texts"]), ""]
    return found[:-1]
