"""Activations on the host by plan, beside full recomputation and what else offloads them.

All ways train the same model on the same data in one process. Each has the same bits: more steps
of one way only add losses. A limit is a share of the way from the peak of full recomputation (0)
to that without any (1). Peers run without a limit, and stalloc with the peer's peak as its limit.
"""

import contextlib
import importlib
import sys
import time

import harness
import offload_model as shared
import torch

GIB = 1 << 30
PEERS = {  # where they are
    "TRL": ("trl.models.activation_offloading", "trl.models", "trl.trainer.utils"),
    "torchtune": ("torchtune.training", "torchtune.training._activation_offloading"),
}


class Ways:
    """Runs ways one after the other, as long as there is time."""

    def __init__(self, args, stalloc, device):
        self.args, self.stalloc, self.device = args, stalloc, device
        self.rows, self.ends = {}, args.begun + args.budget

    def run(self, name, around=contextlib.nullcontext, limit=None, **how):
        """A row, also in the table; None if there was no time, or memory."""
        if time.monotonic() > self.ends - self._longest():
            self.rows[name] = {"failed": "no time left"}
            return None
        begun = time.monotonic()
        self._limit(limit)
        try:
            row = shared.timed(self.args, self.device, around, **how)
        except RuntimeError as error:
            if not any(text in str(error) for text in harness.OUT_OF_MEMORY):
                raise
            row = {"failed": "out of memory"}
        shared.forget(self.device)
        row.update(limit=limit, took=time.monotonic() - begun)
        self.rows[name] = row
        print(f"{name}: {describe(row)}", file=sys.stderr, flush=True)
        return None if "failed" in row else row

    def planned(self, name, limit):
        """Offloads by plan, under a limit of what the allocator may hold; None: the device's."""
        total = self._total()
        live = int((limit or total) * 0.98)
        counts = {}

        def ready(number):
            counts.update(vars(self._counts()))
            return number >= 12 or number >= 4 and not self._is_learning()

        row = self.run(name, lambda: self.stalloc.offload_activations(live), limit, ready=ready)
        if row is not None:
            after = vars(self._counts())
            row["out"] = (after["out"] - counts["out"]) / 5
            row["late"], row["host"] = after["late"] - counts["late"], after["host"]
            row["stayed"] = after["stayed"]
        return row

    def _is_learning(self):
        now = self._counts()
        before, self._seen = getattr(self, "_seen", -1), now.observed
        return now.observed != before

    def _counts(self):
        if self.device.type == "cpu":
            return self.stalloc.Activations()
        return self.stalloc.activation_counts()

    def _total(self):
        if self.device.type == "cpu":
            return 64 * GIB
        return torch.cuda.get_device_properties(self.device).total_memory

    def _limit(self, limit):
        if self.device.type == "cuda":
            share = 1.0 if limit is None else min(1.0, limit / self._total())
            torch.cuda.set_per_process_memory_fraction(share)

    def _longest(self):
        return max((row.get("took", 0) for row in self.rows.values()), default=0)


def run(args, stalloc, device):
    """All ways; returns their rows by name."""
    ways = Ways(args, stalloc, device)
    plain = ways.run("nothing, no limit")
    recomputed = ways.run("recomputed, no limit", recompute=1)
    ways.planned("stalloc, no limit", None)
    if plain is not None and recomputed is not None:
        for share in args.shares:
            low, high = recomputed["held"], plain["held"]
            limit = int(low + share * (high - low))
            name = f"limit at {share:.2f}"
            ways.run(f"nothing, {name}", limit=limit, ready=lambda _: True, steps=2)
            ways.planned(f"stalloc, {name}", limit)
    for name, around in () if args.no_peers else peers():
        row = ways.run(name, around, ready=lambda number: number >= 1, steps=2)
        if row is not None:
            ways.planned(f"stalloc at the peak of {name}", row["held"])
    return ways.rows


def peers():
    """Other ways to offload: their names, and what makes the context of a forward pass."""
    yield "save_on_cpu", lambda: torch.autograd.graph.save_on_cpu(pin_memory=True)
    for name, places in PEERS.items():
        for place in places:
            try:
                yield name, importlib.import_module(place).OffloadActivations
                break
            except (ImportError, AttributeError):
                continue
        else:
            print(f"{name}: cannot be imported here", file=sys.stderr)


def describe(row):
    if "failed" in row:
        return row["failed"]
    return f"{row['tokens/s']:,.0f} tokens/s, {row['held'] / GIB:.2f} GiB held"


def same_bits(rows):
    """Names of ways that did not compute what the first did, as far as both went."""
    done = [(name, row["losses"]) for name, row in rows.items() if "failed" not in row]
    return [name for name, losses in done if any(a != b for a, b in zip(losses, done[0][1]))]


def table(rows):
    """The rows as text, with what is wrong at the end."""
    base = rows.get("nothing, no limit", {}).get("tokens/s")
    recomputed = rows.get("recomputed, no limit", {}).get("tokens/s")
    heads = ("limit, GiB", "live", "held", "tokens/s", "of unlimited", "of recomputed")
    heads = ("way", *heads, "out a step, GiB", "late")
    lines = [f"| {' | '.join(heads)} |", "|---" + "|--:" * (len(heads) - 1) + "|"]
    for name, row in rows.items():
        limit = f"{row['limit'] / GIB:.2f}" if row.get("limit") else ""
        if "failed" in row:
            lines.append(f"| {name} | {limit} | | | {row['failed']} | | | | |")
            continue
        speed = row["tokens/s"]
        cells = [limit, f"{row['live'] / GIB:.2f}", f"{row['held'] / GIB:.2f}", f"{speed:,.0f}"]
        cells += [f"{speed / other:.3f}" if other else "" for other in (base, recomputed)]
        cells += [f"{row['out'] / GIB:.2f}", str(row["late"])] if "out" in row else ["", ""]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    for name, row in rows.items():
        if row.get("limit") and row.get("held", 0) > row["limit"]:
            row["wrong"] = row["wrong"] or "held more than the limit"
        if row.get("stayed"):
            lines.append(f"{name}: stayed on the device: {row['stayed']}")
    lines += [f"WRONG: {name}: {row['wrong']}" for name, row in rows.items() if row.get("wrong")]
    lines += [f"WRONG: {name}: other bits" for name in same_bits(rows)]
    return "\n".join(lines)
