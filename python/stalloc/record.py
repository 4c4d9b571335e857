"""Records a training script's requests for GPU memory, for `stalloc plan` and `stalloc replay`.

    python -m stalloc.record -o trace.csv.gz train.py --its --own --options
    stalloc replay trace.csv.gz

The script runs as ever, under PyTorch's own allocator; stalloc.enable() inside it warns and does
nothing. When it ends, by an exception too, the trace is written. PyTorch's memory history has
what is needed, call stacks left out: every request and free, in the order the allocator saw them.

Steps: where the script calls stalloc.step(), a step ends; without such calls, where its first
optimizer's steps end. stalloc.mark("step 0") may say where the set-up ends and the first step
begins; without it the set-up counts as part of step 0. Other marks (stalloc.mark("forward")) are
kept too. A mark gets into the history as an allocation of a size that nothing else asks for
(--mark-bytes), so its place is exact whatever the clocks say; it is freed at once and left out
of the trace.

The trace is text, gzip'd if its name ends in .gz, one event a line:

    # workload NAME torch VERSION DEVICE    the first line
    # step 3                                 a mark: setup, step 0, step 1, ..., end
    a,<id>,<bytes>,<stream>,<µs>             a request; ids and streams count from 0, the
                                             default stream being 0
    r,<id>,<µs>                              its free was requested
    f,<id>,<µs>                              its free is complete: other streams are done too

Limits: one device, the one that is current when the script starts unless --device says
otherwise. os._exit() in the script loses the recording. A history that outgrows --max-events
loses its beginning, and the trace is not written; record fewer steps then.
"""

import argparse
import gzip
import os
import runpy
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Optional

from . import _session, _torch
from ._errors import StallocError

# A prime: no shape of any element size but one byte has it.
MARK_BYTES = 1_000_003


class Marks:
    """The marks of a run. Each is in the allocator's history, their texts are here."""

    def __init__(self, torch: ModuleType, device: int, size: int) -> None:
        self._torch, self._device, self._size = torch, device, size
        self.texts: list[Optional[str]] = []  # None: nothing is marked there after all
        self._steps = 0
        self._guessed: list[int] = []  # places in texts where an optimizer ended a step

    def step(self) -> None:
        """The end of a step, which is the beginning of the next."""
        # A script that says where its steps end has stepped its optimizer before it says so for
        # the first time: that was inside the first step.
        if self._guessed:
            for place in self._guessed:
                self.texts[place] = None
            self._guessed, self._steps = [], 0
        self._next()

    def optimizer_step(self) -> None:
        """The end of a step, unless the script is going to call step()."""
        self._guessed.append(len(self.texts))
        self._next()

    def _next(self) -> None:
        self._steps += 1
        self.mark(f"step {self._steps}")

    def mark(self, text: str) -> None:
        text = " ".join(text.split())
        if not text:
            raise ValueError('stalloc.mark(""): a mark needs a text')
        cuda = self._torch.cuda
        with cuda.device(self._device):
            cuda.caching_allocator_delete(cuda.caching_allocator_alloc(self._size))
        self.texts.append(text)

    def finished(self) -> list[Optional[str]]:
        """The texts of a run that ended well: no step begins where its last one ended."""
        last = f"step {self._steps}"
        if self._steps == 0 or last not in self.texts:
            return self.texts
        place = self.texts.index(last)
        return [*self.texts[:place], "end", *self.texts[place + 1 :]]


def lines(
    history: Iterable[Mapping[str, Any]],
    marks: Sequence[Optional[str]],
    mark_bytes: int = MARK_BYTES,
) -> Iterator[str]:
    """The trace, without its first line, of one device's history.

    `history` is an element of the list "device_traces" of a memory snapshot. The blocks of
    `mark_bytes` in it stand for `marks`, in this order; None is left out. Frees of blocks that
    are older than the history are left out; a block whose address is handed out again has been
    freed, whether the history says so or not.

    Raises:
        StallocError: the history has more or fewer such blocks than there are marks.
    """
    live: dict[int, tuple[int, bool]] = {}  # by address: the id, whether its free was requested
    streams = {0: 0}
    begin: Optional[int] = None
    count = seen = 0
    yield "# setup" if "step 0" in marks else "# step 0"
    for entry in history:
        action, address = entry["action"], entry.get("addr", -1)
        begin = entry["time_us"] if begin is None else begin
        micros = max(0, entry["time_us"] - begin)
        if action == "alloc":
            if address in live:
                yield from _end(live.pop(address), micros)
            if entry["size"] == mark_bytes:
                seen += 1
                # One too many is told below, with the right count.
                yield from (f"# {text}" for text in marks[seen - 1 : seen] if text is not None)
                continue
            stream = streams.setdefault(entry.get("stream", 0), len(streams))
            live[address] = (count, False)
            yield f"a,{count},{entry['size']},{stream},{micros}"
            count += 1
        elif action == "free_requested" and address in live and not live[address][1]:
            live[address] = (live[address][0], True)
            yield f"r,{live[address][0]},{micros}"
        elif action == "free_completed" and address in live:
            yield from _end(live.pop(address), micros)
    if seen != len(marks):
        raise StallocError(
            f"stalloc.record: {len(marks)} marks were set, but the history has {seen} requests "
            f"of {mark_bytes} bytes; if the script makes some itself, choose another size with "
            f"--mark-bytes, at most 1048576; if the history is too short, raise --max-events"
        )


