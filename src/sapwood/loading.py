"""Loading of any file that sapwood wrote."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from sapwood.errors import ModelError
from sapwood.model.installed import find_model
from sapwood.storage.arrays import read_header
from sapwood.storage.files import check_readable

if TYPE_CHECKING:
    from sapwood.induction.induced_model import InducedModel
    from sapwood.lm.counts.counts import Counts
    from sapwood.lm.io import AnyModel
    from sapwood.model.parser_model import ParserModel
    from sapwood.trees import Corpus

    Loaded: TypeAlias = ParserModel | InducedModel | Corpus | Counts | AnyModel


def load(name: str | os.PathLike[str]) -> Loaded:
    """Load a file that sapwood wrote, or a model by name.

    A model of one or several grammars is a `ParserModel`; an induced model of dependencies or spans is an
    `InducedModel`, a corpus a `Corpus`; language models (including ARPA files) and n-gram counts have their own classes
    (`sapwood.lm`).

    Parameters
    ----------
    name
        Path of the file, or the name of a model: `"en"` (also `"default"`) for the included English one, `"is"` for
        that of an installed package, `"hf:owner/name"` for one on the Hugging Face hub. A file of that name takes
        precedence over a model.

    Examples
    --------
    >>> load("en")
    <ParserModel: <TensorGrammar: ... symbols (... states), ... rules, ... words>, CRF, span scorer>
    """
    path = find_model(name)
    check_readable(path)
    # The only format that other programs write as well.
    kind = "ngram-model" if path.name.endswith((".arpa", ".arpa.gz")) else read_header(path).get("kind")
    if str(kind).endswith("checkpoint"):
        raise ModelError(f"{path}: the state of a training run, which only that run can use; train on with it")
    return _reader(str(kind))(path)


def _reader(kind: str) -> Callable[[Path], Loaded]:
    # Imported when needed: each package is slow to import.
    if kind in ("model", "bundle"):
        from sapwood.model.parser_model import ParserModel

        return ParserModel.load
    if kind == "induced-model":
        from sapwood.induction.induced_model import InducedModel

        return InducedModel.load
    if kind == "corpus":
        from sapwood.trees.corpus import Corpus

        return Corpus.load
    if kind == "counts":
        from sapwood.lm.counts.counts import Counts

        return Counts.load
    from sapwood.lm.io import load_model

    return load_model
