from collections.abc import Callable
from typing import Any

def doctor() -> dict[str, Any]:
    """Facts about the running kernel and this process."""

def move_bytes(
    source: int,
    target: int,
    *,
    length: int | None = None,
    method: str | None = None,
    isolated: bool = False,
    limit: int | None = None,
    on_progress: Callable[[int, int | None], object] | None = None,
) -> tuple[int, int, float, str | None, str]: ...
def copy_opened(source: tuple[int, int], target: tuple[int, int]) -> None: ...
def copy_tree(
    source: str,
    target: str,
    *,
    threads: int,
    symlinks: bool,
    left_out: list[str],
    preserve: list[str],
    verify: bool,
    on_progress: Callable[[int, int], object] | None,
) -> tuple[list[tuple[str, str, str, int | None]], list[str]]: ...

class Writer:
    def open(self, fd: int, file: object, filename: str | None) -> None: ...
    @property
    def technique(self) -> str: ...
    def write(self, data: object, /) -> int: ...
    def flush(self) -> None: ...
    def check_caller(self) -> None: ...
    def finish(self) -> None: ...
