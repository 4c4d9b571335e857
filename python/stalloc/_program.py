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
        if _adds_folder():
            sys.path.pop(0)
        sys.path.insert(0, os.path.abspath(path))
        _run_as_main("__main__", False)
        return
    # Not runpy: it would give the program's argv[0] and __file__ the same text, and take its
    # module away when it ends.
    _first_on_path(os.path.dirname(os.path.realpath(path)))
    main = _new_main()
    main.__file__ = os.path.abspath(path)
    with io.open_code(main.__file__) as file:
        code = compile(file.read(), main.__file__, "exec", dont_inherit=True)
    exec(code, main.__dict__)


def run_module(name: str, arguments: Sequence[str]) -> None:
    """`python -m name arguments...`"""
    sys.argv = [name, *arguments]
    _first_on_path(os.getcwd())
    _run_as_main(name, True)


def _run_as_main(name: str, named: bool) -> None:
    """What Python's own -m calls. runpy's public functions take __main__ and argv[0] away when the
    module ends, and threads and exit handlers still need them."""
    _new_main()
    runpy._run_module_as_main(name, named)  # type: ignore[attr-defined]


def _new_main() -> ModuleType:
    """The program's module instead of ours; it stays until Python exits."""
    main = sys.modules["__main__"] = ModuleType("__main__")
    main.__dict__["__builtins__"] = builtins
    return main


def _first_on_path(folder: str) -> None:
    """Replaces our folder by the program's on Python's path, if Python has added ours."""
    if _adds_folder():
        sys.path[0] = folder


def _adds_folder() -> bool:
    return not (sys.flags.isolated or getattr(sys.flags, "safe_path", False))
