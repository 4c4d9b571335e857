"""Checks whether stalloc can serve here: `stalloc doctor`, or `python -m stalloc.doctor`.

Prints a line per check: ok, or what to do. It changes nothing; one block of 2 MiB is allocated and
freed in a process of its own. PyTorch is not imported, only its version is read.

Exit status: 0 if stalloc can serve, 1 if something has to be fixed first.
"""

import argparse
import dataclasses
import json
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Optional, TextIO

from . import _examine, _examine_gpu
from ._examine import Finding
from ._printing import Parser, printing

_COLOURS = {"ok": "32", "note": "33", "fix": "31"}


def findings(device: int) -> Iterator[Finding]:
    """All checks, in order. Without a driver the checks that need one are left out."""
    yield from _examine.system()
    yield from _examine.libraries()
    yield from _examine.environment()
    yield from _examine.namesakes()
    yield from _examine.torch()
    driver = list(_examine_gpu.driver())
    yield from driver
    if not any(finding.status == "fix" for finding in driver):
        yield from _examine_gpu.holders()
        yield from _examine_gpu.trial(device)


def show(finding: Finding, out: TextIO, colour: bool) -> None:
    status = f"{finding.status:4}"
    if colour:
        status = f"\033[{_COLOURS[finding.status]}m{status}\033[0m"
    print(f"{status}  {finding.subject:9}  {finding.text}", file=out)
    if finding.remedy:
        print(f"{'':6}{'':9}  -> {finding.remedy}", file=out)


def main(arguments: Optional[Sequence[str]] = None) -> int:
    parser = Parser(
        prog="stalloc doctor",
        description="Checks whether stalloc can serve on this machine.",
        allow_abbrev=False,  # __main__ looks for --python
    )
    parser.add_argument("--device", type=int, default=0, help="the CUDA device to try (default 0)")
    parser.add_argument("--python", metavar="PATH", help="check this Python, which trains, instead")
    parser.add_argument("--json", action="store_true", help="print one JSON object a line")
    with printing(parser.prog):
        options = parser.parse_args(arguments)
        if options.python is not None:
            parser.error(f"--python {options.python}: run `{options.python} -m stalloc.doctor`")
        return look(options)


def look(options: argparse.Namespace) -> int:
    """Prints the findings as they come; returns the exit status."""
    colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    sound = True
    for finding in findings(options.device):
        sound = sound and finding.status != "fix"
        if options.json:
            print(json.dumps(dataclasses.asdict(finding)))
        else:
            show(finding, sys.stdout, colour)
    return 0 if sound else 1


if __name__ == "__main__":
    sys.exit(main())
