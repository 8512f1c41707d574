"""Copies between open files, and of files by name."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Callable
from dataclasses import dataclass

# By itself: a program may put our function into the place of shutil's.
from shutil import copyfileobj as _copyfileobj
from typing import TYPE_CHECKING, Any, AnyStr

from . import _files, _gush
from ._errors import Error
from ._files import AnyPath, OpenFile, PathGiven

if TYPE_CHECKING:
    from _typeshed import SupportsRead, SupportsWrite


@dataclass(frozen=True)
class Report:
    """The account of a copy."""

    bytes: int
    """Bytes that the target gained, holes included."""
    hole_bytes: int
    """The holes among them."""
    seconds: float
    """The time that the copy took."""
    method: str | None
    """The method that moved most of the bytes, None if there were none."""
    explanation: str
    """Which methods were picked and which refused, and why: a line each."""


def copy(
    src: OpenFile,
    dst: OpenFile,
    *,
    length: int | None = None,
    method: str | None = None,
    isolated: bool = False,
    limit: int | None = None,
    on_progress: Callable[[int, int | None], object] | None = None,
) -> Report:
    """Copy from one open file to another, from where they are to the end of the source.

    ``src`` and ``dst`` are binary files, sockets, pipes, or anything else with ``fileno()``, or file descriptors. Bytes in the
    buffers of Python's files are respected: a buffered target is flushed first, and both files are positioned after the last
    byte copied afterwards. A socket with a timeout is waited for without it. Into a
    socket without one, bytes pass through memory: a splice could not be interrupted there.

    :param length: the most bytes to copy.
    :param method: one of ``doctor()["methods"]``, used or refused (:class:`Refused`) and never replaced.
    :param isolated: never let a later write to the source file show in what was already sent to a pipe or socket.
    :param limit: the most bytes a second.
    :param on_progress: called with the bytes so far, and the bytes expected or None, several times a second and at
        the end. An exception from it ends the copy.

    The interpreter is free meanwhile. Ctrl-C ends the copy with KeyboardInterrupt; bytes taken from a pipe may be lost then.

    Raises :class:`Error`, TypeError for text files, io.UnsupportedOperation for files in memory, ValueError for closed files.
    """
    source, target = _files.descriptor(src, "source"), _files.descriptor(dst, "target")
    if length is not None and length < 0:
        raise ValueError(f"length is {length}")
    if hasattr(dst, "flush"):
        dst.flush()
    ahead = b""
    source_before = target_before = 0
    source_has_buffer, target_has_buffer = hasattr(src, "peek"), hasattr(dst, "peek")
    if source_has_buffer and _files.is_seekable(src):
        source_before = _files.to_own_position(src, source)
    elif source_has_buffer:
        ahead = _files.read_ahead(src, length)
        source_has_buffer = False
    if target_has_buffer and _files.is_seekable(dst):
        target_before = _files.to_own_position(dst, target)
    else:
        target_has_buffer = _files.is_seekable(dst) and hasattr(dst, "raw")
    if ahead:
        _write_all(target, ahead, dst)
        length = None if length is None else length - len(ahead)
    try:
        moved = _gush.move_bytes(
            source,
            target,
            length=length,
            method=method,
            isolated=isolated,
            limit=limit,
            on_progress=_ahead_of(on_progress, len(ahead)),
        )
    except Error as error:
        error.delivered_bytes += len(ahead)
        _files.add_name(error, dst if error.side == "target" else src)
        raise
    finally:
        if source_has_buffer:
            _files.to_position_of(src, source, source_before)
        if target_has_buffer:
            _files.to_position_of(dst, target, target_before)
    count, holes, seconds, used, explanation = moved
    return Report(count + len(ahead), holes, seconds, used, explanation)


def _ahead_of(callback: Callable[[int, int | None], object] | None, before: int) -> Any:
    if callback is None or before == 0:
        return callback
    return lambda count, expected: callback(count + before, None if expected is None else expected + before)


def _write_all(fd: int, data: bytes, dst: Any) -> None:
    """Sends the first bytes by the native writer, which waits where a target does not block."""
    writer = _gush.Writer()
    writer.open(fd, dst, _files.name(dst))
    writer.write(data)
    writer.flush()


def copyfileobj(fsrc: SupportsRead[AnyStr], fdst: SupportsWrite[AnyStr], length: int = 0) -> None:
    """Copy from one file object to another, as :func:`shutil.copyfileobj` does.

    Binary files of :func:`open` and of tempfile are copied by :func:`copy`. All other objects are
    copied by their ``read`` and ``write``, in pieces of ``length``: text files, compressed files,
    members of archives, files in memory, wrappers.
    """
    if _files.is_plain(fsrc) and _files.is_plain(fdst) and fsrc.readable() and fdst.writable():
        copy(fsrc, fdst)
    else:
        _copyfileobj(fsrc, fdst, length)


def copyfile(src: AnyPath, dst: PathGiven, *, follow_symlinks: bool = True) -> PathGiven:
    """Copy the content of a file to another name, as :func:`shutil.copyfile` does, and return ``dst``.

    Raises :class:`shutil.SameFileError`, :class:`shutil.SpecialFileError` for FIFOs, and :class:`Error` or OSError.
    """
    source_stat, target_stat = _stat(src), _stat(dst)
    if source_stat and target_stat and os.path.samestat(source_stat, target_stat):
        raise shutil.SameFileError(f"{src!r} and {dst!r} are the same file")
    for path, found in ((src, source_stat), (dst, target_stat)):
        if found and stat.S_ISFIFO(found.st_mode):
            raise shutil.SpecialFileError(f"`{os.fsdecode(path)}` is a named pipe")
    if not follow_symlinks and os.path.islink(src):
        name = _files.plain(src)
        os.symlink(os.readlink(name) if isinstance(name, str) else os.readlink(name), dst)
        return dst
    if source_stat and stat.S_ISDIR(source_stat.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(src))
    reading, writing = os.O_RDONLY, os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    # Not open(), which asks for what makes a file object.
    source = os.open(src, reading)
    try:
        try:
            target = os.open(dst, writing, 0o666)
        except IsADirectoryError as error:
            if os.path.exists(dst):
                raise
            raise FileNotFoundError(errno.ENOENT, f"directory does not exist: {os.fsdecode(dst)}") from error
        try:
            _gush.copy_opened((source, reading), (target, writing))
        except Error as error:
            error.filename = os.fsdecode(dst if error.side == "target" else src)
            raise
        finally:
            os.close(target)
    finally:
        os.close(source)
    return dst


def _stat(path: AnyPath) -> os.stat_result | None:
    try:
        return os.stat(path)
    except OSError:
        return None


def copypath(src: AnyPath, dst: PathGiven, *, follow_symlinks: bool = True) -> PathGiven | str | bytes:
    """Copy a file with its mode, as :func:`shutil.copy` does, and return the new name.

    ``dst`` may be a directory.
    """
    name = _target(src, dst)
    copyfile(src, name, follow_symlinks=follow_symlinks)
    shutil.copymode(src, name, follow_symlinks=follow_symlinks)
    return name


def copy2(src: AnyPath, dst: PathGiven, *, follow_symlinks: bool = True) -> PathGiven | str | bytes:
    """Copy a file with its mode, times and extended attributes, as :func:`shutil.copy2` does, and return the new name.

    ``dst`` may be a directory. For ``shutil.copytree(src, dst, copy_function=gush.copy2)`` and ``shutil.move``.
    """
    name = _target(src, dst)
    copyfile(src, name, follow_symlinks=follow_symlinks)
    shutil.copystat(src, name, follow_symlinks=follow_symlinks)
    return name


def _target(src: AnyPath, dst: PathGiven) -> PathGiven | str | bytes:
    """The name of the copy: ``dst``, or the name of ``src`` within it if it is a directory."""
    return _within(_files.plain(dst), _files.plain(src)) if os.path.isdir(dst) else dst


def _within(directory: str | bytes, src: str | bytes) -> str | bytes:
    """The name of a copy of ``src`` in a directory. As os.path.join(), where one is bytes both have to be."""
    if isinstance(directory, str) and isinstance(src, str):
        return os.path.join(directory, os.path.basename(src))
    if isinstance(directory, bytes) and isinstance(src, bytes):
        return os.path.join(directory, os.path.basename(src))
    raise TypeError("Can't mix strings and bytes in path components")
