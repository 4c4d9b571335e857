"""The process's one session with stalloc: off, inactive (no GPU), active, or closed for good."""

import os
import threading
import warnings
from collections.abc import Mapping
from types import ModuleType
from typing import Any, Callable, Literal, Optional, Protocol, Union

from . import _adapter, _awake, _config, _cudnn, _library, _nccl, _route, _statistics, _torch
from ._errors import StallocError, StallocWarning
from ._stats import Stats
from ._steps import OptimizerBoundary
from ._watch import Watch


class Recording(Protocol):
    """Callbacks for stalloc.record while a script runs."""

    def step(self) -> None:
        """A training step ended."""

    def optimizer_step(self) -> None:
        """An optimizer stepped; that ends a training step unless the program marks its steps."""

    def mark(self, text: str) -> None:
        """The program has set a mark."""


class _Session:
    """What enable() set up. PyTorch takes one allocator per process, so there is one session."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.torch: Optional[ModuleType] = None  # set by enable()
        self.reason = ""  # why it stayed inactive
        self.recording: Optional[Recording] = None  # set by stalloc.record
        self.at_step: Optional[Callable[[], None]] = None  # what a step boundary calls
        self.binding: Optional[_library.Library] = None  # set while active
        self.watch: Optional[Watch] = None  # likewise
        self.closed: Optional[_library.Library] = None  # what close() has closed
        self.route = ""  # "adapter" or "pluggable" while active
        self.conf = ""  # the settings while active
        self.boundary: Optional[OptimizerBoundary] = None


_session = _Session()

# In the environment: see _auto.
VARIABLE = "STALLOC"
STRICT = "strict"


def strict_in_environment() -> bool:
    return os.environ.get(VARIABLE, "").lower() == STRICT


def enable(
    *,
    strict: bool = False,
    plan: Optional[Union[bool, Literal["on", "off", "always"]]] = None,
    pool: Optional[Literal["range", "gmlake"]] = None,
    stitch: Optional[bool] = None,
    wait: Optional[bool] = None,
    limit: Optional[Union[int, float, str]] = None,
    fraglimit: Optional[Union[int, float, str]] = None,
    window: Optional[Union[int, float, str]] = None,
    native: Optional[bool] = None,
    share: Optional[Literal["fd", "fabric", "off"]] = None,
    log: Optional[Literal["debug", "info", "warn", "error"]] = None,
    driver: Optional[Union[str, "os.PathLike[str]"]] = None,
    engine: Optional[Union[str, "os.PathLike[str]"]] = None,
    route: Optional[Literal["auto", "adapter", "pluggable"]] = None,
    **more: Optional[_config.Value],
) -> bool:
    """Makes stalloc PyTorch's CUDA allocator in this process.

    Call it before or after ``import torch`` (it imports torch itself), best before the first
    tensor goes to the GPU: what is allocated earlier stays with PyTorch's own allocator. All
    arguments except `strict` are settings as in the environment variable STALLOC_CONF, which they
    override; None keeps the environment's value, and %r in a value is the rank.
    `more` takes settings of newer libraries. `route` is how stalloc enters PyTorch: "adapter"
    (compiled at the first start, see stalloc._adapter), "pluggable" (PyTorch's
    CUDAPluggableAllocator, which lacks many functions and must be installed before CUDA starts),
    or "auto": the adapter, or the pluggable allocator if there is no adapter.

    Returns True if stalloc now serves CUDA memory. On a machine without an NVIDIA driver, or
    with a PyTorch without CUDA, it warns and returns False, and training on the CPU goes on.
    Calling it again changes nothing. After close() it stays off, with a warning.

    `strict` turns warnings into errors: enable() raises where it would return False, and step()
    raises when plain driver allocations serve because the engine cannot.

    Raises:
        StallocError: PyTorch is missing or too old, another allocator is installed, libstalloc.so
            is missing, the route is not available, or a setting is unknown or wrong; the last is
            also a ValueError.
        TypeError: an argument has a type that no setting has.
    """
    conf: dict[str, Optional[_config.Value]] = {
        "plan": plan, "pool": pool, "stitch": stitch, "wait": wait, "limit": limit,
        "fraglimit": fraglimit, "window": window, "native": native, "share": share,
        "log": log, "driver": driver, "engine": engine, "route": route, **more,
    }  # fmt: skip
    return begin(strict, conf, stacklevel=3)


def begin(strict: bool, conf: Mapping[str, Optional[_config.Value]], stacklevel: int) -> bool:
    """Does enable()'s work. Warnings name the line `stacklevel` calls above."""
    with _session.lock:
        merged = _config.merge(os.environ.get(_config.VARIABLE, ""), conf)
        if _session.recording is not None:
            warnings.warn(
                f"stalloc stays off: {_session.reason}", StallocWarning, stacklevel=stacklevel
            )
            return False
        if _session.binding is not None:
            if merged != _session.conf:
                warnings.warn(
                    f"stalloc is already enabled with the settings "
                    f"{_session.conf or '(none)'}; {merged or '(none)'} is ignored",
                    StallocWarning,
                    stacklevel=stacklevel,
                )
            return True
        # Wrong settings are reported without a GPU, too.
        library = _load_library()
        if isinstance(library, _library.Library):
            library.check(merged)
        torch = _torch.load()
        reason = _torch.why_inactive(torch, _config.value_of("driver", merged))
        if _session.closed is not None:
            reason = f"{_session.reason}, which is for good: start a new process"
        if reason is not None:
            if strict or strict_in_environment():
                raise StallocError(f"stalloc: {reason}; strict asks for stalloc or nothing")
            if _session.closed is not None:
                warnings.warn(f"stalloc stays off: {reason}", StallocWarning, stacklevel=stacklevel)
                return False
            if _session.torch is None:
                warnings.warn(
                    f"stalloc stays inactive: {reason}. Training on the CPU goes on without it",
                    StallocWarning,
                    stacklevel=stacklevel,
                )
            _session.torch, _session.reason = torch, reason
            return False
        if isinstance(library, StallocError):
            raise library
        _start(torch, library, merged, strict or strict_in_environment(), stacklevel + 1)
        return True


