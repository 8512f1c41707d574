"""Commands, one into the other."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
from collections.abc import Sequence
from typing import Any

from . import _files

_PIPE_BYTES = 1 << 20


def pipeline(stages: Sequence[Any], *, check: bool = True) -> list[int]:
    """Run commands with large pipes between them, wait for all, and return their exit statuses.

    A command is a list or tuple of arguments. The first stage may be a source instead, and the last one a target: a path, a
    file, or a descriptor. Without them the commands have this program's standard input and output::

        gush.pipeline(["access.log.gz", ["gzip", "-dc"], ["sort"], "sorted.log"])

    With ``check``, a command that fails raises :class:`subprocess.CalledProcessError`; one that SIGPIPE ended because its reader
    had enough has not failed. Whatever ends this function early ends the commands, too.
    """
    inner = list(stages)
    source = inner.pop(0) if inner and not _is_command(inner[0]) else None
    target = inner.pop() if inner and not _is_command(inner[-1]) else None
    if not inner:
        raise ValueError("a pipeline needs a command, which is a list of arguments")
    for stage in inner:
        if not _is_command(stage):
            raise TypeError(f"{stage!r} stands between commands, and is none: a command is a list of arguments")
        if not stage:
            raise ValueError("an empty list is not a command")
    running: list[subprocess.Popen[bytes]] = []
    ours: list[int] = []
    try:
        reading = _opened(source, os.O_RDONLY, ours)
        writing = _opened(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, ours)
        for at, stage in enumerate(inner):
            following = None
            out = writing
            if at + 1 < len(inner):
                following, out = os.pipe()
                ours += [following, out]
                _grow(out)
            running.append(subprocess.Popen(stage, stdin=reading, stdout=out))
            # A reader learns of the end only when nobody else has the pipe.
            for fd in (reading, out):
                if fd in ours:
                    os.close(fd)
                    ours.remove(fd)
            reading = following
        statuses = [process.wait() for process in running]
    except BaseException:
        for process in running:
            process.kill()
        for process in running:
            process.wait()
        raise
    finally:
        for fd in ours:
            os.close(fd)
    if check:
        for at, (stage, status) in enumerate(zip(inner, statuses)):
            if status != 0 and not (status == -signal.SIGPIPE and at + 1 < len(inner)):
                raise subprocess.CalledProcessError(status, stage)
    return statuses


def _is_command(stage: Any) -> bool:
    return isinstance(stage, (list, tuple))


def _opened(end: Any, flags: int, ours: list[int]) -> int | None:
    if end is None:
        return None
    if isinstance(end, (str, bytes, os.PathLike)):
        ours.append(os.open(end, flags | os.O_CLOEXEC, 0o666))
        return ours[-1]
    if hasattr(end, "flush"):
        end.flush()
    return _files.descriptor(end, "source" if flags == os.O_RDONLY else "target")


def _grow(pipe: int) -> None:
    try:
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    except OSError:
        pass  # The user has many pipes already: a small one works, too.
