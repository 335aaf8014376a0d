"""Lexical weights: the vectors `q(a -> x)` of every preterminal `a` over words and signatures.

Most of them are never stored. For a terminal `x` (a known word, or the signature of an unknown one) with signature
`s(x)`, the vector of preterminal `a` with tag `t(a)` is

    q(a -> x) = E[a, x] + backoff[x] E*[a, s(x)] + share[a] (G[t(a), x] + backoff[x] G*[t(a), s(x)])

where `E` holds vectors of the preterminal's own states and `G` scalars of its tag, shared by all composite preterminals
that end in that tag (`NN`, `NP|NN`, `S|VP|NN`, ...). The first and third terms exist only for words. Signatures back
off to coarser ones, `E*[a, s] = E[a, s] + climb[s] E*[a, parent(s)]`, and likewise `G*`. All terms are linear in the
vectors, so smoothing works the same for probabilities and for spectral weights, and a change of basis affects only `E`
and `share`.

Preterminals with the same emissions (`NN` and `NP|NN`, where the unary step does not depend on the word) can share one
*emitter*, whose vectors serve all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from sapwood import kernels
from sapwood.grammar.io.codec import as_halves, from_halves, to_halves
from sapwood.storage.arrays import pack_strings, unpack_strings
from sapwood.storage.schema import Column
from sapwood.storage.shapes import Array, Float, Float64, Int, Int32, Int64, Num, Shaped
from sapwood.trees.lexicon.lexicon import LEXICON, Lexicon

# Columns that are stored without conversion.
_STORED = (
    "offsets", "symbol", "values", "backoff", "climb", "tag_of", "share", "tag_offsets", "tag", "tag_values",
)  # fmt: skip
# Arrays in a file; messages about `values` name the rule (`grammar.validate`).
EMISSIONS = (
    *LEXICON,
    Column("emissions.tags", "text", "tags"),
    Column("emissions.tag_of", "int32", "symbols-n_interminals", least=0, below="tags"),
    Column("emissions.symbol", "int32", "entries", least=0, below="symbols-n_interminals"),
    Column("emissions.offsets", "int64", "words+signatures+1", offsets_of="entries"),
    Column("emissions.values", "float", "values", unchecked=True),
    Column("emissions.values.half", "float16", "half_values", along="emissions.values.half"),
    Column("emissions.backoff", "float", "words+signatures"),
    Column("emissions.climb", "float", "signatures"),
    Column("emissions.share", "float", "leaf_states"),
    Column("emissions.tag", "int32", "tag_entries", least=0, below="tags"),
    Column("emissions.tag_offsets", "int64", "words+signatures+1", offsets_of="tag_entries"),
    Column("emissions.tag_values", "float", "tag_entries"),
    Column(
        "emissions.emitter", "int32", "symbols-n_interminals", least=0, below="symbols-n_interminals",
        along="emissions.emitter",
    ),
)  # fmt: skip


def offsets_of(sizes: Num[Array, "runs"]) -> Int64[Array, "runs+1"]:
    """Return the offsets of runs of the given sizes, with the total at the end."""
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def run_offsets(sorted_numbers: Int[Array, "entries"], size: int) -> Int64[Array, "numbers"]:
    """Return the start of the run of each number below `size` in a sorted array."""
    return np.searchsorted(sorted_numbers, np.arange(size + 1)).astype(np.int64)


class EmissionColumns(NamedTuple):
    """Columns of `Emissions` that make up a row, as the kernel takes them (`src/native/grammar/emissions.cpp`)."""

    offsets: Int64[Array, "terminal_bounds"]
    symbol: Int32[Array, "entries"]
    value_offsets: Int64[Array, "entry_bounds"]
    values: Float64[Array, "values"]
    state_offsets: Int64[Array, "preterminal_bounds"]
    tag_offsets: Int64[Array, "terminal_bounds"]
    tag: Int32[Array, "tag_entries"]
    tag_values: Float64[Array, "tag_entries"]
    tag_of: Int32[Array, "preterminals"]
    share: Float64[Array, "leaf_states"]


@dataclass(frozen=True, eq=False)
class Emissions:
    """Lexical weights, see the module docstring; preterminals have `m_a` states each.

    Attributes
    ----------
    lexicon
        The words and signatures.
    states
        Number of states of each preterminal.
    offsets, symbol, values
        `E` by terminal: `symbol[offsets[x]:offsets[x + 1]]` are preterminals (numbered from 0), their vectors are
        concatenated in `values`.
    backoff
        Back-off weight of each terminal: its share of its signature's weights.
    climb
        Back-off weight of each signature: its share of the next coarser signature's weights.
    tags, tag_of
        Tag names, and the tag of each preterminal.
    share
        Share of each preterminal state in the weights of its tag.
    tag_offsets, tag, tag_values
        `G` by terminal.
    emitter
        The preterminal whose `E` and `share` each preterminal uses, with the same number of states; an emitter is its
        own. None: every preterminal has its own.
    """

    lexicon: Lexicon
    states: Int32[Array, "preterminals"]
    offsets: Int64[Array, "terminal_bounds"]
    symbol: Int32[Array, "entries"]
    values: Float[Array, "values"]
    backoff: Float[Array, "terminals"]
    climb: Float[Array, "signatures"]
    tags: list[str]
    tag_of: Int32[Array, "preterminals"]
    share: Float[Array, "leaf_states"]
    tag_offsets: Int64[Array, "terminal_bounds"]
    tag: Int32[Array, "tag_entries"]
    tag_values: Float[Array, "tag_entries"]
    emitter: Int32[Array, "preterminals"] | None = None

    @cached_property
    def state_offsets(self) -> Int64[Array, "preterminal_bounds"]:
        """Offset of each preterminal's states in a dense row, with the total at the end."""
        return offsets_of(self.states)

    @cached_property
    def value_offsets(self) -> Int64[Array, "entry_bounds"]:
        """Offset of each entry's vector in `values`, with the total at the end."""
        return offsets_of(self.states[self.symbol])

    @cached_property
    def symbol_of_state(self) -> Int64[Array, "leaf_states"]:
        """Preterminal of each position of a dense row."""
        return np.repeat(np.arange(len(self.states)), self.states)

    @cached_property
    def emitting_state(self) -> Int64[Array, "leaf_states"]:
        """State of the emitter at each position of a dense row."""
        positions = np.arange(self.state_offsets[-1])
        if self.emitter is None:
            return positions
        symbol = self.symbol_of_state
        return positions - self.state_offsets[symbol] + self.state_offsets[self.emitter[symbol]]

    def row(self, terminal: int) -> Float64[Array, "leaf_states"]:
        """Return `q(a -> x)` for all preterminals: a dense row of all their states."""
        terminals, weights = self._terms(terminal)
        row = kernels.emission_row(self._columns, np.array(terminals, np.int64), np.array(weights), len(self.tags))
        return row if self.emitter is None else row[self.emitting_state]

    def tagged_row(self, terminal: int, tag: str) -> Float64[Array, "leaf_states"]:
        """Return the same with zero weights for all other tags."""
        row = self.row(terminal)
        allowed = (self.tag_of == self.tags.index(tag))[self.symbol_of_state]
        restricted = np.where(allowed, row, 0.0)
        if not restricted.any():  # a tag that was never seen on such a word
            restricted = np.where(allowed, np.abs(row).max() * 1e-3, 0.0)
        return restricted

    @cached_property
    def _columns(self) -> EmissionColumns:
        """Columns for the kernel."""
        return EmissionColumns(
            self.offsets, self.symbol, self.value_offsets, self.values.astype(np.float64, copy=False),
            self.state_offsets, self.tag_offsets, self.tag, self.tag_values.astype(np.float64, copy=False), self.tag_of,
            self.share.astype(np.float64, copy=False),
        )  # fmt: skip

    def _terms(self, terminal: int) -> tuple[list[int], list[float]]:
        """Return the terminals whose own weights make up those of a terminal, with their coefficients."""
        terminals, weights = [], []
        n_words = self.lexicon.n_words
        signature = terminal - n_words
        if terminal < n_words:
            terminals, weights = [terminal], [1.0]
            signature = int(self.lexicon.word_signature[terminal])
        weight = float(self.backoff[terminal])
        for number in self.lexicon.chain(signature):
            if weight == 0:
                break
            terminals.append(n_words + number)
            weights.append(weight)
            weight *= float(self.climb[number])
        return terminals, weights

    def column(self, preterminal: int) -> Float64[Array, "terminals m_a"]:
        """Return `q(a -> x)` of one preterminal (numbered from 0) for all terminals."""
        if self.emitter is not None:
            preterminal = int(self.emitter[preterminal])
        lexicon, size = self.lexicon, int(self.states[preterminal])
        n_words, terminals = lexicon.n_words, np.arange(lexicon.n_terminals)
        own = np.zeros((lexicon.n_terminals, size))
        entries = np.flatnonzero(self.symbol == preterminal)
        vectors = self.values[self.value_offsets[entries][:, None] + np.arange(size)]
        np.add.at(own, np.repeat(terminals, np.diff(self.offsets))[entries], vectors)
        entries = np.flatnonzero(self.tag == self.tag_of[preterminal])
        at = self.state_offsets[preterminal]
        vectors = self.tag_values[entries][:, None] * self.share[at : at + size]
        np.add.at(own, np.repeat(terminals, np.diff(self.tag_offsets))[entries], vectors)
        signatures = own[n_words:].copy()
        for signature in range(len(signatures) - 2, -1, -1):  # children precede their parents
            signatures[signature] += self.climb[signature] * signatures[lexicon.parent[signature]]
        own[:n_words] += self.backoff[:n_words, None] * signatures[lexicon.word_signature]
        own[n_words:] = self.backoff[n_words:, None] * signatures
        return own

    def totals(self) -> Float64[Array, "leaf_states"]:
        """Return `sum over x of q(a -> x)`, a dense row; all ones for a probabilistic grammar."""
        return self._totals

    @cached_property
    def _totals(self) -> np.ndarray:
        n_words, n_terminals = self.lexicon.n_words, self.lexicon.n_terminals
        # Total coefficient of each terminal's own entries: 1 as a word, plus back-off.
        used = np.zeros(n_terminals)
        used[:n_words] = 1.0
        np.add.at(used, n_words + self.lexicon.word_signature, self.backoff[:n_words])
        used[n_words:] += self.backoff[n_words:]
        for signature, above in enumerate(self.lexicon.parent[:-1]):  # children precede their parents
            used[n_words + above] += used[n_words + signature] * self.climb[signature]
        weight = np.repeat(used, np.diff(self.offsets))
        row = np.zeros(self.state_offsets[-1])
        starts = self.state_offsets[self.symbol]
        sizes = self.states[self.symbol]
        at = np.repeat(starts - self.value_offsets[:-1], sizes) + np.arange(len(self.values))
        np.add.at(row, at, self.values * np.repeat(weight, sizes))
        by_tag = np.zeros(len(self.tags))
        np.add.at(by_tag, self.tag, self.tag_values * np.repeat(used, np.diff(self.tag_offsets)))
        row += self.share * by_tag[self.tag_of][self.symbol_of_state]
        return row if self.emitter is None else row[self.emitting_state]

    def separate(self) -> Emissions:
        """Return the same weights with every preterminal its own emitter."""
        if self.emitter is None:
            return self
        users = np.argsort(self.emitter, kind="stable")
        counts = np.bincount(self.emitter, minlength=len(self.states))
        first = np.cumsum(counts) - counts
        times = counts[self.symbol]
        entry = np.repeat(np.arange(len(self.symbol)), times)
        nth = np.arange(len(entry)) - np.repeat(np.cumsum(times) - times, times)
        symbol = users[first[self.symbol[entry]] + nth]
        sizes = self.states[symbol].astype(np.int64)
        begins = np.repeat(self.value_offsets[entry] - (np.cumsum(sizes) - sizes), sizes)
        terminal = np.repeat(np.arange(self.lexicon.n_terminals), np.diff(self.offsets))[entry]
        return replace(
            self,
            offsets=run_offsets(terminal, self.lexicon.n_terminals),
            symbol=symbol.astype(np.int32),
            values=self.values[begins + np.arange(int(sizes.sum()))],
            share=self.share[self.emitting_state],
            emitter=None,
        )

    def explicit(self) -> Emissions:
        """Return the same weights as separate vectors of each preterminal and terminal, without back-off or tags."""
        n_terminals, n_symbols = self.lexicon.n_terminals, len(self.states)
        columns = [self.column(number) for number in range(n_symbols)]
        present = np.stack([column.any(axis=1) for column in columns], axis=1)
        terminal, symbol = np.nonzero(present)
        offsets = offsets_of(self.states[symbol])
        values = np.zeros(int(offsets[-1]))
        for number, column in enumerate(columns):
            entries = np.flatnonzero(symbol == number)
            values[offsets[entries][:, None] + np.arange(column.shape[1])] = column[terminal[entries]]
        return replace(
            self,
            offsets=run_offsets(terminal, n_terminals),
            symbol=symbol.astype(np.int32),
            values=values,
            # A signature has its weights where it is a terminal, and is not part of another one's.
            backoff=np.concatenate([np.zeros(self.lexicon.n_words), np.ones(n_terminals - self.lexicon.n_words)]),
            climb=np.zeros_like(self.climb),
            tag_of=np.zeros(n_symbols, np.int32),
            share=np.zeros(int(self.states.sum())),
            tag_offsets=np.zeros(n_terminals + 1, np.int64),
            tag=np.zeros(0, np.int32),
            tag_values=np.zeros(0),
            emitter=None,
        )

    def in_halves(self) -> Emissions:
        """Return the weights in single precision, those of words rounded to half precision, as stored in files."""
        values = self.values.astype(np.float32)
        values[: self._word_values] = to_halves(values[: self._word_values])
        return replace(self, values=values)

    @property
    def _word_values(self) -> int:
        """Number of `values` that belong to words; those of signatures follow, and can be above 1."""
        return int(self.value_offsets[self.offsets[self.lexicon.n_words]])

    def _packed_values(self) -> dict[str, np.ndarray]:
        """Return `values` as they are stored: those of words in half precision, if exact."""
        words = self.values[: self._word_values]
        halves = as_halves(words)
        if halves is None:
            return {}
        return {"emissions.values.half": halves, "emissions.values": self.values[len(words) :]}

    def to_arrays(self, *, as_it_is: bool = False) -> dict[str, Shaped[Array, "..."]]:
        """Return the arrays to be stored; with `as_it_is`, no weights in half precision."""
        shared = {} if self.emitter is None else {"emissions.emitter": self.emitter}
        return {
            **self.lexicon.to_arrays(),
            **shared,
            **{f"emissions.{name}": getattr(self, name) for name in _STORED},
            **({} if as_it_is else self._packed_values()),
            "emissions.tags": pack_strings(self.tags),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Shaped[Array, "..."]], states: Int32[Array, "preterminals"]) -> Emissions:
        """Inverse of `to_arrays`."""
        columns: dict[str, Any] = {name: arrays[f"emissions.{name}"] for name in _STORED}
        if (halves := arrays.get("emissions.values.half")) is not None:
            columns["values"] = np.concatenate([from_halves(halves), columns["values"]])
        columns["emitter"] = arrays.get("emissions.emitter")
        return cls(Lexicon.from_arrays(arrays), states, tags=unpack_strings(arrays["emissions.tags"]), **columns)
