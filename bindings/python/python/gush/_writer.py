"""A fast file object into a pipe."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING, Any

from . import _files, _gush

# The native base has the methods that are called for each piece. Two native bases do not go together before Python 3.12, so the
# other methods of a file are those written in Python.
if TYPE_CHECKING:
    _File = io.BufferedIOBase
else:
    from _pyio import BufferedIOBase as _File


class Writer(_gush.Writer, _File):
    """A binary file that writes into a pipe faster than the pipe's own file does.

    ``file`` is anything with ``fileno()``, or a file descriptor; into what is no pipe it writes as ``os.write`` does. Small pieces are
    collected until :meth:`flush`, :meth:`close` or the end of a ``with``. ``closefd=False`` leaves ``file`` open then::

        with gush.Writer(process.stdin) as out:
            out.write(block)

    Ctrl-C ends a write that waits for the reader, with KeyboardInterrupt. How much of it has arrived is not known then. After
    this, or another failure, nothing more can be written: :meth:`write` and :meth:`flush` raise OSError with ``errno.EIO``, and
    :meth:`close` only closes.
    """

    is_gush_writer = True

    # close() is called also for an object that was never opened.
    _file: Any = None

    def __init__(self, file: Any, *, closefd: bool = True) -> None:
        fd = _files.descriptor(file, "target")
        if hasattr(file, "flush"):
            file.flush()
        self.open(fd, file, _files.name(file))
        self._file, self._closefd = file, closefd

    def close(self) -> None:
        """Flush, and close the file too unless ``closefd=False`` was given.

        Raises ValueError if the file was closed before, and pieces that were collected are lost.
        """
        if self.closed:
            return
        self.check_caller()
        try:
            self.finish()
        finally:
            super().close()
            if self._file is not None and self._closefd:
                if isinstance(self._file, int):
                    os.close(self._file)
                else:
                    self._file.close()

    def writable(self) -> bool:
        """True."""
        return True

    def fileno(self) -> int:
        """The descriptor written to."""
        if self.closed or getattr(self._file, "closed", False):
            raise ValueError("write to closed file")
        return _files.descriptor(self._file, "target")

    def isatty(self) -> bool:
        """Is the file a terminal?"""
        return os.isatty(self.fileno())


io.BufferedIOBase.register(Writer)
