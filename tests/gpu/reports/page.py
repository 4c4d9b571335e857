"""docs/reports.md, from what run.py has kept."""

import json

HEAD = """# Known reports

Public reports about GPU memory allocators, each as a small program of ours: written from what the
report describes, with sizes that fit any GPU. A row says what the reporter expected, and whether
that holds. Where a limit is named, it is a multiple of the most that the program's live tensors
take. A row that fails says how in a word; `docs/data/reports.jsonl` has the figures behind it.

Written by `make reports-page` from what `make gpu-reports` measured. One row again, on your GPU:

```sh
make gpu-reports ONLY={example} AGAIN=1
```
"""
COLUMNS = {"native": "native", "expandable": "expandable segments", "stalloc": "stalloc"}


def kept(path):
    """The last row of each program and allocator."""
    lines = path.read_text().splitlines() if path.exists() else []
    rows = [json.loads(line) for line in lines if line.endswith("}")]
    return list({(row["name"], row["allocator"]): row for row in rows}.values())


def text(cases, rows):
    by = {(row["name"], row["allocator"]): row for row in rows}
    cases = [case for case in cases if any((case.name, a) in by for a in COLUMNS)]
    if not cases:
        return HEAD.format(example="NAME") + "\nNothing is measured yet.\n"
    lines = [HEAD.format(example=cases[0].name)]
    about = ("device", "torch", "cuda", "commit", "date")
    places = sorted({tuple(row.get(key, "?") for key in about) for row in rows})
    lines += [f"{device}, PyTorch {torch}, CUDA {cuda}, commit {commit}, {date}.\n"
              for device, torch, cuda, commit, date in places]  # fmt: skip
    holds = [f"{name} {sum(bool(by.get((case.name, a), {}).get('ok')) for case in cases)}"
             for a, name in COLUMNS.items()]  # fmt: skip
    lines += [f"What was expected holds, of {len(cases)}: {', '.join(holds)}.\n"]
    lines += [f"| report, `NAME` | pattern | expected | {' | '.join(COLUMNS.values())} |",
              "|---|---|---" + "|---" * len(COLUMNS) + "|"]  # fmt: skip
    for case in cases:
        first = ", ".join(map(link, case.reports)) + f" `{case.name}`"
        cells = [cell(by.get((case.name, a))) for a in COLUMNS]
        lines.append(f"| {first} | {case.pattern} | {case.expected} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def link(report):
    where, number = report.split("#")
    name = where.split("/")[1]
    return f"[{name}#{number}](https://github.com/{where}/issues/{number})"


def cell(row):
    if row is None:
        return "–"
    return "ok" if row["ok"] else f"**fails**: {row['reason']}"


def write(root, cases, rows):
    (root / "docs" / "reports.md").write_text(text(cases, rows))
