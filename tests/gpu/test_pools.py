"""Private pools under stalloc, beside PyTorch's own allocator: MemPools, graphs, graph trees.

Each group of programs/pooled.py runs in a process of its own under each allocator. Native's results
are shown; only stalloc's must be right."""

import sys

import gpu
from gpu import MIB

PROGRAM = str(gpu.ROOT / "tests" / "gpu" / "programs" / "pooled.py")
SLOWER = 1.05  # the steps are short, and the machine is not alone


def results(group):
    """What the program says under each allocator, native first, whose compiled code is reused."""
    said = {}
    for allocator in ("native", "stalloc"):
        try:
            said[allocator] = gpu.python(PROGRAM, group, "--allocator", allocator)[0]
        except (AssertionError, ValueError, IndexError) as error:
            said[allocator] = {}
            print(f"{group} under {allocator}: {error}", file=sys.stderr, flush=True)
    return said


def table(said):
    """Prints a row a case and allocator; returns what went wrong under stalloc."""
    wrong = []
    for name in said["stalloc"] or said["native"]:
        for allocator, cases in said.items():
            row = cases.get(name, {"ok": False, "said": "no result", "s": 0})
            words = row["said"]
            if isinstance(words, dict):
                words = (
                    f"reserved {words['reserved'] / MIB:.0f} MiB, {words['ms']:.2f} ms a step"
                    + (f", waste {waste(words):.1f} %" if "live" in words else "")
                )
            result = "ok" if row["ok"] else "FAILED"
            print(f"  {name:<32} {allocator:<8} {result:<6} {row['s']:6.1f} s  {words}", flush=True)
            if allocator == "stalloc" and not row["ok"]:
                wrong.append(f"{name}: {words}")
    assert said["stalloc"], "the program has failed under stalloc"
    return wrong


def waste(words):
    return 100 * (words["reserved"] / words["live"] - 1)


def compare(said, wrong):
    """Same bits as native, no more memory, and as fast."""
    for name, row in said["stalloc"].items():
        other = said["native"].get(name)
        if not row["ok"] or not other or not other["ok"]:
            continue
        ours, theirs = row["said"], other["said"]
        if ours["losses"] != theirs["losses"]:
            wrong.append(f"{name}: other losses: {ours['losses'][:3]}, {theirs['losses'][:3]}")
        if ours["reserved"] > 1.01 * theirs["reserved"]:
            wrong.append(f"{name}: reserves more than native")
        if ours["ms"] > SLOWER * theirs["ms"]:
            wrong.append(f"{name}: a step takes {ours['ms'] / theirs['ms']:.2f} x native's time")
    return wrong


def check_reports():
    wrong = table(results("pools"))
    assert not wrong, "; ".join(wrong)


def check_captured_steps():
    said = results("steps")
    wrong = compare(said, table(said))
    assert not wrong, "; ".join(wrong)


def check_reduce_overhead():
    said = results("compiled")
    wrong = compare(said, table(said))
    for name, row in said["stalloc"].items():
        if row["ok"] and waste(row["said"]) > 5:
            wrong.append(f"{name}: waste of {waste(row['said']):.1f} %")
    assert not wrong, "; ".join(wrong)


if __name__ == "__main__":
    gpu.run(globals())
