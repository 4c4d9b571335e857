"""For Lightning: ``Trainer(..., callbacks=[StallocCallback()])``.

It does nothing unless stalloc is enabled: by stalloc.enable(), STALLOC=1 or `stalloc run`.
``StallocCallback(offload=True)`` also offloads the optimizers' states (stalloc.offload).
"""

from typing import Any

try:
    from lightning.pytorch import Callback
except ImportError:
    from pytorch_lightning import Callback

import stalloc

from . import scalars


class StallocCallback(Callback):  # type: ignore[misc]
    """Ends a step after each batch in which an optimizer stepped, and after a validation.

    If the Trainer has loggers, memory figures are logged.
    """

    def __init__(self, offload: bool = False) -> None:
        super().__init__()
        self._offload, self._steps = offload, 0

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        self._steps = trainer.global_step
        for optimizer in trainer.optimizers if self._offload else ():
            stalloc.offload(optimizer)

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if trainer.global_step != self._steps:  # otherwise gradients are being accumulated
            self._steps = trainer.global_step
            stalloc.step()
        if stalloc.is_enabled() and trainer.loggers:
            pl_module.log_dict(scalars())

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        if not trainer.sanity_checking:
            stalloc.step()
