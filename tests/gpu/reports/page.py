"""docs/reports.md, from what run.py has kept."""

import json

HEAD = """# Known reports

Public reports about GPU memory allocators, each reproduced by a small program of ours. We chose the
reports, and wrote the programs from their descriptions, with sizes that fit any GPU. A row says
what the reporter expected, and whether it holds under each allocator. The peak load is the most
that the program's live tensors take. A cell that fails says how, in a word;
`docs/data/reports.jsonl` has the figures.

`make reports-page` writes this page from what `make gpu-reports` measured. To repeat one row on
your GPU:

```sh
make gpu-reports ONLY={example} AGAIN=1
```
"""
ENDED = ("out of memory", "early", "error", "crash", "no end")  # before they had done all
COLUMNS = {"native": "native", "expandable": "expandable segments", "stalloc": "stalloc"}


def kept(path):
    """The last row of each program and allocator."""
    lines = path.read_text().splitlines() if path.exists() else []
    rows = [json.loads(line) for line in lines if line.endswith("}")]
    return list({(row["name"], row["allocator"]): row for row in rows}.values())


def text(cases, rows):
    by = {(row["name"], row["allocator"]): row for row in rows}
    cases = [case for case in cases if any((case.name, a) in by for a in COLUMNS)]
    cases.sort(key=lambda case: place(case.reports[0]))
    if not cases:
        return HEAD.format(example="NAME") + "\nNothing is measured yet.\n"
    lines = [HEAD.format(example=cases[0].name)]
    about = ("device", "torch", "cuda", "commit", "date")
    places = sorted({tuple(row.get(key, "?") for key in about) for row in rows})
    lines += [f"{device}, PyTorch {torch}, CUDA {cuda}, commit {commit}, {date}.\n"
              for device, torch, cuda, commit, date in places]  # fmt: skip
    holds = [f"{name} {sum(bool(by.get((case.name, a), {}).get('ok')) for case in cases)}"
             for a, name in COLUMNS.items()]  # fmt: skip
    lines += [f"Reports whose expectation holds, of {len(cases)}: {', '.join(holds)}.\n"]
    lines += slow(cases, by)
    lines += [f"| report, `NAME` | pattern | expected | {' | '.join(COLUMNS.values())} |",
              "|---|---|---" + "|---" * len(COLUMNS) + "|"]  # fmt: skip
    for case in cases:
        first = ", ".join(map(link, case.reports)) + f" `{case.name}`"
        cells = [cell(by.get((case.name, a))) for a in COLUMNS]
        lines.append(f"| {first} | {case.pattern} | {case.expected} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def slow(cases, by):
    """Where stalloc took a second longer than each peer that did what was to be done."""
    found = []
    for case in cases:
        ours = by.get((case.name, "stalloc"), {}).get("seconds", 0)
        rows = [by.get((case.name, a), {}) for a in COLUMNS if a != "stalloc"]
        peers = [row["seconds"] for row in rows if "seconds" in row and row["reason"] not in ENDED]
        if peers and ours > max(peers) + 1:
            found.append(f"`{case.name}` {ours:.1f} s ({min(peers):.1f})")
    if not found:
        return []
    return [
        "These programs are short, so the time to get memory from the driver counts. stalloc\n"
        "takes at least a second longer than each peer in the programs below (in brackets the\n"
        "best peer's time). Nine programs ran side by side, and driver calls also wait for\n"
        f"those of other programs on the host.\n\n{', '.join(found)}.\n"
    ]


def place(report):
    """Reports by project and number."""
    name, number = report.split("/")[1].split("#")
    return name.lower(), int(number)


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
