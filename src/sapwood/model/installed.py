"""Models by name: the included English model, those of installed packages, and those of the Hugging Face hub.

A package provides a model by the entry point group `sapwood.models`, whose entries are paths of model files:

    [project.entry-points."sapwood.models"]
    is = "sapwood_model_is:MODEL"

`sapwood package` makes such packages (`sapwood.interop.packages`). `ATTRIBUTION.md` in this folder names
the training data of the included model.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

from sapwood._version import __version__
from sapwood.errors import InputError, ModelError, listed, shortened
from sapwood.model.hub import PREFIX, download_model
from sapwood.runtime.registry import installed_entries, package_field, plugins

# Included models, and their files in this folder.
INCLUDED = {"en": "english.sapwood", "default": "english.sapwood"}
GROUP = "sapwood.models"
# Metadata of packages, in the order of `InstalledModel`.
_FIELDS = ("Name", "Version", "License-Expression", "Summary")
# Names of models; anything else is a path.
NAME = re.compile(r"(?=.{1,60}\Z)[a-z][a-z0-9]*([_-][a-z0-9]+)*")


class InstalledModel(NamedTuple):
    """An installed model: its name, package, version, licence and summary."""

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
    """Return the path of a model: a file, or else the included or installed model, or that of the hub, of that name.

    Files take precedence over models of the same name, and `en` (also `default`) is always the included one. A name
    that begins with `hf:` is that of a model on the Hugging Face hub, which is downloaded. Raises `InputError`, with
    the known names, for a name that is neither. Anything that is not a valid name is taken as a path, whether or not
    the file exists.
    """
    if str(name).startswith(PREFIX) and not os.path.lexists(name):
        return download_model(name)
    if os.path.exists(name) or not NAME.fullmatch(str(name)):  # noqa: PTH110
        return Path(name)
    if str(name) in INCLUDED:
        return default_model_path()
    others = plugins(GROUP)
    if str(name) not in others:
        names = dict.fromkeys(["en", *filter(NAME.fullmatch, others)])
        raise InputError(
            f"{name}: no such file or directory, nor an installed model; installed are: {listed(names)}; a wheel that "
            "`sapwood package` made adds one (pip install FILE.whl)"
        )
    found = others[str(name)]
    if not isinstance(found, str | os.PathLike) or not os.path.isfile(found):  # noqa: PTH113
        raise ModelError(f"{name}: its package points to {shortened(repr(found))}, which is not a file; reinstall it")
    return Path(found)


def installed_models() -> list[InstalledModel]:
    """Return the included and installed models, the included one first.

    Examples
    --------
    >>> installed_models()[0].name
    'en'
    """
    summary = "English, from the openly licensed part of GUM; included"
    found = [InstalledModel("en", "sapwood", __version__, "CC-BY-SA-4.0", summary)]
    for entry in sorted(installed_entries(GROUP), key=lambda entry: entry.name):
        if entry.name not in INCLUDED and NAME.fullmatch(entry.name):  # others cannot be named
            found.append(InstalledModel(entry.name, *(package_field(entry, field) or "unknown" for field in _FIELDS)))
    return found
