"""The file of a recording: lines are kept beside it while the run goes on, gzip'd.

What a mark means is known for certain only at the end (see Marks in stalloc.record), so it is
then that the trace is written, from the lines that were kept and the marks' texts.
"""

import contextlib
import gzip
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Optional, Union


class Kept:
    """The lines so far, in a file without a name that anybody needs."""

    def __init__(self, folder: Path) -> None:
        self._file = tempfile.TemporaryFile(dir=folder, prefix=".stalloc-record-")
        self._zip = gzip.GzipFile("", "wb", 1, self._file)

    def add(self, lines: Iterable[str]) -> None:
        text = "\n".join(lines)
        if text:
            self._zip.write(f"{text}\n".encode())

    def size(self) -> int:
        """Bytes on the disk."""
        return self._file.tell()

    def lines(self) -> Iterator[bytes]:
        """All of them; none can be added any more."""
        self._zip.close()
        self._file.seek(0)
        with gzip.GzipFile("", "rb", fileobj=self._file) as lines:
            yield from lines

    def close(self) -> None:
        self._zip.close()
        self._file.close()


def write(path: Path, header: str, kept: Kept, marks: Sequence[Optional[str]]) -> None:
    """Writes a trace; a mark that is None is left out."""
    with _replaced(path) as out:
        out.write(f"# {header}\n# {'setup' if 'step 0' in marks else 'step 0'}\n".encode())
        for line in kept.lines():
            if line[:1] != b"#":
                out.write(line)
            elif (text := marks[int(line[1:])]) is not None:
                out.write(f"# {text}\n".encode())


@contextlib.contextmanager
def _replaced(path: Path) -> Iterator[Union[BinaryIO, gzip.GzipFile]]:
    """A file beside `path` that takes its place at the end: never half a trace."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as plain:
            if path.suffix == ".gz":
                # No time and no name in gzip's header: equal traces give equal files.
                with gzip.GzipFile("", "wb", 6, plain, mtime=0) as out:
                    yield out
            else:
                yield plain
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
