"""A GPU memory allocator for PyTorch training that plans every step's addresses ahead.

Where steps repeat, request for request, stalloc decides beside training where every block of the
next goes, almost perfectly packed, and serves the steps that follow from that plan. What does not
repeat it serves nearly as tightly::

    import stalloc

    stalloc.enable()  # before the first tensor goes to the GPU

    for batch in data:
        ...
        optimizer.step()
        optimizer.zero_grad()
        stalloc.step()  # a step ends here

Without calls of stalloc.step() the optimizers mark the steps: each step of the optimizer that
stepped first counts as one (see stalloc._steps for programs with several). The first call of
stalloc.step() ends that, and only the calls count from then on.
"""

from ._errors import SettingError, StallocError, StallocWarning
from ._plans import load_plan, save_plan
from ._session import close, enable, explain, is_enabled, is_recording, mark, route, stats, step
from ._sleep import pause, region, resume
from ._solve import Placement, solve
from ._stats import Stats
from ._version import __version__

__all__ = [
    "Placement",
    "SettingError",
    "StallocError",
    "StallocWarning",
    "Stats",
    "__version__",
    "close",
    "enable",
    "explain",
    "is_enabled",
    "is_recording",
    "load_plan",
    "mark",
    "pause",
    "region",
    "resume",
    "route",
    "save_plan",
    "solve",
    "stats",
    "step",
]
