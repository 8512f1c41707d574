"""A fast file object into a pipe."""

from __future__ import annotations

import io
import os
from typing import Any

from . import _files, _gush
from ._errors import Error


class Writer(io.BufferedIOBase):
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

    def __init__(self, file: Any, *, closefd: bool = True) -> None:
        # close() is called also for an object that was never made.
        self._writer: _gush.Writer | None = None
        # A failure was raised already: close() in the with statement that it leaves must not replace it by another one.
        self._has_failed = False
        fd = _files.descriptor(file, "target")
        if hasattr(file, "flush"):
            file.flush()
        self._file, self._closefd = file, closefd
        try:
            self._writer = _gush.Writer(fd)
        except Error as error:
            _files.add_name(error, file)
            raise

    def _fail(self, error: BaseException) -> None:
        self._has_failed = True
        if isinstance(error, Error):
            _files.add_name(error, self._file)

    def _open(self) -> _gush.Writer:
        if self.closed or self._writer is None or getattr(self._file, "closed", False):
            raise ValueError("write to closed file")
        return self._writer

    @property
    def technique(self) -> str:
        """How the bytes get into the pipe: ``"fresh"``, ``"socket"`` or ``"write"``."""
        return self._open().technique

    def write(self, data: Any, /) -> int:
        """Write all bytes of an object with a buffer, and return their number."""
        writer = self._open()
        if isinstance(data, str):
            raise TypeError("a bytes-like object is required, not 'str'")
        block = data if isinstance(data, bytes) else memoryview(data).cast("B")
        try:
            return writer.write(block)
        except BaseException as error:
            self._fail(error)
            raise

    def flush(self) -> None:
        """Send the pieces that were collected."""
        if self._writer is None:
            return
        writer = self._open()
        try:
            writer.flush()
        except BaseException as error:
            self._fail(error)
            raise

    def close(self) -> None:
        """Flush, and close the file too unless ``closefd=False`` was given."""
        if self.closed:
            return
        try:
            if self._writer is not None and not self._has_failed and not getattr(self._file, "closed", False):
                self.flush()
        finally:
            opened, self._writer = self._writer is not None, None
            super().close()
            if opened and self._closefd:
                if isinstance(self._file, int):
                    os.close(self._file)
                else:
                    self._file.close()

    def writable(self) -> bool:
        """True."""
        return True

    def fileno(self) -> int:
        """The descriptor written to."""
        self._open()
        return _files.descriptor(self._file, "target")

    def isatty(self) -> bool:
        """Is the file a terminal?"""
        return os.isatty(self.fileno())
