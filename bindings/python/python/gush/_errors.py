"""Exceptions: each is an :class:`OSError`, and the kind that its errno stands for."""

from __future__ import annotations

import errno as _errno
import os as _os
import shutil as _shutil
from typing import Any


class Error(OSError):
    """A copy that failed.

    Besides ``errno``, ``strerror`` and ``filename`` of :class:`OSError` it says which system call failed (``operation``) on which
    ``side`` (``"source"`` or ``"target"``), how many bytes had arrived (``delivered_bytes``), and how many were taken from a
    pipe or socket and are lost (``in_flight_bytes``).

    An error with an errno that Python has a class for is of that class, too: ``except FileNotFoundError`` works.
    """

    operation: str | None = None
    side: str | None = None
    delivered_bytes: int = 0
    in_flight_bytes: int = 0

    def __reduce__(self) -> tuple[Any, ...]:
        reduced: Any = super().__reduce__()
        kind, *rest = reduced
        # pickle finds a class by its name, and the classes of _kind() have none in this module.
        return (_of_kind if kind is not Error and kind in _KINDS.values() else kind, *rest)


class Refused(Error):
    """The method asked for by name cannot serve these files. Nothing has moved."""


class TreeError(Error, _shutil.Error):
    """Some entries of a tree were not copied.

    ``failures`` is a list of (source, target, reason), as ``args[0]`` of :class:`shutil.Error` is; ``errno`` and
    ``filename`` are those of the first.
    """

    failures: list[tuple[str, str, str]]

    def __init__(self, failures: list[tuple[str, str, str]], errno: int | None = None) -> None:
        super().__init__(failures)
        self.failures = failures
        if failures:
            self.filename = failures[0][0]
        self.errno = errno

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.failures, self.errno), self.__dict__)

    def __str__(self) -> str:
        source, target, reason = self.failures[0]
        rest = f", and {len(self.failures) - 1} more" if len(self.failures) > 1 else ""
        return f"{source!r} -> {target!r}: {reason}{rest}"


_KINDS: dict[type[OSError], type[Error]] = {OSError: Error}


def _kind(errno: int) -> type[Error]:
    base = type(OSError(errno, ""))
    if base not in _KINDS:
        _KINDS[base] = type(base.__name__, (Error, base), {"__module__": __name__})
    return _KINDS[base]


def _of_kind(errno: int, *arguments: Any) -> Error:
    return _kind(errno)(errno, *arguments)


def make(
    *,
    errno: int | None,
    message: str,
    filename: str | None = None,
    side: str | None = None,
    operation: str | None = None,
    delivered_bytes: int | None = None,
    in_flight_bytes: int = 0,
    refused: bool = False,
) -> Error:
    """The exception for a failure that the native half reports."""
    if refused:
        made: Error = Refused(errno or _errno.EOPNOTSUPP, message)
    elif errno is None:
        made = Error(_errno.EINVAL, message)
    else:
        made = _kind(errno)(errno, message)
    if filename is not None:
        made.filename = _os.fspath(filename)
    made.side, made.operation = side, operation
    made.delivered_bytes, made.in_flight_bytes = delivered_bytes or 0, in_flight_bytes
    return made
