"""Finds or compiles the adapter for the installed PyTorch.

PyTorch's class for allocators changes from version to version, so each version needs its own
build of the adapter (C++, in lib/torch). If the package has a prebuilt one it is used; otherwise
the adapter is compiled here, once, against the headers of the installed PyTorch, and kept in the
user's cache.
"""

import ctypes
import fcntl
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType

from ._errors import StallocError
from ._version import __version__

SOURCES = (
    *("adapter.cc", "books.h", "delegate.h", "history.h", "imports.h", "ledger.h", "library.h"),
    *("mapped.h", "places.h", "pools.h", "recording.h", "requests.h", "segments.h", "stalloc.h"),
    *("stalloc_solve.h", "stalloc_torch.h"),
)
OLDEST = (2, 6)
RELEASED = re.compile(r"\d+\.\d+\.\d+(\+cu\d+)?")


class Unavailable(StallocError):
    """There is no adapter for the installed PyTorch; the message says why."""


def folder() -> Path:
    """The folder of the adapter's sources, which `make build` fills."""
    return Path(__file__).resolve().parent / "lib" / "torch"


def find(torch: ModuleType) -> Path:
    """The adapter for this PyTorch: prebuilt, compiled earlier, or compiled now.

    Raises:
        Unavailable: no prebuilt one exists and it cannot be compiled.
    """
    found = release(torch)
    if found < OLDEST:
        raise Unavailable(f"PyTorch {torch.__version__} is older than {OLDEST[0]}.{OLDEST[1]}")
    name = f"torch{found[0]}.{found[1]}-abi{_abi(torch)}.so"
    prebuilt = folder().parent / "adapters" / name
    # Nightly and vendors' builds have a release's number and other classes.
    if RELEASED.fullmatch(torch.__version__) and prebuilt.is_file():
        try:
            load(prebuilt)
            return prebuilt
        except Unavailable:
            pass  # an uncommon build after all
    return _compiled(torch)


def load(path: Path) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise Unavailable(f"{path} cannot be loaded ({error})") from error


def release(torch: ModuleType) -> tuple[int, ...]:
    major, minor = torch.__version__.split(".")[:2]
    return int(major), int(minor)


def _abi(torch: ModuleType) -> int:
    return int(getattr(torch._C, "_GLIBCXX_USE_CXX11_ABI", True))  # new releases have one ABI


def _compiled(torch: ModuleType) -> Path:
    """The adapter in the cache, compiled now if it is missing, while other processes wait."""
    for source in SOURCES:
        if not (folder() / source).is_file():
            raise Unavailable(f"{folder() / source} is missing; reinstall the package")
    parts = [torch.__version__, str(torch.version.cuda), str(_abi(torch)), __version__]
    key = hashlib.sha256("\n".join(parts).encode())
    for source in SOURCES:
        key.update((folder() / source).read_bytes())
    name = f"torch{torch.__version__}-{key.hexdigest()[:16]}"
    path = cache()
    if path.is_absolute() and (path / name / "adapter.so").is_file():
        _check_owner(path)  # it may be read only
    else:
        path = _writable(path)
    kept = path / name
    target = kept / "adapter.so"
    if not target.is_file():
        kept.mkdir(mode=0o700, exist_ok=True)
        with open(kept / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not target.is_file():
                _compile(torch, target)
    _check_owner(target)
    return target


def cache() -> Path:
    """The cache folder. A relative path: the user's home folder is unknown."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base, "stalloc", "adapters")


def _writable(path: Path) -> Path:
    try:
        if path.is_absolute():
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            _check_owner(path)
            if os.access(path, os.W_OK):
                return path
    except OSError:
        pass
    return Path(tempfile.mkdtemp(prefix="stalloc-adapter-"))  # compiled by every process


def _check_owner(path: Path) -> None:
    """Refuses files of other users: what they contain would run in this process."""
    status = path.stat()
    if status.st_uid not in (0, os.getuid()) or status.st_mode & 0o022:
        raise Unavailable(f"{path} belongs to somebody else, or others may write it; delete it")


def _compile(torch: ModuleType, target: Path) -> None:
    command = command_line(torch, target.with_suffix(".tmp"))
    print(
        f"stalloc: compiling the adapter for PyTorch {torch.__version__} (once, half a minute)",
        file=sys.stderr,
        flush=True,
    )
    log = target.with_name("log")
    with open(log, "w") as output:
        print(shlex.join(command), file=output, flush=True)
        result = subprocess.run(command, stdout=output, stderr=output)
    if result.returncode:
        lines = log.read_text(errors="replace").splitlines()
        first = next((line for line in lines if "error" in line), lines[-1])
        raise Unavailable(f"the adapter cannot be compiled, see {log}: {first.strip()}")
    os.chmod(target.with_suffix(".tmp"), 0o700)
    os.replace(target.with_suffix(".tmp"), target)


def command_line(torch: ModuleType, output: Path) -> list[str]:
    """The compiler's command. It is host code, which needs the CUDA runtime's headers only."""
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        raise Unavailable("there is no C++ compiler (g++) to make the adapter with")
    root = Path(torch.__file__ or "").resolve().parent
    flags = compile_flags(release(torch), _abi(torch), root / "include", cuda_headers(torch))
    return [
        *shlex.split(compiler), *flags, "-O2", "-shared", str(folder() / "adapter.cc"),
        "-o", str(output), f"-L{root / 'lib'}", "-lc10", "-lc10_cuda", *_standard_library(),
    ]  # fmt: skip


def _standard_library() -> list[str]:
    """The libstdc++ that PyTorch uses in this process. Some compilers link their own statically,
    and two copies in one process have separate state."""
    with open("/proc/self/maps") as maps:
        loaded = {line.split()[-1] for line in maps if "/libstdc++.so" in line}
    return sorted(path for path in loaded if os.path.exists(path))[:1]


def compile_flags(release: tuple[int, ...], abi: int, torch: Path, cuda: Path) -> list[str]:
    """The flags for these headers; `torch` is PyTorch's include folder."""
    # PyTorch's own headers are C++20 from 2.14 on.
    standard = "c++20" if release >= (2, 14) else "c++17"
    return [
        f"-std={standard}", "-fPIC", "-fvisibility=hidden", f"-D_GLIBCXX_USE_CXX11_ABI={abi}",
        f"-I{folder()}", "-isystem", str(torch),
        "-isystem", str(torch / "torch/csrc/api/include"), "-isystem", str(cuda),
        "-idirafter", str(folder() / "host"),
    ]  # fmt: skip


def cuda_headers(torch: ModuleType) -> Path:
    """The folders that may have cuda_runtime_api.h: NVIDIA's pip packages, or the toolkit."""
    major = str(torch.version.cuda).split(".")[0]
    sites = [Path(torch.__file__ or "").resolve().parents[1], *map(Path, sys.path)]
    folders = [s / "nvidia" / f / "include" for s in sites for f in (f"cu{major}", "cuda_runtime")]
    for toolkit in (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"):
        if toolkit:
            folders.append(Path(toolkit) / "include")
    for candidate in folders:
        if (candidate / "cuda_runtime_api.h").is_file():
            return candidate
    raise Unavailable(
        f"CUDA's header cuda_runtime_api.h is nowhere; `pip install nvidia-cuda-runtime"
        f"{'' if int(major) >= 13 else '-cu12'}` brings it"
    )
