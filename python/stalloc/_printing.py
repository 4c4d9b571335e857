"""Ends without a traceback when standard output is closed or full."""

import argparse
import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any, Optional


class Parser(argparse.ArgumentParser):
    """A parser that reports errors of printing its help; argparse ignores them."""

    def print_help(self, file: Optional[Any] = None) -> None:
        print(self.format_help(), end="", file=file or sys.stdout, flush=True)


@contextlib.contextmanager
def printing(command: str) -> Iterator[None]:
    """A context for code that only prints: ends the process if printing fails."""
    try:
        yield
        sys.stdout.flush()
    except OSError as error:
        # The rest of the buffer would fail again when Python exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            print(f"{command}: writing: {error.strerror}", file=sys.stderr)
        raise SystemExit(1) from None
