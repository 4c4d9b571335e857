"""Compares how two commits serve every recording, byte for byte: `make same BASE=commit`.

A refactoring must not change what is served. Each recording goes through stalloc and GMLake on the
simulated device: cold, with 1 % of its requests disturbed, with 1 % of its blocks freed late, and
without each mechanism that both commits know. What `stalloc replay --json` prints must be the same.
The base is built in a worktree of its own and kept in build/same/, so it is replayed once.

    python tests/same.py 8bb9cc4                    # the recordings in tests/traces
    python tests/same.py 8bb9cc4 other/*.csv.gz     # and those
    python tests/same.py 8bb9cc4 --quick            # three ways instead of all
    python tests/same.py 8bb9cc4 --averages         # waste and driver share, before and after
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "build" / "same"
QUICK = {
    "cold": [],
    "noise": ["--noise", "0.01", "--seed", "3"],
    "late": ["--late", "0.01"],
}


def said(*command: str, cwd: Path = ROOT) -> str:
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=True).stdout


def build(commit: str) -> Path:
    """The command line of a commit, built once."""
    binary = KEPT / commit / "stalloc"
    if not binary.exists():
        tree = KEPT / commit / "tree"
        said("git", "worktree", "add", "--detach", "--force", str(tree), commit)
        try:
            said("go", "build", "-trimpath", "-o", str(binary), "./cmd/stalloc", cwd=tree)
        finally:
            said("git", "worktree", "remove", "--force", str(tree))
    return binary


def mechanisms(binary: Path) -> list[str]:
    return [
        line.split(":")[0].split()[0]
        for line in said(str(binary), "replay", "--without", "list").splitlines()
        if ":" in line
    ]


def replayed(binary: Path, way: list[str], trace: Path) -> str:
    """What is printed of one recording, one way. Without a mechanism, GMLake is the same."""
    who = "stalloc" if "--without" in way else "stalloc,gmlake"
    done = subprocess.run(
        [binary, "replay", "--json", "--allocator", who, *way, trace],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stdout + done.stderr


def replay(binary: Path, ways: dict[str, list[str]], traces: list[Path], kept: Path | None) -> dict:
    """What is printed of each recording each way; what is kept is not replayed again."""
    found = json.loads(kept.read_text()) if kept and kept.exists() else {}
    todo = [
        (f"{trace.name} {way}", ways[way], trace)
        for trace in traces
        for way in ways
        if f"{trace.name} {way}" not in found
    ]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for (name, _, _), text in zip(
            todo, pool.map(lambda t: replayed(binary, t[1], t[2]), todo), strict=True
        ):
            found[name] = text
    if kept:
        kept.write_text(json.dumps(found))
    return found


def average(found: dict, way: str, names: list[str]) -> str:
    """Waste and the driver's share of the steady part, in percent."""
    waste = share = n = 0.0
    worst = 0.0
    for name in names:
        for line in found[f"{name} {way}"].splitlines():
            x = json.loads(line)
            if x["allocator"] != "stalloc" or x.get("oom"):
                continue
            n += 1
            waste += x["fragmentation"]
            worst = max(worst, x["fragmentation"])
            share += x["steady_driver_time_us"] / max(x["steady_time_us"], 1)
    n = max(n, 1)
    return f"{100 * waste / n:.3f} / {100 * share / n:.3f}, worst {100 * worst:.2f}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("base", help="the commit to compare with")
    parser.add_argument("traces", nargs="*", type=Path, help="more recordings")
    parser.add_argument("--quick", action="store_true", help="no way without a mechanism")
    parser.add_argument("--averages", action="store_true", help="print figures of both")
    args = parser.parse_args()
    commit = said("git", "rev-parse", "--short=10", f"{args.base}^{{commit}}").strip()
    base, here = build(commit), ROOT / "bin" / "stalloc"
    traces = sorted((ROOT / "tests" / "traces").rglob("*.csv.gz")) + args.traces
    ways = dict(QUICK)
    if not args.quick:
        known = mechanisms(here)
        ways |= {f"without {x}": ["--without", x] for x in mechanisms(base) if x in known}
    before = replay(base, ways, traces, KEPT / commit / "replays.json")
    after = replay(here, ways, traces, None)
    differ = [name for name in after if after[name] != before[name]]
    for name in differ:
        print(f"differs: {name}")
    if args.averages:
        for way in ways:
            names = [t.name for t in traces]
            print(f"{way}: {average(before, way, names)} -> {average(after, way, names)}")
    print(f"{len(after)} replays, {len(differ)} differ from {commit}")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
