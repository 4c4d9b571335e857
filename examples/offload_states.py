"""How fast a model trains under a memory limit, with its optimizer states offloaded and without.

    python examples/offload_states.py [--limit 24] [--turns 1] [--json FILE] [--budget 580]

The model of offload_model.py with sequences of 2048, recomputed. Prints a row of JSON for each way,
and adds it to --json: tokens/s (median of the steps after the third), losses, and the most that was
held. A way fails if a loss or a parameter is not finite. Each way is a process of its own; none
begins that would hardly end within --budget. The exit status is 1 if a way failed, other than for
want of memory, and 75 if the time was up before.
"""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import time

import harness
import ledger

GIB = 1 << 30
FIRST = 3  # steps that are not timed
WAYS = {  # allocator, limited, way
    "native, no limit": ("native", False, "plain"),
    "stalloc, no limit": ("stalloc", False, "plain"),
    "stalloc, offload, no limit": ("stalloc", False, "offload"),
    "stalloc, offload": ("stalloc", True, "offload"),
    "stalloc": ("stalloc", True, "plain"),
    "native, copied by hand": ("native", True, "hand"),
    "stalloc, copied by hand": ("stalloc", True, "hand"),
}


def by_hand(torch, optimizer):
    """States are copied to pinned memory behind each step, and back before it, with waits."""
    host = {}

    def back(*_):
        for values in optimizer.state.values():
            for key, tensor in values.items():
                if (id(values), key) in host:
                    copy = host[id(values), key]
                    tensor.untyped_storage().resize_(copy.nbytes)
                    tensor.copy_(copy, non_blocking=True)
        torch.cuda.synchronize()

    def away(*_):
        moved = []
        for values in optimizer.state.values():
            for key, tensor in values.items():
                if tensor.is_cuda and tensor.nbytes >= 1 << 20:
                    if (id(values), key) not in host:
                        host[id(values), key] = torch.empty_like(
                            tensor, device="cpu", pin_memory=True
                        )
                    host[id(values), key].copy_(tensor, non_blocking=True)
                    moved.append(tensor)
        torch.cuda.synchronize()
        for tensor in moved:
            tensor.untyped_storage().resize_(0)

    optimizer.register_step_pre_hook(back)
    optimizer.register_step_post_hook(away)


def run(options):
    allocator, limited, way = WAYS[options.way]
    stalloc = harness.choose_allocator(allocator)
    limit(options.limit if limited else 0)
    import measure
    import offload_model
    import torch

    device = torch.device("cuda", 0)
    net, optimizer = offload_model.build(options, device)
    net.recompute = 0 if options.keep else 1
    if way == "offload":
        stalloc.offload(optimizer)
    elif way == "hand":
        by_hand(torch, optimizer)
    losses, times, seen = [], [], []
    for number in range(options.steps):
        begin = time.perf_counter()
        some = offload_model.step(options, net, optimizer, number, device, contextlib.nullcontext)
        if stalloc:
            stalloc.step()
        losses.append(sum(map(float, some)))
        times.append(time.perf_counter() - begin)
        seen.append(stalloc.stats().driver_ns / 1e9 if stalloc else 0.0)
    measure.require_sound(net, losses, stalloc)
    tokens = options.batch * options.accumulate * options.length
    row = {
        "way": options.way, "device": torch.cuda.get_device_name(), "torch": torch.__version__,
        "tokens/s": round(tokens / statistics.median(times[FIRST:])),
        "seconds": [round(t, 3) for t in times],
        "losses": [round(x, 6) for x in losses],
        "held, GiB": round(torch.cuda.max_memory_reserved() / GIB, 2),
        "live, GiB": round(torch.cuda.max_memory_allocated() / GIB, 2),
    }  # fmt: skip
    if stalloc:
        stats = stalloc.stats()
        row["host, GiB"] = round(stats.backup / GIB, 2)
        row["retries"] = stats.retries
        row["driver, s a step"] = [round(b - a, 3) for a, b in zip(seen, seen[1:])]
    print(json.dumps(row), flush=True)


def limit(gib):
    """Lets PyTorch hold so many GiB of its device; 0: all."""
    import torch

    if not torch.cuda.is_available():
        raise SystemExit("no GPU here")
    if gib:
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(min(gib * GIB / total, 1.0))


class Alone:
    """Runs a program's ways in processes of their own, while there is time."""

    def __init__(self, script, seconds, most=150):
        self.script, self.most, self._longest = script, most, 0.0
        self._ends = time.monotonic() + seconds

    def row(self, words, **environment):
        """The row of JSON that a process prints last, or {"failed": why}. Raises
        ledger.OutOfTime if it would hardly end."""
        begun = time.monotonic()
        if self._ends - begun < 1.15 * self._longest:
            raise ledger.OutOfTime
        env = {k: v for k, v in os.environ.items() if k not in harness.NATIVE_VARIABLES}
        try:
            done = subprocess.run(
                [sys.executable, self.script, *map(str, words)], capture_output=True, text=True,
                timeout=max(1.0, min(self.most, self._ends - begun)), env={**env, **environment},
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            if error.timeout < self.most:
                raise ledger.OutOfTime from None  # it was the budget that ended it
            return {"failed": f"no end in {self.most:.0f} s"}
        self._longest = max(self._longest, time.monotonic() - begun)
        lines = done.stdout.splitlines()
        if done.returncode == 0 and lines:
            return json.loads(lines[-1])
        why = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        return {"failed": why[-300:]}


def failed(row):
    """Whether it says a failure other than a full device."""
    return "failed" in row and not any(text in row["failed"] for text in harness.OUT_OF_MEMORY)


def parser(text, steps, turns, ways):
    """The options of this program, and of what looks at its steps."""
    made = argparse.ArgumentParser(description=text)
    made.add_argument("--limit", type=float, default=24, help="GiB")
    made.add_argument("--batch", type=int, default=2)
    made.add_argument("--accumulate", type=int, default=8)
    made.add_argument("--length", type=int, default=2048)
    made.add_argument("--steps", type=more_than_first, default=steps)
    made.add_argument("--shape", type=int, nargs=4, default=[24, 2048, 5504, 32000])
    made.add_argument("--turns", type=int, default=turns)
    made.add_argument("--ways", nargs="+", choices=ways, default=ways)
    made.add_argument("--json", type=ledger.file, metavar="FILE", help="add the rows to this file")
    made.add_argument("--budget", type=float, default=580, metavar="SECONDS", help="of all runs")
    made.add_argument("--way", help=argparse.SUPPRESS)
    return made


def more_than_first(text):
    if int(text) <= FIRST:
        raise argparse.ArgumentTypeError(f"{text}: the first {FIRST} steps are not timed")
    return int(text)


def main():
    options_of = parser(__doc__, steps=8, turns=1, ways=list(WAYS))
    options_of.add_argument("--keep", action="store_true", help="no recomputation")
    options = options_of.parse_args()
    if options.way:
        return run(options)
    alone, status = Alone(__file__, options.budget), 0
    for turn in range(options.turns):
        for way in options.ways:
            try:
                row = alone.row([*sys.argv[1:], "--way", way])
            except ledger.OutOfTime:
                print("not all is measured: the time is up", file=sys.stderr)
                return ledger.EXIT_MORE
            status = 1 if failed(row) else status
            row = {"part": "states", "turn": turn, "way": way, **row}
            print(ledger.append(options.json, row), flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