def _end(block: tuple[int, bool], micros: int) -> Iterator[str]:
    number, requested = block
    if not requested:
        yield f"r,{number},{micros}"
    yield f"f,{number},{micros}"


def write(path: Path, header: str, body: Iterable[str]) -> None:
    """Writes a trace beside `path` and renames it at the end: never half a one."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as plain:
            packed = path.suffix == ".gz"
            # No time and no name in gzip's header: equal traces give equal files.
            out = gzip.GzipFile("", "wb", 9, plain, mtime=0) if packed else plain
            out.write(f"# {header}\n".encode())
            for line in body:
                out.write(f"{line}\n".encode())
            if packed:
                out.close()
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


class Recorder:
    """A recording: started before the script, saved after it."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.torch = torch = _torch.load()
        if not torch.cuda.is_available():
            raise StallocError("stalloc.record: PyTorch finds no GPU here, so nothing to record")
        backend = torch.cuda.memory.get_allocator_backend()
        if backend != "native":
            raise StallocError(
                f"stalloc.record: PyTorch's allocator is {backend}, which keeps no history; "
                f"unset PYTORCH_ALLOC_CONF and PYTORCH_CUDA_ALLOC_CONF"
            )
        torch.cuda.init()
        self.device = torch.cuda.current_device() if args.device is None else args.device
        self.marks = Marks(torch, self.device, args.mark_bytes)
        _session.record(torch, self.marks)

    def start(self) -> None:
        self.torch.cuda.memory._record_memory_history(
            enabled="all", context=None, max_entries=self.args.max_events
        )

    def save(self, finished: bool) -> int:
        """Writes the trace; returns the number of its events. `finished`: without an error."""
        _session.end_record()
        memory = self.torch.cuda.memory
        history = memory._snapshot()["device_traces"][self.device]
        memory._record_memory_history(enabled=None)
        if len(history) >= self.args.max_events:
            raise StallocError(
                f"stalloc.record: the run made more than --max-events "
                f"({self.args.max_events:,}) events, the first are lost; raise it, or record "
                f"fewer steps"
            )
        device = self.torch.cuda.get_device_name(self.device)
        name = "_".join(self.args.name.split())
        header = f"workload {name} torch {self.torch.__version__} {device}"
        marks = self.marks.finished() if finished else self.marks.texts
        write(self.args.output, header, lines(history, marks, self.args.mark_bytes))
        return len(history)


def run(script: Path, arguments: Sequence[str]) -> dict[str, Any]:
    """Runs a script as `python script arguments...` would; returns its globals."""
    sys.argv = [str(script), *arguments]
    sys.path[0] = str(script.resolve().parent)
    return runpy.run_path(str(script), run_name="__main__")


def parse_arguments(argv: Optional[Sequence[str]] = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m stalloc.record",
        description=(__doc__ or "").splitlines()[0],
        epilog="The module's documentation says what is recorded, and how.",
    )
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE")
    parser.add_argument("--name", help="the workload's name in the trace; default: the script's")
    parser.add_argument("--device", type=int, metavar="N", help="default: the current one")
    parser.add_argument("--max-events", type=int, default=10_000_000, metavar="N")
    parser.add_argument("--mark-bytes", type=int, default=MARK_BYTES, metavar="N")
    parser.add_argument("script", type=Path)
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="the script's own")
    args = parser.parse_args(argv)
    if not args.script.is_file():
        parser.error(f"{args.script}: no such script")
    if not args.output.parent.is_dir():
        parser.error(f"-o {args.output}: there is no folder {args.output.parent}")
    args.name = args.name or args.script.stem
    return args


def main(argv: Optional[Sequence[str]] = None) -> int:
    args = parse_arguments(argv)
    try:
        recorder = Recorder(args)
    except StallocError as error:
        print(error, file=sys.stderr)
        return 1
    recorder.start()
    status: Any = 0
    kept: Any = None  # the script's globals: dropping them would free what they hold
    failure: Optional[BaseException] = None
    try:
        kept = run(args.script, args.arguments)
    except SystemExit as stop:
        status = stop.code
    except BaseException as error:
        failure = error
    try:
        events = recorder.save(finished=failure is None and not status)
        print(f"{args.output}: {events:,} events", file=sys.stderr)
    except (StallocError, OSError) as error:
        print(error, file=sys.stderr)
        status = status or 1
    del kept
    if failure is not None:
        raise failure
    if status is None or isinstance(status, int):
        return status or 0
    print(status, file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
