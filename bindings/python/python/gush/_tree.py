"""Copies of directories."""

from __future__ import annotations

import errno
import os
import re
import warnings
from collections.abc import Callable, Iterable
from typing import Any

from . import _gush
from ._errors import TreeError


# Why an open of a link that leads nowhere fails.
_NOWHERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


def copytree(
    src: Any,
    dst: Any,
    *,
    symlinks: bool = False,
    ignore: Callable[[Any, list[Any]], Iterable[Any]] | None = None,
    ignore_dangling_symlinks: bool = False,
    dirs_exist_ok: bool = False,
    threads: int = 0,
    preserve: Iterable[str] = ("mode", "timestamps", "xattr"),
    verify: bool = False,
    on_progress: Callable[[int, int], object] | None = None,
) -> Any:
    """Copy a directory with all that is in it, on several threads, and return ``dst``.

    As :func:`shutil.copytree`: links are followed unless ``symlinks`` is true, all entries that can be copied are, and those that
    cannot are in one :class:`TreeError`, which is a :class:`shutil.Error`. FIFOs, sockets and devices are made anew, where
    shutil fails.

    :param ignore: called with each directory and the names in it, as by shutil, before the first is copied; returns the names to
        leave out. :func:`shutil.ignore_patterns` makes one.
    :param ignore_dangling_symlinks: leave out links that lead nowhere, where links are followed, instead of telling of them as failures.
    :param threads: 0 means one a processor.
    :param preserve: of ``"mode"``, ``"timestamps"``, ``"ownership"``, ``"links"`` (names of one file stay names of one file) and
        ``"xattr"``.
    :param verify: read each copy again and compare it with its source.
    :param on_progress: called with the entries and bytes that are complete, several times a second and at the end,
        on the calling thread. An exception from it ends the copy.

    Ctrl-C ends the copy with KeyboardInterrupt, and leaves what was copied so far.
    """
    if isinstance(preserve, str):
        raise TypeError(f"preserve takes several names: ({preserve!r},)")
    if threads < 0:
        raise ValueError(f"threads is {threads}")
    os.scandir(src).close()
    parent = os.path.dirname(os.path.abspath(os.fspath(dst)))
    os.makedirs(parent, exist_ok=True)
    if not dirs_exist_ok and os.path.lexists(dst):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), os.fspath(dst))
    failed, told = _gush.copy_tree(
        os.fsdecode(src),
        os.fsdecode(dst),
        threads=threads,
        symlinks=symlinks,
        left_out=[] if ignore is None else _left_out(os.fspath(src), ignore, not symlinks),
        preserve=list(preserve),
        verify=verify,
        on_progress=on_progress,
    )
    for text in told:
        warnings.warn(text, RuntimeWarning, stacklevel=2)
    if ignore_dangling_symlinks:
        failed = [entry for entry in failed if not (entry[-1] in _NOWHERE and _is_dangling(entry[0]))]
    if failed:
        first = next((number for *_, number in failed if number is not None), None)
        failures = [(os.fspath(source), os.fspath(target), text) for source, target, text, _ in failed]
        raise TreeError(failures, first)
    return dst


def _is_dangling(path: Any) -> bool:
    """Whether a path is a symbolic link that leads to nothing."""
    return os.path.islink(path) and not os.path.exists(path)


def _left_out(src: Any, ignore: Callable[[Any, list[Any]], Iterable[Any]], follows: bool) -> list[str]:
    """The paths below ``src`` that ``ignore`` names, as patterns of gush: from the root, with nothing in them that means more."""
    patterns: list[str] = []

    def look(directory: Any, below: str, above: list[tuple[int, int]]) -> None:
        try:
            about = os.stat(directory)
            with os.scandir(directory) as found:
                entries = list(found)
        except OSError:
            return  # The copy meets the same, and tells.
        # A link that leads to a directory above is told of by the copy, too.
        if (about.st_dev, about.st_ino) in above:
            return
        above = [*above, (about.st_dev, about.st_ino)]
        ignored = set(ignore(directory, [entry.name for entry in entries]))
        for entry in entries:
            path = f"{below}/{os.fsdecode(entry.name)}"
            if entry.name in ignored:
                try:
                    path.encode()
                except UnicodeEncodeError as error:
                    raise ValueError(f"a name that is not UTF-8 cannot be left out: {path!r}") from error
                patterns.append(re.sub(r"([^\w/])", r"\\\1", path))
            elif entry.is_dir(follow_symlinks=follows):
                look(os.path.join(directory, entry.name), path, above)

    look(src, "", [])
    return patterns
