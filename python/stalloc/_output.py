"""Files that a user has named, written as the package internal/output of Go does it.

Where a regular file is, or nothing, a reader and a crash meet the old file or the new one, whole:
it is made beside its place and renamed. Anything else that a name stands for, a device or a pipe,
is written to as it is: a rename would replace it. Links are followed.
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
    """One of them. Making it raises OSError where it cannot be written, before the work.

    "-" is standard output. What the program prints goes to standard error from here on, so that
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
        """What to write it to, once; it is in its place after that."""
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
