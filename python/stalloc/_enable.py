"""stalloc.enable(): settings, PyTorch and the library are checked, then stalloc serves."""

import contextlib
import os
import warnings
from collections.abc import Mapping
from types import ModuleType
from typing import Literal, Optional, Union

from . import _config, _cudnn, _library, _nccl, _route, _session, _statistics, _torch
from ._errors import StallocError, StallocWarning
from ._steps import OptimizerBoundary
from ._watch import Watch


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
    (compiled at the first start, see docs/pytorch.md), "pluggable" (PyTorch's
    CUDAPluggableAllocator, under which some functions do not work and which must be installed
    before CUDA starts),
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
    session = _session._session
    # Before the lock: a thread that imports torch may wait for it, in its turn to enable.
    with contextlib.suppress(StallocError):
        _torch.load()
    with session.lock:
        merged = _config.merge(os.environ.get(_config.VARIABLE, ""), conf)
        if session.recording is not None:
            warnings.warn(
                f"stalloc stays off: {session.reason}", StallocWarning, stacklevel=stacklevel
            )
            return False
        if session.binding is not None:
            if merged != session.conf:
                warnings.warn(
                    f"stalloc is already enabled with the settings "
                    f"{session.conf or '(none)'}; {merged or '(none)'} is ignored",
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
        if session.closed is not None:
            reason = f"{session.reason}, which is for good: start a new process"
        if reason is not None:
            if strict or _session.strict_in_environment():
                raise StallocError(f"stalloc: {reason}; strict asks for stalloc or nothing")
            if session.closed is not None:
                warnings.warn(f"stalloc stays off: {reason}", StallocWarning, stacklevel=stacklevel)
                return False
            if session.torch is None:
                warnings.warn(
                    f"stalloc stays inactive: {reason}. Training on the CPU goes on without it",
                    StallocWarning,
                    stacklevel=stacklevel,
                )
            session.torch, session.reason = torch, reason
            return False
        if isinstance(library, StallocError):
            raise library
        _start(torch, library, merged, strict or _session.strict_in_environment(), stacklevel + 1)
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
    session = _session._session
    session.torch, session.binding, session.at_step = torch, library, watch.step
    session.conf, session.boundary, session.watch, session.route = conf, boundary, watch, route
