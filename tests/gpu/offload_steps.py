"""Steps with offloaded optimizer states beside native without a limit: their speed, and where the
time goes.

    python tests/gpu/offload_steps.py [--turns 5] [--steps 12] [--ways native offload]
    python tests/gpu/offload_steps.py --turns 1 --keep DIR    # with the allocator's trace
    python tests/gpu/offload_steps.py --json FILE --budget 580    # rows, as they come

Runs the ways of examples/offload_states.py (24 GiB, 2 x 8 sequences of 2048, recomputed), in each
turn in an order drawn anew. Prints for each turn the tokens/s; then native's time over that of each
other way, steps of the same number: the median over the turns of each turn's median, with its 95 %
interval (bootstrap over the turns), for the pairs of steps at which the host was equally fast, and
for all. Then, as medians of all steps after the third, with the least and the most: the device's
time of each part of a step, how far the host is ahead when a part begins, and, with --keep, what
the trace has: waits, bytes, times of driver calls, and when in the step. The exit status is 1 if a
run failed, 75 if the time was up before the last turn; the tables are of the turns that there are.
"""

import contextlib
import gc
import json
import os
import random
import statistics
import sys
import time
from collections import defaultdict
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
sys.path[:0] = [str(EXAMPLES), str(EXAMPLES.parent / "python")]

import harness  # noqa: E402
import ledger  # noqa: E402
import offload_states  # noqa: E402
import pairs  # noqa: E402
import together_table  # noqa: E402
from turns_table import interval  # noqa: E402

GIB = 1 << 30
FIRST = offload_states.FIRST  # steps that are not timed


def play(options):
    """One way: a row with the parts of each step, and what the trace says of it."""
    stalloc = harness.choose_allocator("native" if options.way == "native" else "stalloc")
    offload_states.limit(options.limit if stalloc else 0)
    import host
    import measure
    import offload_model
    import torch

    device = torch.device("cuda", 0)
    net, optimizer = offload_model.build(options, device)
    net.recompute = 1
    marks = []  # of this step: name, event, host's time

    def mark(name):
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        marks.append((name, event, time.time()))

    @contextlib.contextmanager
    def around():
        mark(f"batch {len(marks) + 1}")
        yield

    optimizer.register_step_pre_hook(lambda *_: mark("states come back"))
    if stalloc:
        stalloc.offload(optimizer)
    optimizer.register_step_pre_hook(lambda *_: mark("optimizer"))
    optimizer.register_step_post_hook(lambda *_: mark("end"))
    steps, losses = [], []
    # A full collection takes 150 ms, and comes at the same steps of a way in each turn. Between the
    # steps it would hide copies.
    gc.set_threshold(*gc.get_threshold()[:2], 1 << 30)
    for number in range(options.steps):
        marks.clear()
        torch.cuda.synchronize()
        speed = host.speed_us()
        base, begun = torch.cuda.Event(enable_timing=True), time.time()
        base.record()
        some = offload_model.step(options, net, optimizer, number, device, around)
        if stalloc:
            stalloc.step()  # gradients are free: a plan can count on their memory
        losses.append(sum(map(float, some)))  # which waits for what leaves before it
        ended = time.time()
        mark("losses are read")
        torch.cuda.synchronize()
        at = [(name, base.elapsed_time(e), (host - begun) * 1e3) for name, e, host in marks]
        steps.append({
            "begun": begun, "ended": ended, "host_us": speed,
            "parts": {a[0]: b[1] - a[1] for a, b in zip(at, at[1:])},
            "ahead": {name: device_at - host for name, device_at, host in at},
        })  # fmt: skip
    measure.require_sound(net, losses, stalloc)
    print(json.dumps({
        "device": torch.cuda.get_device_name(), "torch": torch.__version__, "steps": steps,
        "losses": losses, "held": torch.cuda.max_memory_reserved() / GIB,
    }))  # fmt: skip


def traced(path, steps):
    """For each step, by name: how many spans, ms, GiB, when the first began and the last ended."""
    spans, base = [], 0.0
    for line in Path(path).read_text().splitlines()[1:]:
        with contextlib.suppress(ValueError):
            event = json.loads(line.rstrip(","))
            if event["name"] == "stalloc_base_time":
                base = int(event["args"]["nanoseconds"]) / 1e9
            elif event["ph"] == "X" and not event["name"].startswith("step"):
                spans.append(event)
    for step in steps:
        seen = defaultdict(lambda: [0, 0.0, 0.0, 1e9, 0.0])
        for event in spans:
            at = base + event["ts"] / 1e6
            if step["begun"] <= at < step["ended"]:
                row, begin = seen[event["name"]], (at - step["begun"]) * 1e3
                took = event.get("dur", 0) / 1e3
                row[0] += 1
                row[1] += took
                row[2] += event.get("args", {}).get("bytes", 0) / GIB
                row[3], row[4] = min(row[3], begin), max(row[4], begin + took)
        yield dict(seen)


