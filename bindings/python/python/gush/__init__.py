"""Moves bytes between files, pipes and sockets by the fastest sound way of the running Linux kernel.

>>> import gush
>>> with open("/proc/version", "rb") as source, open("/dev/null", "wb") as target:
...     report = gush.copy(source, target)
"""

from ._copy import Report, copy, copy2, copyfile, copyfileobj, copypath
from ._errors import Error, Refused, TreeError
from ._gush import doctor
from ._pipeline import pipeline
from ._tree import copytree
from ._writer import Writer

__all__ = [
    "Error",
    "Refused",
    "Report",
    "TreeError",
    "Writer",
    "copy",
    "copy2",
    "copyfile",
    "copyfileobj",
    "copypath",
    "copytree",
    "doctor",
    "pipeline",
]
__version__: str = doctor()["version"]
