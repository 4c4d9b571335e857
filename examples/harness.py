"""What every training example shares: choosing the allocator, determinism, and measuring.

An example trains the same model on the same data under one of several allocators and writes
what it saw as JSON; compare.py runs it once per allocator and sets the results side by side.

Peak load is measured alike for all: the largest sum of the live blocks' sizes as asked for
(``requested_bytes``), which depends on the program alone. What an allocator rounds up, splits
off or cannot reuse is its own fragmentation: 1 - peak load / peak reserved.
"""

import argparse
import json
import os
import statistics
import struct
import sys
import time
from importlib import metadata
from pathlib import Path

NATIVE_VARIABLES = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF")
EXIT_OUT_OF_MEMORY = 3


def add_arguments(parser):
    group = parser.add_argument_group("run")
    group.add_argument("--steps", type=positive, default=12)
    group.add_argument("--seed", type=int, default=1234)
    group.add_argument(
        "--allocator",
        default="native",
        metavar="NAME",
        help="native, expandable, stalloc, or stalloc with settings: stalloc:key=value,key=value",
    )
    group.add_argument(
        "--boundary",
        choices=("explicit", "optimizer"),
        default="explicit",
        help="who marks the steps for stalloc: the loop (stalloc.step()) or the optimizer's hook",
    )
    group.add_argument("--memory-cap", type=float, metavar="GIB", help="use no more than this")
    group.add_argument("--json", type=Path, metavar="FILE", help="write the measurements here")


def positive(text):
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return value


def choose_allocator(name):
    """Sets up the allocator called `name`. Must run before anything imports torch.

    Returns the stalloc module if it is the one, else None.
    """
    if "torch" in sys.modules:
        raise RuntimeError("choose_allocator: torch is already imported; call this before")
    kind, _, settings = name.partition(":")
    if kind not in ("native", "expandable", "stalloc") or (settings and kind != "stalloc"):
        raise SystemExit(
            f"--allocator {name}: expected native, expandable, stalloc or stalloc:key=value,..."
        )
    for variable in NATIVE_VARIABLES:
        os.environ.pop(variable, None)
    if kind == "expandable":
        os.environ[_native_variable()] = "expandable_segments:True"
    if kind != "stalloc":
        return None
    try:
        import stalloc
    except ImportError:
        sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))
        import stalloc
    pairs = (setting.partition("=") for setting in settings.split(",") if setting)
    stalloc.enable(**{key: value for key, _, value in pairs})
    return stalloc


def _native_variable():
    """The name under which this release of PyTorch looks for its allocator's settings."""
    try:
        major, minor = (int(part) for part in metadata.version("torch").split(".")[:2])
    except metadata.PackageNotFoundError:
        raise SystemExit("the examples need PyTorch: pip install torch") from None
    return "PYTORCH_ALLOC_CONF" if (major, minor) >= (2, 9) else "PYTORCH_CUDA_ALLOC_CONF"


def make_deterministic(seed):
    """Same program, same bits: any difference then comes from the allocator."""
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    import torch

    torch.manual_seed(seed)
    torch.use_deterministic_algorithms(True)
    # PyTorch would fill every new tensor with NaN, to hide reads of uninitialised memory. An
    # allocator that hands out memory in use shall not be hidden, nor the steps slowed down.
    torch.utils.deterministic.fill_uninitialized_memory = False


def bits(value):
    """The float32's own bits, big-endian hexadecimal."""
    return struct.pack(">f", value).hex()


def checksum(model):
    """A sum over the bits of every weight: two runs that agree in it trained alike."""
    import torch

    total = 0
    with torch.no_grad():
        for place, parameter in enumerate(model.parameters(), start=1):
            integers = {2: torch.int16, 4: torch.int32, 8: torch.int64}[parameter.element_size()]
            part = parameter.detach().view(integers).sum(dtype=torch.int64).item()
            total = (total + place * part) % (1 << 64)
    return f"{total:016x}"


class Recorder:
    """Measures the run step by step and writes the report."""

    def __init__(self, args, device, stalloc):
        self.args, self.device, self.stalloc = args, device, stalloc
        self.steps = []
        self.result = {}
        self._on_gpu = device.type == "cuda"
        self._before = None
        if self._on_gpu and args.memory_cap:
            import torch

            total = torch.cuda.get_device_properties(device).total_memory
            torch.cuda.set_per_process_memory_fraction(
                min(1.0, args.memory_cap * (1 << 30) / total), device
            )

    def setup_done(self):
        """What comes before the first step (weights) counts towards the run's peaks."""
        self._before = self._counters()
        self.result["setup"] = {**self._memory(), **self._before}

    def begin(self):
        self._synchronize()
        self._started = time.perf_counter()

    def end(self, step, phase, loss):
        """Ends a step: `loss` is a float32 number; `phase` says what kind of step it was."""
        self._synchronize()
        seconds = time.perf_counter() - self._started
        counters = self._counters()
        record = {
            "step": step,
            "phase": phase,
            "loss": loss,
            "loss_bits": bits(loss),
            "seconds": seconds,
            **self._memory(),
            **{
                key: counters[key] - self._before[key] for key in ("hits", "misses", "driver_calls")
            },
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
        if self.args.json:
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
            "median_step_seconds": self._median_seconds(),
            "phases": self._phases(),
        }

    def _median_seconds(self):
        """Over the steady steps: the first third warms up, and the plan is made there."""
        steady = self.steps[len(self.steps) // 3 :]
        return statistics.median(s["seconds"] for s in steady) if steady else None

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
        """The peaks since the last call, from the same functions under every allocator."""
        if not self._on_gpu:
            return {"peak_reserved": 0, "peak_allocated": 0, "peak_load": 0, "retries": 0}
        import torch

        stats = torch.cuda.memory_stats(self.device)
        torch.cuda.reset_peak_memory_stats(self.device)
        return {
            "peak_reserved": stats["reserved_bytes.all.peak"],
            "peak_allocated": stats["allocated_bytes.all.peak"],
            "peak_load": stats["requested_bytes.all.peak"],
            "retries": stats["num_alloc_retries"],
        }

    def _counters(self):
        keys = ("hits", "misses", "plan_generation", "driver_calls")
        if self.stalloc is None:
            return dict.fromkeys(keys, 0)
        stats = self.stalloc.stats(self.device if self._on_gpu else None)
        return {key: getattr(stats, key) for key in keys}


def mib(size):
    return f"{size / (1 << 20):,.0f} MiB"
