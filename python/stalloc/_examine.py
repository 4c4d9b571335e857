"""The checks of `stalloc doctor` other than the GPU's. They yield findings and raise nothing."""

import dataclasses
import importlib.util
import os
import platform
import re
import resource
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Optional

from . import _adapter_build, _config, _library, _rank, _route
from ._errors import SettingError, StallocError
from ._stats import size
from ._version import __version__

_OLDEST_TORCH = (2, 3)
_OLDEST_GLIBC = (2, 28)


@dataclasses.dataclass(frozen=True)
class Finding:
    """One line: `status` is ok, note (worth knowing), or fix (stalloc cannot serve until then)."""

    status: str
    subject: str
    text: str
    remedy: str = ""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])


def setting(key: str) -> Optional[str]:
    """The content of STALLOC_CONF; libraries() reports its mistakes."""
    value = _config.value_of(key, os.environ.get(_config.VARIABLE, ""))
    return value and _rank.expand(value)


def system() -> Iterator[Finding]:
    machine = f"{platform.system()} on {platform.machine()}"
    if platform.system() == "Linux" and platform.machine() in ("x86_64", "aarch64"):
        yield Finding("ok", "system", f"{machine}, Python {platform.python_version()}")
    else:
        yield Finding("fix", "system", machine, "stalloc runs on Linux, on x86-64 and aarch64")
    try:
        libc = os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (ValueError, OSError):
        libc = ""
    if _numbers(libc) >= _OLDEST_GLIBC:
        yield Finding("ok", "glibc", libc)
    else:
        wanted = ".".join(map(str, _OLDEST_GLIBC))
        yield Finding(
            "fix",
            "glibc",
            libc or "this system's C library is not GNU's",
            f"use a system or an image with glibc {wanted} or later",
        )
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft != resource.RLIM_INFINITY:
        yield Finding(
            "fix",
            "limits",
            f"addresses of a process are limited to {size(soft)}",
            "ulimit -v unlimited: stalloc reserves addresses, without memory, for all of a device",
        )


def libraries() -> Iterator[Finding]:
    path, given = _library.shim_path(), os.environ.get(_config.VARIABLE, "")
    try:
        library = _library.Library(path)
        library.check(given)
    except SettingError as error:
        text = str(error).removeprefix("stalloc: ")
        yield Finding("fix", "settings", text, f"correct {_config.VARIABLE}, or unset it")
        return
    except StallocError as error:
        yield Finding("fix", "library", str(error).removeprefix("stalloc: "))
        return
    if given:
        yield Finding("ok", "settings", f"{_config.VARIABLE}={given}")
    if library.version() != __version__:
        yield Finding(
            "fix",
            "library",
            f"{path} is {library.version()}, the package {__version__}",
            "build both together (make build), or reinstall the package",
        )
    else:
        yield Finding("ok", "library", f"libstalloc.so {library.version()} in {path.parent}")
    engine = Path(setting("engine") or path.with_name("libstalloc_engine.so"))
    if not engine.exists():
        yield Finding(
            "fix",
            "engine",
            f"{engine} is missing",
            "make build in the source tree, or reinstall the package",
        )


def environment() -> Iterator[Finding]:
    if os.environ.get("LD_BIND_NOW"):
        text = "LD_BIND_NOW is set, so the trial below loads the engine with it, too"
        yield Finding("note", "linker", text)
    uncached = "PYTORCH_NO_CUDA_MEMORY_CACHING"
    for name in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", uncached):
        value = os.environ.get(name)
        if not value:
            continue
        what = "has no effect under stalloc"
        if name == uncached:
            what = "makes PyTorch ask the driver for each tensor: stalloc serves none"
        elif "cudaMallocAsync" in value:
            what = "leaves only PyTorch's pluggable route to stalloc"
        remedy = f"unset {name}, or leave it for runs under PyTorch's own allocator"
        yield Finding("note", "settings", f"{name}={value} {what}", remedy)


# STAlloc's research code (github.com/infinigence/STAlloc) has the same package name. It contains
# this file and reads these variables.
_RESEARCH_FILE = Path("utils", "memory_config.py")
_RESEARCH_VARIABLES = ("STALLOC_MODE", "STALLOC_LIB_PATH", "STALLOC_MODEL_INFO_PATH")


