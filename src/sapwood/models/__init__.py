"""Models by name: the English one that ships with sapwood, and those of installed packages.

A package offers a model by the entry point group `sapwood.models`, whose entries lead to the path of a model file:

    [project.entry-points."sapwood.models"]
    is = "sapwood_model_is:MODEL"

`sapwood package` makes such packages (`sapwood.interop.packages`). `ATTRIBUTION.md` beside this file says what the
included model was trained on.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from sapwood._version import __version__
from sapwood.errors import InputError, ModelError
from sapwood.run.plugins import plugins

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

# Included models, and the files beside this one that they are in.
INCLUDED = {"en": "english.sapwood", "default": "english.sapwood"}
GROUP = "sapwood.models"
# What packages say of themselves, in the order of `InstalledModel`.
_FIELDS = ("Name", "Version", "License-Expression", "Summary")
# What can be the name of a model; anything else is a path.
NAME = re.compile(r"[a-z][a-z0-9_]*(-[a-z0-9_]+)*")


class InstalledModel(NamedTuple):
    """A model that has a name here: the package it comes with, that package's version and licence, and what it is."""

    name: str
    package: str
    version: str
    licence: str
    summary: str


def default_model_path() -> Path:
    """Return the path of the included English model."""
    path = Path(__file__).with_name(INCLUDED["default"])
    if not path.is_file():  # a build from source may lack it
        raise InputError(f"{path}: the included model is missing from this installation; name another one")
    return path


def find_model(name: str | os.PathLike[str]) -> Path:
    """Return the path of a model: a file, or else the included or installed model of that name.

    Any file goes before a model of its name, and `en` (also `default`) is always the included one. Raises
    `InputError`, with the names there are, for a name that is neither. What cannot be a name is taken for a path,
    whether or not there is such a file.
    """
    if os.path.exists(name) or not NAME.fullmatch(str(name)):  # noqa: PTH110
        return Path(name)
    if str(name) in INCLUDED:
        return default_model_path()
    others = plugins(GROUP)
    if str(name) not in others:
        raise InputError(
            f"{name}: no such file or directory, nor an installed model; installed are: "
            f"{', '.join(dict.fromkeys(['en', *others]))}; a wheel that `sapwood package` made adds one "
            "(pip install FILE.whl)"
        )
    found = others[str(name)]
    if not isinstance(found, str | os.PathLike) or not os.path.isfile(found):  # noqa: PTH113
        raise ModelError(f"{name}: its package leads to {found!r}, which is no file; install that package again")
    return Path(found)


def installed_models() -> list[InstalledModel]:
    """Return the models that have a name here, the included one first.

    Examples
    --------
    >>> installed_models()[0].name
    'en'
    """
    from importlib.metadata import entry_points  # takes its time

    summary = "English, from the openly licensed part of GUM; included"
    found = [InstalledModel("en", "sapwood", __version__, "CC-BY-SA-4.0", summary)]
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        if entry.name not in INCLUDED:
            found.append(InstalledModel(entry.name, *(_told(entry, field) for field in _FIELDS)))
    return found


def _told(entry: EntryPoint, field: str) -> str:
    """Return what the package of an entry point says of itself."""
    about = entry.dist.metadata if entry.dist is not None else None
    return str(about[field]) if about is not None and field in about else "unknown"
