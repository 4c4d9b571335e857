"""Runs a program in this process as `python program arguments...` would."""

import os
import runpy
import sys
from collections.abc import Sequence
from typing import Any

# The program's globals, to stay until Python ends, as those of a program of its own would:
# dropping them early would free what they hold.
_kept: list[dict[str, Any]] = []


def run_script(path: str, arguments: Sequence[str]) -> None:
    """`python path arguments...`: path is a file, or a folder or archive with a __main__.py."""
    sys.argv = [path, *arguments]
    _first_on_path(os.path.dirname(os.path.realpath(path)))
    _kept.append(runpy.run_path(path, run_name="__main__"))


def run_module(name: str, arguments: Sequence[str]) -> None:
    """`python -m name arguments...`"""
    sys.argv = [name, *arguments]
    _first_on_path(os.getcwd())
    _kept.append(runpy.run_module(name, run_name="__main__", alter_sys=True))


def _first_on_path(folder: str) -> None:
    """Puts the program's folder where Python has put that of this one, if it has put any."""
    if not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
        sys.path[0] = folder
