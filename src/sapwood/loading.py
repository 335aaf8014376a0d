"""`load`: whatever is in a file that sapwood wrote."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from sapwood.errors import ModelError
from sapwood.files import check_readable
from sapwood.models import find_model
from sapwood.storage import read_header

if TYPE_CHECKING:
    from sapwood.grammar import TensorGrammar
    from sapwood.induction.induced import InducedModel
    from sapwood.lm.counts import Counts
    from sapwood.lm.models import AnyModel
    from sapwood.trees import Corpus

    Loaded: TypeAlias = TensorGrammar | list[TensorGrammar] | InducedModel | Corpus | Counts | AnyModel


def load(name: str | os.PathLike[str]) -> Loaded:
    """Return what is in a file that sapwood wrote, or the model of a name.

    A model is a `TensorGrammar`, a file with several models a list of them (`Parser` takes either); one of heads or
    spans an `InducedModel`, a corpus a `Corpus`; language models (ARPA files, too) and counts of n-grams are of their
    own classes (`sapwood.lm`).

    Parameters
    ----------
    name
        The path of the file, or the name of a model: `"en"` (also `"default"`) for the included English one, `"is"` for
        that of an installed package. A file of that name goes before a model.

    Examples
    --------
    >>> load("en")
    <TensorGrammar: ... symbols (... states), ... rules, ... words>
    """
    path = find_model(name)
    check_readable(path)
    # The only kind that others write, too.
    kind = "ngram-model" if path.name.endswith((".arpa", ".arpa.gz")) else read_header(path).get("kind")
    if str(kind).endswith("checkpoint"):
        raise ModelError(f"{path}: the state of a training run, which only that run can use; train on with it")
    return _reader(str(kind))(path)


def _reader(kind: str) -> Callable[[Path], Loaded]:
    # Imported when needed: each room takes its time.
    if kind in ("model", "bundle"):
        from sapwood.grammar.bundle import load_models
        from sapwood.grammar.tensor_grammar import TensorGrammar

        return TensorGrammar.load if kind == "model" else load_models
    if kind == "induced-model":
        from sapwood.induction.induced import InducedModel

        return InducedModel.load
    if kind == "corpus":
        from sapwood.trees.corpus import Corpus

        return Corpus.load
    if kind == "counts":
        from sapwood.lm.counts import Counts

        return Counts.load
    from sapwood.lm.models import load_model

    return load_model
