"""The command `stalloc`: run, record and doctor are Python, everything else is the binary's."""

import os
import signal
import sys
from pathlib import Path

PYTHON = ("run", "record", "doctor")


def binary() -> Path:
    """The binary that the package brings, or that `make` has left in a source tree."""
    return Path(__file__).resolve().parent / "bin" / "stalloc"


def main() -> int:
    arguments = sys.argv[1:]
    command = arguments[0] if arguments else ""
    # With --python the binary starts the doctor of another interpreter.
    elsewhere = any(word.split("=")[0] == "--python" for word in arguments)
    if command in PYTHON and not (command == "doctor" and elsewhere):
        from . import doctor, record, run

        command_of = {"run": run.main, "record": record.main, "doctor": doctor.main}
        return command_of[command](arguments[1:])
    path = binary()
    if not path.exists():
        print(f"stalloc: {path} is missing; run `make build`, or reinstall it", file=sys.stderr)
        return 1
    if command == "fit" and not elsewhere:
        arguments.insert(1, f"--python={sys.executable}")  # which has this package, and trains
    # Python ignores it, and what is executed would inherit that.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    os.execv(path, ["stalloc", *arguments])


if __name__ == "__main__":
    sys.exit(main())
