"""For the Hugging Face Trainer: ``Trainer(..., callbacks=[StallocCallback()])``."""

from typing import Any

from transformers import TrainerCallback

import stalloc


class StallocCallback(TrainerCallback):  # type: ignore[misc]
    """Ends a step behind each optimizer step, its gradients cleared, and behind an evaluation."""

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        stalloc.step()

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step > 0:  # one before the training is no step of it
            stalloc.step()
