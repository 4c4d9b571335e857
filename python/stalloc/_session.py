"""The process's one session with stalloc: off, inactive (no GPU), active, or closed for good."""

import os
import threading
from types import ModuleType
from typing import Any, Callable, Optional, Protocol

from . import _adapter, _awake, _library, _route, _torch
from ._errors import StallocError
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

    "step 0" is special: it says that the set-up ends and the first step begins here. Other
    texts that begin with "step " begin a step, too, as step() does, and "end" ends the last one.
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
