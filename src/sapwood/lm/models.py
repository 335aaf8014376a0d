"""Reading a language model from a file without knowing of which kind it is."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias, get_args

from sapwood.errors import ModelError
from sapwood.lm.latent_model import LatentBigram
from sapwood.lm.mixed_order import MixedOrder
from sapwood.lm.mixture import Mixture
from sapwood.lm.ngram_model import NgramModel
from sapwood.storage import read_header

AnyModel: TypeAlias = LatentBigram | MixedOrder | Mixture | NgramModel
_KINDS: dict[str, type[AnyModel]] = {model.kind: model for model in get_args(AnyModel)}


def load_model(path: str | Path) -> AnyModel:
    """Read a language model of any kind."""
    kind = read_header(path).get("kind")
    if kind not in _KINDS:
        raise ModelError(f"{path}: holds a {kind}, not a language model; `sapwood lm train` writes those")
    return _KINDS[kind].load(path)
