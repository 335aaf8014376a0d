"""Model files: one or several grammars, and the components of a model.

Arrays of member `i` are named `i.tensors` and so on (`sapwood.storage.arrays`); an array of a later member that is
bit-identical to the first member's is not stored again, so the shared symbols, rules and words are stored once. Each
member has its own metadata, which also lists the arrays that it shares with the first.

A bundle contains only grammars. A model (format 5) also contains components under their names (`crf.values`), the
preparation, the defaults of parsing, and notes. Up to format 4, and in bundles, the first grammar had the components,
and everything else was in its `info`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias, TypedDict

import numpy as np

from sapwood.errors import GrammarError, ModelError, SapwoodError, UsageError
from sapwood.grammar.tensor_grammar import BUNDLE_KIND, GRAMMAR, GrammarMetadata, TensorGrammar
from sapwood.model.cell_pruner import CELL_PRUNER_COLUMNS, CellPruner, CellPrunerMetadata
from sapwood.model.cp_decomposition import CP_COLUMNS, CPDecomposition, CPMetadata
from sapwood.model.forest_crf import CRF_COLUMNS, ForestCRF, ForestCRFMetadata
from sapwood.model.plugged_scorer import PluggedScorer, PluggedScorerMetadata
from sapwood.model.span_scorer import SPAN_SCORER_COLUMNS, SpanScorer, SpanScorerMetadata
from sapwood.storage.arrays import read_header
from sapwood.storage.schema import Column, Notes, Schema, check_json

BUNDLE_VERSION = 3
MODEL_VERSION = 5
Component: TypeAlias = ForestCRF | SpanScorer | CellPruner | CPDecomposition | PluggedScorer
# The components of a model, and what their arrays are called in files of one grammar.
COMPONENTS = {
    "crf": "layer", "span_scorer": "network", "cell_pruner": "closing", "cp": "cp", "plugged_scorer": "plugged_scorer",
}  # fmt: skip


class _OldMetadata(GrammarMetadata, total=False):
    layer: ForestCRFMetadata
    network: SpanScorerMetadata
    closing: CellPrunerMetadata
    cp: CPMetadata
    plugged_scorer: PluggedScorerMetadata


# Files with one grammar; up to format 4 they had components as well.
MODEL = replace(
    GRAMMAR,
    columns=(*GRAMMAR.columns, *CRF_COLUMNS, *SPAN_SCORER_COLUMNS, *CELL_PRUNER_COLUMNS, *CP_COLUMNS),
    metadata=_OldMetadata,
)


class _GrammarRecord(_OldMetadata):
    shared: list[str]


class _BareMember(GrammarMetadata):
    shared: list[str]


class _Metadata(TypedDict):
    members: list[_GrammarRecord]


# What the metadata of a grammar says that all grammars of a model have in common.
_SHARED = ("normaliser", "transform")

BUNDLE = Schema(
    kind=BUNDLE_KIND,
    version=BUNDLE_VERSION,
    title="bundle of grammars",
    remedy="copy or train it again",
    columns=(),
    metadata=_Metadata,
    parts=".",
)


class _TokeniserStyle(TypedDict):
    name: str
    rewrite: bool
    split_hyphens: bool


class _InducedText(TypedDict):
    terminals: str
    punctuation: str


class _PreparationRequired(TypedDict):
    normaliser: dict[str, Any]
    transform: dict[str, Any]
    tokeniser: _TokeniserStyle


class _Preparation(_PreparationRequired, total=False):
    induced: _InducedText
    heads: str


class _Defaults(TypedDict, total=False):
    decoder: str
    threshold: float


class _ModelMetadata(TypedDict):
    grammars: list[dict[str, Any]]
    preparation: _Preparation
    components: dict[str, Any]
    defaults: _Defaults
    meta: Notes


def _renamed(columns: Iterable[Column]) -> Iterator[Column]:
    """Yield the columns of components under their names in models; references to grammars are checked later."""
    new = {old: name for name, old in COMPONENTS.items()}
    for column in columns:
        name, along = (re.sub(r"^\w+", lambda found: new[found[0]], text) for text in (column.name, column.along))
        yield replace(column, name=name, along=along, below="")


MODEL_FILE = Schema(
    kind=MODEL.kind,
    version=MODEL_VERSION,
    title=MODEL.title,
    remedy=MODEL.remedy,
    columns=tuple(_renamed([*CRF_COLUMNS, *SPAN_SCORER_COLUMNS, *CELL_PRUNER_COLUMNS, *CP_COLUMNS])),
    metadata=_ModelMetadata,
    parts=".",
)


@dataclass(frozen=True)
class ModelContent:
    """The content of a model file.

    Attributes
    ----------
    grammars
        One grammar or several.
    components
        The components, by name.
    settings
        Preparation, defaults and meta as JSON values; None in files of old formats, where they are in `info`.
    """

    grammars: Sequence[TensorGrammar]
    components: Mapping[str, Component] = field(default_factory=dict)
    settings: Mapping[str, Any] | None = None


class CompressedGrammar:
    """Grammar compressed in memory in its storage format: most rule weights are zero, and take no space.

    >>> grammar = TensorGrammar.from_parts(root={"S": 1.0}, rules={("S", "N", "N"): 1.0}, words={("N", "dogs"): 1.0})
    >>> CompressedGrammar(grammar).unpacked() == grammar
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


def save_models(grammars: Iterable[TensorGrammar | CompressedGrammar], path: str | Path) -> None:
    """Write one or several grammars to one file, atomically; a single one as `TensorGrammar.save` does."""
    members = list(grammars)
    if not members:
        raise UsageError(f"{path}: there are no grammars to save")
    if len(members) == 1:
        members[0].save(path)
        return
    stored, described = _packed(members)
    BUNDLE.write(path, stored, {"members": described})


