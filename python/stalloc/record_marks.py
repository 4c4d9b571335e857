"""The marks of a recorded run: ends of steps, and the script's own marks."""

from collections.abc import Callable
from typing import Optional

from .record_history import History
from .record_stacks import MOST


class Marks:
    """The marks of a run: their positions are in the history, their texts are here.

    If `most` is not None, the program is ended, with success, after so many steps.
    """

    def __init__(
        self, history: History, marked: Callable[[], None], most: Optional[int] = None
    ) -> None:
        self._history, self._marked, self._most = history, marked, most
        # By number of the mark; None: it was withdrawn.
        self.texts: dict[int, Optional[str]] = {}
        self.steps = 0
        self._last = 0  # mark of a step
        self._guessed: list[int] = []  # marks of steps that an optimizer ended

    def step(self) -> None:
        """Marks the end of a step, which is the beginning of the next."""
        # The script marks its steps itself. Its optimizer stepped before its first mark; that was
        # within the first step.
        if self._guessed:
            for number in self._guessed:
                self.texts[number] = None
            self._guessed, self.steps = [], 0
        self._next()
        self._end_if_enough()

    def optimizer_step(self) -> None:
        """Marks the end of a step, unless the script turns out to call step()."""
        self._guessed.append(self._next())
        self._end_if_enough()

    def _end_if_enough(self) -> None:
        if self._most is not None and self.steps >= self._most:
            raise SystemExit(0)

    def _next(self) -> int:
        self.steps += 1
        self._last = self._mark(f"step {self.steps}")
        return self._last

    def mark(self, text: str) -> None:
        text = " ".join(text.split())
        if not text:
            raise ValueError('stalloc.mark(""): a mark needs a text')
        self._mark(text[:MOST])

    def _mark(self, text: str) -> int:
        number = self._history.mark()
        self.texts[number] = text
        self._marked()
        return number

    def all(self, finished: bool) -> list[Optional[str]]:
        """The texts by number. In a run that succeeded the last mark is an end, not a new step."""
        count = max(self.texts, default=-1) + 1
        texts = [self.texts.get(number) for number in range(count)]
        if finished and self.steps > 0:
            texts[self._last] = "end"
        return texts
