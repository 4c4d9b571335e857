"""The GPU checks of `stalloc doctor`. They yield findings and raise nothing."""

import ctypes
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Optional

from . import _config
from ._examine import Finding, setting

# Settings that make a process write files or listen; the trial drops them.
_OUTWARD = ("trace", "oom_report", "metrics")

_TIMEOUT = 120  # seconds, for the trial and for nvidia-smi

# Attributes of a device, as cuda.h numbers them.
_VIRTUAL_MEMORY_MANAGEMENT = 102
_CAPABILITY_MAJOR, _CAPABILITY_MINOR = 75, 76


def driver() -> Iterator[Finding]:
    name = setting("driver") or "libcuda.so.1"
    try:
        cuda = ctypes.CDLL(name)
        version, count = ctypes.c_int(), ctypes.c_int()
        results = [
            cuda.cuInit(0),
            cuda.cuDriverGetVersion(ctypes.byref(version)),
            cuda.cuDeviceGetCount(ctypes.byref(count)),
        ]
    except (OSError, AttributeError) as error:
        yield Finding(
            "fix",
            "driver",
            f"no NVIDIA driver: {error}",
            "install it (nvidia-smi must work); in a container start with --gpus all",
        )
        return
    failed = next((result for result in results if result), 0)
    if failed or count.value == 0:
        yield Finding(
            "fix",
            "driver",
            f"the driver has no device (error {failed})",
            "nvidia-smi must list one; look at CUDA_VISIBLE_DEVICES, now "
            + repr(os.environ.get("CUDA_VISIBLE_DEVICES", "")),
        )
        return
    major, minor = divmod(version.value, 1000)
    yield Finding("ok", "driver", f"{name}, CUDA {major}.{minor // 10}")
    for ordinal in range(count.value):
        yield _device(cuda, ordinal)


def _device(cuda: ctypes.CDLL, ordinal: int) -> Finding:
    device, name = ctypes.c_int(), ctypes.create_string_buffer(256)

    def attribute(number: int) -> int:
        value = ctypes.c_int()
        failed = cuda.cuDeviceGetAttribute(ctypes.byref(value), number, device)
        return 0 if failed else value.value

    cuda.cuDeviceGet(ctypes.byref(device), ordinal)
    cuda.cuDeviceGetName(name, len(name), device)
    text = f"device {ordinal}: {name.value.decode('utf-8', 'replace')}"
    major, minor = attribute(_CAPABILITY_MAJOR), attribute(_CAPABILITY_MINOR)
    if major:
        text += f", compute capability {major}.{minor}"
    if attribute(_VIRTUAL_MEMORY_MANAGEMENT):
        return Finding("ok", "gpu", text + ", virtual memory management")
    return Finding(
        "fix",
        "gpu",
        text + ", without virtual memory management",
        "stalloc needs it: compute capability 6.0 or later, and no vGPU profile without it",
    )


def holders() -> Iterator[Finding]:
    """The processes that hold memory of the devices, from nvidia-smi."""
    gpus = _smi("gpu", "index,memory.used,memory.total,driver_version,uuid")
    if gpus is None:
        yield Finding("note", "memory", "nvidia-smi does not answer: who holds memory is unknown")
        return
    apps = _smi("compute-apps", "gpu_uuid,pid,used_memory,process_name") or []
    for index, used, total, version, uuid in gpus:
        here = [app for app in apps if app[0] == uuid]
        names = [f"{pid} ({os.path.basename(name)}) {held} MiB" for _, pid, held, name in here]
        text = f"GPU {index}: {used} of {total} MiB in use, driver {version}"
        if names:
            yield Finding(
                "note",
                "memory",
                f"{text}, held by {', '.join(names)}",
                "end them if you need their memory",
            )
        else:
            yield Finding("ok", "memory", f"{text}, no process is named")


def _smi(query: str, fields: str) -> Optional[list[list[str]]]:
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return None
    command = [tool, f"--query-{query}={fields}", "--format=csv,noheader,nounits"]
    try:
        # The names of processes are bytes.
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_TIMEOUT
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode != 0:
        return None
    width = fields.count(",")
    rows = [[part.strip() for part in line.split(",", width)] for line in done.stdout.splitlines()]
    return [row for row in rows if len(row) == width + 1]


def trial(device: int) -> Iterator[Finding]:
    """A block, allocated in another process."""
    where = str(Path(__file__).resolve().parent.parent)
    path = os.pathsep.join(filter(None, [where, os.environ.get("PYTHONPATH", "")]))
    command = [sys.executable, "-m", "stalloc._trial", str(device)]
    conf = _config.without(os.environ.get(_config.VARIABLE, ""), _OUTWARD)
    environment = {**os.environ, "PYTHONPATH": path, _config.VARIABLE: conf}
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT,
            env=environment,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        yield Finding("fix", "trial", f"a first block was not served: {error}")
        return
    try:
        found = json.loads(done.stdout)
    except ValueError:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        yield Finding(
            "fix",
            "trial",
            f"a first block ended its process (status {done.returncode}): {last}",
            "please report this, with the lines above",
        )
        return
    if "error" in found:
        yield Finding("fix", "trial", f"a first block was not served: {found['error']}")
    elif found["fallback"]:
        yield Finding("fix", "trial", str(found["explain"]))
    else:
        text = (
            f"a first block of device {device} in {found['seconds']:.2f} s, from {found['engine']}"
        )
        yield Finding("ok", "trial", text)
