"""The call stacks of a recording: PyTorch's Python frames as lines of the trace, each stack once.

A stack has a number, and is the stack of its caller plus one frame.

    k,<number>,<caller's number or nothing>,<file>:<line> <function>
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Optional

from . import _program

# The file whose frames start the recorded program.
STARTS = _program.__file__

Frame = Mapping[str, Any]


class Stacks:
    """Numbers stacks, read by read."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[Optional[int], str], int] = {}  # by caller and frame
        # PyTorch shares frame objects within one read: the identities of some frames find candidate
        # stacks, and lists of the same objects compare fast.
        self._looked: dict[tuple[int, ...], list[tuple[Sequence[Frame], Optional[int]]]] = {}
        # Requests repeat in order: for each stack, the stack that followed it last.
        self._after: dict[Optional[int], tuple[Sequence[Frame], Optional[int]]] = {}
        self._last: Optional[int] = None
        self._texts: dict[int, str] = {}

    def look(self) -> None:
        """Starts a new read, in which frames have new identities."""
        self._looked, self._after, self._texts = {}, {}, {}

    def number(self, frames: Sequence[Frame]) -> tuple[Optional[int], list[str]]:
        """The stack's number, and the lines that must come before it; None without frames.

        `frames` come as PyTorch gives them, the innermost first.
        """
        if not frames:
            return None, NONE
        last, expected = self._last, self._after.get(self._last)
        if expected is not None and expected[0] == frames:
            self._last = expected[1]
            return expected[1], NONE
        number, lines = self._found(frames)
        self._after[last], self._last = (frames, number), number
        return number, lines

    def _found(self, frames: Sequence[Frame]) -> tuple[Optional[int], list[str]]:
        n = len(frames)
        key = id(frames[0]), id(frames[n // 4]), id(frames[n // 2]), id(frames[n * 3 // 4]), n
        alike = self._looked.get(key)
        if alike is None:
            alike = self._looked[key] = []
        for others, found in alike:
            if others == frames:
                return found, NONE
        number: Optional[int] = None
        lines: list[str] = []
        for text in self._outermost_first(frames):
            node = (number, text)
            known = self._numbers.get(node)
            if known is None:
                known = self._numbers[node] = len(self._numbers)
                lines.append(f"k,{known},{'' if number is None else number},{text}")
            number = known
        alike.append((frames, number))
        return number, lines

    def _outermost_first(self, frames: Sequence[Frame]) -> Iterator[str]:
        """The program's own frames, without those that started it (ours and runpy's)."""
        end = next((i for i, f in enumerate(frames) if f["filename"] == STARTS), len(frames))
        while end > 0 and "runpy" in os.path.basename(frames[end - 1]["filename"]):
            end -= 1
        for frame in reversed(frames[:end]):
            text = self._texts.get(id(frame))
            if text is None:
                words = f"{frame['filename']}:{frame['line']} {frame['name']}".splitlines()
                text = self._texts[id(frame)] = " ".join(words)[:MOST]
            yield text


NONE: list[str] = []  # no new lines

# Of the text of a frame or a mark; a line of a trace has at most 64 KiB.
MOST = 4096
