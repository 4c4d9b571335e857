"""The one place that knows the C ABI of libstalloc.so (documented in stalloc.h).

PyTorch calls the allocating functions itself, by address: Python only passes the addresses on.
No allocation and no free enters Python or takes the GIL.
"""

import ctypes
import dataclasses
import os
from pathlib import Path
from typing import Any, Optional, Union

from ._errors import SettingError, StallocError
from ._stats import Stats

ALLOC = "stalloc_malloc"
FREE = "stalloc_free"

# PyTorch's setter on the pluggable allocator -> our function for it.
HOOKS: dict[str, str] = {
    "set_init_fn": "stalloc_set_device_count",
    "set_reset_fn": "stalloc_empty_cache",
    "set_memory_fraction_fn": "stalloc_set_memory_fraction",
    "set_base_alloc_fn": "stalloc_base",
    "set_record_stream_fn": "stalloc_record_stream",
    "set_begin_allocate_to_pool": "stalloc_begin_pool",
    "set_end_allocate_to_pool_fn": "stalloc_end_pool",
    "set_release_pool": "stalloc_release_pool",
}

_TAGS = ctypes.POINTER(ctypes.c_char_p)

# Types of another allocator's functions, for poll().
ALLOC_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint64, ctypes.POINTER(ctypes.c_void_p))
FREE_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)

# Functions that Python itself calls: result, arguments.
_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "stalloc_init": (ctypes.c_int, []),
    "stalloc_check_conf": (ctypes.c_int, [ctypes.c_char_p]),
    "stalloc_last_error": (ctypes.c_char_p, []),
    "stalloc_version": (ctypes.c_char_p, []),
    "stalloc_step": (ctypes.c_int, [ctypes.c_int]),
    "stalloc_close": (ctypes.c_int, [ctypes.c_int]),
    "stalloc_save_plan": (ctypes.c_int, [ctypes.c_int, ctypes.c_char_p]),
    "stalloc_load_plan": (ctypes.c_int, [ctypes.c_int, ctypes.c_char_p]),
    "stalloc_get_stats": (ctypes.c_int, [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t]),
    "stalloc_reset_peak": (ctypes.c_int, [ctypes.c_int]),
    "stalloc_begin_region": (ctypes.c_int, [ctypes.c_char_p]),
    "stalloc_end_region": (ctypes.c_int, []),
    "stalloc_pause": (ctypes.c_int, [ctypes.c_int, _TAGS, ctypes.c_size_t, ctypes.c_int]),
    "stalloc_resume": (ctypes.c_int, [ctypes.c_int, _TAGS, ctypes.c_size_t]),
    "stalloc_begin_awake": (ctypes.c_int, [ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p]),
    "stalloc_end_awake": (
        ctypes.c_int,
        [ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int],
    ),
    "stalloc_prefetch": (ctypes.c_int, [ctypes.c_int, ctypes.c_char_p]),
    "stalloc_poll": (
        ctypes.c_int,
        [
            ALLOC_FUNCTION,
            FREE_FUNCTION,
            ctypes.c_uint64,
            ctypes.c_uint32,
            ctypes.POINTER(ctypes.c_int),
        ],
    ),
    "stalloc_set_thrower": (None, [ctypes.c_void_p]),
    "stalloc_explain": (ctypes.c_int, [ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t]),
}

_ALL_DEVICES = -1
_CHANGED, _ALL_LEAVES, _MORE_FOLLOW = 1, 2, 4


class _StatsStruct(ctypes.Structure):
    _fields_ = [(field.name, ctypes.c_uint64) for field in dataclasses.fields(Stats)]


