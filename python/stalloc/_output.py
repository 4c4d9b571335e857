"""Output files that the user names, written as Go's package internal/output does.

A regular file is replaced atomically: it is written under another name beside its place and
renamed, so readers and crashes see the old file or the new one. A device or a pipe is written in
place, because a rename would replace it. Links are followed.
"""

import contextlib
import errno
import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from typing import IO, Optional


class Output:
    """One output file. The constructor raises OSError if it cannot be written, before the work.

    "-" is standard output. From then on the program's own prints go to standard error, so that
    the two do not mix.
    """

    def __init__(self, path: str) -> None:
        self.folder = tempfile.gettempdir()  # for what is kept until then
        self._open: Optional[int] = None  # written in place
        self._mode = 0o644
        if path == "-":
            sys.stdout.flush()
            self._open = os.dup(1)
            os.dup2(2, 1)
            return
        self._place = os.path.realpath(path)
        try:
            mode = os.stat(path).st_mode
        except FileNotFoundError:
            mode = 0
        if not path:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if mode and not (stat.S_ISREG(mode) and os.path.lexists(self._place)):
            # Not waiting for the reader of a pipe, but then for it to read.
            self._open = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_NONBLOCK)
            os.set_blocking(self._open, True)
            return
        self.folder = os.path.dirname(self._place)
        if mode:
            self._mode = stat.S_IMODE(mode)

    @contextlib.contextmanager
    def whole(self) -> Iterator[IO[bytes]]:
        """A file to write to, once; afterwards it is moved to its place."""
        if self._open is not None:
            with os.fdopen(self._open, "wb") as file:
                yield file
            return
        name = os.fsdecode(os.fsencode(os.path.basename(self._place))[:200])
        handle, beside = tempfile.mkstemp(dir=self.folder, prefix=f".{name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                yield file
            os.chmod(beside, self._mode)
            os.replace(beside, self._place)
        except BaseException:
            os.unlink(beside)
            raise
