"""Copies of directories."""

from __future__ import annotations

import errno
import os
import re
import warnings
from collections.abc import Callable, Iterable

# By themselves: a program may put our functions into the place of shutil's.
from shutil import copy2 as _shutil_copy2, copytree as _shutil_copytree
from typing import Any, Union

from . import _files, _gush
from ._copy import copy2
from ._errors import TreeError
from ._files import AnyPath, PathGiven

Ignore = Union[Callable[[str, list[str]], Iterable[str]], Callable[[bytes, list[bytes]], Iterable[bytes]]]

_PRESERVED = ("mode", "timestamps", "xattr")

# Why an open of a link that leads nowhere fails.
_NOWHERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


def copytree(
    src: AnyPath,
    dst: PathGiven,
    symlinks: bool = False,
    ignore: Ignore | None = None,
    copy_function: Callable[[str, str], object] = copy2,
    ignore_dangling_symlinks: bool = False,
    dirs_exist_ok: bool = False,
    *,
    threads: int = 0,
    preserve: Iterable[str] = _PRESERVED,
    verify: bool = False,
    on_progress: Callable[[int, int], object] | None = None,
) -> PathGiven:
    """Copy a directory with all that is in it, on several threads, and return ``dst``.

    As :func:`shutil.copytree`: links are followed unless ``symlinks`` is true, all entries that can
    be copied are, and those that cannot, such as FIFOs and sockets, are in one :class:`TreeError`,
    which is a :class:`shutil.Error`. Devices are refused, where shutil reads them. ``dst`` may be
    below ``src``: what the call itself makes there is not copied.

    :param ignore: called with each directory and the names in it, as by shutil, before the first is copied; returns the names to
        leave out. :func:`shutil.ignore_patterns` makes one.
    :param copy_function: called with the names of each file and of its copy. With a function other
        than ``copy2`` of gush or shutil, shutil copies the tree on one thread, without
        ``threads``, ``preserve``, ``verify`` and ``on_progress``.
    :param ignore_dangling_symlinks: leave out links that lead nowhere, where links are followed,
        instead of reporting them.
    :param threads: 0 means one a processor, or up to 64 where they mostly wait for a server or a disk.
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
    if copy_function not in (copy2, _shutil_copy2):
        ours = {"threads": threads, "preserve": preserve != _PRESERVED, "verify": verify, "on_progress": on_progress}
        if given := ", ".join(name for name, value in ours.items() if value):
            raise TypeError(f"{given} cannot be given with copy_function, by which shutil copies the files")
        by_shutil: PathGiven = _shutil_copytree(
            src, dst, symlinks, ignore, copy_function, ignore_dangling_symlinks, dirs_exist_ok  # type: ignore[type-var, arg-type]
        )
        return by_shutil
    os.scandir(src).close()
    if not dirs_exist_ok and os.path.lexists(dst):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), _files.plain(dst))
    # Before anything is made, which may be below the source.
    left_out = [] if ignore is None else _ignored(_files.plain(src), ignore, not symlinks)
    source, target = os.fsdecode(src), os.fsdecode(dst)
    left_out += _made_below(source, target)
    os.makedirs(os.path.dirname(os.path.abspath(target)), exist_ok=True)
    failed, texts = _gush.copy_tree(
        source,
        target,
        threads=threads,
        symlinks=symlinks,
        left_out=[_pattern(path) for path in left_out],
        preserve=list(preserve),
        verify=verify,
        on_progress=on_progress,
    )
    for text in texts:
        warnings.warn(text, RuntimeWarning, stacklevel=2)
    if ignore_dangling_symlinks:
        failed = [entry for entry in failed if not (entry[-1] in _NOWHERE and _is_dangling(entry[0]))]
    if failed:
        first = next((number for *_, number in failed if number is not None), None)
        failures = [(os.fspath(one), os.fspath(other), text) for one, other, text, _ in failed]
        raise TreeError(failures, first)
    return dst


def _is_dangling(path: Any) -> bool:
    """Whether a path is a symbolic link that leads to nothing."""
    return os.path.islink(path) and not os.path.exists(path)


def _made_below(source: str, target: str) -> list[str]:
    """The path from ``source`` of the first directory that a copy to ``target`` makes below it."""
    source, target = os.path.realpath(source), os.path.realpath(target)
    if os.path.commonpath([source, target]) != source or os.path.lexists(target):
        return []
    while not os.path.lexists(parent := os.path.dirname(target)):
        target = parent
    return ["/" + os.path.relpath(target, source)]


def _pattern(path: str) -> str:
    """A path from the root of the tree as a pattern of gush, with nothing in it that means more."""

    def literal(found: re.Match[str]) -> str:
        # White space at the end of a pattern is cut off, but not in brackets, which match one byte.
        return f"[{found[0]}]" if found[0] in " \t\n\r\v\f" else f"\\{found[0]}"

    return re.sub(r"[^\w/\udc80-\udcff]", literal, path)


def _ignored(src: str | bytes, ignore: Callable[[Any, list[Any]], Iterable[Any]], follows: bool) -> list[str]:
    """The paths below ``src`` that ``ignore`` names."""
    paths: list[str] = []

    def look(directory: Any, below: str, above: list[tuple[int, int]]) -> None:
        try:
            about = os.stat(directory)
            with os.scandir(directory) as found:
                entries = list(found)
        except OSError:
            return  # The copy meets the same, and reports it.
        # A link that leads to a directory above is reported by the copy, too.
        if (about.st_dev, about.st_ino) in above:
            return
        above = [*above, (about.st_dev, about.st_ino)]
        ignored = set(ignore(directory, [entry.name for entry in entries]))
        for entry in entries:
            path = f"{below}/{os.fsdecode(entry.name)}"
            if entry.name in ignored:
                paths.append(path)
            elif entry.is_dir(follow_symlinks=follows):
                look(os.path.join(directory, entry.name), path, above)

    look(src, "", [])
    return paths