def shown(values):
    """The median, with the least and the most."""
    return f"{statistics.median(values):.1f} ({min(values):.1f}..{max(values):.1f})"


def seconds(row):
    """Of the steps that count."""
    return [step["ended"] - step["begun"] for step in row["steps"][FIRST:]]


def print_ratios(rows):
    for way, ours in rows.items():
        for keep in (True, False) if way != "native" and "native" in rows else ():
            each = list(pairs.ratios(ours, rows["native"], keep))
            if len(each) < together_table.LEAST:
                continue
            low, high = interval(each)
            print(
                f"{way}: {statistics.median(each):.3f} of native's speed, {low:.3f} to {high:.3f}, "
                f"{len(each)} turns, {'the host equally fast' if keep else 'all steps'}: "
                f"{' '.join(f'{one:.3f}' for one in each)}"
            )


def print_tables(rows):
    """What all turns say together; rows by way."""
    late = {way: [s for row in some for s in row["steps"][FIRST:]] for way, some in rows.items()}
    late = {way: steps for way, steps in late.items() if steps}
    print("\npart of a step | " + " | ".join(f"{way}, ms | ahead, ms" for way in late))
    for name in next(iter(late.values()))[0]["ahead"]:
        cells = []
        for steps in late.values():
            took = [s["parts"][name] for s in steps if name in s["parts"]]
            cells += [shown(took) if took else "", shown([s["ahead"][name] for s in steps])]
        print(f"{name} | " + " | ".join(cells))
    for way, steps in late.items():
        names = sorted({name for s in steps for name in s.get("trace", {})})
        if names:
            print(f"\n{way}: in a step | spans | ms | GiB | first begins, ms | last ends, ms")
        for name in names:
            seen = [s["trace"].get(name, [0, 0.0, 0.0, 0.0, 0.0]) for s in steps]
            print(f"{name} | " + " | ".join(shown([x[i] for x in seen]) for i in range(5)))


def turn_of(options, alone, turn, way):
    """A turn of a way, in a process of its own; None if it failed."""
    trace, conf = options.keep and options.keep / f"{way}-{turn}.json", {}
    if trace:
        asked = filter(None, [os.environ.get("STALLOC_CONF"), f"trace:{trace}"])
        conf["STALLOC_CONF"] = ",".join(asked)
    row = alone.row([*sys.argv[1:], "--way", way], **conf)
    said = {"part": "steps", "turn": turn, "way": way}
    if "failed" in row:
        print(ledger.append(options.json, said | row), flush=True)
        return None
    if trace and way != "native":
        for step, seen in zip(row["steps"], traced(trace, row["steps"])):
            step["trace"] = seen
    if trace:
        trace.with_suffix(".steps").write_text(json.dumps(row["steps"]) + "\n")
    line = figures(options, row)
    print(ledger.append(options.json, said | line), flush=True)
    return row | line


def figures(options, row):
    """What a line has of a run: the median step and its speed, the least and the most."""
    took = seconds(row)
    tokens = options.batch * options.accumulate * options.length
    hosts = [step["host_us"] for step in row["steps"][FIRST:]]
    return {
        "tokens/s": round(tokens / statistics.median(took)),
        "step, ms": round(1e3 * statistics.median(took), 1),
        "least, ms": round(1e3 * min(took), 1), "most, ms": round(1e3 * max(took), 1),
        "held, GiB": round(row["held"], 2), "host, us": round(statistics.median(hosts), 1),
        "each, ms": [round(1e3 * one, 1) for one in took], "hosts, us": [round(x) for x in hosts],
        "last loss": round(row["losses"][-1], 6), "device": row["device"], "torch": row["torch"],
    }  # fmt: skip


def main():
    options_of = offload_states.parser(__doc__, steps=12, turns=5, ways=["native", "offload"])
    options_of.add_argument("--keep", type=Path, help="a folder for the traces, and each step")
    options_of.add_argument("--seed", type=int, default=1, help="of the order")
    options = options_of.parse_args()
    if options.way:
        return play(options)
    if options.keep:
        options.keep.mkdir(parents=True, exist_ok=True)
    rows, draw, status = defaultdict(list), random.Random(options.seed), 0
    alone = offload_states.Alone(__file__, options.budget)
    try:
        for turn in range(options.turns):
            those = {}
            for way in draw.sample(options.ways, len(options.ways)):
                those[way] = turn_of(options, alone, turn, way)
                status = 1 if those[way] is None else status
            if None not in those.values():  # ways are compared within a turn
                for way in options.ways:
                    rows[way].append(those[way])
    except ledger.OutOfTime:
        print("not all is measured: the time is up", file=sys.stderr)
        status = status or ledger.EXIT_MORE
    if rows:
        print_ratios(rows)
        print_tables(rows)
    return status


if __name__ == "__main__":
    sys.exit(main())
