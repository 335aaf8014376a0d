"""The model that ships with sapwood; `ATTRIBUTION.md` beside it says what it was trained on."""

from __future__ import annotations

import os
from pathlib import Path

from sapwood.errors import InputError

# Included models, and the files beside this one that they are in.
INCLUDED = {"en": "english.sapwood", "default": "english.sapwood"}


def default_model_path() -> Path:
    """Return the path of the included English model."""
    path = Path(__file__).with_name(INCLUDED["default"])
    if not path.is_file():  # a build from source may lack it
        raise InputError(f"{path}: the included model is missing from this installation; name another one")
    return path


def find_model(name: str | os.PathLike[str]) -> Path:
    """Return the path of an included model (`en` or `default`); anything else, and any file there is, is a path."""
    return default_model_path() if str(name) in INCLUDED and not os.path.exists(name) else Path(name)  # noqa: PTH110
