"""A GPU memory allocator for PyTorch training that reserves hardly more than the tensors need.

A stream's memory is one contiguous range: a request gets the smallest gap that fits, or free
physical memory is stitched together for it. Steps that repeat, request for request, are served
from a plan, without a search and without driver calls, in about the same memory::

    import stalloc

    stalloc.enable()  # before the first tensor goes to the GPU

    for batch in data:
        ...
        optimizer.step()
        optimizer.zero_grad()
        stalloc.step()  # a step ends here

Without calls of stalloc.step() the optimizers mark the steps: each step of the optimizer that
stepped first ends one (see stalloc._steps for programs with several). After the first call of
stalloc.step() only these calls count.
"""

from ._enable import enable
from ._errors import SettingError, StallocError, StallocWarning
from ._lend import awake, prefetch
from ._offload import offload
from ._plans import load_plan, save_plan
from ._session import close, explain, is_enabled, is_recording, mark, route, stats, step
from ._sleep import pause, region, resume
from ._solve import Placement, solve
from ._stats import Stats
from ._version import __version__
from .activations import Activations, activation_counts, offload_activations

__all__ = [
    "Activations",
    "Placement",
    "SettingError",
    "StallocError",
    "StallocWarning",
    "Stats",
    "__version__",
    "activation_counts",
    "awake",
    "close",
    "enable",
    "explain",
    "is_enabled",
    "is_recording",
    "load_plan",
    "mark",
    "offload",
    "offload_activations",
    "pause",
    "prefetch",
    "region",
    "resume",
    "route",
    "save_plan",
    "solve",
    "stats",
    "step",
]
