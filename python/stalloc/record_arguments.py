"""The command line of `stalloc record`."""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Optional

from . import _program, _rank
from ._printing import Parser, printing

LEAST_MEMORY = 1 << 20
UNITS = {"KIB": 10, "MIB": 20, "GIB": 30, "K": 10, "M": 20, "G": 30, "": 0}


def _amount(text: str) -> int:
    """Bytes: 512MiB, 2G, or a whole number."""
    digits = text.rstrip("KMGiBkmgb")
    shift = UNITS.get(text[len(digits) :].strip().upper())
    if shift is None or not digits.strip().isdigit() or int(digits) << shift < LEAST_MEMORY:
        raise argparse.ArgumentTypeError(f"{text}: want an amount of at least 1MiB, like 512MiB")
    return int(digits) << shift


def _steps(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}: want a number of at least 1")
    return int(text)


def _micros(text: str) -> int:
    if not text.isdigit() or int(text) > 10**6:
        raise argparse.ArgumentTypeError(f"{text}: want microseconds, 0 to 1000000")
    return int(text)


def parse_arguments(argv: Optional[Sequence[str]] = None) -> argparse.Namespace:
    parser = Parser(
        prog="stalloc record",
        usage="%(prog)s -o FILE [options] (script | -m module) [arguments ...]",
        description="Records a training script's requests for GPU memory, for `stalloc report` and "
        "`stalloc replay`.",
        epilog="Steps end where the program calls stalloc.step(), or where its optimizer steps.",
    )
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        metavar="FILE",
        help="the recording; %%r in it is the rank; - is standard output, and then the program's "
        "own output goes to standard error",
    )
    parser.add_argument("--name", help="the workload's name in the trace; default: the script's")
    parser.add_argument(
        "--device", type=int, metavar="N", help="the GPU to record; default: the current one"
    )
    parser.add_argument(
        "--memory",
        type=_amount,
        default=1 << 30,
        metavar="AMOUNT",
        help="the most host memory that recording may take; default: 1GiB",
    )
    parser.add_argument(
        "--steps",
        type=_steps,
        metavar="N",
        help="end the program after N steps; default: run it to its end",
    )
    parser.add_argument(
        "--poll",
        type=_micros,
        default=500,
        metavar="MICROSECONDS",
        help="how often to make PyTorch check its events, so that the end of a block that other "
        "streams use has its true time; 0: PyTorch checks only on requests; default: 500",
    )
    parser.add_argument(
        "--stacks",
        action="store_true",
        help="also record which lines of the program request memory: `stalloc report` groups by "
        "them. Off by default: a request takes a fifth to a third more CPU time, and the recording "
        "names files and functions",
    )
    parser.add_argument("-m", nargs=argparse.REMAINDER, metavar="module", help="run a module")
    parser.add_argument(
        "program", nargs=argparse.REMAINDER, metavar="script", help="the program, and its arguments"
    )
    with printing(parser.prog):
        args = parser.parse_args(argv)
    args.module = args.m is not None
    _program.split(parser, args, args.m if args.module else args.program)
    _program.check(parser, args.program, args.module)
    own = args.program if args.module else Path(os.path.abspath(args.program)).stem
    args.name = args.name or own
    if _rank.world_size() > 1 and "%r" not in args.output:
        parser.error(f"-o {args.output}: several ranks would write it; put %r into its name")
    args.output = _rank.expand(args.output)
    if not args.module and Path(args.output).resolve() == Path(args.program).resolve():
        parser.error(f"-o {args.output}: would replace the script; name another file")
    folder = Path(args.output).parent
    if not folder.is_dir():
        parser.error(f"-o {args.output}: there is no folder {folder}")
    return args
