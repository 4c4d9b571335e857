"""Standard output that nobody reads any more, or that is full: an end without a traceback."""

import argparse
import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any, Optional


class Parser(argparse.ArgumentParser):
    """One whose help is written or fails; argparse itself looks at no error."""

    def print_help(self, file: Optional[Any] = None) -> None:
        print(self.format_help(), end="", file=file or sys.stdout, flush=True)


@contextlib.contextmanager
def printing(command: str) -> Iterator[None]:
    """Around what only prints: ends the process where that fails."""
    try:
        yield
        sys.stdout.flush()
    except OSError as error:
        # What is left in the buffer would fail once more when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            print(f"{command}: writing: {error.strerror}", file=sys.stderr)
        raise SystemExit(1) from None
