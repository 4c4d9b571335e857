"""Records a training script's requests for GPU memory, for `stalloc report` and `stalloc replay`.

    stalloc record -o trace.csv.gz train.py --its --own --options
    stalloc record -o trace.csv.gz -m package.train --its --own --options
    torchrun --nproc-per-node 8 -m stalloc.record -o trace.%r.csv.gz train.py
    stalloc report trace.csv.gz

The script runs as usual, under PyTorch's own allocator; stalloc.enable() inside it warns and does
nothing. When the script ends, also by an exception, the trace is written. The source is PyTorch's
memory history: every request and free, in the order the allocator saw them, and with --stacks the
Python frames of each request (files, lines and functions, no code and no data).
The history is a ring buffer that is read while the script runs. So a run may have any length, the
host memory is bounded (--memory), and what was read is on disk, beside the future trace.

Steps: a step ends where the script calls stalloc.step(); without such calls, where its first
optimizer steps. stalloc.mark("step 0") may mark the end of the set-up and the start of the first
step; without it the set-up is part of step 0. Other marks (stalloc.mark("forward")) are recorded,
too. A mark enters the history as an allocation on a separate stream, so its position is exact
whatever the clocks say; it is freed at once and left out of the trace.

The trace is text, gzip'd if its name ends in .gz, one event a line:

    # workload NAME torch VERSION DEVICE    the first line
    # step 3                                 a mark: setup, step 0, step 1, ..., end
    a,<id>,<bytes>,<stream>,<µs>             a request; ids and streams count from 0, the
                                             default stream being 0
    a,<id>,<bytes>,<stream>,<µs>,<stack>     the same with --stacks; its stack comes before
    k,<stack>,<caller's>,<file>:<line> <function>
    r,<id>,<µs>                              its free was requested
    f,<id>,<µs>                              its free is complete: other streams are done too

f is at most half a millisecond late (--poll sets the interval; see record_poll.py). With --poll 0,
and while a graph is captured, it has the time of the next request, when PyTorch checks.

Limits: one device: under torchrun the process's own (LOCAL_RANK), otherwise the current one when
the script starts, or --device. The script ends with its main thread: what its other threads request
after that is not recorded. os._exit() in the script loses the recording.
"""

import argparse
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any, Optional

from . import _program, _session, _torch
from ._errors import StallocError
from ._output import Output
from .record_arguments import parse_arguments
from .record_file import Kept, write
from .record_history import ENTRY_BYTES, STACK_BYTES, History, Lines
from .record_marks import Marks
from .record_poll import Poll
from .record_stacks import Stacks


