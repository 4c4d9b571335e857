"""Measuring a training run step by step: what every example writes into its report.

Peak load is measured alike for all allocators: the largest sum of the live blocks' sizes as
asked for (``requested_bytes``), which depends on the program alone. What an allocator rounds up,
splits off or cannot reuse is its own fragmentation: 1 - peak load / peak reserved.
"""

import json
import math
import os
import statistics
import struct
import sys
import time

import ballast
import host


def bits(value):
    """The float32's own bits, big-endian hexadecimal."""
    return struct.pack(">f", value).hex()


def checksum(model):
    """A sum over the bits of every weight: two runs that agree in it trained alike."""
    import torch

    total = 0
    with torch.no_grad():
        for place, parameter in enumerate(model.parameters(), start=1):
            if hasattr(parameter, "to_local"):  # a shard of it is here
                parameter = parameter.to_local()
            integers = {2: torch.int16, 4: torch.int32, 8: torch.int64}[parameter.element_size()]
            part = parameter.detach().view(integers).sum(dtype=torch.int64).item()
            total = (total + place * part) % (1 << 64)
    return f"{total:016x}"


def not_finite(steps, model):
    """The first loss or parameter that is NaN or infinite, in words; "" if there is none.

    A GPU computes faster with NaN than with numbers: such a run's times prove nothing.
    """
    import torch

    for step in steps:
        for key in ("loss", "evaluation"):
            if not math.isfinite(step.get(key, 0.0)):
                return f"the {key} of step {step['step']} is {step[key]}: nothing here counts"
    for name, parameter in model.named_parameters():
        part = parameter.to_local() if hasattr(parameter, "to_local") else parameter
        if not torch.isfinite(part.detach()).all():
            return f"parameter {name} is not finite after {len(steps)} steps: nothing here counts"
    return ""


def not_served(stalloc):
    """That plain driver allocations have served in stalloc's place, in words; "" if they have not:
    their times are not stalloc's."""
    broken = stalloc is not None and stalloc.stats().fallback
    return "stalloc has fallen back to plain driver allocations" if broken else ""


def require_sound(model, losses=(), stalloc=None):
    """Ends a program whose figures prove nothing: a loss or a parameter is not finite, or another
    allocator has served."""
    steps = [{"step": number, "loss": loss} for number, loss in enumerate(losses)]
    if wrong := not_finite(steps, model) or not_served(stalloc):
        raise SystemExit(wrong)


