"""What a type checker makes of calls: `mypy --strict` reads this file, and nothing runs it."""

import io
import shutil
from pathlib import Path
from typing import assert_type

import gush

assert_type(gush.copytree("a", Path("b"), True, shutil.ignore_patterns("*.o")), Path)
assert_type(gush.copytree(b"a", b"b", ignore=lambda at, names: [name for name in names if name.startswith(b".")]), bytes)
gush.copytree("a", "b", copy_function=shutil.copyfile)
gush.copytree("a", "b", copy_function=gush.copypath)
gush.copytree(3, "b")  # type: ignore[arg-type]
gush.copyfileobj(io.BytesIO(), open("b", "wb"))
gush.copyfileobj(io.StringIO(), open("b", "wb"))  # type: ignore[misc]
assert_type(gush.copypath("a", Path("b")), Path | str | bytes)
