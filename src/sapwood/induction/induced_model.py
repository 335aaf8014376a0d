"""`InducedModel`: an induced model that is not a phrase-structure grammar but predicts heads, spans, or both.

It holds the parameters of a dependency model, the tables of the constituent-context model, or both, and the mapping
from words to terminals. It has a file format of its own; `sapwood parse` prints heads in CoNLL-U or trees with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from sapwood.errors import ModelError
from sapwood.grammar.emissions import EMISSIONS, Emissions
from sapwood.grammar.validate import check_emissions
from sapwood.induction.estep import (
    Found,
    SentenceBatch,
    SpanFactors,
    Valence,
    punctuation_weights,
    span_ends,
    sum_trees,
)
from sapwood.induction.models.ccm import SpanIndex, SpanTable, binary_trees, span_log_weights
from sapwood.induction.models.simple_pcfg import SimplePCFGRules, places, word_rules
from sapwood.induction.text import Terminals
from sapwood.storage.arrays import pack_strings, unpack_strings
from sapwood.storage.schema import Column, Notes, Schema
from sapwood.storage.shapes import Array, Float64
from sapwood.trees.punctuation import PUNCTUATION, Punctuation


class _Metadata(TypedDict):
    n_interminals: int
    model: str
    kind: str
    punctuation: str
    longest: int
    info: Notes


INDUCED = Schema(
    kind="induced-model",
    version=1,
    title="model",
    remedy="copy or learn it again",
    columns=(
        Column("terminals", "text", "symbols"),
        Column("frequency", "float64", "symbols", least=0),
        Column("attach", "float64", "2 symbols symbols", least=0, most=1.001, sums=2, along="attach"),
        Column("go", "float64", "2 symbols 2", least=0, most=1.001, along="attach"),
        Column("stop", "float64", "2 symbols 2", least=0, most=1.001, along="attach"),
        Column("root", "float64", "symbols", least=0, most=1.001, sums=0, along="attach"),
        Column("yields", "int32", "yield_words", least=0, below="symbols", along="contexts"),
        Column("yield_offsets", "int64", "yields+1", offsets_of="yield_words", along="contexts"),
        Column("contexts", "int32", "contexts 2", least=-1, below="symbols", along="contexts"),
        Column("yield_counts", "float64", "2 yields", least=0, along="contexts"),
        Column("context_counts", "float64", "2 contexts", least=0, along="contexts"),
        Column("rules.root", "float32", "nonterminals", least=0, most=1.001, sums=0, along="rules.root"),
        Column("rules.left", "float32", "nonterminals children", least=0, most=1.001, sums=1, along="rules.root"),
        Column("rules.right", "float32", "nonterminals children", least=0, most=1.001, sums=1, along="rules.root"),
        Column("rules.span_factors", "float64", "3", least=0, along="rules.root"),
        Column("rules.word", "float32", "preterminals symbols", least=0, most=1.001, sums=1, along="rules.root"),
        *EMISSIONS,
    ),
    metadata=_Metadata,
)


@dataclass(frozen=True, eq=False)
class InducedModel:
    """Heads, spans, or both.

    Attributes
    ----------
    model
        The name of the model.
    terminals
        Names of its terminals.
    kind
        Kind of the terminals: tags, word classes, or words.
    punctuation
        Whether punctuation is removed.
    frequency
        Count of each terminal in training.
    emissions
        Probabilities of words given their terminals.
    heads
        Probabilities of heads and arguments, if the model has any.
    table, yields, contexts, longest
        Yields and contexts, their counts as constituents and as distituents, and the maximum number of words of a
        yield.
    rules
        Probabilities of a SimplePCFG.
    span_factors
        Its factors of spans by the punctuation that was removed.
    info
        Provenance of the model: JSON values only.
    """

    model: str
    terminals: tuple[str, ...]
    kind: Terminals
    punctuation: Punctuation
    frequency: Float64[Array, "terminals"]
    emissions: Emissions
    heads: Valence | None = None
    table: SpanTable | None = None
    yields: Float64[Array, "2 yields"] = field(default_factory=lambda: np.zeros((2, 0)))
    contexts: Float64[Array, "2 contexts"] = field(default_factory=lambda: np.zeros((2, 0)))
    longest: int = 0
    rules: SimplePCFGRules | None = None
    span_factors: SpanFactors = SpanFactors()
    info: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        words = self.emissions.lexicon.n_words
        return f"<InducedModel: {self.model}, {len(self.terminals):,} {self.kind}, {words:,} words>"

    @cached_property
    def _index(self) -> SpanIndex:
        assert self.table is not None
        return SpanIndex.of_table(self.table, self.longest)

    @cached_property
    def terminal_numbers(self) -> dict[str, int]:
        """The number of each terminal."""
        return {name: number for number, name in enumerate(self.terminals)}

    def terminal_of(self, word: str, *, initial: bool = False) -> int:
        """Return the most probable terminal of a word by itself."""
        row = self.emissions.row(self.emissions.lexicon.terminal(word, initial)) * self.frequency
        return int(np.argmax(row))

    def posteriors(self, sentence: Sequence[int], divided: Sequence[bool] | None = None) -> Found:
        """Return the posteriors of the spans and, if the model has any, of the heads of a sentence of terminals.

        `divided` says whether a punctuation mark was removed before each terminal; some models use it.
        """
        words = np.asarray(sentence, np.int32)
        one = SentenceBatch(words, np.array([0, len(words)], np.int64))
        weights = None
        if self.rules is not None:
            distinct, numbers = places(words)
            marks = np.zeros(len(words), bool) if divided is None else np.asarray(divided, bool)
            weights = punctuation_weights(marks, one.offsets, self.span_factors)
            return sum_trees(
                SentenceBatch(numbers, one.offsets), word_rules(self.rules, distinct).rule, weights, spans=True
            )
        if self.table is not None:
            weights = np.exp(span_log_weights(self._index.look_up(words), self.yields, self.contexts))
        if self.heads is not None:
            return sum_trees(one, self.heads, weights, spans=True, edges=True)
        found = sum_trees(one, binary_trees(len(self.terminals)), weights, spans=True)
        begin, end = span_ends(len(words))
        found.spans[end - begin == 1] = 1.0
        return found

    def profile(self, top: int = 10) -> dict[str, list[str]]:
        """Return a readable summary of the model: the most frequent items of each kind."""
        names, found = self.terminals, {}
        if self.heads is not None:
            often = self.frequency / max(self.frequency.sum(), 1.0)
            order = np.argsort(-self.heads.root, kind="stable")[:top]
            found["roots"] = [f"{self.heads.root[number]:.3f}  {names[number]}" for number in order]
            rows = []
            for head in np.argsort(-often, kind="stable")[:top]:
                for side, title in enumerate(("left", "right")):
                    drawn = self.heads.attach[side, head]
                    best = np.argsort(-drawn, kind="stable")[:3]
                    listed = ", ".join(f"{names[number]} {drawn[number]:.2f}" for number in best)
                    rows.append(f"{names[head]}, {title} (any: {self.heads.go[side, head, 0]:.2f}): {listed}")
            found["arguments"] = rows
        if self.table is not None:
            weight = self.yields[0] * (self.yields[0] / np.maximum(self.yields.sum(0), 1e-9))
            bounds = self.table.yield_offsets
            wide = np.diff(bounds) > 1
            order = np.argsort(-np.where(wide, weight, -1), kind="stable")[:top]
            found["constituents"] = [
                f"{self.yields[0, number]:8.1f} of {self.yields[:, number].sum():8.1f}  "
                + " ".join(names[word] for word in self.table.yields[bounds[number] : bounds[number + 1]])
                for number in order
            ]
        return found

    def save(self, path: str | Path) -> None:
        """Write the model to one file, atomically."""
        arrays: dict[str, Any] = {"terminals": pack_strings(list(self.terminals)), "frequency": self.frequency}
        arrays.update(self.emissions.to_arrays())
        if self.heads is not None:
            arrays.update(self.heads._asdict())
        if self.table is not None:
            arrays.update(
                yields=self.table.yields,
                yield_offsets=self.table.yield_offsets,
                contexts=self.table.contexts,
                yield_counts=self.yields,
                context_counts=self.contexts,
            )
        if self.rules is not None:
            arrays.update({f"rules.{name}": array for name, array in self.rules._asdict().items()})
            arrays["rules.span_factors"] = np.array(self.span_factors)
        metadata = {
            "n_interminals": 0,
            "model": self.model,
            "kind": self.kind,
            "punctuation": self.punctuation,
            "longest": self.longest,
            "info": dict(self.info),
        }
        INDUCED.write(path, arrays, metadata)

    @classmethod
    def load(cls, path: str | Path) -> InducedModel:
        """Read a saved model; a damaged file raises `ModelError`."""
        return INDUCED.read(path, cls._from_content)

    @classmethod
    def _from_content(cls, arrays: dict[str, np.ndarray], metadata: Mapping[str, Any]) -> InducedModel:
        terminals = tuple(unpack_strings(arrays["terminals"]))
        emissions = Emissions.from_arrays(arrays, np.ones(len(terminals), np.int32))
        check_emissions(emissions)
        if metadata["n_interminals"] != 0 or len(set(terminals)) < len(terminals):
            raise ModelError("terminals: are not all different")
        if metadata["kind"] not in ("tags", "classes", "words") or metadata["punctuation"] not in PUNCTUATION:
            raise ModelError("kind, punctuation: are not what a model can have")
        heads = Valence(*(arrays[name] for name in Valence._fields)) if "attach" in arrays else None
        table = None
        if "contexts" in arrays:
            table = SpanTable(arrays["yields"], arrays["yield_offsets"], arrays["contexts"], np.zeros((0, 2), np.int32))
        rules, factors = None, SpanFactors()
        if "rules.root" in arrays:
            rules = SimplePCFGRules(*(arrays[f"rules.{name}"] for name in SimplePCFGRules._fields))
            factors = SpanFactors(*arrays["rules.span_factors"].tolist())
            if rules.left.shape[1] != len(rules.root) + len(rules.word):
                raise ModelError("rules.left: children are not the nonterminals and preterminals")
        if heads is None and table is None and rules is None:
            raise ModelError("has neither heads nor spans nor rules")
        return cls(
            metadata["model"],
            terminals,
            metadata["kind"],
            metadata["punctuation"],
            arrays["frequency"],
            emissions,
            heads,
            table,
            arrays.get("yield_counts", np.zeros((2, 0))),
            arrays.get("context_counts", np.zeros((2, 0))),
            metadata["longest"],
            rules,
            factors,
            metadata["info"],
        )
