"""Runs a program in this process as Python would: a script, a folder, an archive or a module."""

import argparse
import builtins
import importlib.machinery
import importlib.util
import io
import os
import runpy
import sys
import zipfile
from collections.abc import Sequence
from types import ModuleType
from typing import Any

# The program's globals, kept until Python exits as in a separate process: dropping them earlier
# would free what they hold.
_kept: list[dict[str, Any]] = []


def split(parser: argparse.ArgumentParser, args: argparse.Namespace, words: list[str]) -> None:
    """Takes a program and its arguments apart. A "--" in front ends the options before them."""
    if words[:1] == ["--"]:
        words = words[1:]
    if not words:
        parser.error("name a script to run, or a module after -m")
    args.program, args.arguments = words[0], words[1:]


def check(parser: argparse.ArgumentParser, program: str, module: bool) -> None:
    """Ends the process with an error if there is no such program."""
    if not module:
        _check_script(parser, program)
    elif not _is_there(program):
        parser.error(f"-m {program}: no such module")


def _check_script(parser: argparse.ArgumentParser, path: str) -> None:
    if not os.path.exists(path):
        if os.path.basename(path).startswith("python"):
            parser.error(f"{path}: leave it out, this is Python already: name the script itself")
        parser.error(f"{path}: no such program; name a script, or a module after -m")
    if not os.access(path, os.R_OK):
        parser.error(f"{path} cannot be read")
    if os.path.isdir(path) or zipfile.is_zipfile(path):
        if importlib.machinery.PathFinder.find_spec("__main__", [path]) is None:
            parser.error(f"{path}: there is no __main__.py in it; name a script")


def _is_there(module: str) -> bool:
    """Whether its top-level package exists. Searching deeper would import it, and maybe torch."""
    name = module.partition(".")[0]
    if importlib.machinery.PathFinder.find_spec(name, [os.getcwd()]) is not None:
        return True
    return bool(name) and importlib.util.find_spec(name) is not None


def has(name: str, program: str, module: bool) -> bool:
    """Whether a program would find a module: in its own folder or on Python's path."""
    beside = os.getcwd() if module else os.path.dirname(os.path.realpath(program))
    found = importlib.machinery.PathFinder.find_spec(name, [beside])
    return found is not None or importlib.util.find_spec(name) is not None


def run(program: str, module: bool, arguments: Sequence[str]) -> None:
    """The program that check() has found."""
    if module:
        run_module(program, arguments)
    else:
        run_script(program, arguments)


def run_script(path: str, arguments: Sequence[str]) -> None:
    """`python path arguments...`: path is a file, or a folder or archive with a __main__.py."""
    sys.argv = [path, *arguments]
    if os.path.isdir(path) or zipfile.is_zipfile(path):
        _first_on_path(os.path.abspath(path))
        _kept.append(runpy.run_path(os.path.abspath(path), run_name="__main__"))
        return
    # Not runpy: it would give the program's argv[0] and __file__ the same text, and take its
    # module away when it ends.
    _first_on_path(os.path.dirname(os.path.realpath(path)))
    main = ModuleType("__main__")
    main.__file__ = os.path.abspath(path)
    main.__dict__["__builtins__"] = builtins
    with io.open_code(main.__file__) as file:
        code = compile(file.read(), main.__file__, "exec", dont_inherit=True)
    sys.modules["__main__"] = main
    exec(code, main.__dict__)


def run_module(name: str, arguments: Sequence[str]) -> None:
    """`python -m name arguments...`"""
    sys.argv = [name, *arguments]
    _first_on_path(os.getcwd())
    _kept.append(runpy.run_module(name, run_name="__main__", alter_sys=True))


def _first_on_path(folder: str) -> None:
    """Replaces our folder by the program's on Python's path, if Python has added ours."""
    if not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
        sys.path[0] = folder
