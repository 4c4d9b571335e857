"""Callbacks for training frameworks: they mark the steps exactly where the framework ends them.

Without them the optimizer's own steps are the marks. Everything works then, too, but plans serve
little: gradients live on after such a mark, and an evaluation is part of a step.
They also give memory figures to what the framework logs to, TensorBoard or Weights & Biases.
"""

import stalloc

# Of stats().as_dict(), what is worth a curve.
_CURVES = (
    "allocated", "reserved", "peak_allocated", "peak_reserved", "fragmentation", "hit_rate",
    "driver_ns",
)  # fmt: skip


def scalars() -> dict[str, float]:
    """The figures to log, nothing while stalloc is not enabled."""
    if not stalloc.is_enabled():
        return {}
    figures = stalloc.stats().as_dict("")
    return {f"stalloc/{name}": float(figures[name]) for name in _CURVES}