def write_model(content: ModelContent, path: str | Path) -> None:
    """Write a whole model to one file, whole or not at all."""
    assert content.settings is not None
    arrays, members = _packed(content.grammars)
    # The preparation is that of all, and there once.
    members = [{name: value for name, value in one.items() if name not in _SHARED} for one in members]
    described = {}
    for name, component in content.components.items():
        arrays |= {f"{name}{key.removeprefix(COMPONENTS[name])}": own for key, own in component.to_arrays().items()}
        described[name] = component.metadata()
    MODEL_FILE.write(path, arrays, {"grammars": members, "components": described, **content.settings})


def _packed(members: Sequence[TensorGrammar | CompressedGrammar]) -> tuple[dict[str, np.ndarray], list[dict[str, Any]]]:
    """Return the arrays and the metadata of several grammars."""
    first: dict[str, np.ndarray] = {}
    stored: dict[str, np.ndarray] = {}
    described = []
    for number, grammar in enumerate(members):
        arrays, metadata = grammar._content()
        shared = [name for name in sorted(arrays.keys() & first.keys()) if _same_bits(arrays[name], first[name])]
        first = first or arrays
        described.append({**metadata, "info": dict(grammar.info), "shared": shared})
        stored |= {f"{number}.{name}": array for name, array in arrays.items() if name not in shared}
    return stored, described


def load_models(path: str | Path) -> list[TensorGrammar]:
    """Read the grammars of a file of any format, without components; a damaged file raises `ModelError`.

    Arrays that are stored once are shared by the grammars.

    Examples
    --------
    >>> from sapwood.model.installed import default_model_path
    >>> load_models(default_model_path())
    [<TensorGrammar: ... symbols (... states), ... rules, ... words>]
    """
    return list(read_model(path).grammars)


def read_model(path: str | Path) -> ModelContent:
    """Read a file of a model, a grammar or several, of any format; damage raises `ModelError`."""
    header = read_header(path)
    if header["kind"] == BUNDLE_KIND:
        return BUNDLE.read(path, _read_bundle)
    if header["kind"] != MODEL_FILE.kind or header["format"] < MODEL_VERSION:
        return MODEL.read(path, _read_grammar)
    components = header["metadata"].get("components")
    for name in components if isinstance(components, dict) and header["format"] == MODEL_VERSION else ():
        if name not in COMPONENTS:
            raise ModelError(
                f"{path}: has a component {name[:40]!r}, which this version does not know; upgrade sapwood"
            )
    return MODEL_FILE.read(path, _read_model)


def _read_grammar(arrays: dict[str, np.ndarray], metadata: Mapping[str, Any]) -> ModelContent:
    return _content([TensorGrammar._from_content(arrays, metadata)], arrays, metadata)


def _read_bundle(arrays: Mapping[str, np.ndarray], metadata: Mapping[str, Any]) -> ModelContent:
    described = metadata["members"]
    if not described:
        raise ModelError("a bundle without grammars")
    stored = BUNDLE.all_parts(arrays, len(described))
    return _content(_members(stored, described), stored[0], described[0])


def _read_model(arrays: Mapping[str, np.ndarray], metadata: Mapping[str, Any]) -> ModelContent:
    described = metadata["grammars"]
    if not described:
        raise ModelError("a model without grammars")
    stored = MODEL_FILE.all_parts(arrays, len(described))
    common = {name: metadata["preparation"][name] for name in _SHARED}
    described = [{**common, "shared": [], **member} for member in described]
    check_json(described, list[_BareMember], "grammars")
    for name, old in COMPONENTS.items():
        stored[0] |= {
            f"{old}{key.removeprefix(name)}": own for key, own in arrays.items() if key.startswith(f"{name}.")
        }
        if name in metadata["components"]:
            described[0][old] = metadata["components"][name]
    settings = {name: metadata[name] for name in ("preparation", "defaults", "meta")}
    return _content(_members(stored, described), stored[0], described[0], settings)


def check_components(grammar: TensorGrammar, components: Mapping[str, Component]) -> None:
    """Raise `GrammarError` for the first component that is invalid or does not fit the grammar."""
    arrays, metadata = grammar._content()
    for name, component in components.items():
        arrays |= component.to_arrays()
        metadata[COMPONENTS[name]] = component.metadata()
    try:
        MODEL.check(arrays, {**metadata, "info": dict(grammar.info)})
        # What their arrays have to do with each other is checked where they are read.
        _content([grammar], arrays, metadata)
    except ModelError as error:
        raise GrammarError(str(error)) from error


def _content(
    grammars: Sequence[TensorGrammar],
    arrays: Mapping[str, np.ndarray],
    metadata: Mapping[str, Any],
    settings: Mapping[str, Any] | None = None,
) -> ModelContent:
    """Return grammars with the components that are stored with the first of them."""
    first, *_ = grammars
    classes = first.lexicon.classes
    found = {
        "crf": ForestCRF.from_arrays(arrays, metadata.get("layer"), classes),
        "span_scorer": SpanScorer.from_arrays(arrays, metadata.get("network"), classes),
        "cell_pruner": CellPruner.from_arrays(arrays, metadata.get("closing")),
        "cp": CPDecomposition.from_arrays(arrays, metadata.get("cp")),
        "plugged_scorer": PluggedScorer.from_arrays(arrays, metadata.get("plugged_scorer")),
    }
    components = {name: component for name, component in found.items() if component is not None}
    return ModelContent(grammars, components, settings)


def _members(stored: Sequence[dict[str, np.ndarray]], described: Sequence[Mapping[str, Any]]) -> list[TensorGrammar]:
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
    """True if two arrays would be stored as the same bytes; -0.0 differs from 0.0, and NaN equals itself."""
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