def _load_library() -> Union[_library.Library, StallocError]:
    """The library, or the error that it cannot be loaded with; only some callers need it."""
    try:
        return _library.Library(_library.shim_path())
    except StallocError as error:
        return error


def _start(
    torch: ModuleType, library: _library.Library, conf: str, strict: bool, stacklevel: int
) -> None:
    wanted = _config.value_of(_route.SETTING, conf) or _route.DEFAULT
    watch = Watch(library, torch, strict)
    boundary = OptimizerBoundary(watch.step)
    before = os.environ.get(_config.VARIABLE)
    os.environ[_config.VARIABLE] = conf  # the library reads it with getenv, and children inherit it
    try:
        boundary.install(torch)
        route = _route.install(torch, library, wanted, stacklevel + 1)
    except BaseException:
        boundary.remove()
        if before is None:
            del os.environ[_config.VARIABLE]
        else:
            os.environ[_config.VARIABLE] = before
        raise
    # Nothing below can fail: otherwise PyTorch would keep an allocator without a session.
    if route == _route.PLUGGABLE:
        _statistics.patch(torch, _statistics.Answers(library))
        _cudnn.guard(torch)
    else:
        _nccl.watch(torch)
    wrong = _nccl.why_wrong(torch, _config.value_of("share", conf))
    if wrong is not None:
        warnings.warn(f"stalloc: {wrong}", StallocWarning, stacklevel=stacklevel)
    _session.torch, _session.binding, _session.at_step = torch, library, watch.step
    _session.conf, _session.boundary, _session.watch, _session.route = conf, boundary, watch, route


