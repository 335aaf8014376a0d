"""Several grammars in one file, such as those that were trained on the same trees from different seeds.

A bundle is a file like that of a single grammar (`sapwood.storage`). Arrays of member `i` are named `i.tensors` and so
on; an array of a later member that equals the first member's to the last bit is not stored again, so symbols, rules
and words, which such grammars share, are there once. Each member has its own metadata, which also names the arrays that
it takes from the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from sapwood.errors import ModelError, SapwoodError, UsageError
from sapwood.grammar.tensor_grammar import BUNDLE_KIND, MODEL, GrammarMetadata, TensorGrammar
from sapwood.schema import Schema
from sapwood.storage import read_header

BUNDLE_VERSION = 3


class _Member(GrammarMetadata):
    shared: list[str]


class _Metadata(TypedDict):
    members: list[_Member]


BUNDLE = Schema(
    kind=BUNDLE_KIND,
    version=BUNDLE_VERSION,
    title="bundle of grammars",
    remedy="copy or train it again",
    columns=(),
    metadata=_Metadata,
    parts=".",
)


class PackedGrammar:
    """A grammar that waits in memory, as it is stored: most rule weights are zero, and take no room here.

    >>> grammar = TensorGrammar.from_parts(root={"S": 1.0}, rules={("S", "N", "N"): 1.0}, words={("N", "dogs"): 1.0})
    >>> PackedGrammar(grammar).unpacked() == grammar
    True
    """

    def __init__(self, grammar: TensorGrammar) -> None:
        self._stored = grammar._content()
        self.info = dict(grammar.info)

    def unpacked(self) -> TensorGrammar:
        """Return the grammar."""
        arrays, metadata = self._stored
        return TensorGrammar._from_content(dict(arrays), {**metadata, "info": self.info}, check=False)

    def _content(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        return self._stored

    def save(self, path: str | Path) -> None:
        """Write the grammar as `TensorGrammar.save` does."""
        arrays, metadata = self._stored
        MODEL.write(path, arrays, {**metadata, "info": self.info})


def save_models(grammars: Iterable[TensorGrammar | PackedGrammar], path: str | Path) -> None:
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
    BUNDLE.write(path, stored, {"members": described})


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
    return BUNDLE.read(path, _members)


def _members(arrays: Mapping[str, np.ndarray], metadata: Mapping[str, Any]) -> list[TensorGrammar]:
    described = metadata["members"]
    if not described:
        raise ModelError("a bundle without grammars")
    stored = BUNDLE.all_parts(arrays, len(described))
    first, grammars = stored[0], []
    for number, member in enumerate(described):
        about = {name: value for name, value in member.items() if name != "shared"}
        try:
            if missing := set(member["shared"]) - first.keys():
                raise ModelError(f"{min(missing)}: missing in the first")
            own = {name: first[name] for name in member["shared"]} | stored[number]
            MODEL.check(own, about, prefix=f"{number}.")
            grammars.append(TensorGrammar._from_content(own, about))
        except SapwoodError as error:
            raise ModelError(f"its grammar {number + 1}: {error}") from error
    return grammars


def _same_bits(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two arrays would be stored as the same bytes; -0.0 is not 0.0 here, and NaN equals itself."""
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
