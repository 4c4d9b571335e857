"""What a request and its free cost on the host: native, expandable segments, stalloc by each route.

    python tests/gpu/test_latency.py                    # all, four minutes
    python tests/gpu/test_latency.py --turns 5 native stalloc stalloc:plan=off

Two loops of the same steps, each allocator in a process of its own:

    storage   in C++, through PyTorch's allocator as a tensor's storage calls it (needs g++)
    tensor    in Python, torch.empty: what a program sees, Python's own time included

A step keeps about 200 blocks of up to 512 KiB (random sizes, the same in every step) and does
1000 pairs. stalloc is measured with its plan, where requests are hits, and with plan:off, where
each comes from the pool, out of cached memory. Nothing is launched on the GPU.

The allocators take turns. Of the turns each has its fastest, for a host that others use as well
slows one process down and not the next; all of them stand beside.

Fails if a hit costs more than native does, or if the plan is not used.
"""

import argparse
import ctypes
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import gpu  # noqa: F401, makes the modules below importable
import harness

OTHER = "stalloc:route=pluggable"  # the default is the adapter
ALLOCATORS = ("native", "expandable", "stalloc", "stalloc:plan=off", OTHER, f"{OTHER},plan=off")
LIVE, PAIRS, WARM, MEASURED = 200, 1000, 25, 15
SEED = 7


def operations():
    """Places and sizes as pairs.cc takes them: fill up, free one and ask for one, free all."""
    draw = random.Random(SEED)
    places, sizes = list(range(LIVE)), [draw.randint(1, 512 << 10) for _ in range(LIVE)]
    for _ in range(PAIRS - LIVE):
        place = draw.randrange(LIVE)
        places += [place, place]
        sizes += [0, draw.randint(1, 512 << 10)]
    return places + list(range(LIVE)), sizes + [0] * LIVE


def compiled(folder):
    """The C++ loop, or why there is none."""
    import torch

    root = Path(torch.__file__).parent
    source, library = Path(__file__).with_name("pairs.cc"), folder / "pairs.so"
    abi = int(torch._C._GLIBCXX_USE_CXX11_ABI)
    command = ["g++", "-O2", "-std=c++20", "-shared", "-fPIC", f"-D_GLIBCXX_USE_CXX11_ABI={abi}"]
    command += ["-isystem", str(root / "include"), "-isystem"]
    command += [str(root / "include/torch/csrc/api/include"), str(source), "-o", str(library)]
    command += [f"-L{root / 'lib'}", "-lc10", "-ltorch_cpu"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    except OSError as error:
        return None, str(error)
    if done.returncode:
        return None, done.stderr.strip().splitlines()[0]
    return library, ""


def storage_step(library):
    """One step in C++; returns its time in ns."""
    step = ctypes.CDLL(library).stalloc_test_step
    step.restype = ctypes.c_double
    places, sizes = operations()
    array = ctypes.c_int64 * len(places)
    arguments = array(*places), array(*sizes), ctypes.c_int64(len(places)), ctypes.c_int64(LIVE)

    def run():
        spent = step(*arguments)
        assert spent >= 0, "the allocator raised an error"
        return spent

    return run


def tensor_step(torch):
    """The same in Python."""
    places, sizes = operations()

    def run():
        held = [None] * LIVE
        begin = time.perf_counter_ns()
        for place, size in zip(places, sizes):
            held[place] = torch.empty(size, dtype=torch.uint8, device="cuda") if size else None
        return time.perf_counter_ns() - begin

    return run


def measure(step, stalloc):
    """ns per pair, and the hits and misses of the measured steps."""
    spent = []
    for number in range(WARM + MEASURED):
        if number == WARM and stalloc:
            before = stalloc.stats()
        time.sleep(0.02 if number < WARM else 0)  # time for the planner
        spent.append(step() / PAIRS)
        if stalloc:
            stalloc.step()
    result = {"ns": statistics.median(spent[WARM:])}
    if stalloc:
        after = stalloc.stats()
        result.update(hits=after.hits - before.hits, misses=after.misses - before.misses)
    return result


def child(allocator, library):
    stalloc = harness.choose_allocator(allocator)
    import torch

    torch.empty(1, device="cuda")
    result = {}
    if library:
        result["storage"] = measure(storage_step(library), stalloc)
    result["tensor"] = measure(tensor_step(torch), stalloc)
    print(json.dumps(result))


def results(folder, allocators, count):
    """By allocator and loop: the fastest turn, and in it the "turns" of all."""
    library, why = compiled(folder)
    if library is None:
        print(f"only the loop in Python: {why}")
    turns = {allocator: [] for allocator in allocators}
    for _ in range(count):
        for allocator, measured in turns.items():
            measured.append(turn(allocator, library))
            words = (f"{loop} {result['ns']:.0f} ns" for loop, result in measured[-1].items())
            print(f"{allocator}: {', '.join(words)}", flush=True)
    return {
        allocator: {loop: fastest([result[loop] for result in measured]) for loop in measured[0]}
        for allocator, measured in turns.items()
    }


def turn(allocator, library):
    """The loops in a process of its own."""
    command = [sys.executable, __file__, "--child", allocator, str(library or "")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise SystemExit(f"{allocator}: exit status {done.returncode}\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def fastest(results):
    each = sorted(result["ns"] for result in results)
    return {**min(results, key=lambda result: result["ns"]), "turns": each}


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("allocators", nargs="*", default=ALLOCATORS, metavar="ALLOCATOR")
    parser.add_argument("--turns", type=harness.positive, default=3)
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        found = results(Path(folder), args.allocators, args.turns)
    faults = []
    for loop in found["native"]:
        native = found["native"][loop]["ns"]
        for allocator, measured in found.items():
            result = measured[loop]
            words = f"{result['ns']:7.0f} ns a pair, {result['ns'] / native:.2f} of native's, "
            words += f"turns {' '.join(f'{ns:.0f}' for ns in result['turns'])}"
            if "hits" in result:
                words += f", {result['hits']} hits, {result['misses']} misses"
            print(f"{loop:8} {allocator:32} {words}")
        hit = found["stalloc"][loop]
        if hit["hits"] < 0.99 * (hit["hits"] + hit["misses"]) or not hit["hits"]:
            faults.append(f"{loop}: {hit['hits']} hits, {hit['misses']} misses under a plan")
        elif hit["ns"] > native:
            faults.append(f"{loop}: a hit costs {hit['ns']:.0f} ns a pair, native {native:.0f}")
    print("\n".join(faults) or "ok")
    return 1 if faults else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(*sys.argv[2:4])
    else:
        assert gpu.ROOT  # importing gpu has set the module path
        sys.exit(main())
