"""For accelerate: ``mark_steps(optimizer)`` after ``accelerator.prepare``."""

from typing import Any

import stalloc


def mark_steps(optimizer: Any) -> None:
    """Ends a step where the gradients of this optimizer's last step are cleared.

    `optimizer` is what accelerator.prepare() returned. While gradients are accumulated, its
    step() and zero_grad() do nothing and no step ends. With several optimizers pass the one
    whose gradients are cleared last.
    """
    step, zero_grad = optimizer.step, optimizer.zero_grad
    stepped = False

    def marked_step(*args: Any, **kwargs: Any) -> Any:
        nonlocal stepped
        result = step(*args, **kwargs)
        stepped = optimizer.gradient_state.sync_gradients
        return result

    def marked_zero_grad(*args: Any, **kwargs: Any) -> None:
        nonlocal stepped
        zero_grad(*args, **kwargs)
        if stepped and optimizer.gradient_state.sync_gradients:
            stepped = False
            stalloc.step()

    optimizer.step, optimizer.zero_grad = marked_step, marked_zero_grad
