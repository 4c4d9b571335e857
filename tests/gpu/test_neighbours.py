"""NCCL, symmetric memory and other allocators beside stalloc, each way by settings of its own.

    python tests/gpu/test_neighbours.py [--logs FOLDER] [--only TEXT...]

Ways of the same settings run in one job of torchrun, a rank a GPU; one that fails ends the job, and
another does the rest. Whether NCCL used zero copy is what its log says (NCCL_DEBUG=INFO), told
beside each result and not judged: --logs keeps it. With one GPU there is nobody to register
memory with, and the table says so.
"""

import argparse
import collections
import functools
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import gpu
from gpu import GIB, MIB

SAVERS = str(Path(__file__).parent / "savers.py")
ABSENT = "not run: pip install torch_memory_saver"
HOOK = {"TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK": "1"}
LOG = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,REG,TUNING,ALLOC"}
WORDS = {  # of NCCL's log, and what they mean
    "IPC register buffer": "zero copy set up",
    "IPC reuse buffer": "zero copy again",
    "[Symmetric]": "symmetric kernels",
    "register comm": "announced",
    "failed to IPC register": "refused",
    "Skipping": "skipped",
    "NCCL WARN": "warnings",
}
# By what the table calls it: allocator, environment, ways.
JOBS = {
    "native": ("native", {}, "pool windows symmetric graph symmetric_pool"),
    "native, hook": ("native", HOOK, "plain pool graph"),
    "share:off": ("stalloc", {}, "plain pool windows own symmetric graph symmetric_pool"),
    "share:off, hook": ("stalloc", HOOK, "plain pool graph"),
    "share:fd": ("stalloc", {}, "plain pool windows own symmetric graph symmetric_pool"),
    "share:fd, hook": ("stalloc", HOOK, "plain pool graph"),
    "share:fd, no registering in graphs": ("stalloc", {"NCCL_GRAPH_REGISTER": "0"}, "graph"),
}


class Job:
    """The ways of one kind of settings; results come with the first that is asked for."""

    def __init__(self, name, logs):
        self.name, self.logs = name, logs
        self.allocator, self.environment, ways = JOBS[name]
        self.ways, self.found = ways.split(), {}

    def run(self):
        environment = {**LOG, **self.environment}
        if self.allocator == "stalloc":
            environment["STALLOC_CONF"] = self.name.split(",")[0]
        while left := [way for way in self.ways if way not in self.found]:
            status, lines = gpu.torchrun(
                "neighbours.py", self.allocator, *left, timeout=150, **environment
            )
            if self.logs:
                name = f"{self.name} {left[0]}".replace(" ", "-").replace(",", "").replace(":", "-")
                (self.logs / f"{name}.log").write_text("\n".join(lines))
            self.take(left, status, lines)

    def take(self, left, status, lines):
        """The results of one start: of the ways that passed, and of the one it ended in."""
        parts = {}
        for line in lines:
            if line.startswith("way "):
                part = parts[line[4:]] = []
            elif parts:
                part.append(line)
        for way, part in parts.items():
            said = [line for line in part if line.startswith('{"way"')]
            self.found[way] = (json.loads(said[0]) if said else None, part)
        if status != 0 and all(self.found[way][0] for way in parts):
            rest = [way for way in left if way not in self.found]
            self.found[rest[0] if rest else left[-1]] = (None, lines)  # between ways, or at the end

    def result(self, way):
        if gpu.devices() < 2:
            return "not run: there are no two GPUs"
        if not self.found:
            self.run()
        said, lines = self.found[way]
        assert said, gpu.reason(lines)
        words = [f"{said['world']} ranks", zero_copy(lines)]
        if said["slept"]:
            words.append(f"{said['slept'] / GIB:.2f} GiB slept")
        if said["awake"]:
            words.append(f"awake: {said['awake']}")
        if said["stuck"] > 64 * MIB:
            words.append(f"the driver did NOT get back {said['stuck'] / MIB:.0f} MiB of that")
        if way in ("plain", "graph"):
            end, size = (n / MIB for n in said["range"])
            words.append(f"the driver's range of a tensor of {size:.0f} MiB ends after {end:.0f}")
        return "; ".join(words)


def zero_copy(lines):
    """What NCCL's log says of registered memory, and which algorithms it took."""
    counts = collections.Counter(
        means for line in lines for word, means in WORDS.items() if "NCCL" in line and word in line
    )
    taken = collections.Counter(
        line.split("-> ")[1].split(" channel")[0].split(" nchannels")[0]
        for line in lines
        if "NCCL INFO" in line and " Bytes -> " in line
    )
    used = counts["zero copy set up"] + counts["zero copy again"] + counts["symmetric kernels"]
    said = [f"{means} {counts[means]}" for means in WORDS.values() if counts[means]]
    said += [f"{kind} {n}" for kind, n in taken.most_common(3)]
    return f"zero copy: {'yes' if used else 'no'} ({', '.join(said) or 'no word of it'})"


def saver(*arguments, **environment):
    try:
        from torch_memory_saver.utils import get_binary_path_from_package as path
    except ImportError:
        return ABSENT
    if "preload" in arguments:
        environment["LD_PRELOAD"] = str(path("torch_memory_saver_hook_mode_preload"))
        with open("/proc/self/maps") as maps:  # which wants CUDA's runtime where the loader looks
            runtime = next(line.split()[-1] for line in maps if "libcudart" in line)
        folders = [str(Path(runtime).parent), os.environ.get("LD_LIBRARY_PATH", "")]
        environment["LD_LIBRARY_PATH"] = ":".join(filter(None, folders))
    said, _ = gpu.python(SAVERS, *arguments, **environment)
    return said["words"]


@functools.cache
def by_pool(allocator):
    """How a program with that package's pool ends: exit status, whether all was right, why."""
    if not importlib.util.find_spec("torch_memory_saver"):
        return None, False, ABSENT
    command = [sys.executable, SAVERS, "beside", "torch", allocator]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    said = [json.loads(line)["words"] for line in done.stdout.splitlines() if line[:1] == "{"]
    lines = (done.stdout + done.stderr).splitlines()
    why = next((line for line in lines if "only support" in line), "")
    return done.returncode, bool(said), why.strip() or ("" if said else gpu.reason(lines))


def ended(status, right, why):
    if status is None:
        return why
    place = "after all was right" if right else "before all was checked"
    return f"exit status {status} {place}{why and ': ' + why}"


def check_torch_memory_saver_by_its_preload():
    return saver("beside", "preload")


def check_torch_memory_saver_by_its_pool_under_native():
    return ended(*by_pool("native"))  # not judged: it is nobody's here


def check_torch_memory_saver_by_its_pool():
    assert by_pool("stalloc") == by_pool("native"), ended(*by_pool("stalloc"))
    return ended(*by_pool("stalloc"))


def check_an_engine_of_another_process_sleeps_in_turns():
    return saver("turns")


def main():
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--logs", type=Path, help="keep what each job printed in this folder")
    parser.add_argument("--only", nargs="+", default=[""], metavar="TEXT", help="in a cell's name")
    args = parser.parse_args()
    if args.logs:
        os.makedirs(args.logs, exist_ok=True)
    checks = {name: f for name, f in globals().items() if name.startswith("check_")}
    for name in JOBS:
        job = Job(name, args.logs)
        for way in job.ways:
            checks[f"check_{way} ({name})"] = functools.partial(job.result, way)
    wanted = [n for n in checks if any(text in n.replace("_", " ") for text in args.only)]
    gpu.run({name: checks[name] for name in wanted})


if __name__ == "__main__":
    main()
