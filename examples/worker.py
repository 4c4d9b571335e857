#!/usr/bin/env python3
"""One process of workers.py: imports what an example needs, then trains as it is told.

    python examples/worker.py train_hf.py stalloc 0   # GPU 0; a line of JSON in, a report out

A line {"options", "environment"} trains once; with "turns", [first, every], the steps wait for
their turn (turnstile.py). {"profile": number} then says what a step more runs on the device.
"""

import functools
import gc
import importlib
import json
import os
import sys
import tempfile
from pathlib import Path

import ballast
import harness
import host
import turnstile


def clean():
    """Gives all memory back, and returns how much the allocator has all the same."""
    import torch

    gc.collect()
    if not torch.cuda.is_available():
        return 0
    torch.cuda.synchronize()
    getattr(torch._C, "_cuda_clearCublasWorkspaces", lambda: None)()
    torch.cuda.empty_cache()
    ballast.lift()
    torch.cuda.reset_peak_memory_stats()
    torch.cuda.reset_accumulated_memory_stats()
    return torch.cuda.memory_reserved()


def place(gpu, share):
    """Lets this process see one GPU, and keeps it to its share of the cores."""
    seen = os.environ.get("CUDA_VISIBLE_DEVICES")
    os.environ["CUDA_VISIBLE_DEVICES"] = seen.split(",")[gpu] if seen else str(gpu)
    cores = sorted(os.sched_getaffinity(0))
    some = cores[gpu % share * len(cores) // share : (gpu % share + 1) * len(cores) // share]
    os.sched_setaffinity(0, some or cores)


def main():
    # What libraries print must not be taken for an answer.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    script, allocator, gpu, share = [*sys.argv[1:], "1"][:4]
    place(int(gpu), int(share))
    harness.choose_allocator(allocator)
    sys.path.insert(0, str(Path(script).parent))
    program = importlib.import_module(Path(script).stem)
    program.Example.imports()
    clean()
    print(json.dumps({}), file=answers, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "report.json"
        for line in sys.stdin:
            told = json.loads(line)
            if "profile" in told:  # a step more of what was trained last
                step = functools.partial(turnstile.kept.step, told["profile"])
                print(json.dumps({"device_ms": host.device_ms(step)}), file=answers, flush=True)
                continue
            turnstile.close()
            if "turns" in told:
                turnstile.open_to(sys.stdin, answers, *told["turns"])
            os.environ.update(told["environment"] or {})
            status = program.main(
                [*told["options"], "--allocator", allocator, "--json", str(output)]
            )
            report = json.loads(output.read_text())
            if status == harness.EXIT_OUT_OF_MEMORY:
                report["failed"] = f"out of memory in step {report['out_of_memory']['step']}"
            left = clean() if turnstile.kept is None else None
            print(json.dumps({**report, "left": left}), file=answers, flush=True)


if __name__ == "__main__":
    main()
