"""Requirements of benchmarks, checked before they start."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

PARTS = ("train", "dev", "test")


def require(
    *, treebanks: Iterable[Path] = (), parts: Sequence[str] = PARTS, files: Iterable[Any] = (), packages: str = ""
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
    if missing:
        print(f"{Path(sys.argv[0]).name} cannot start:", *missing, sep="\n  ", file=sys.stderr)
        raise SystemExit(2)
