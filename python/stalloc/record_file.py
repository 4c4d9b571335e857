"""The file of a recording. During the run its lines are in a gzip'd file beside it.

The texts of marks are final only at the end (see record_marks.py), so the trace is written then,
from those lines and the marks' texts.
"""

import contextlib
import gzip
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Optional, Union

from ._output import Output


class Kept:
    """The lines so far, in a temporary file."""

    def __init__(self, folder: str) -> None:
        self._file = tempfile.TemporaryFile(dir=folder, prefix=".stalloc-record-")
        self._zip = gzip.GzipFile("", "wb", 1, self._file)
        os.register_at_fork(after_in_child=self._leave)

    def _leave(self) -> None:
        """In a forked child: drops the file, whose position it shares with its parent."""
        if not self._file.closed:
            nowhere = os.open(os.devnull, os.O_RDWR)
            os.dup2(nowhere, self._file.fileno())
            os.close(nowhere)

    def add(self, lines: Iterable[str]) -> None:
        text = "\n".join(lines)
        if text:
            self._zip.write(f"{text}\n".encode(errors="replace"))  # names of files are bytes

    def size(self) -> int:
        """Bytes on the disk."""
        return self._file.tell()

    def lines(self) -> Iterator[bytes]:
        """All lines; afterwards none can be added."""
        self._zip.close()
        self._file.seek(0)
        with gzip.GzipFile("", "rb", fileobj=self._file) as lines:
            yield from lines

    def close(self) -> None:
        self._zip.close()
        self._file.close()


def write(
    output: Output, zipped: bool, header: str, kept: Kept, marks: Sequence[Optional[str]]
) -> None:
    """Writes a trace. Marks without a text are left out."""
    with output.whole() as plain, contextlib.ExitStack() as stack:
        out: Union[IO[bytes], gzip.GzipFile] = plain
        if zipped:  # no time and no name in gzip's header: equal traces give equal files
            out = stack.enter_context(gzip.GzipFile("", "wb", 6, plain, mtime=0))
        first = "setup" if "step 0" in marks else "step 0"
        out.write(f"# {header}\n# {first}\n".encode(errors="replace"))
        for line in kept.lines():
            if line[:1] != b"#":
                out.write(line)
            elif (text := marks[int(line[1:])]) is not None:
                out.write(f"# {text}\n".encode(errors="replace"))
