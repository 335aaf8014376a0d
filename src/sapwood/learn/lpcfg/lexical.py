"""Lexical model: smoothed emission probabilities of known, rare and unknown words, by tag and hidden state.

Everything is built from a joint distribution over tags and words. For a known word `w` seen `c(w)`
times the tag is smoothed towards the signature `s` that the word would have if it were unknown,

    P(t | w) = (c(t, w) + k P(t | s)) / (c(w) + k),

where `P(t | s)` is estimated on the treebank's rare words and itself smoothed towards the coarser signatures of the
chain. The share of unseen words is the Good-Turing estimate: that of words seen once, distributed over signatures as
those are.

The states `z` of all preterminals of a tag (`NN`, `NP|NN`, ...; one state each in a PCFG) divide its mass, on a word by
`P(z | t, w) = (c(z, w) + k' P(z | t)) / (c(t, w) + k')` and on a signature by the same with `k''`; counts of states are
expected ones. Each state's weights sum to one over all words and signatures (checked by `validate`).
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from sapwood.grammar.emissions import Emissions, offsets_of, run_offsets
from sapwood.storage.shapes import Array, Bool, Float, Float64, Int, Int32, Int64
from sapwood.trees.corpus import Corpus
from sapwood.trees.lexicon.lexicon import Lexicon, canonical
from sapwood.trees.lexicon.signatures import SignatureModel, count_tags
from sapwood.trees.lexicon.word_classes import WordClasses
from sapwood.trees.symbols import SymbolTable

# Vanishes when added to a count, but is not zero.
_NEXT_TO_NOTHING = 2.0**-80
# Tolerance of sums of fractional counts.
_ROUNDING = 1e-6


@dataclass(frozen=True)
class LexicalSettings:
    """Smoothing of lexical statistics; the defaults were chosen on development data.

    Parameters
    ----------
    rare
        Words seen at most this often are used to estimate the signatures.
    frequent
        Words seen more often than this are not smoothed by their signature.
    word_strength
        `k`: pseudo-count of the signature relative to the word's own counts.
    signature_strength
        The same for the next coarser signature relative to a signature.
    state_strength
        `k'`: the same for a tag's average division among states relative to the word's own.
    signature_state_strength
        `k''`: the same relative to that of a signature; None: always the average division.
    classes
        Word classes from unlabelled text (`sapwood.lm.word_classes`), the first back-off of rare and unknown words.
    """

    rare: int = 2
    frequent: int = 100
    word_strength: float = 0.5
    signature_strength: float = 2.0
    state_strength: float = 20.0
    signature_state_strength: float | None = None
    classes: WordClasses | None = None


class TagVocabulary(Protocol):
    """Vocabulary of a corpus, or of a text without trees."""

    @property
    def words(self) -> Sequence[str]: ...  # noqa: D102


class Leaves(NamedTuple):
    """Pairs of preterminal and word, with counts.

    Attributes
    ----------
    preterminal, word
        Numbers of the preterminal, from 0, and of the corpus' word.
    initial
        True if the word begins its sentence.
    times
        Count: 1 at a leaf of a tree. If the tag is unknown, each possible tag of the word has a fractional count.
    """

    preterminal: Int[Array, "leaves"]
    word: Int[Array, "leaves"]
    initial: Bool[Array, "leaves"]
    times: Float64[Array, "leaves"]

    @classmethod
    def of_trees(cls, corpus: Corpus) -> Leaves:
        """Return the leaves of a corpus' trees, with its own preterminals."""
        at = np.flatnonzero(corpus.word >= 0)
        return cls(corpus.symbol[at] - corpus.n_interminals, corpus.word[at], corpus.start[at] == 0, np.ones(len(at)))

    def joined(self, *others: Leaves) -> Leaves:
        """Return these leaves followed by others."""
        return Leaves(*map(np.concatenate, zip(self, *others, strict=True)))


