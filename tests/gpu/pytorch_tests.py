"""PyTorch's own tests of its CUDA allocator, under PyTorch's allocator and under stalloc.

    python tests/gpu/pytorch_tests.py --checkout PATH       or PYTORCH_PATH=PATH

PATH is a checkout of PyTorch, best of the installed version (of which test/ is enough). The tests
of FILES are run in a few processes at a time; one that fails, crashes or hangs costs itself
alone, since the next one begins in a new process. Those of ALONE want the device for
themselves. What fails is judged by a second run in a process of its own, under both allocators
alike: tests leave things behind, such as a graph that nobody has collected yet. The exit status
is 1 if a test passes under native alone and EXPLAINED does not say why.
"""

import argparse
import collections
import json
import os
import queue
import re
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ALLOCATORS = ("native", "stalloc")
STATES = ("passed", "failed", "crashed", "timed out", "skipped", "not run")
RUN = ["-m", "stalloc.run", "--strict", "--no-summary", "--conf", "route:adapter"]
START_LIMIT = 300  # seconds for importing torch and the tests
# Without these, each process starts others that compile, looks for a TPU, and compiles for a minute
# to see which instructions the CPU has.
WITHOUT_WAITS = {
    "TORCHINDUCTOR_COMPILE_THREADS": "1",
    "TORCHINDUCTOR_VEC_ISA_OK": "1",
    "JAX_PLATFORMS": "cpu",
}

# Class.test of what the allocator has a part in.
MEMORY = (
    r"TestCuda\..*(memory|alloc|oom|pool|pinned|record_stream|snapshot|graph|workspace|cudart|"
    r"streaming_backwards|non_blocking)",
    r"TestCudaMallocAsync\.(?!test_(clock|power|temperature|nvml|raw_amdsmi|uuid))",
    r"TestBlockStateAbsorption\.",
    r"TestMemPool\.",
    r"TestCachingHostAllocator",
    r"TestCudaOptims(CUDA)?\.test_graph",
    r"TestFXMemoryProfiler",
)
# What is run of each file.
FILES = {"test/test_cuda.py": MEMORY, "test/inductor/test_cudagraph_trees.py": ("",)}
# Of these the ones that fill the device, set limits on it, or look at all of it.
ALONE = (
    r"oom|out_of_memory|memory_fraction|device_memory|workspace_memory|garbage|expandable|"
    r"max_split|fuzz|large",
)
# Class.test of differences: why they are as they are. docs/pytorch.md tells them, too.
EXPLAINED = {
    "TestCuda.test_graph_memory_stats_and_use_result_after_destroy_graph": (
        "what we reserve counts to the large pool"
    ),
    "TestCuda.test_record_stream": "the free block that fits best serves, not the same one again",
}


def matches(patterns, name):
    return any(re.search(pattern, name) for pattern in patterns)


class Crashed(Exception):
    """The process has ended, or was ended, with a test under way."""


