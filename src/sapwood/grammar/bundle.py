"""Several grammars in one file, such as those that were trained on the same trees from different seeds.

A bundle is a file like that of a single grammar (`sapwood.storage`). Arrays of member `i` are named `i.tensors` and so
on; an array of a later member that equals the first member's to the last bit is not stored again, so symbols, rules
and words, which such grammars share, are there once. Each member has its own metadata, which also names the arrays that
it takes from the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from sapwood.errors import GrammarError, ModelError, UsageError
from sapwood.grammar.tensor_grammar import BUNDLE_KIND, TensorGrammar
from sapwood.storage import read_arrays, read_header, write_arrays

BUNDLE_VERSION = 2


def save_models(grammars: Iterable[TensorGrammar], path: str | Path) -> None:
    """Write one or several grammars to one file, whole or not at all; a single one as `TensorGrammar.save` does."""
    members = list(grammars)
    if not members:
        raise UsageError(f"{path}: there are no grammars to save")
    if len(members) == 1:
        members[0].save(path)
        return
    first, _ = members[0]._content()
    stored: dict[str, np.ndarray] = {}
    described = []
    for number, grammar in enumerate(members):
        arrays, metadata = grammar._content()
        shared = [
            name
            for name in sorted(arrays.keys() & first.keys())
            if number > 0 and _same_bits(arrays[name], first[name])
        ]
        described.append({**metadata, "info": dict(grammar.info), "shared": shared})
        stored |= {f"{number}.{name}": array for name, array in arrays.items() if name not in shared}
    write_arrays(path, stored, {"members": described}, kind=BUNDLE_KIND, version=BUNDLE_VERSION)


def load_models(path: str | Path) -> list[TensorGrammar]:
    """Read the grammars of a file that `save_models` or `TensorGrammar.save` wrote; damage raises `ModelError`.

    Arrays that are stored once are shared by the grammars.

    Examples
    --------
    >>> from sapwood.models import default_model_path
    >>> load_models(default_model_path())
    [<TensorGrammar: ... symbols (... states), ... rules, ... words>]
    """
    if read_header(path).get("kind") != BUNDLE_KIND:
        return [TensorGrammar.load(path)]
    arrays, metadata = read_arrays(path, kind=BUNDLE_KIND, version=BUNDLE_VERSION)
    first = _of_member(arrays, 0)
    described = metadata.get("members")
    if not isinstance(described, list) or not described:
        raise ModelError(f"{path}: a bundle without grammars")
    grammars = []
    for number, member in enumerate(described):
        try:
            shared = {name: first[name] for name in member["shared"]}
            grammars.append(TensorGrammar._from_content(shared | _of_member(arrays, number), member))
        except (KeyError, TypeError, GrammarError, ModelError) as error:
            raise ModelError(f"{path}: its grammar {number + 1} is not complete: {error}") from error
    return grammars


def _of_member(arrays: Mapping[str, np.ndarray], number: int) -> dict[str, np.ndarray]:
    """Return the arrays that are stored for a member."""
    prefix = f"{number}."
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _same_bits(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two arrays would be stored as the same bytes; -0.0 is not 0.0 here, and NaN equals itself."""
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
