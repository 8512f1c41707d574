"""What a Python file has besides its descriptor: buffers, a position, a name."""

from __future__ import annotations

import io
import os
import sys
from typing import Any, BinaryIO, Protocol, TypeGuard, TypeVar, Union

AnyPath = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]
PathGiven = TypeVar("PathGiven", bound=AnyPath)


class HasDescriptor(Protocol):
    """A file, pipe or socket, or anything else with ``fileno()``."""

    def fileno(self) -> int:
        """The file descriptor."""


OpenFile = Union[int, HasDescriptor]


def plain(path: AnyPath) -> str | bytes:
    """As os.fspath(), whose types know no path that may be of either kind."""
    return path if isinstance(path, (str, bytes)) else path.__fspath__()


def descriptor(file: Any, what: str) -> int:
    """The descriptor of a file object, or of a number.

    Raises TypeError for a text file and for anything without fileno(), io.UnsupportedOperation for a file in memory, and
    ValueError for a closed file.
    """
    if isinstance(file, bool):
        raise TypeError(f"the {what} is a bool, which is no file")
    if isinstance(file, int):
        if file < 0:
            raise ValueError(f"the {what} is {file}, which is no file descriptor")
        return file
    if isinstance(file, (str, bytes, os.PathLike)):
        raise TypeError(f"the {what} is a path: gush.copy() takes open files, gush.copypath() takes paths")
    # The files of the module tempfile are wrapped.
    inner = getattr(file, "file", file)
    if isinstance(inner, io.TextIOBase):
        raise TypeError(f"the {what} is open in text mode: open it with 'b', or pass its .buffer")
    if _translates(inner):
        text = f"the {what}, {type(file).__name__}, translates the bytes of its descriptor: gush.copyfileobj() copies it"
        raise TypeError(text)
    fileno = getattr(file, "fileno", None)
    if fileno is None:
        raise TypeError(f"the {what}, {type(file).__name__}, has no fileno()")
    try:
        fd = fileno()
    except (io.UnsupportedOperation, AttributeError) as error:
        # The buffer of a tar archive's member raises AttributeError: what is below has no fileno().
        text = f"the {what}, {type(file).__name__}, has no file descriptor: gush.copyfileobj() copies it"
        raise io.UnsupportedOperation(text) from error
    if not isinstance(fd, int):
        raise TypeError(f"the {what}'s fileno() is {fd!r}, which is not a number")
    if fd < 0:
        raise ValueError(f"the {what} is closed: its file descriptor is {fd}")
    return fd


def _translates(file: Any) -> bool:
    """Are the bytes of this file others than those of its descriptor, as with gzip.GzipFile or ssl.SSLSocket?"""
    ssl = sys.modules.get("ssl")
    if isinstance(file, io.BytesIO) or getattr(file, "is_gush_writer", False):
        return False
    if isinstance(file, io.BufferedIOBase):
        plain = (io.BufferedReader, io.BufferedWriter, io.BufferedRandom, io.BufferedRWPair)
        return not isinstance(file, plain) or _translates(getattr(file, "raw", None))
    if isinstance(file, io.RawIOBase):
        # What socket.makefile() gives stands before its socket.
        return ssl is not None and isinstance(getattr(file, "_sock", None), ssl.SSLSocket)
    return ssl is not None and isinstance(file, ssl.SSLSocket)


def is_plain(file: Any) -> TypeGuard[BinaryIO]:
    """Whether this object reads and writes its descriptor, with no subclass or wrapper between."""
    if type(file).__module__ == "tempfile":
        file = getattr(file, "file", file)
    if type(file) in (io.BufferedReader, io.BufferedWriter, io.BufferedRandom):
        file = file.raw
    return type(file) is io.FileIO


def name(file: Any) -> str | None:
    """The path of a file, if it has one; the name of a pipe is the number of its descriptor."""
    found = getattr(file, "name", None)
    return os.fsdecode(found) if isinstance(found, (str, bytes)) else None


def add_name(error: OSError, file: Any) -> None:
    """Gives an error the path of a file, if it has one: OSError would print None as a name."""
    found = name(file)
    if found is not None:
        error.filename = found


def is_seekable(file: Any) -> bool:
    """Has the file a position?"""
    seekable = getattr(file, "seekable", None)
    return bool(seekable and seekable())


def read_ahead(file: Any, most: int | None) -> bytes:
    """Bytes of a pipe or socket that lie in the buffer of a reader already, at most so many.

    An empty buffer is filled first, which waits for the source as the copy would.
    """
    peek = getattr(file, "peek", None)
    if peek is None or most == 0:
        return b""
    waiting = len(peek(1))
    wanted = waiting if most is None else min(waiting, most)
    return bytes(file.read(wanted)) if wanted else b""


def to_own_position(file: Any, fd: int) -> int:
    """Brings the descriptor of a buffered file to where the Python file is, and returns where the descriptor was."""
    before = os.lseek(fd, 0, os.SEEK_CUR)
    os.lseek(fd, file.tell(), os.SEEK_SET)
    return before


def to_position_of(file: Any, fd: int, before: int) -> None:
    """Brings a buffered file to where its descriptor is, and makes it forget what it had read."""
    at = os.lseek(fd, 0, os.SEEK_CUR)
    try:
        # A seek within the buffer would keep the buffer, whose bytes may be old.
        file.seek(0, os.SEEK_END)
    except OSError:
        # Files of procfs have no end. A buffer that is kept ends where the descriptor was before.
        os.lseek(fd, before, os.SEEK_SET)
    file.seek(at)