class Worker:
    """A process that runs tests under one allocator."""

    def __init__(self, file, allocator, folder):
        self.log = tempfile.TemporaryFile(dir=folder)
        self.answers, report = os.pipe()
        runner = RUN if allocator == "stalloc" else []
        paths = [str(ROOT / "python"), *filter(None, [os.environ.get("PYTHONPATH")])]
        script = str(Path(__file__).with_name("pytorch_worker.py"))
        self.process = subprocess.Popen(
            [sys.executable, *runner, script, str(file), str(report)],
            cwd=file.parent,
            env={**WITHOUT_WAITS, **os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            stdin=subprocess.PIPE,
            stdout=self.log,
            stderr=self.log,
            pass_fds=[report],
            start_new_session=True,
        )
        os.close(report)
        self.read = b""
        self.tests = self.answer(START_LIMIT)

    def answer(self, limit):
        """The next line of its report. A process it has forked may keep the pipe open."""
        end = time.monotonic() + limit
        while b"\n" not in self.read:
            ended = self.process.poll() is not None
            if select.select([self.answers], [], [], 0 if ended else 0.5)[0]:
                got = os.read(self.answers, 1 << 16)
                self.read += got
                if got:
                    continue
                ended = True
            if ended:
                raise Crashed("crashed", f"{self.status()}: {self.last_words()}")
            if time.monotonic() > end:
                raise Crashed("timed out", f"no end after {limit:g} s: {self.last_words()}")
        line, self.read = self.read.split(b"\n", 1)
        return json.loads(line)

    def run(self, name, limit):
        """State and last error line of one test."""
        try:
            self.process.stdin.write(name.encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # answer() says so
        return self.answer(limit)

    def status(self):
        code = self.process.wait()
        return signal.Signals(-code).name if code < 0 else f"exit status {code}"

    def last_words(self):
        self.log.seek(0)
        lines = self.log.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""

    def close(self):
        """Ends it, and what its tests have started."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        self.process.stdin.close()
        os.close(self.answers)
        self.log.close()


def work(file, allocator, names, results, args, folder):
    """Takes tests from a queue until there are none; every failure ends a process."""
    worker = None
    while True:
        try:
            name = names.get_nowait()
        except queue.Empty:
            break
        begin = time.monotonic()
        if begin > args.deadline:
            results[name] = ("not run", "the time was over", 0.0)
            continue
        try:
            worker = worker or Worker(file, allocator, folder)
            begin = time.monotonic()
            state, why = worker.run(name, args.timeout)
        except Crashed as error:
            state, why = error.args
        results[name] = (state, why, time.monotonic() - begin)
        if args.verbose:
            at = time.monotonic() - args.begin
            took = f"{results[name][2]:5.1f} s, at {at:4.0f} s"
            print(f"{allocator:<8} {state:<9} {took}  {name}", flush=True)
        if state not in ("passed", "skipped") and worker:
            worker.close()
            worker = None
    if worker:
        worker.close()


def measure(file, names, args, folder):
    """The results of a file's tests, by allocator and name."""
    results = {allocator: {} for allocator in ALLOCATORS}
    # First those that others may run beside; then one allocator at a time.
    together = [name for name in names if not matches(ALONE, name)]
    phases = [(together, ALLOCATORS, args.jobs)]
    phases += [([n for n in names if matches(ALONE, n)], (a,), 1) for a in ALLOCATORS]
    for wanted, allocators, jobs in phases:
        threads = []
        for allocator in allocators:
            left = queue.SimpleQueue()
            for name in wanted:
                left.put(name)
            rest = (file, allocator, left, results[allocator], args, folder)
            threads += [threading.Thread(target=work, args=rest) for _ in range(jobs)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    judge_again(file, results, args, folder)
    return {a: {name: results[a][name] for name in names} for a in ALLOCATORS}


def judge_again(file, results, args, folder):
    """Runs each test that has failed once more, in a process of its own, beside no other: first
    those that say something else under the other allocator, while there is time."""
    bad = ("failed", "crashed", "timed out")
    failed = [(a, n) for a in ALLOCATORS for n, (state, *_) in results[a].items() if state in bad]
    differ = differing(results)
    for allocator, name in sorted(failed, key=lambda one: one[1] not in differ):
        if time.monotonic() > args.deadline:
            return  # the first verdict stands
        alone = queue.SimpleQueue()
        alone.put(name)
        work(file, allocator, alone, results[allocator], args, folder)


def differing(results):
    """The tests that do not say the same under all allocators."""
    native, ours = (results[allocator] for allocator in ALLOCATORS)
    return {name for name in native if native[name][0] != ours[name][0]}


def show(results):
    """The table, then every difference; returns how many tests stalloc alone does not pass."""
    counts = {a: collections.Counter(state for state, *_ in results[a].values()) for a in results}
    print("| tests     | native | stalloc |\n|-----------|--------|---------|")
    for state in STATES:
        if any(counts[allocator][state] for allocator in counts):
            print(f"| {state:<9} | {counts['native'][state]:>6} | {counts['stalloc'][state]:>7} |")
    lost, differ = 0, differing(results)
    for name, (state, why, _) in results["native"].items():
        other, reason, _ = results["stalloc"][name]
        if name not in differ:
            continue
        known = EXPLAINED.get(name)
        lost += state == "passed" and not known
        print(f"\n{name}: native {state}, stalloc {other}{f' ({known})' if known else ''}")
        for allocator, said in (("native", why), ("stalloc", reason)):
            if said:
                print(f"    {allocator}: {said[:300]}")
    return lost


def tests_of(file, patterns, words, folder):
    """The tests that are wanted of a file, which must load under both allocators."""
    for allocator in ALLOCATORS:
        first = Worker(file, allocator, folder)
        first.close()
    names = [name for name in first.tests if matches(patterns, name)]
    return [n for n in names if any(word in n for word in words or [""])]


def main():
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    checkout = os.environ.get("PYTORCH_PATH")
    parser.add_argument("words", nargs="*", help="only tests whose names contain one of these")
    parser.add_argument("--checkout", type=Path, default=checkout, required=not checkout)
    parser.add_argument("--jobs", type=int, default=5, metavar="N", help="processes an allocator")
    parser.add_argument("--timeout", type=float, default=60, metavar="SECONDS", help="for a test")
    parser.add_argument("--budget", type=float, default=1e9, metavar="SECONDS", help="for all")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all results there")
    parser.add_argument("--verbose", action="store_true", help="show each result as it comes")
    args = parser.parse_args()
    files = {(args.checkout / name).resolve(): what for name, what in FILES.items()}
    files = {file: what for file, what in files.items() if file.is_file()}
    if not files:
        parser.error(f"{args.checkout} has none of {', '.join(FILES)}: name a checkout of PyTorch")
    if args.json:  # before the tests run, which takes long
        args.json.parent.mkdir(parents=True, exist_ok=True)
    args.begin = time.monotonic()
    args.deadline = args.begin + args.budget
    results = {allocator: {} for allocator in ALLOCATORS}
    with tempfile.TemporaryDirectory() as folder:
        for file, patterns in files.items():
            try:
                names = tests_of(file, patterns, args.words, folder)
            except Crashed as error:
                parser.exit(2, f"{file} cannot be run: {error.args[1]}\n")
            for allocator, found in measure(file, names, args, folder).items():
                results[allocator].update(found)
    lost = show(results)
    tests = len(results["native"])
    print(f"\n{tests} tests, {lost} lost, {time.monotonic() - args.begin:.0f} s")
    if args.json:
        args.json.write_text(json.dumps(results, indent=1) + "\n")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
