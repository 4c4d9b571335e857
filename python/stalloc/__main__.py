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
    elsewhere = command == "doctor" and any(w.split("=")[0] == "--python" for w in arguments)
    if command in PYTHON and not elsewhere:
        from . import doctor, record, run

        command_of = {"run": run.main, "record": record.main, "doctor": doctor.main}
        return command_of[command](arguments[1:])
    path = binary()
    if not path.exists():
        print(f"stalloc: {path} is missing; run `make build`, or reinstall it", file=sys.stderr)
        return 1
    if command == "fit":
        # This Python has the package, and trains. Of two the binary takes the last: the user's.
        arguments.insert(1, f"--python={sys.executable}")
    # Python ignores this signal, and the binary would inherit that.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        os.execv(path, ["stalloc", *arguments])
    except OSError as error:
        print(f"stalloc: {path} cannot be run: {error.strerror}; reinstall it", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
