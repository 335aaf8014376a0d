"""Versions of packages that client and workers must have in common."""

from __future__ import annotations

import contextlib
import platform
from functools import cache
from importlib import metadata

# Packages that must have the same version everywhere: for identical results and compatible messages.
_SAME = ("sapwood", "numpy", "scipy", "distributed")


@cache
def versions() -> dict[str, str]:
    """Return the local versions of the packages that must be the same everywhere."""
    python = platform.python_version().rpartition(".")[0]
    found = {"Python": python}
    for name in _SAME:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def difference(here: dict[str, str], there: dict[str, str], worker: str) -> str:
    """Return the problem with a worker's versions; empty if there is none."""
    for name, version in here.items():
        if name not in there:
            return f"worker {worker} has no {name}; install sapwood {here['sapwood']} and distributed where it runs"
        if there[name] != version:
            return (
                f"worker {worker} has {name} {there[name]}, and here it is {version}; results are the same only with "
                "the same versions everywhere"
            )
    return ""
