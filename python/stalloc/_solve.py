"""Dynamic storage allocation, for compilers and other runtimes.

Contiguous int64 arrays are passed to the engine's library without a copy, others are converted.
NumPy is imported by the first call. No GPU, no PyTorch and nothing else of stalloc is needed.
"""

import ctypes
import dataclasses
import functools
import operator
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Callable, Optional, SupportsIndex

from ._errors import StallocError

_Array = ctypes.POINTER(ctypes.c_int64)
_Progress = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64
)


class _Gap(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int64) for name in ("buffer", "lower", "upper", "from_", "to")]


class _Problem(ctypes.Structure):
    _fields_ = [
        ("buffers", ctypes.c_size_t),
        ("lower", _Array),
        ("upper", _Array),
        ("size", _Array),
        ("alignment", _Array),
        ("pinned", _Array),
        ("gaps", ctypes.c_size_t),
        ("gap", ctypes.POINTER(_Gap)),
        ("capacity", ctypes.c_int64),
        ("solver", ctypes.c_char_p),
        ("budget", ctypes.c_int64),
        ("seed", ctypes.c_uint64),
        ("warm", _Array),
        ("progress", _Progress),
        ("context", ctypes.c_void_p),
    ]


class _Solution(ctypes.Structure):
    _fields_ = [
        ("offsets", _Array),
        ("top", ctypes.c_int64),
        ("bound", ctypes.c_int64),
        ("units", ctypes.c_int64),
        ("optimal", ctypes.c_int),
        ("fits", ctypes.c_int),
        ("never", ctypes.c_int),
        ("error", ctypes.c_char_p),
        ("error_size", ctypes.c_size_t),
    ]


@dataclasses.dataclass(frozen=True)
class Placement:
    """A placement of the buffers, in the units of their sizes."""

    offsets: Any  #: a NumPy array of int64, by buffer
    top: int  #: where the highest buffer ends
    bound: int  #: no placement ends lower
    units: int  #: of work spent
    optimal: bool  #: it is proved that nothing ends lower
    fits: bool  #: all ends below the capacity, or there is none
    never: bool  #: it is proved that no placement does


def _inside(name: str, value: SupportsIndex, bits: int = 63) -> int:
    """Checks the range of a value; ctypes would truncate it."""
    number = operator.index(value)
    if number.bit_length() > bits:
        raise ValueError(f"{name} has {number}, expected less than 2^{bits}")
    return number


def _checked(numpy: Any, arrays: dict[str, Any]) -> dict[str, Any]:
    """The arrays as contiguous ones of int64, all of the length of the first."""
    kept: dict[str, Any] = {}
    length = None
    for name, values in arrays.items():
        given = numpy.asarray(values)
        if given.size and given.dtype.kind not in "iu":
            raise ValueError(f"{name} has elements of type {given.dtype}, expected whole numbers")
        if given.dtype.kind == "u" and given.size and int(given.max()) >= 1 << 63:
            raise ValueError(f"{name} has {int(given.max())}, expected less than 2^63")
        if given.ndim != 1 or length not in (None, len(given)):
            expected = "any number of" if length is None else length
            raise ValueError(f"{name} has shape {given.shape}, expected ({expected},)")
        length = len(given)
        kept[name] = numpy.ascontiguousarray(given, dtype=numpy.int64)
    return kept


def _gaps(gaps: Iterable[tuple[int, ...]]) -> Any:
    listed = []
    for gap in gaps:
        if len(gap) not in (3, 5):
            raise ValueError(f"gaps has one of {len(gap)} numbers, {gap}, expected 3 or 5")
        listed.append(_Gap(*(_inside("gaps", number) for number in gap)))
    return (_Gap * len(listed))(*listed)


@functools.cache
def _function() -> Any:
    path = Path(__file__).parent / "lib" / "libstalloc_engine.so"
    try:
        function = ctypes.CDLL(str(path)).stalloc_solve
    except (OSError, AttributeError) as error:
        raise StallocError(
            f"stalloc: cannot load {path}: {error}; run `make build`, or reinstall the package"
        ) from error
    function.restype = ctypes.c_int
    function.argtypes = [ctypes.POINTER(_Problem), ctypes.POINTER(_Solution)]
    return function


def solve(
    lower: Any,
    upper: Any,
    size: Any,
    *,
    alignment: Any = None,
    pinned: Any = None,
    gaps: Iterable[tuple[int, ...]] = (),
    capacity: int = 0,
    solver: Optional[str] = None,
    budget: int = 0,
    seed: int = 0,
    warm: Any = None,
    progress: Optional[Callable[[int, int, int], Any]] = None,
) -> Placement:
    """Offsets for buffers of `size` that live in [`lower`, `upper`), so that none overlap.

    Arrays have one dimension, a whole number for each buffer. Times and sizes are in any unit,
    such as steps and bytes. `alignment` is what an offset must be a multiple of, `pinned` a fixed
    offset or -1, `warm` the offsets of an older placement to start from. A gap is
    (buffer, lower, upper), in which the buffer needs no memory, or
    (buffer, lower, upper, from, to), in which it needs only those bytes.

    With a `capacity` any placement within it will do; without one (0) the lowest is searched for.
    `solver` is one of those in docs/solve.md; None: search. `budget` is units of work, some ten
    million a second; 0: the default, at most a minute. The same arguments give the same result.
    `progress` is called with (top, bound, units) now and then; the search ends when it returns
    something true, and the best placement so far is the result.

    Raises:
        ValueError: the problem is invalid; the message names the argument and its value.
        StallocError: NumPy is not installed, or the engine's library cannot be loaded.
    """
    try:
        import numpy
    except ImportError as error:
        raise StallocError("stalloc.solve needs NumPy: pip install numpy") from error
    arrays = {"lower": lower, "upper": upper, "size": size}
    more = {"alignment": alignment, "pinned": pinned, "warm": warm}
    arrays |= {name: values for name, values in more.items() if values is not None}
    kept = _checked(numpy, arrays)  # alive until the call is over
    problem = _Problem(buffers=len(kept["size"]))
    for name, values in kept.items():
        setattr(problem, name, values.ctypes.data_as(_Array))
    listed = _gaps(gaps)
    problem.gap, problem.gaps = ctypes.cast(listed, ctypes.POINTER(_Gap)), len(listed)
    problem.capacity, problem.budget = _inside("capacity", capacity), _inside("budget", budget)
    problem.seed = _inside("seed", seed, 64)
    problem.solver = None if solver is None else solver.encode()
    raised: list[BaseException] = []

    def told(_: Any, top: int, bound: int, units: int) -> int:
        try:
            return 1 if progress is not None and progress(top, bound, units) else 0
        except BaseException as error:  # it cannot pass through C, but ends the search
            raised.append(error)
            return 1

    if progress is not None:
        problem.progress = _Progress(told)
    offsets = numpy.zeros(problem.buffers, dtype=numpy.int64)
    text = ctypes.create_string_buffer(1000)
    solution = _Solution(offsets=offsets.ctypes.data_as(_Array))
    solution.error, solution.error_size = ctypes.cast(text, ctypes.c_char_p), len(text)
    result = _function()(ctypes.byref(problem), ctypes.byref(solution))
    if raised:
        raise raised[0]
    if result != 0:
        raise ValueError(f"stalloc.solve: {text.value.decode()}")
    return Placement(
        offsets,
        solution.top,
        solution.bound,
        solution.units,
        bool(solution.optimal),
        bool(solution.fits),
        bool(solution.never),
    )
