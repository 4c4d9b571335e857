"""Checks `stalloc fit` on a GPU: what it predicts for larger sizes, and what these then need.

    python tests/gpu/test_fit.py
    python tests/gpu/test_fit.py --only llama vit --json fit.json --keep recordings

Each program is recorded at three small sizes. fit tells its peak at a size more than twice as
large, and the largest size that fits a device under each allocator. Then it runs at these sizes,
its allocator held to the device's capacity. The peak may be off by 2 %, the largest size by one.
Where fit says that it cannot tell, that is no miss, if it tells all of at least five programs.

A device is chosen by what live tensors need at 2.25 times the largest size recorded. At the
smallest one activations make the peak, not the optimizer's step. What is measured is memory, no
time, so several programs run side by side on the GPU.
"""

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import gpu
import harness
import ledger

ALLOCATORS = {"native": "native", "expandable": "expandable", "stalloc": "stalloc"}
STEPS, LARGER, PEAK_BAR, SIZE_BAR = 8, 2.25, 0.02, 1
TOLD = 5  # of so many programs it is to tell all
MIB, GIB = gpu.MIB, gpu.GIB


@dataclasses.dataclass
class Program:
    """An example, the option that is its size, and the sizes that are recorded."""

    script: str
    options: str
    size: str = "--batch"
    recorded: tuple = (4, 8, 12)
    multiple: int = 1
    needs: tuple = ()


LLAMA = "--layers 8 --width 1024"
HF = "--layers 4 --width 1024 --shortest 512 --longest 512 --eval-every 0"
HF_NEEDS = ("transformers", "accelerate")

# The data of a step have to be the same at each size: lengths that are drawn for each sequence,
# or for each row of them, would make another program of another size.
PROGRAMS = {
    "llama": Program("train_llama.py", f"{LLAMA} --seq 256", recorded=(8, 16, 24)),
    "llama, sequence": Program(
        "train_llama.py", f"{LLAMA} --batch 4", "--seq", (512, 1024, 1536), 64
    ),
    "variable lengths": Program("train_varlen.py", f"{LLAMA} --longest 256"),
    "mixtral": Program(
        "train_moe.py",
        "--layers 4 --width 1024 --heads 8 --hidden 1792 --seq 256",
        recorded=(12, 18, 24),
    ),
    "vit": Program("train_vision.py", "--model vit --sides 160 192 224", recorded=(24, 36, 48)),
    "pyg": Program("train_pyg.py", "--nodes 20000", "--degree", needs=("torch_geometric",)),
    "hf trainer": Program("train_hf.py", HF, recorded=(8, 16, 24), needs=HF_NEEDS),
    "lora": Program(
        "train_hf.py", f"{HF} --layers 16 --lora --boundary optimizer", needs=(*HF_NEEDS, "peft")
    ),
}


class Runs:
    """Runs programs, at most so many at once."""

    def __init__(self, folder, at_once):
        self.folder, self._slots = folder, threading.Semaphore(at_once)
        self._variables = {**os.environ, "PYTHONPATH": str(gpu.ROOT / "python")}

    def run(self, command):
        with self._slots:
            return subprocess.run(
                command,
                env=self._variables,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=240,
            )

    def example(self, name, size, allocator="native", capacity=None):
        """The run's figures, or None where it ran out of memory; recorded without a capacity."""
        program = PROGRAMS[name]
        file = self.folder / f"{name.replace(', ', '_').replace(' ', '_')}-{size}-{allocator}.json"
        command = [str(gpu.ROOT / "examples" / program.script), *program.options.split()]
        command += [program.size, str(size), "--steps", str(STEPS), "--json", str(file)]
        if capacity is None:
            command = ["-m", "stalloc.record", "-o", str(recording(file)), *command]
        else:
            command += ["--allocator", ALLOCATORS[allocator], "--memory-cap", repr(capacity / GIB)]
        done = self.run([sys.executable, *command])
        if done.returncode == harness.EXIT_OUT_OF_MEMORY and capacity is not None:
            return None
        assert done.returncode == 0, f"{name} at {size}: {done.stderr[-2000:]}"
        return {"file": file, "peak": json.loads(file.read_text())["summary"]["peak_load"]}

    def told(self, name, recordings, capacity):
        """What fit says, by allocator and figure."""
        program = PROGRAMS[name]
        command = [str(gpu.ROOT / "python/stalloc/bin/stalloc"), "fit", "--json"]
        command += ["--capacity", f"{capacity}B", "--multiple", str(program.multiple)]
        command += [f"--at={size}={recording(run['file'])}" for size, run in recordings.items()]
        done = self.run(command)
        assert done.returncode == 0, f"{name}: {done.stderr}"
        results = map(json.loads, done.stdout.splitlines())
        return {(result["allocator"], result["figure"]): result for result in results}


def recording(file):
    return file.with_suffix(".csv.gz")