class Recorder:
    """Measures the run step by step and writes the report."""

    def __init__(self, args, device, stalloc):
        self.args, self.device, self.stalloc = args, device, stalloc
        self.steps = []
        self.result = {}
        self._on_gpu = device.type == "cuda"
        self._before = None
        if self._on_gpu and args.memory_cap:
            ballast.limit(device, args.allocator, args.memory_cap)

    def setup_done(self):
        """What comes before the first step (weights) counts towards the run's peaks."""
        self._before = self._counters()
        self.result["setup"] = {**self._memory(), **self._before}

    def begin(self):
        self._synchronize()
        self._host = host.speed_us()
        self._threads = host.thread_seconds()
        self._started = time.perf_counter()

    def end(self, step, phase, loss, items):
        """Ends a step: `loss` is a float32 number, `phase` says what kind of step it was.

        `items` is the work done in it: tokens or images that were trained on.
        """
        self._synchronize()
        seconds = time.perf_counter() - self._started
        threads = host.thread_seconds()
        speed = max(self._host, host.speed_us())
        counters = self._counters()
        record = {
            "step": step,
            "phase": phase,
            "loss": loss,
            "loss_bits": bits(loss),
            "seconds": seconds,
            "thread_seconds": {kind: ran - self._threads[kind] for kind, ran in threads.items()},
            "host_us": speed,
            "items": items,
            **self._memory(),
            **{key: now - self._before[key] for key, now in counters.items()},
            "driver_seconds": 1e-9 * (counters["driver_ns"] - self._before["driver_ns"]),
            "plan_generation": counters["plan_generation"],
        }
        self._before = counters
        self.steps.append(record)
        print(
            f"{self.args.allocator:>12} step {step:3} {phase:10} loss {loss:.6f} "
            f"{seconds * 1e3:8.1f} ms  reserved {mib(record['peak_reserved'])}  "
            f"hits {record['hits']}  misses {record['misses']}  plan {record['plan_generation']}",
            file=sys.stderr,
            flush=True,
        )

    def evaluation(self, loss):
        """Adds an evaluation's loss to the step that has just ended."""
        self.steps[-1].update(evaluation=loss, evaluation_bits=bits(loss))

    def out_of_memory(self, step, error):
        self.result["out_of_memory"] = {"step": step, "message": str(error).splitlines()[0]}
        print(f"{self.args.allocator:>12} step {step:3} {error}", file=sys.stderr, flush=True)

    def report(self, **more):
        """The run as one JSON object; also written to --json."""
        import torch

        self.result.update(
            allocator=self.args.allocator,
            device=torch.cuda.get_device_name(self.device) if self._on_gpu else "CPU",
            torch=torch.__version__,
            cuda=torch.version.cuda,
            arguments={k: v for k, v in vars(self.args).items() if k != "json"},
            steps=self.steps,
            summary=self._summary(),
            **more,
        )
        if self.stalloc is not None:
            self.result["explain"] = self.stalloc.explain()
        # torchrun gives its ranks the same options: of these one writes.
        if self.args.json and os.environ.get("LOCAL_RANK", "0") == "0":
            self.args.json.write_text(json.dumps(self.result, indent=1) + "\n")
        return self.result

    def _summary(self):
        peaks = [self.result.get("setup", {}), *self.steps]
        reserved = max((p.get("peak_reserved", 0) for p in peaks), default=0)
        load = max((p.get("peak_load", 0) for p in peaks), default=0)
        last = self.steps[-max(1, len(self.steps) // 3) :]
        return {
            "peak_reserved": reserved,
            "peak_load": load,
            "fragmentation": 1 - load / reserved if reserved else 0.0,
            "steady_reserved": max((s["peak_reserved"] for s in last), default=0),
            "hits": sum(s["hits"] for s in self.steps),
            "misses": sum(s["misses"] for s in self.steps),
            "plan_generation": self.steps[-1]["plan_generation"] if self.steps else 0,
            "median_step_seconds": self._median(lambda step: step["seconds"]),
            "median_driver_seconds": self._median(lambda step: step["driver_seconds"]),
            "median_items_per_second": self._median(lambda step: step["items"] / step["seconds"]),
            "phases": self._phases(),
        }

    def _median(self, quantity):
        """Over the steady steps: the first third warms up, and the plan is made there."""
        steady = self.steps[len(self.steps) // 3 :]
        return statistics.median(map(quantity, steady)) if steady else None

    def _phases(self):
        phases = {}
        for step in self.steps:
            sums = phases.setdefault(step["phase"], {"steps": 0, "hits": 0, "misses": 0})
            sums["steps"] += 1
            sums["hits"] += step["hits"]
            sums["misses"] += step["misses"]
        return phases

    def _synchronize(self):
        if self._on_gpu:
            import torch

            torch.cuda.synchronize(self.device)

    def _memory(self):
        """The peaks since the last call, from the same functions under every allocator, but for
        what is away."""
        if not self._on_gpu:
            return {"peak_reserved": 0, "peak_allocated": 0, "peak_load": 0, "retries": 0}
        import torch

        stats = torch.cuda.memory_stats(self.device)
        reserved = stats["reserved_bytes.all.peak"]
        if self.stalloc:  # by PyTorch's, what lives is reserved, also while it is on the host
            reserved = min(reserved, self.stalloc.stats(self.device).peak_reserved)
        torch.cuda.reset_peak_memory_stats(self.device)
        return {
            "peak_reserved": reserved,
            "peak_allocated": stats["allocated_bytes.all.peak"],
            "peak_load": stats["requested_bytes.all.peak"],
            "retries": stats["num_alloc_retries"],
        }

    def _counters(self):
        keys = ("hits", "misses", "plan_generation", "driver_calls", "driver_ns")
        keys += ("waits", "wait_ns")
        if self.stalloc is None:
            return dict.fromkeys(keys, 0)
        stats = self.stalloc.stats(self.device if self._on_gpu else None)
        return {key: getattr(stats, key) for key in keys}


def mib(size):
    return f"{size / (1 << 20):,.0f} MiB"
