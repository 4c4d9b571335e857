"""Callbacks for training frameworks: they mark the steps exactly where the framework ends them.

Without them the optimizer's own steps are the boundaries. That works, but plans serve little:
gradients are still alive at such a boundary, and an evaluation becomes part of a step.
They also log memory figures where the framework logs: TensorBoard, Weights & Biases.
"""

import stalloc

# The figures of stats().as_dict() that are worth plotting.
_CURVES = (
    "allocated", "reserved", "peak_allocated", "peak_reserved", "fragmentation", "hit_rate",
    "driver_ns",
)  # fmt: skip


def scalars() -> dict[str, float]:
    """The figures to log; empty while stalloc is not enabled."""
    if not stalloc.is_enabled():
        return {}
    figures = stalloc.stats().as_dict("")
    return {f"stalloc/{name}": float(figures[name]) for name in _CURVES}