class Recorder:
    """A recording, from before the script to after it. A thread reads the history."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.torch = torch = _torch.load()
        if not torch.cuda.is_available():
            raise StallocError(
                "stalloc record: PyTorch finds no GPU here, so there is nothing to record; record "
                "where the program trains (`stalloc report` and `stalloc replay` need no GPU)"
            )
        backend = torch.cuda.memory.get_allocator_backend()
        if backend != "native":
            raise StallocError(
                f"stalloc record: PyTorch's allocator is {backend}, which keeps no history; "
                f"unset PYTORCH_ALLOC_CONF and PYTORCH_CUDA_ALLOC_CONF"
            )
        torch.cuda.init()
        self.device = _device(torch, args.device)
        entries = args.memory // (ENTRY_BYTES + (STACK_BYTES if args.stacks else 0))
        self.history = History(torch, self.device, entries, args.stacks)
        self.marks = Marks(self.history, self.look_if_due, args.steps)
        self.output = Output(args.output)
        self.lines = Lines(Stacks() if args.stacks else None)
        self.kept = Kept(self.output.folder)
        self.process = os.getpid()
        self.failure: Optional[BaseException] = None  # why the recording is invalid
        self._look_lock = threading.Lock()
        self._over = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="stalloc.record", daemon=True)
        stream = self.history.stream
        self._poll = Poll(torch, self.device, stream, args.poll) if args.poll else None
        _session.record(torch, self.marks)

    def start(self) -> None:
        self.history.start()
        self._watcher.start()
        if self._poll is not None:
            self._poll.start()

    def _watch(self) -> None:
        """Reads the history within long steps, too, and prints progress."""
        while not self._over.wait(0.05):
            self.look_if_due()
            self._tell()

    def look_if_due(self) -> None:
        """Reads the history if enough of it is new. Its errors must not reach the script."""
        with self._look_lock:
            if self.failure is not None:
                return
            try:
                if self.history.due():
                    self._look()
            except BaseException as error:
                self.failure = error

    def _look(self) -> None:
        self.kept.add(self.lines.of(self.history.look()))

    def _tell(self) -> None:
        if sys.stderr.isatty():
            so_far = f"{self.lines.events:,} events, {self.kept.size() / 1e6:.1f} MB"
            print(f"\rrecording: step {self.marks.steps}, {so_far} ", end="", file=sys.stderr)

    def save(self, finished: bool) -> int:
        """Writes the trace; returns the number of its events. `finished`: without an error."""
        _session.end_record()
        self._over.set()
        self._watcher.join()
        if self._poll is not None:
            self._poll.stop()
            if self._poll.failure is not None:
                print(self._poll.failure, file=sys.stderr)
        if sys.stderr.isatty():
            print("\r\033[K", end="", file=sys.stderr)
        try:
            if self.failure is not None:
                raise self.failure
            self._look()
            self.history.stop()
            device = self.torch.cuda.get_device_name(self.device)
            name = "_".join(self.args.name.split())
            header = f"workload {name} torch {self.torch.__version__} {device}"
            zipped, marks = self.args.output.endswith(".gz"), self.marks.all(finished)
            write(self.output, zipped, header, self.kept, marks)
        finally:
            self.kept.close()
        return self.lines.events


def _device(torch: Any, wanted: Optional[int]) -> int:
    count = torch.cuda.device_count()
    if wanted is not None:
        if not 0 <= wanted < count:
            raise StallocError(
                f"stalloc record: --device {wanted}: PyTorch sees {count} here, counted from 0"
            )
        return wanted
    local = os.environ.get("LOCAL_RANK", "")
    if local.isdigit() and int(local) < count:
        return int(local)
    return int(torch.cuda.current_device())


def _terminated(number: int, frame: Any) -> None:
    """Ends the script on SIGTERM, so that what was recorded by then is saved."""
    raise SystemExit(128 + number)


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Ignores further signals: launchers and terminals send them more than once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    signals = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, signal.SIG_IGN) for number in signals]
    try:
        yield
    finally:
        for number, handler in zip(signals, before):
            signal.signal(number, handler)


def _save(
    args: argparse.Namespace, recorder: Recorder, failure: Optional[BaseException], status: Any
) -> Any:
    """Writes the trace and prints a line; returns the status, or 1 if writing failed."""
    try:
        with _undisturbed():
            events = recorder.save(finished=failure is None and not status)
        told = f"{args.output}: {events:,} events in {recorder.marks.steps:,} steps"
        see = "" if args.output == "-" else f"; see them with `stalloc report {args.output}`"
        print(told + see, file=sys.stderr)
    except (StallocError, OSError) as error:
        _say(args, error)
        return status or 1
    return status


def _say(args: argparse.Namespace, error: Exception) -> None:
    of = f"stalloc record: -o {args.output}: " if isinstance(error, OSError) else ""
    print(f"{of}{error}", file=sys.stderr)


def main(argv: Optional[Sequence[str]] = None) -> int:
    args = parse_arguments(argv)
    try:
        recorder = Recorder(args)
    except (StallocError, OSError) as error:
        _say(args, error)
        return 1
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _terminated)
    recorder.start()
    status: Any = 0
    failure: Optional[BaseException] = None
    try:
        _program.run(args.program, args.module, args.arguments)
    except SystemExit as stop:
        status = stop.code
    except BaseException as error:
        failure = error
    if recorder.process == os.getpid():  # not in a forked child
        status = _save(args, recorder, failure, status)
    if failure is not None:
        raise failure
    if status is None or isinstance(status, int):
        return status or 0
    print(status, file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