def measure(runs, name):
    """The rows of a program."""
    program = PROGRAMS[name]
    with ThreadPoolExecutor(8) as pool:
        recorded = pool.map(lambda size: runs.example(name, size), program.recorded)
        recordings = dict(zip(program.recorded, recorded))
        capacity = device(program, recordings)
        told = runs.told(name, recordings, capacity)
        measured = {}  # peaks of the runs that fitted, by size

        def fits(allocator, size):
            result = size > 0 and runs.example(name, size, allocator, capacity)
            if result:
                measured[size] = result["peak"]
            return bool(result)

        def row(allocator):
            result = told[allocator, "fits"]
            if "cannot_tell" in result:
                why = result["cannot_tell"]
                return {"program": name, "figure": allocator, "unknown": why, "ok": True}
            most = result["largest"]
            found = largest(lambda size: fits(allocator, size), most, program.multiple, pool)
            off = (found - most) // program.multiple
            return {
                "program": name, "figure": allocator, "device": capacity, "told": most,
                "measured": found, "error": f"{off:+d}", "ok": abs(off) <= SIZE_BAR,
                "low": result["low"], "high": result["high"], "method": result["method"],
            }  # fmt: skip

        # A pool of their own: they wait for tasks of the other.
        with ThreadPoolExecutor(len(ALLOCATORS)) as rows:
            found = list(rows.map(row, ALLOCATORS))
    return [peak(name, told["live tensors", "fits"], measured), *found]


def device(program, recordings):
    """A capacity in which live tensors alone come to LARGER times the largest size."""
    low, high = program.recorded[0], program.recorded[-1]
    each = (recordings[high]["peak"] - recordings[low]["peak"]) / (high - low)
    need = recordings[high]["peak"] + each * ((LARGER - 1) * high + program.multiple / 2)
    return round(need / (2 * MIB)) * 2 * MIB


def largest(fits, most, multiple, pool):
    """The largest size that fits, which is taken to be near to `most`.

    Two away from it, or further, is one result: the bar is missed.
    """
    here, above = pool.map(fits, (most, most + multiple))
    if above:
        return most + (2 if fits(most + 2 * multiple) else 1) * multiple
    return most if here else most - (1 if fits(most - multiple) else 2) * multiple


def peak(name, line, measured):
    """The row of the largest size that ran."""
    if not measured:
        return {"program": name, "failed": "no size ran that fit tells of", "ok": False}
    size = max(measured)
    told = line["fixed_bytes"] + size * line["each_bytes"]
    error = told / measured[size] - 1
    return {
        "program": name, "figure": f"peak at {size}", "told": told, "measured": measured[size],
        "error": f"{error:+.2%}", "ok": abs(error) <= PEAK_BAR,
    }  # fmt: skip


def table(rows):
    yield f"{'program':<17} {'figure':<14}{'device':>11}{'told':>11}{'measured':>11} {'error':>7}"
    for r in rows:
        if "failed" in r:
            yield f"{r['program']:<17} FAILED: {r['failed']}"
            continue
        if "unknown" in r:
            yield f"{r['program']:<17} {r['figure']:<14} cannot tell: {r['unknown']}"
            continue
        cells = [r["told"], r["measured"]]
        if "device" not in r:
            cells = [f"{cell / GIB:.3f} GiB" for cell in cells]
        held = f"{r['device'] / GIB:.2f} GiB" if "device" in r else ""
        yield (
            f"{r['program']:<17} {r['figure']:<14}{held:>11}{cells[0]:>11}{cells[1]:>11} "
            f"{r['error']:>7}{'' if r['ok'] else '  MISSED'}"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=PROGRAMS, default=list(PROGRAMS))
    parser.add_argument("--at-once", type=harness.positive, default=10, help="processes")
    parser.add_argument("--json", type=ledger.file, metavar="FILE", help="write the rows here")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep recordings and runs")
    args = parser.parse_args()
    names, began = [], time.monotonic()
    for name in args.only:
        absent = harness.missing(*PROGRAMS[name].needs)
        print(f"{name}: left out, {absent}" if absent else f"{name}: runs", flush=True)
        names += [] if absent else [name]

    def rows(name):
        try:
            return measure(runs, name)
        except (AssertionError, OSError, subprocess.SubprocessError, KeyError) as error:
            return [{"program": name, "failed": str(error), "ok": False}]

    with tempfile.TemporaryDirectory(prefix="stalloc-fit-") as folder:
        runs = Runs(args.keep or Path(folder), args.at_once)
        runs.folder.mkdir(parents=True, exist_ok=True)
        with ThreadPoolExecutor(max(1, len(names))) as pool:
            found = [row for rows_of in pool.map(rows, names) for row in rows_of]
    print(*table(found), f"{time.monotonic() - began:.0f} s", sep="\n")
    unknown = {row["program"] for row in found if "unknown" in row}
    whole = len(names) - len(unknown)
    if few := whole < min(TOLD, len(names)):
        print(f"MISSED: of {whole} programs all was told, want {TOLD}")
    if args.json:
        args.json.write_text(json.dumps(found, indent=1) + "\n")
    sys.exit(not found or few or not all(row["ok"] for row in found))


if __name__ == "__main__":
    main()