class Library:
    """A loaded libstalloc.so. Loading starts nothing. init() reads STALLOC_CONF once and for all,
    so it is called last: after an error that the user can fix, enable() can be called again."""

    def __init__(self, path: Union[str, "os.PathLike[str]"]) -> None:
        self.path = os.fspath(path)
        if not os.path.exists(self.path):
            raise StallocError(
                f"stalloc: the library {self.path} is missing; run `make build` in the "
                f"source tree, or reinstall the package"
            )
        try:
            self._lib = ctypes.CDLL(self.path)
        except OSError as error:
            raise StallocError(
                f"stalloc: cannot load {self.path}: {error}; it is built for Linux with glibc "
                f"on the machine's own processor: rebuild it here with `make build`"
            ) from error
        for name in [ALLOC, FREE, *HOOKS.values()]:
            self.address(name)
        for name, (result, arguments) in _SIGNATURES.items():
            function = self._function(name)
            function.restype, function.argtypes = result, arguments

    def _function(self, name: str) -> Any:
        try:
            return getattr(self._lib, name)
        except AttributeError:
            raise StallocError(
                f"stalloc: {self.path} does not export {name}: library and Python package are "
                f"of different versions; rebuild with `make build` and reinstall the package"
            ) from None

    def address(self, name: str) -> int:
        """The address of a function, for PyTorch to call."""
        address = ctypes.cast(self._function(name), ctypes.c_void_p).value
        assert address is not None
        return address

    def _check(self, status: int, doing: str) -> None:
        if status < 0:
            raise StallocError(f"stalloc: {doing}: {self.last_error() or 'no reason given'}")

    def check(self, conf: str) -> None:
        """Raises SettingError with every mistake in a value for STALLOC_CONF."""
        if self._lib.stalloc_check_conf(os.fsencode(conf)) < 0:
            raise SettingError(f"stalloc: cannot start: {self.last_error()}")

    def init(self) -> None:
        self._check(self._lib.stalloc_init(), "cannot start")

    def last_error(self) -> str:
        return _decode(self._lib.stalloc_last_error())

    def version(self) -> str:
        return _decode(self._lib.stalloc_version())

    def step(self, device: int = _ALL_DEVICES) -> None:
        self._check(self._lib.stalloc_step(device), "cannot mark a step boundary")

    def close(self, device: int = _ALL_DEVICES) -> None:
        self._check(self._lib.stalloc_close(device), "cannot close")

    def save_plan(self, device: int, path: str) -> None:
        self._check(self._lib.stalloc_save_plan(device, os.fsencode(path)), "save_plan")

    def load_plan(self, device: int, path: str) -> None:
        self._check(self._lib.stalloc_load_plan(device, os.fsencode(path)), "load_plan")

    def stats(self, device: int) -> Stats:
        raw = _StatsStruct()
        status = self._lib.stalloc_get_stats(device, ctypes.byref(raw), ctypes.sizeof(raw))
        self._check(status, f"cannot read the statistics of device {device}")
        return Stats(*(getattr(raw, field.name) for field in dataclasses.fields(Stats)))

    def reset_peak(self, device: int) -> None:
        status = self._lib.stalloc_reset_peak(device)
        self._check(status, f"cannot reset the peaks of device {device}")

    def begin_region(self, tag: str) -> None:
        self._check(self._lib.stalloc_begin_region(_name(tag)), "region")

    def end_region(self) -> None:
        self._check(self._lib.stalloc_end_region(), "region")

    def pause(self, device: int, tags: list[str], discard: bool) -> None:
        status = self._lib.stalloc_pause(device, _texts(tags), len(tags), int(discard))
        self._check(status, "pause")

    def resume(self, device: int, tags: list[str]) -> None:
        self._check(self._lib.stalloc_resume(device, _texts(tags), len(tags)), "resume")

    def begin_awake(self, device: int, tag: str, stream: int) -> None:
        self._check(self._lib.stalloc_begin_awake(device, _name(tag), stream), "awake")

    def end_awake(
        self,
        device: int,
        tag: str,
        stream: int,
        changed: bool = True,
        always: bool = False,
        more: bool = False,
    ) -> None:
        how = _CHANGED * changed + _ALL_LEAVES * always + _MORE_FOLLOW * more
        self._check(self._lib.stalloc_end_awake(device, _name(tag), stream, how), "awake")

    def prefetch(self, device: int, tag: str) -> None:
        self._check(self._lib.stalloc_prefetch(device, _name(tag)), "prefetch")

    def set_thrower(self, address: int) -> None:
        self._lib.stalloc_set_thrower(address)

    def poll(self, alloc: Any, free: Any, size: int, micros: int, stop: Any) -> None:
        """Returns once `stop`, a c_int, is not 0. It runs without the GIL."""
        status = self._lib.stalloc_poll(alloc, free, size, micros, ctypes.byref(stop))
        if status < 0:  # the reason is the other allocator's
            raise StallocError("stalloc record: PyTorch's allocator could not be polled to the end")

    def explain(self, device: int) -> str:
        """The library's text, with a buffer that grows until all of it fits."""
        size = 1 << 14
        while True:
            buffer = ctypes.create_string_buffer(size)
            needed = self._lib.stalloc_explain(device, buffer, size)
            self._check(needed, f"cannot explain the memory of device {device}")
            if needed < size:
                return _decode(buffer.value)
            size = needed + 1


def shim_path() -> Path:
    """The path of libstalloc.so in the package, where `make build` puts it."""
    return Path(__file__).resolve().parent / "lib" / "libstalloc.so"


def _texts(texts: list[str]) -> Any:
    return (ctypes.c_char_p * len(texts))(*map(_name, texts))


def _name(tag: str) -> bytes:
    if not isinstance(tag, str) or "\0" in tag:
        raise StallocError(f"stalloc: a region's name is text without zero bytes, not {tag!r}")
    return tag.encode(errors="surrogateescape")


def _decode(text: Optional[bytes]) -> str:
    return (text or b"").decode("utf-8", "replace")