def namesakes() -> Iterator[Finding]:
    """The STAlloc paper's research code, if Python would find it, too."""
    ours = Path(__file__).resolve().parent
    for folder in dict.fromkeys(Path(entry or os.curdir).resolve() for entry in sys.path):
        for name in ("stalloc", "STAlloc"):
            other = folder / name
            if other.resolve() != ours and (other / _RESEARCH_FILE).is_file():
                yield Finding(
                    "note",
                    "name",
                    f"{other} is STAlloc's research code, another package named stalloc",
                    "a program imports the one that is first on its path: take it off PYTHONPATH, "
                    "or keep the two in environments of their own",
                )
    found = [f"{name}={os.environ[name]}" for name in _RESEARCH_VARIABLES if name in os.environ]
    if found:
        yield Finding(
            "note",
            "settings",
            f"{', '.join(found)}: STAlloc's research code reads that, stalloc does not",
            f"unset it, or use {_config.VARIABLE} for settings of stalloc",
        )


def torch() -> Iterator[Finding]:
    try:
        spec = importlib.util.find_spec("torch")
        found = _torch_version(Path(spec.origin or "")) if spec else None
    except (ImportError, ValueError, OSError) as error:
        yield Finding("fix", "torch", f"PyTorch's version is unknown: {error}", "reinstall it")
        return
    if found is None:
        yield Finding(
            "note",
            "torch",
            f"PyTorch is not installed for {sys.executable}",
            "run `PYTHON -m stalloc.doctor` with the Python that trains",
        )
        return
    version, cuda = found
    if not cuda:
        yield Finding(
            "fix",
            "torch",
            f"PyTorch {version} is built without CUDA",
            "install a CUDA build: https://pytorch.org/get-started",
        )
    elif _numbers(version) < _OLDEST_TORCH:
        oldest = ".".join(map(str, _OLDEST_TORCH))
        text = f"PyTorch {version} is too old"
        yield Finding("fix", "torch", text, f"pip install --upgrade 'torch>={oldest}'")
    else:
        yield Finding("ok", "torch", f"PyTorch {version}, CUDA {cuda}")
        yield _adapter_of(version, cuda, str(spec and spec.origin))


def _adapter_of(version: str, cuda: str, package: str) -> Finding:
    """The route into PyTorch that _route and _adapter_build would choose; nothing is built."""
    if setting(_route.SETTING) == _route.PLUGGABLE:
        return Finding("note", "adapter", "the pluggable route, as the settings say")
    release = ".".join(map(str, _numbers(version)))
    prebuilt = list((_adapter_build.folder().parent / "adapters").glob(f"torch{release}-*.so"))
    if prebuilt and _adapter_build.RELEASED.fullmatch(version):
        return Finding("ok", "adapter", str(prebuilt[0]))
    kept = list(_adapter_build.cache().glob(f"torch{version}-*/adapter.so"))
    if kept:
        return Finding("ok", "adapter", f"compiled before: {kept[0]}")
    torch = ModuleType("torch")
    torch.__file__ = package
    torch.version = SimpleNamespace(cuda=cuda)  # type: ignore[attr-defined]
    try:
        if _numbers(version) < _adapter_build.OLDEST:
            raise _adapter_build.Unavailable(f"PyTorch {version} is older than 2.6")
        if not (os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++")):
            raise _adapter_build.Unavailable(
                "there is no C++ compiler to make it with: install g++"
            )
        _adapter_build.cuda_headers(torch)
    except StallocError as error:
        text = f"{str(error).removeprefix('stalloc: ')}; PyTorch's pluggable route serves"
        without = "memory history, MemPool, IPC and graph trees, which do not work there"
        return Finding("note", "adapter", text, f"fix that, or do without {without}")
    return Finding("ok", "adapter", "compiled at the first start, which takes half a minute")


def _torch_version(package: Path) -> tuple[str, str]:
    """The version in torch/version.py, without importing torch, which takes seconds."""
    names: dict[str, object] = {}
    text = package.with_name("version.py").read_text()
    for name in ("__version__", "cuda"):
        match = re.search(rf"^{name}\b[^=\n]*=\s*(['\"])(.*?)\1", text, re.MULTILINE)
        names[name] = match.group(2) if match else ""
    return str(names["__version__"]), str(names["cuda"])
