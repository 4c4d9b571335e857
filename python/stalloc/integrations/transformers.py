"""For the Hugging Face Trainer: ``Trainer(..., callbacks=[StallocCallback()])``.

It does nothing unless stalloc is enabled: by stalloc.enable(), STALLOC=1 or `stalloc run`.
``StallocCallback(offload=True)`` also offloads the optimizer's states (stalloc.offload).
``log_memory(trainer)`` adds memory figures to what it logs."""

from typing import Any

from transformers import TrainerCallback

import stalloc

from . import scalars


class StallocCallback(TrainerCallback):  # type: ignore[misc]
    """Ends a step after each optimizer step, its gradients cleared, and after an evaluation."""

    def __init__(self, offload: bool = False) -> None:
        self._offload = offload

    def on_train_begin(
        self, args: Any, state: Any, control: Any, optimizer: Any = None, **kwargs: Any
    ) -> None:
        if self._offload:
            stalloc.offload(optimizer)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        stalloc.step()

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step > 0:  # an evaluation before the training is not a step
            stalloc.step()


class _Scalars(TrainerCallback):  # type: ignore[misc]
    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        if logs is not None:
            logs.update(scalars())


def log_memory(trainer: Any) -> None:
    """Adds memory figures to a Trainer's logs."""
    # In front: the reporting callbacks run before those given to Trainer(...).
    trainer.callback_handler.callbacks.insert(0, _Scalars())
