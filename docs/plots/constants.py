"""Replay every recording with each mechanism switched off, and write docs/constants.md.

Run by `make constants`. Rows are what `stalloc replay --without list` names; columns are first
starts, later starts, and first starts under noise, over the recordings in tests/traces that the
allocator was made with and over those in tests/traces/more and apart, which it was not.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TRACES = ROOT / "tests" / "traces"
GROUPS = {"made with": TRACES, "others": TRACES / "more", "apart": TRACES / "apart"}
SEEDS = (1, 2, 3)
RATES = ("0.003", "0.01")
LONG = 1_000_000  # bytes of a recording that is not replayed under noise: it would take an hour
# A column: its head, and the flags of each replay that it is the average of.
COLUMNS = [("first", [[]]), ("later", [["--warm"]])] + [
    (f"noise {rate}", [["--noise", rate, "--seed", str(seed)] for seed in SEEDS]) for rate in RATES
]

Figures = tuple[float, float]


def said(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def replay(binary: str, flags: list[str], path: Path) -> Figures:
    """Waste and the driver's share of the steady part, in percent."""
    command = [binary, "replay", "--allocator", "stalloc", "--json", *flags, str(path)]
    out = json.loads(said(*command))
    r = out[0] if isinstance(out, list) else out
    return 100 * r["fragmentation"], 100 * r["steady_driver_time_us"] / max(r["steady_time_us"], 1)


def average(all_figures: list[Figures]) -> str:
    n = len(all_figures)
    waste, share = (sum(f[i] for f in all_figures) / n for i in (0, 1))
    return f"{waste:.3f} / {share:.3f}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", default=str(ROOT / "bin" / "stalloc"))
    parser.add_argument("--output", default=str(ROOT / "docs" / "constants.md"))
    parser.add_argument("--quick", action="store_true", help="first starts alone")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    args = parser.parse_args()
    columns = COLUMNS[:1] if args.quick else COLUMNS
    listed = said(args.binary, "replay", "--without", "list")
    mechanisms = [("nothing", "")] + [tuple(line.split(": ", 1)) for line in listed.splitlines()]
    done: dict[tuple[str, str, str], list] = {}
    with ThreadPoolExecutor(args.jobs) as pool:
        for name, _ in mechanisms:
            off = [] if name == "nothing" else ["--without", name]
            for head, runs in columns:
                for group, folder in GROUPS.items():
                    done[name, head, group] = [
                        pool.submit(replay, args.binary, off + flags, path)
                        for flags in runs
                        for path in sorted(folder.glob("*.csv.gz"))
                        if "--noise" not in flags or path.stat().st_size < LONG
                    ]
        lines = page(mechanisms, columns, done)
    Path(args.output).write_text("\n".join(lines) + "\n")
    return 0


def page(mechanisms: list, columns: list, done: dict) -> list[str]:
    quick = " --quick" if len(columns) == 1 else ""
    commit = said("git", "describe", "--always", "--dirty").strip()
    count = {group: len(list(folder.glob("*.csv.gz"))) for group, folder in GROUPS.items()}
    lines = [
        "# What each mechanism buys",
        "",
        f"Written by `python docs/plots/constants.py{quick}` on {date.today()}, commit {commit}.",
        "Each row is the",
        "allocator without one mechanism, by the name that `stalloc replay --without` takes.",
        "Figures are waste / the driver's share of the steady part, in percent, averages over",
        f"{count['made with']} recordings that the allocator was made with (tests/traces) and",
        f"{count['others']} others (tests/traces/more), and {count['apart']} that it never saw",
        "(tests/traces/apart).",
    ]
    if len(columns) > 1:
        lines += [
            "Later starts begin with what a first one has left. Under noise that share of the",
            f"requests is inserted or left out at random, with {len(SEEDS)} seeds each, in all",
            "recordings but the few longest.",
        ]
    lines.append("")
    for group in GROUPS:
        heads = " | ".join(head for head, _ in columns)
        lines += [
            f"## Recordings: {group}",
            "",
            f"| without | {heads} |",
            "|---" * (len(columns) + 1) + "|",
        ]
        for name, _ in mechanisms:
            cells = [average([f.result() for f in done[name, head, group]]) for head, _ in columns]
            lines.append(f"| {name} | " + " | ".join(cells) + " |")
            print(lines[-1], file=sys.stderr, flush=True)
        lines.append("")
    lines += ["## The mechanisms", ""]
    return lines + [f"- **{name}**: {what}." for name, what in mechanisms[1:]]


if __name__ == "__main__":
    sys.exit(main())
