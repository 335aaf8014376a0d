"""Requirements of benchmarks, checked before they start."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

PARTS = ("train", "dev", "test")
# Files that a process has open besides its connections.
_OTHER_FILES = 100


def require(
    *,
    treebanks: Iterable[Path] = (),
    parts: Sequence[str] = PARTS,
    files: Iterable[Any] = (),
    packages: str = "",
    outputs: Iterable[Path | None] = (),
    connections: int = 0,
) -> None:
    """Exit with a message that names everything that is missing, and how to get it.

    Parameters
    ----------
    treebanks, parts
        Directories, and the parts that each must have: NAME.mrg or NAME.mrg.gz.
    files
        Other files; None is skipped.
    packages
        Packages to import, separated by spaces.
    outputs
        Files to write, whose directories must exist; None is skipped.
    connections
        Number of connections from several addresses of the loopback network, all open at once: needs Linux, and a
        limit of open files that is high enough.
    """
    missing = [
        f"{path / part}.mrg is missing: docs/data.md describes the treebanks and the script that prepares them"
        for path in treebanks
        for part in parts
        if not any((path / f"{part}{ending}").exists() for ending in (".mrg", ".mrg.gz"))
    ]
    missing += [f"{path} is missing" for path in files if path is not None and not Path(path).exists()]
    missing += [
        f"the package {name} is not installed: pip install {name}"
        for name in packages.split()
        if importlib.util.find_spec(name) is None
    ]
    missing += [
        f"{Path(path).parent} is missing, the directory of {Path(path).name}"
        for path in outputs
        if path is not None and not Path(path).parent.is_dir()
    ]
    missing += list(_missing_for(connections)) if connections else []
    if missing:
        print(f"{Path(sys.argv[0]).name} cannot start:", *missing, sep="\n  ", file=sys.stderr)
        raise SystemExit(2)


def _missing_for(connections: int) -> Iterator[str]:
    """Yield what connections of this machine to itself lack."""
    if not sys.platform.startswith("linux"):
        yield f"Linux is needed, for addresses of the loopback network and /proc; this is {sys.platform}"
        return
    import resource

    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if allowed != resource.RLIM_INFINITY and allowed < connections + _OTHER_FILES:
        yield f"{connections + _OTHER_FILES:,} open files are needed, and {allowed:,} are allowed: raise `ulimit -Hn`"
