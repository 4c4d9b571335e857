"""Runs a training program under stalloc, unchanged.

    stalloc run [options] train.py its own arguments
    stalloc run [options] -m package.module its own arguments
    torchrun --nproc-per-node 8 -m stalloc.run [options] train.py its own arguments

It runs the program as Python would, and enables stalloc once the program has imported torch.
Processes that the program starts do the same if the package is installed for them, because they
inherit the environment (STALLOC=1, STALLOC_CONF). Without stalloc.step() in the program the
optimizer's steps end the training steps. At the end each process prints a summary.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Optional

from . import _auto, _config, _library, _program, _session, _summary, activations
from ._errors import SettingError, StallocError
from ._printing import Parser, printing


def parse_arguments(argv: Optional[Sequence[str]] = None) -> argparse.Namespace:
    parser = Parser(
        prog="stalloc run",
        usage="%(prog)s [options] (PROGRAM | -m MODULE) [arguments...]",
        description=(__doc__ or "").splitlines()[0],
        epilog="--conf takes every setting of STALLOC_CONF and overrides it; an unknown setting is "
        "an error that lists all of them. %r in a value or in FILE is the rank. Without a GPU the "
        "program runs as usual, with a warning; stalloc doctor says what is missing.",
    )
    parser.add_argument("--conf", default="", metavar="KEY:VALUE,...", help="settings")
    parser.add_argument("--limit", metavar="AMOUNT", help="most device memory: 70GiB or 90%%")
    parser.add_argument(
        "--offload-activations",
        metavar="AMOUNT",
        help="activations go to the host where tensors need more: 60GiB, 90%%, or auto: --limit",
    )
    parser.add_argument(
        "--plan", choices=["on", "off", "always"], help="off: steps are not planned; default on"
    )
    parser.add_argument(
        "--log",
        choices=["debug", "info", "warn", "error"],
        help="what goes to standard error; default warn",
    )
    parser.add_argument(
        "--strict", action="store_true", help="fail rather than run without stalloc"
    )
    summary = parser.add_mutually_exclusive_group()
    summary.add_argument("--no-summary", action="store_true", help="print no summary at the end")
    summary.add_argument("--summary", metavar="FILE", help="also write the counters as JSON")
    parser.add_argument("-m", dest="module", action="store_true", help="PROGRAM is a module")
    # One for both: of two, argparse takes a "--" that follows the first for its own.
    parser.add_argument(
        "program",
        nargs=argparse.REMAINDER,
        metavar="PROGRAM",
        help="a script, a folder or a module, and its own arguments",
    )
    with printing(parser.prog):
        args = parser.parse_args(argv)
    _program.split(parser, args, args.program)
    folder = os.path.dirname(os.path.abspath(args.summary or ""))
    if "%r" not in folder and not os.path.isdir(folder):
        parser.error(
            f"--summary {args.summary}: there is no folder {folder}; make it, or name another"
        )
    if args.summary and os.path.isdir(args.summary):
        parser.error(f"--summary {args.summary}: is a folder; name a file in it")
    amount = args.offload_activations
    if amount not in (None, activations.AUTO):
        try:
            activations.parse_limit(amount, 1 << 40)
        except ValueError:
            parser.error(f"--offload-activations {amount}: give 60GiB, 90% or auto")
    _program.check(parser, args.program, args.module)
    return args


def settings(args: argparse.Namespace, environment: str) -> str:
    """STALLOC_CONF for the program and its children: %r stays, each has its own rank."""
    options = {key: getattr(args, key) for key in ("limit", "plan", "log")}
    return _config.merge(_config.override(environment, args.conf), options)


def check(conf: str) -> None:
    """Raises SettingError for wrong settings, even if the program never uses CUDA."""
    try:
        library = _library.Library(_library.shim_path())
    except StallocError:
        return  # reported when it is needed
    library.check(conf)


def main(argv: Optional[Sequence[str]] = None) -> int:
    args = parse_arguments(argv)
    if args.no_summary:
        os.environ[_summary.VARIABLE] = "off"
    elif args.summary:
        where = args.summary if args.summary == "-" else os.path.abspath(args.summary)
        os.environ[_summary.VARIABLE] = where
    try:
        conf = settings(args, os.environ.get(_config.VARIABLE, ""))
        check(conf)
    except SettingError as error:
        print(f"stalloc run: {str(error).removeprefix('stalloc: ')}", file=sys.stderr)
        return 2
    if args.strict and not _program.has("torch", args.program, args.module):
        where = "is not installed for this Python"
        print(f"stalloc run: PyTorch {where} ({sys.executable})", file=sys.stderr)
        return 1
    try:
        os.environ[_config.VARIABLE] = conf
        os.environ[_session.VARIABLE] = _session.STRICT if args.strict else "1"
        if args.offload_activations is not None:
            os.environ[_auto.ACTIVATIONS] = args.offload_activations
        _auto.begin(promised=args.strict or bool(args.summary))
        _program.run(args.program, args.module, args.arguments)
    except StallocError as error:
        if error is not _auto.refusal:  # raised by the program's own work
            raise
        _summary.at_exit(promised=False)
        print(f"stalloc run: {str(error).removeprefix('stalloc: ')}", file=sys.stderr)
        return 2 if isinstance(error, SettingError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
