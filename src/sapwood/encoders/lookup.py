"""Encoders by path, name or digest: a model names its encoder and has its digest, but not its weights."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from sapwood.encoders.encoder import Encoder, is_encoder
from sapwood.errors import InputError, UsageError

# Folders of encoders, or of folders of encoders, separated as in PATH.
VARIABLE = "SAPWOOD_ENCODERS"
_PACKAGE = re.compile(r"[A-Za-z_]\w{0,79}", re.ASCII)


def find_encoder(given: str | os.PathLike[str] | Encoder) -> Encoder:
    """Return the encoder of a folder, or of an installed package of that name.

    Raises an `InputError` if there is none.
    """
    if isinstance(given, Encoder):
        return given
    if Path(given).is_dir():
        return Encoder(Path(given))
    for folder in _in_package(str(given)):
        return Encoder(folder, name=str(given))
    raise InputError(f"{given}: no such folder, nor an installed package with an encoder")


def encoder_of_model(name: str, digest: str, given: str | os.PathLike[str] | Encoder | None = None) -> Encoder | None:
    """Return the encoder that a model needs.

    Parameters
    ----------
    name, digest
        Its name and digest.
    given
        The encoder to use. By default it is looked for in the folders of `$SAPWOOD_ENCODERS` and in the installed
        package of its name.

    Returns
    -------
    encoder
        None if there is none. A given one with another digest raises a `UsageError`.
    """
    if given is not None:
        found = find_encoder(given)
        if found.digest != digest:
            raise UsageError(
                f"{found.folder}: not the encoder that the model was trained with ({name}, digest {digest[:12]}): its "
                f"digest is {found.digest[:12]}"
            )
        return found
    for folder in (*_in_folders(), *_in_package(name)):
        encoder = Encoder(folder, name=name)
        if encoder.digest == digest:
            return encoder
    return None


def _in_folders() -> Iterator[Path]:
    """Yield the encoders in the folders of the environment variable."""
    for entry in filter(None, os.environ.get(VARIABLE, "").split(os.pathsep)):
        folder = Path(entry)
        for each in (folder, *(sorted(folder.iterdir()) if folder.is_dir() else ())):
            if is_encoder(each):
                yield each


def _in_package(name: str) -> Iterator[Path]:
    """Yield the encoders in the folder of an installed package, which is not imported."""
    if not _PACKAGE.fullmatch(name):
        return
    from importlib.util import find_spec

    spec = find_spec(name)
    for place in (spec.submodule_search_locations or ()) if spec is not None else ():
        for folder in (Path(place), *sorted(path for path in Path(place).iterdir() if path.is_dir())):
            if is_encoder(folder):
                yield folder
