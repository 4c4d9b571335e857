"""Checks and prints the reports of one example under several allocators.

`reports` maps a label to a report as measure.Recorder writes it, or to {"failed": why}. The
label is the allocator's name, with " (2)" behind it for the second run of the same.
"""

import statistics

import measure

PLANLESS = ("plan=off",)


def differences(reference, report):
    """Where two finished runs did not compute the same, in words."""
    found = []
    for expected, got in zip(reference["steps"], report["steps"]):
        for key in ("loss", "evaluation"):
            if expected.get(f"{key}_bits") != got.get(f"{key}_bits"):
                found.append(
                    f"step {got['step']}: {key} {got.get(key)} ({got.get(f'{key}_bits')}), "
                    f"expected {expected.get(key)} ({expected.get(f'{key}_bits')})"
                )
    if len(reference["steps"]) != len(report["steps"]):
        found.append(f"{len(report['steps'])} steps, expected {len(reference['steps'])}")
    if reference.get("checksum") != report.get("checksum"):
        found.append(
            f"final weights differ: {report.get('checksum')}, expected {reference.get('checksum')}"
        )
    return found


def reference_of(reports):
    """The run the others are held against: the first that finished, native by default."""
    return next((report for report in reports.values() if "failed" not in report), None)


def faults_of(name, report, reference):
    """What is wrong with a run; nothing means success."""
    if "failed" in report:
        return [report["failed"]]
    faults = differences(reference, report)
    if plans(name) and repeats(report) and report["summary"]["hits"] == 0:
        faults.append("no request was served from a plan (0 hits)")
    return faults


def is_stalloc(name):
    return name.startswith("stalloc")


def plans(name):
    """Whether the allocator called so is expected to serve requests from a plan."""
    return is_stalloc(name) and not any(setting in name for setting in PLANLESS)


def repeats(report):
    """Whether plans must have served some of it: at least three steps came behind three others
    that did the same work in the same memory. Where sizes vary none do."""
    alike = [(step["phase"], step["items"], step["peak_load"]) for step in report["steps"]]
    return sum(len(set(alike[i - 3 : i + 1])) == 1 for i in range(3, len(alike))) >= 3


def table(reports):
    """The comparison as a Markdown table."""
    reference = reference_of(reports)
    lines = [
        "| allocator | peak reserved | last third's peak reserved | peak load | fragmentation "
        "| hits | misses | median step | of it in the driver | same bits |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|---|",
    ]
    for name, report in reports.items():
        if "failed" in report:
            lines.append(f"| {name} | {report['failed']} | | | | | | | | |")
            continue
        summary = report["summary"]
        counts, driver = ("–", "–"), "–"
        if is_stalloc(name):
            counts = (f"{summary['hits']:,}", f"{summary['misses']:,}")
            driver = f"{summary['median_driver_seconds'] * 1e3:.1f} ms"
        same = "NO" if differences(reference, report) else "yes"
        lines.append(
            f"| {name} | {measure.mib(summary['peak_reserved'])} "
            f"| {measure.mib(summary['steady_reserved'])} "
            f"| {measure.mib(summary['peak_load'])} | {summary['fragmentation']:.2%} "
            f"| {counts[0]} | {counts[1]} | {summary['median_step_seconds'] * 1e3:.1f} ms "
            f"| {driver} | {same} |"
        )
    return "\n".join(lines)


def phase_table(reports):
    """Hits per phase of the stalloc runs; empty if the run had a single phase."""
    lines = []
    for name, report in reports.items():
        phases = report.get("summary", {}).get("phases", {})
        if not is_stalloc(name) or len(phases) < 2:
            continue
        for phase, sums in phases.items():
            made = sums["hits"] + sums["misses"]
            share = f"{sums['hits'] / made:.2%}" if made else "–"
            lines.append(
                f"| {name} | {phase} | {sums['steps']} | {sums['hits']:,} "
                f"| {sums['misses']:,} | {share} |"
            )
    if lines:
        lines[:0] = [
            "| allocator | phase | steps | hits | misses | hit rate |",
            "|---|---|--:|--:|--:|--:|",
        ]
    return "\n".join(lines)


def planning_table(reports):
    """What planning costs in time: each step against the same step under another allocator.

    Empty without a finished run of stalloc's that made a plan, or without one to compare with.
    """
    other = next((n for n in reports if not is_stalloc(n) and "failed" not in reports[n]), None)
    lines = []
    for name, report in reports.items():
        if other is None or not plans(name) or "failed" in report:
            continue
        times = planning_times(report, reports[other])
        if times is not None:
            before, activation, after = times
            lines.append(
                f"| {name} | {len(before)} | {middle(before)} | {len(activation)} "
                f"| {', '.join(f'{extra * 1e3:+.1f}' for extra in activation)} | {middle(after)} |"
            )
    if lines:
        lines[:0] = [
            f"| step time against {other}'s | steps without a plan | median ratio "
            "| activations | extra ms, each | median ratio under a plan |",
            "|---|--:|--:|--:|--:|--:|",
        ]
    return "\n".join(lines)


def planning_times(report, other):
    """Step times by what the planner did, or None if there was no activation.

    Ratios to the other run's same step: those before the first plan (without step 0, in which
    everything starts), and those under a plan; between them, for each step that ended with an
    activation, the seconds it took longer.
    """
    before, activation, after = [], [], []
    generation = report["setup"]["plan_generation"]
    for step, same in zip(report["steps"], other["steps"]):
        if step["plan_generation"] > generation:
            activation.append(step["seconds"] - same["seconds"])
        elif step["step"] > 0:
            (after if activation or generation else before).append(
                step["seconds"] / same["seconds"]
            )
        generation = step["plan_generation"]
    return (before, activation, after) if activation else None


def middle(ratios):
    return f"{statistics.median(ratios):.3f}" if ratios else "–"


def in_full(script, reports):
    """Everything there is to show about one comparison, and what is wrong with it."""
    parts = [title(script, reports), table(reports), phase_table(reports)]
    parts += [planning_table(reports)]
    faults = all_faults(reports)
    parts.append("\n".join(faults) if faults else "Losses and weights agree bit for bit.")
    return "\n\n".join(part for part in parts if part)


def all_faults(reports):
    reference = reference_of(reports)
    return [
        f"{name}: {fault}"
        for name, report in reports.items()
        for fault in faults_of(name, report, reference)
    ]


def title(script, reports):
    """What was run, and on what."""
    report = next((r for r in reports.values() if "device" in r), None)
    if report is None:
        return f"{script.stem}: no run got as far as a report"
    arguments = report["arguments"]
    shown = (
        "preset", "model", "layers", "width", "batch", "seq", "longest", "packed", "tokens",
        "sides", "nodes", "degree", "experts", "microbatches", "lora", "steps", "recompute",
        "eval_every", "batch_change", "memory_cap",
    )  # fmt: skip
    options = ", ".join(
        key.replace("_", " ") + ("" if arguments[key] is True else f" {arguments[key]}")
        for key in shown
        if arguments.get(key)
    )
    size = f"{report['parameters'] / 1e9:.2f}B weights, " if "parameters" in report else ""
    return (
        f"{script.stem}: {size}{options}\n"
        f"{report['device']}, PyTorch {report['torch']}, CUDA {report['cuda']}"
    )
