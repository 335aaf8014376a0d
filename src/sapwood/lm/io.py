"""Loading and saving of language models of any kind: sapwood's own files, and ARPA."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import TypeAlias, get_args

from sapwood.errors import InputError, ModelError, UsageError
from sapwood.lm.latent.bigram import LatentBigram
from sapwood.lm.latent.mixed_order import MixedOrder
from sapwood.lm.mixture import Mixture
from sapwood.lm.ngram.arpa import read_arpa, write_arpa
from sapwood.lm.ngram.model import NgramModel
from sapwood.storage.arrays import read_header
from sapwood.storage.files import COMPRESSED, STANDARD_STREAM, check_readable, explained, is_regular, name_of

AnyModel: TypeAlias = LatentBigram | MixedOrder | Mixture | NgramModel
_KINDS: dict[str, type[AnyModel]] = {model.kind: model for model in get_args(AnyModel)}
# Descriptions of other kinds of files in messages.
_OTHERS = {
    "counts": "counts",
    "model": "a grammar",
    "bundle": "grammars",
    "corpus": "a treebank",
    "checkpoint": "the state of a training run",
}
_ARPA_NAMES = tuple(f".arpa{ending}" for ending in ("", *COMPRESSED))
_ARPA_START, _GZIP_START = b"\\data\\", b"\x1f\x8b"


def load_model(path: str | Path) -> AnyModel:
    """Read a language model of any kind, including ARPA files."""
    name = str(path)
    if name == STANDARD_STREAM or (Path(path).exists() and not Path(path).is_dir() and not is_regular(path)):
        raise UsageError(f"{name_of(path)}: a model is read from a file; name one")
    check_readable(path)
    with explained(path), Path(path).open("rb") as stream:
        start = stream.read(4096)
    if is_arpa_name(path) or _begins_as_arpa(start):
        if start.startswith(_GZIP_START) and not name.endswith(".gz"):
            raise InputError(f"{path}: this is compressed; give it a name that ends in .gz")
        return read_arpa(path)
    try:
        kind = str(read_header(path).get("kind"))
    except ModelError as error:
        raise ModelError(
            f"{path}: not a language model, or damaged at its start; `sapwood lm train` writes models"
        ) from error
    if kind not in _KINDS:
        raise ModelError(f"{path}: holds {held(kind)}, not a language model; `sapwood lm train` writes those")
    return _KINDS[kind].load(path)


def save_model(model: AnyModel, path: str | Path) -> None:
    """Write a model to a file: an n-gram model in the ARPA format if the name ends in `.arpa` or `.arpa.gz`."""
    if not is_arpa_name(path):
        model.save(path)
    elif isinstance(model, NgramModel):
        write_arpa(model, path)
    else:
        raise UsageError(f"{path}: ARPA files hold n-gram models only, those of method kn and mkn")


def is_arpa_name(path: str | Path) -> bool:
    """Return whether the file name is that of an ARPA file."""
    return str(path).endswith(_ARPA_NAMES)


def _begins_as_arpa(start: bytes) -> bool:
    try:
        if start.startswith(_GZIP_START):
            start = zlib.decompressobj(16 + zlib.MAX_WBITS).decompress(start, 4096)
    except (zlib.error, gzip.BadGzipFile):
        return False
    return start.lstrip().startswith(_ARPA_START)


def kind_of(path: str | Path) -> str | None:
    """Return the kind of a sapwood file, or None if it is not one (a pipe never is)."""
    if not is_regular(path):
        return None
    try:
        return str(read_header(path).get("kind"))
    except ModelError:
        if str(path).endswith(".sapwood"):  # a damaged one
            raise
        return None


def held(kind: str) -> str:
    """Return the description of a kind of file in messages."""
    if kind in _KINDS:
        return f"{'an' if kind.startswith('n') else 'a'} {_KINDS[kind].title}"
    return _OTHERS.get(kind, f"a {kind}")


def latent_part(model: AnyModel) -> LatentBigram:
    """Return the model if it has states, else its first part that has; among lags, the first."""
    if isinstance(model, LatentBigram):
        return model
    if isinstance(model, MixedOrder):
        return model.lags[0]
    for part in model.models if isinstance(model, Mixture) else ():
        if isinstance(part, LatentBigram | MixedOrder):
            return latent_part(part)
    raise ModelError("an n-gram model, which has no hidden states; train one with method em, for instance")