class LexicalModel:
    """Words prepared for estimating lexical weights, for any numbers of states.

    Parameters
    ----------
    corpus
        The trees, whose words are numbered.
    settings
        Smoothing of statistics.
    leaves
        The leaves to learn from, and the `names` of their preterminals; the corpus' own by default.
    """

    def __init__(
        self,
        corpus: Corpus | TagVocabulary,
        settings: LexicalSettings,
        leaves: Leaves | None = None,
        names: Sequence[str] = (),
    ) -> None:
        self.settings = settings
        if leaves is None:
            assert isinstance(corpus, Corpus)
            leaves, names = Leaves.of_trees(corpus), corpus.symbols[corpus.n_interminals :]
        labels = SymbolTable.from_names(names).tags
        self.tags = sorted(set(labels))
        place = {tag: number for number, tag in enumerate(self.tags)}
        self.tag_of = np.array([place[label] for label in labels], np.int32)
        self.lexicon, self.word_map, self._signature = learn_lexicon(corpus.words, settings, leaves, self.tag_of)
        self._symbol, self._count = leaves.preterminal, leaves.times
        self._word = self.word_map[leaves.word]
        # Distinct pairs of preterminal and corpus word, in the order of `EStep`.
        keys = leaves.preterminal.astype(np.int64) * len(corpus.words) + leaves.word
        pairs, self._pair = np.unique(keys, return_inverse=True)
        self.pair_counts = np.bincount(self._pair, weights=self._count)
        self.pair_symbol, self.pair_word = pairs // len(corpus.words), self.word_map[pairs % len(corpus.words)]

    def word_classes(self, rare: int) -> Int64[Array, "words"]:
        """Return the class of each corpus word: its own, or that of its signature if it occurs `rare` times or less."""
        counts = np.bincount(self._word, weights=self._count, minlength=self.lexicon.n_words)[self.word_map]
        signature = self.lexicon.n_words + self.lexicon.word_signature[self.word_map]
        return np.unique(np.where(counts > rare + _ROUNDING, self.word_map, signature), return_inverse=True)[1]

    def recounted(self, states: Int[Array, "preterminals"], counts: Float[Array, "pair_states"]) -> LexicalModel:
        """Return the model with leaves reweighted by these counts of their pairs, as EM estimates uncertain tags."""
        sizes = states[self.pair_symbol].astype(np.int64)
        pair_counts = np.maximum(np.add.reduceat(counts, offsets_of(sizes)[:-1]), _NEXT_TO_NOTHING)
        change = pair_counts / np.maximum(self.pair_counts, _NEXT_TO_NOTHING)
        model = copy(self)
        model._count, model.pair_counts = self._count * change[self._pair], pair_counts
        return model

    def emissions(
        self,
        states: Int[Array, "preterminals"] | None = None,
        counts: Float[Array, "pair_states"] | None = None,
        *,
        real: bool = False,
    ) -> Emissions:
        """Estimate the weights.

        Parameters
        ----------
        states
            The preterminals' numbers of states; by default one.
        counts
            Expected counts of each state with each pair of preterminal and word, concatenated; the pairs' counts by
            default.
        real
            True if `counts` are sums of real-valued vectors (a spectral grammar's, one for each leaf) rather than
            expectations. Then weights are the joint ones divided by the preterminal's total, not by each state's.
        """
        settings, lexicon, tag_of = self.settings, self.lexicon, self.tag_of
        if states is None or counts is None:
            states, counts = np.ones(len(tag_of), np.int32), self.pair_counts
        n_tags, n_words = len(self.tags), lexicon.n_words
        offsets = offsets_of(states)
        n_states = int(offsets[-1])
        state_symbol = np.repeat(np.arange(len(states)), states)
        state_tag = tag_of[state_symbol]
        leaf_tag = tag_of[self._symbol]
        count = self._count
        word_counts = np.bincount(self._word, weights=count, minlength=n_words)
        total = float(count.sum())
        sig, sig_tag, sig_value, climb = signature_tags(
            lexicon, self._signature, leaf_tag, count, n_tags, settings.signature_strength
        )

        # Share of unseen words, and its distribution over signatures.
        once = (word_counts[self._word] <= 1 + _ROUNDING) & (self._signature >= 0)
        unseen = min(max(count[once].sum(), 1.0) / total, 0.5)
        spread = np.bincount(self._signature[once], weights=count[once], minlength=len(lexicon.signatures)) + 0.1
        spread = spread / spread.sum()

        strength = np.where(word_counts <= settings.frequent, settings.word_strength, 0.0)
        word_share = (1 - unseen) * word_counts / total
        backoff = np.concatenate([word_share * strength / (word_counts + strength), unseen * spread])

        # Joint weights of (tag, word) from the word's own observations, sorted by word; then their division by states.
        pair_word, pair_tag, pair_count = _sum_pairs(self._word, leaf_tag, n_tags, count)
        own = word_share[pair_word] * pair_count / (word_counts + strength)[pair_word]
        sizes = states[self.pair_symbol].astype(np.int64)
        begins = offsets_of(sizes)
        state = np.repeat(offsets[self.pair_symbol] - begins[:-1], sizes) + np.arange(int(begins[-1]))
        # A state without expected words gets the words of its preterminal, with negligible weight.
        dead = (np.bincount(state, weights=counts, minlength=n_states) <= 0) & (not real)
        counts = np.where(dead[state], _NEXT_TO_NOTHING * np.repeat(self.pair_counts, sizes), counts)
        word, word_state, word_count = _sum_pairs(np.repeat(self.pair_word, sizes), state, n_states, counts)
        at = np.searchsorted(pair_word * n_tags + pair_tag, word * n_tags + state_tag[word_state])
        own_part, tag_part = _divide(own, pair_count, at, word_count, settings.state_strength)

        signature, sig_state, sig_count = self._signature_states(states, state, begins, n_states, counts)
        sig_total = self._signature_totals(n_tags)[sig * n_tags + sig_tag]
        at = np.searchsorted(sig * n_tags + sig_tag, signature * n_tags + state_tag[sig_state])
        own_sig_part, sig_part = _divide(sig_value, sig_total, at, sig_count, settings.signature_state_strength)

        # Mass of each tag through its shared part, total mass of each state; then conditional weights.
        used = np.bincount(lexicon.word_signature, weights=backoff[:n_words], minlength=len(lexicon.signatures))
        used += backoff[n_words:]
        for number, above in enumerate(lexicon.parent[:-1]):
            used[above] += used[number] * climb[number]
        shared_mass = np.bincount(pair_tag, weights=tag_part, minlength=n_tags)
        shared_mass += np.bincount(sig_tag, weights=used[sig] * sig_part, minlength=n_tags)
        state_total = np.bincount(state, weights=counts, minlength=n_states)
        tag_total = np.bincount(leaf_tag, weights=count, minlength=n_tags)
        division = state_total / tag_total[state_tag]
        if real:
            plain = self.emissions()
            symbol_division = np.bincount(self._symbol, weights=count, minlength=len(states)) / tag_total[tag_of]
            mass = (symbol_division / plain.share)[state_symbol]
        else:
            mass = np.bincount(word_state, weights=own_part, minlength=n_states) + shared_mass[state_tag] * division
            mass += np.bincount(sig_state, weights=used[signature] * own_sig_part, minlength=n_states)

        terminal = np.concatenate([word, n_words + signature])
        entry_state = np.concatenate([word_state, sig_state])
        parts = np.concatenate([own_part, own_sig_part])
        if settings.signature_state_strength is None:
            terminal, entry_state, parts = word, word_state, own_part
        values = parts / mass[entry_state]
        keys, entry = np.unique(terminal * len(states) + state_symbol[entry_state], return_inverse=True)
        entry_symbol = keys % len(states)
        entry_offsets = offsets_of(states[entry_symbol])
        vectors = np.zeros(int(entry_offsets[-1]))
        vectors[entry_offsets[entry] + entry_state - offsets[state_symbol[entry_state]]] = values
        tag_terminal = np.concatenate([pair_word, n_words + sig])
        return Emissions(
            lexicon=lexicon,
            states=states.astype(np.int32),
            offsets=run_offsets(keys // len(states), lexicon.n_terminals),
            symbol=entry_symbol.astype(np.int32),
            values=vectors,
            backoff=backoff,
            climb=climb,
            tags=self.tags,
            tag_of=tag_of,
            share=division / mass,
            tag_offsets=run_offsets(tag_terminal, lexicon.n_terminals),
            tag=np.concatenate([pair_tag, sig_tag]).astype(np.int32),
            tag_values=np.concatenate([tag_part, sig_part]),
        )

    def _signature_totals(self, n_tags: int) -> np.ndarray:
        """Return `(signatures x tags,)`: counts of tags with rare words of each signature."""
        ones, counts = np.ones(len(self.tag_of), np.int32), self.pair_counts
        signature, symbol, count = self._signature_states(
            ones, self.pair_symbol, np.arange(len(counts) + 1), len(ones), counts
        )
        size = len(self.lexicon.signatures) * n_tags
        return np.bincount(signature * n_tags + self.tag_of[symbol], weights=count, minlength=size)

    def _signature_states(
        self, states: np.ndarray, state: np.ndarray, begins: np.ndarray, n_states: int, counts: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return expected counts of states with rare words of each signature: `(signature, state, count)`.

        Tokens of one pair of preterminal and word are assumed to be alike.
        """
        rare = self._signature >= 0
        tokens, pairs, count = self._signature[rare].astype(np.int64), self._pair[rare], self._count[rare]
        keys, often = [], []
        while len(tokens):
            keys.append(tokens * len(self.pair_symbol) + pairs)
            often.append(count)
            above = self.lexicon.parent[tokens]
            climbing = above != tokens
            tokens, pairs, count = above[climbing].astype(np.int64), pairs[climbing], count[climbing]
        distinct, which = np.unique(np.concatenate(keys or [np.zeros(0, np.int64)]), return_inverse=True)
        times = np.bincount(which, weights=np.concatenate(often or [np.zeros(0)]), minlength=len(distinct))
        signature, pair = distinct // len(self.pair_symbol), distinct % len(self.pair_symbol)
        sizes = states[self.pair_symbol[pair]].astype(np.int64)
        at = np.repeat(begins[pair] - (np.cumsum(sizes) - sizes), sizes) + np.arange(int(sizes.sum()))
        weights = counts[at] * np.repeat(times / self.pair_counts[pair], sizes)
        return _sum_pairs(np.repeat(signature, sizes), state[at], n_states, weights)


def learn_lexicon(
    words: Sequence[str], settings: LexicalSettings, leaves: Leaves, tag_of: Int[Array, "preterminals"]
) -> tuple[Lexicon, Int32[Array, "words"], Int32[Array, "leaves"]]:
    """Choose signatures and number the words, given the tag of each preterminal.

    Returns the lexicon, its number for each of the words, and the signature of each leaf whose word is rare (-1 for the
    others).
    """
    spellings = [canonical(word) for word in words]
    numbers: dict[str, int] = {}
    word_map = np.array([numbers.setdefault(spelling, len(numbers)) for spelling in spellings], np.int32)
    names = list(numbers)
    leaf_word, leaf_tag = word_map[leaves.word], tag_of[leaves.preterminal]
    counts = np.bincount(leaf_word, weights=leaves.times, minlength=len(names))
    rare = np.flatnonzero(counts[leaf_word] <= settings.rare + _ROUNDING)
    rare_words = [names[number] for number in leaf_word[rare]]
    often = leaves.times[rare].tolist()
    model = SignatureModel.learn(
        count_tags((w, str(t), n) for w, t, n in zip(rare_words, leaf_tag[rare].tolist(), often, strict=True)),
        settings.classes,
    )
    initial = leaves.initial[rare].tolist()
    lexicon = Lexicon.build(names, zip(rare_words, initial, strict=True), model, often)
    signature = np.full(len(leaf_word), -1, np.int32)
    signature[rare] = [lexicon.signature(w, first) for w, first in zip(rare_words, initial, strict=True)]
    return lexicon, word_map, signature


def _divide(
    mass: np.ndarray, total: np.ndarray, at: np.ndarray, count: np.ndarray, strength: float | None
) -> tuple[np.ndarray, np.ndarray]:
    """Divide each mass among states: one part by their counts (with mass `at`), the rest by the average division."""
    if strength is None:
        return np.zeros(len(count)), mass
    whole = total + strength
    usual = np.divide(strength, whole, out=np.ones(len(whole)), where=whole > 0)
    return mass[at] * count / whole[at], mass * usual


def signature_tags(
    lexicon: Lexicon,
    leaf_signature: Int[Array, "leaves"],
    leaf_tag: Int[Array, "leaves"],
    leaf_count: Float64[Array, "leaves"],
    n_tags: int,
    strength: float,
) -> tuple[Int[Array, "entries"], Int[Array, "entries"], Float[Array, "entries"], Float[Array, "signatures"]]:
    """Return `P(t | s)` as a chain: the sparse own parts `(signature, tag, value)` and `climb`.

    `P(t | s) = own(t, s) + climb(s) P(t | parent(s))`. Words whose finest signature is `s` count most: a word in `-t`
    that is not in `-est` says more about other such words than superlatives do. They are smoothed towards all words
    that have the signature, and those towards the next coarser one.
    """
    rare = leaf_signature >= 0
    if not rare.any():  # no rare words at all: unknown words may have any tag
        leaf_signature, rare = np.full_like(leaf_signature, len(lexicon.signatures) - 1), ~rare
    tokens, tags, count = leaf_signature[rare].astype(np.int64), leaf_tag[rare], leaf_count[rare]
    keys, often = [], []
    while len(tokens):  # climb the chain of all tokens at once
        keys.append(tokens * n_tags + tags)
        often.append(count)
        above = lexicon.parent[tokens]
        climbing = above != tokens
        tokens, tags, count = above[climbing].astype(np.int64), tags[climbing], count[climbing]
    n_signatures = len(lexicon.signatures)
    distinct, own = np.unique(np.concatenate(keys), return_inverse=True)
    everything = np.bincount(own, weights=np.concatenate(often))
    finest = np.bincount(own[: len(keys[0])], weights=often[0], minlength=len(distinct))
    signature, tag = distinct // n_tags, distinct % n_tags
    all_total = np.bincount(signature, weights=everything, minlength=n_signatures)
    own_total = np.bincount(signature, weights=finest, minlength=n_signatures)
    strengths = np.full(n_signatures, strength)
    strengths[-1] = 0.0
    below = strength / (own_total + strength)
    part = (everything / (all_total + strengths)[signature]) * below[signature] + finest / (own_total + strength)[
        signature
    ]
    return signature, tag, part, below * strengths / (all_total + strengths)


def _sum_pairs(
    first: np.ndarray, second: np.ndarray, n_second: int, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the distinct pairs in order and the sums of their weights."""
    keys, which = np.unique(first.astype(np.int64) * n_second + second, return_inverse=True)
    return keys // n_second, keys % n_second, np.bincount(which, weights=weights, minlength=len(keys))