def close() -> None:
    """Stops stalloc in this process, for good, on every device.

    All memory without live tensors goes back to the driver. Live tensors stay valid; their memory
    goes back when they are freed. From then on PyTorch's own allocator serves (on the pluggable
    route: plain driver allocations, which are slow). step(), stats() and explain() behave as if
    stalloc were not enabled. Does nothing if it is not enabled, or is closed already.

    Raises:
        StallocError: the device failed; stalloc is closed all the same.
    """
    with _session.lock:
        library = _session.binding
        if library is None:
            return
        if _session.boundary is not None:
            _session.boundary.remove()
        if _session.route == _route.ADAPTER:
            _adapter.close()  # first: what is asked for meanwhile is PyTorch's own
        _session.binding = _session.watch = _session.at_step = _session.boundary = None
        _session.closed, _session.reason, _session.route = library, "it was closed", ""
        library.close()


def record(torch: ModuleType, recording: Recording) -> None:
    """Starts a recording: it gets the step boundaries, and enable() refuses meanwhile."""
    with _session.lock:
        if _session.binding or _session.closed or _session.recording is not None:
            raise StallocError(
                "stalloc: a run is recorded under PyTorch's own allocator, one at a time; start "
                "the recording in a process of its own with `python -m stalloc.record`"
            )
        boundary = OptimizerBoundary(recording.optimizer_step, first=recording.optimizer_step)
        boundary.install(torch)
        _session.torch, _session.reason = torch, "this run is recorded"
        _session.recording, _session.at_step = recording, recording.step
        _session.boundary = boundary


def end_record() -> None:
    """Ends what record() began."""
    with _session.lock:
        if _session.boundary is not None:
            _session.boundary.remove()
        _session.boundary = _session.recording = _session.at_step = None


def is_recording() -> bool:
    """Whether this script runs under ``python -m stalloc.record``."""
    return _session.recording is not None


def mark(text: str) -> None:
    """Sets a mark such as "forward" or "epoch 2" in a recording. Without one it does nothing.

    "step 0" is special: it says that the set-up ends and the first step begins here.
    """
    if _session.recording is not None:
        _session.recording.mark(text)


def active(or_closed: bool = False) -> Optional[tuple[ModuleType, _library.Library]]:
    """PyTorch and the library, with or_closed also after close(); None while not enabled."""
    torch, library = _session.torch, _session.binding or (_session.closed if or_closed else None)
    return None if torch is None or library is None else (torch, library)


def is_enabled() -> bool:
    """Whether stalloc serves this process's CUDA memory."""
    return _session.binding is not None


def route() -> str:
    """The route into PyTorch: "adapter" or "pluggable"; empty while stalloc is not enabled."""
    return _session.route


def step() -> None:
    """Marks the end of a training step, on every device.

    Call it where the step's tensors are freed: after ``optimizer.zero_grad()``, at the end of the
    loop. If gradients are still alive, plans can serve little of the next step. After the first
    call the optimizers' steps no longer count as boundaries. Does nothing while stalloc is not
    enabled, so the call can stay in the script.
    """
    at_step, boundary = _session.at_step, _session.boundary  # another thread may close()
    if at_step is None:
        return
    if boundary is not None:
        boundary.remove()
        _session.boundary = None
    at_step()


def stats(device: Any = None) -> Stats:
    """The counters of one device, by default the current one. All zero while not enabled.

    Raises:
        StallocError: there is no such device.
    """
    watch, torch = _session.watch, _session.torch
    if watch is None or torch is None:
        return Stats()
    return watch.stats(_torch.device_index(torch, device))


def explain(device: Any = None) -> str:
    """A text for people: what the memory of a device is used for, by default the current one's.

    It includes the warning about a step that will not fit, and the memory that pause() does not
    touch: private pools, those registered with NCCL, and memory shared with other processes.

    While not enabled it says that, and why.
    """
    library, torch = _session.binding, _session.torch
    if library is None or torch is None:
        reason = _session.reason or "nothing has called stalloc.enable() in this process"
        return f"stalloc is not enabled: {reason}."
    index = _torch.device_index(torch, device)
    return library.explain(index) + _awake.table(index)
