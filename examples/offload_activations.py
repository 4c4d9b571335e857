"""Activations on the host by plan, beside full recomputation and what else offloads them.

All ways train the same model on the same data in one process, in turns: the first in a fixed order,
later ones in an order drawn anew. Each has the same bits: more steps of one way only add losses. A
limit is a share of the way from the peak of full recomputation (0) to that without any (1). Peers
run without a limit, and stalloc with the peer's peak as its limit.
"""

import contextlib
import random
import sys
import time

import harness
import ledger
import offload_activations_table
import offload_model as shared
import torch

GIB = 1 << 30
PLAIN, RECOMPUTED = "nothing, no limit", "recomputed, no limit"


class Ways:
    """Runs ways one after the other, as long as there is time; `rows` has a list by name."""

    def __init__(self, args, stalloc, device):
        self.args, self.stalloc, self.device = args, stalloc, device
        self.rows, self.ends = {}, args.begun + args.budget

    def run(self, name, limit=None, peer=False, more=None, **how):
        """A row, also in the table; None if there was no time, or memory, or a peer failed.
        more() has what else is in the row."""
        rows = self.rows.setdefault(name, [])
        if time.monotonic() > self.ends - self._longest():
            rows or rows.append({"failed": "no time left"})
            return None
        begun = time.monotonic()
        self._limit(limit)
        try:
            row = shared.timed(self.args, self.device, **how)
        except Exception as error:
            if any(text in str(error) for text in harness.OUT_OF_MEMORY):
                row = {"failed": "out of memory"}
            elif peer:
                row = {"failed": f"{type(error).__name__}: {error}"[:200]}
            else:
                raise
        shared.forget(self.device)
        row.update(limit=limit, took=time.monotonic() - begun)
        if more and "failed" not in row:
            row.update(more())
        rows.append(row)
        self._keep(name, row)
        said = offload_activations_table.describe(row)
        print(f"{name}: {said}", file=sys.stderr, flush=True)
        return None if "failed" in row else row

    def _keep(self, name, row):
        if self.args.json:
            of = {"part": "activations", "way": name, "allocator": self.args.allocator}
            of |= {"device": torch.cuda.get_device_name() if self.device.type == "cuda" else "CPU"}
            ledger.append(self.args.json, {**of, "torch": torch.__version__, **row})

    def planned(self, name, limit):
        """Offloads by plan, under a limit of what the allocator may hold; None: the device's."""
        live = int((limit or self._total()) * 0.98)
        counts = {}

        def ready(number):
            counts.update(vars(self._counts()))
            return number >= 12 or number >= 4 and not self._is_learning()

        def around():
            return self.stalloc.offload_activations(live)

        def more():
            after = vars(self._counts())
            late = after["late"] - counts["late"]
            out = (after["out"] - counts["out"]) / 5
            return {"out": out, "late": late, "host": after["host"], "stayed": after["stayed"]}

        return self.run(name, limit, more=more, around=around, ready=ready)

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
        return max((row.get("took", 0) for rows in self.rows.values() for row in rows), default=0)


def run(args, stalloc, device):
    """All ways; returns their rows by name, a list each."""
    ways, draw = Ways(args, stalloc, device), random.Random(args.seed)
    again = first(ways, args)
    for _ in range(1, args.turns):
        draw.shuffle(again)
        for name, way in again:
            way(name)
    return ways.rows


def first(ways, args):
    """The first turn, which finds the limits; returns what later ones repeat."""
    again = []

    def do(name, way):
        again.append((name, way))
        return way(name)

    plain = do(PLAIN, lambda name: ways.run(name))
    recomputed = do(RECOMPUTED, lambda name: ways.run(name, recompute=1))
    do("stalloc, no limit", lambda name: ways.planned(name, None))
    if plain is not None and recomputed is not None:
        for share in args.shares:
            low, high = recomputed["held"], plain["held"]
            limit = int(low + share * (high - low))
            name = f"limit at {share:.2f}"
            ways.run(f"nothing, {name}", limit, steps=2)
            do(f"stalloc, {name}", lambda name, limit=limit: ways.planned(name, limit))
    for name, how in () if args.no_peers else peers(args.peers):
        if isinstance(how, str):
            ways.rows[name] = [{"failed": how}]
            continue
        row = do(name, lambda name, how=how: ways.run(name, peer=True, **how))
        if row is not None:
            most = row["held"]
            name = f"stalloc at the peak of {name}"
            do(name, lambda name, most=most: ways.planned(name, most))
    return again


def peers(names):
    """Other ways to offload: their names, and how they train, or in words why they do not."""
    if "save_on_cpu" in names:
        yield "save_on_cpu", {"around": lambda: torch.autograd.graph.save_on_cpu(pin_memory=True)}
    if "TRL" in names:
        try:
            from trl.models import activation_offloading
        except ImportError as error:
            yield "TRL", f"not run: {error}"
        else:
            yield "TRL", {"whole": lambda model: trl_of(activation_offloading, model)}


def trl_of(module, model):
    """As TRL's own trainer does: one context for the model, around forward and backward."""
    on_gpu = torch.cuda.is_available()
    context = module.get_act_offloading_ctx_manager(model, use_streams=on_gpu)

    @contextlib.contextmanager
    def whole():
        with context:
            yield

    return whole


def table(rows):
    return offload_activations_table.table(rows, PLAIN, RECOMPUTED)
