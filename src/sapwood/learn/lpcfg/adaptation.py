"""Adaptation of a grammar to further trees: maximum a posteriori estimation with the grammar as prior.

The trees that a grammar was trained on are not needed: its weights times the expected counts of its states
(`TensorGrammar.occupancy`) are the expected counts of its training. EM over the further trees adds theirs, each as many
times as it weighs, and normalises the sum (Gauvain and Lee 1994; for treebanks Bacchiani et al. 2006). Hidden states
keep their meaning, as every E-step starts from the grammar.

Further trees may have symbols, rules and words that the grammar lacks. A new symbol has the states of the known one
that it ends in (`S|VP` those of `VP`), or one; a new rule begins with the tensor of a rule between symbols that end
alike, or with that of independent children. Words are estimated again (`LexicalModel`) from the counts of both,
those of the grammar recovered from its emissions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from sapwood import kernels
from sapwood.errors import GrammarError, InputError
from sapwood.evaluate.dev_set import Evaluate
from sapwood.grammar.emissions import Emissions, offsets_of
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.inference.estep.base import Expectations
from sapwood.inference.estep.trees import TreeEStep, held_out_trees
from sapwood.learn.base import Learner
from sapwood.learn.lpcfg.lexical import Leaves, LexicalModel, LexicalSettings
from sapwood.learn.lpcfg.weights import WeightLayout, ranges
from sapwood.runtime.context import RunContext
from sapwood.runtime.executor import LOCAL, Executor
from sapwood.runtime.params import execution, integer, number
from sapwood.storage.shapes import Array, Float64, Int32, Int64
from sapwood.trees.corpus import Corpus
from sapwood.trees.symbols import Parts, SymbolTable

# Smaller weights count as zero, and rule probabilities below the second are dropped from grammars.
_LEAST, _TRACE = 1e-25, 1e-8
# Tolerance of sums of probabilities in single precision.
_TOLERANCE = 1e-4
# Weights to choose from; the fewest trees for a choice; the size of blocks of adjacent trees, which stay together.
WEIGHTS = (3.0, 1.0, 10.0)
_FEWEST, _BLOCK = 8, 10
# Counts of words are whole numbers but for rounding.
_ROUNDING = 0.01
_MOST_UNSEEN = 0.5


@dataclass(frozen=True, kw_only=True, repr=False)
class GrammarAdaptation(Learner):
    """Learner that adapts a grammar to the trees.

    Parameters
    ----------
    grammar
        The grammar; `of` takes it together with its treatment of rare words.
    weight, iterations
        See `adapt_grammar`.
    random_state
        Seed of the other stages of a training run; a grammar is adapted without random choices.
    """

    method = "adaptation"
    grammar: TensorGrammar = execution(None, "The grammar to adapt.", TensorGrammar)
    weight: float = number(3.0, "Weight of each tree, relative to one of the grammar's own.", above=0)
    iterations: int = integer(3, "Iterations of EM.")
    random_state: int = integer(0, "Random seed.")

    @classmethod
    def of(cls, grammar: TensorGrammar, **settings: Any) -> GrammarAdaptation:
        """Return the learner for a grammar."""
        return cls(grammar=grammar, lexical=_lexical_settings(grammar), **settings)

    def settings(self) -> dict[str, Any]:
        """Return everything besides the trees that determines the result, as JSON values."""
        return {**super().settings(), "grammar": self.grammar.digest()}

    def _learn(self, corpus: Corpus, dev: Evaluate | None, run: RunContext) -> TensorGrammar:
        del dev
        grammar = adapt_grammar(
            self.grammar, corpus, weight=self.weight, iterations=self.iterations, workers=run.executor
        )
        return grammar.with_info(method=self.method, settings=self.settings())


def choose_weight(
    grammar: TensorGrammar, corpus: Corpus, weights: Sequence[float] = WEIGHTS, *, workers: Executor = LOCAL
) -> float:
    """Return the weight of trees with which a grammar adapted to three of four gives the others the highest likelihood.

    With fewer than eight trees it is the first.
    """
    if corpus.n_trees < _FEWEST:
        return weights[0]
    block = np.arange(corpus.n_trees) // min(_BLOCK, corpus.n_trees // _FEWEST)
    taught, held_out = (corpus.part(np.flatnonzero((block % 4 == 3) == part)) for part in (False, True))
    likelihoods = []
    for weight in weights:
        try:
            adapted = adapt_grammar(grammar, taught, weight=weight, workers=workers)
            likelihoods.append(held_out_trees(adapted, held_out, workers=workers).log_likelihood)
        except InputError:  # none of the others can be built
            return weights[0]
    return weights[int(np.argmax(likelihoods))]


def adapt_grammar(
    grammar: TensorGrammar, corpus: Corpus, *, weight: float = 1.0, iterations: int = 3, workers: Executor = LOCAL
) -> TensorGrammar:
    """Return a grammar adapted to further trees.

    Parameters
    ----------
    grammar
        A probabilistic grammar with `occupancy`.
    corpus
        The further trees, prepared as those of the grammar were (`check_preparation`).
    weight
        Weight of each of them, relative to one of the grammar's own trees.
    iterations
        Iterations of EM.
    workers
        Executor of the E-step.

    Examples
    --------
    >>> from sapwood import PCFG, Corpus, Tree
    >>> old, new = (Corpus.from_trees([Tree.parse(f"(S (N dogs) (V {word}))")] * 3) for word in ("sleep", "bark"))
    >>> grammar = adapt_grammar(PCFG().fit(old), new, weight=2)
    >>> grammar.lexicon.words, float(grammar.occupancy[0])
    (['dogs', 'sleep', 'bark'], 9.0)
    """
    check_preparation(grammar, corpus)
    prior = _Prior(grammar, corpus)
    estep = TreeEStep(prior.corpus, workers=workers)
    adapted = prior.m_step(prior.first_guess(estep), weight)
    for _ in range(iterations):
        adapted = prior.m_step(estep.expectations(adapted), weight)
    info = {"trees": corpus.n_trees, "words": corpus.n_words, "digest": corpus.digest(), "weight": weight}
    kernels.drop_small(WeightLayout(adapted.rules, adapted.states), _TRACE, adapted.tensors)
    return adapted.with_info(adapted=info).validate(_TOLERANCE)


def trees_of(grammar: TensorGrammar) -> float:
    """Return the number of trees that a grammar was trained on, of which its counts of states tell.

    A binary tree has one more leaf than inner nodes.
    """
    first_leaf = grammar.state_offsets[grammar.n_interminals]
    return max(float(grammar.occupancy[first_leaf:].sum() - grammar.occupancy[:first_leaf].sum()), 1.0)


def check_preparation(grammar: TensorGrammar, corpus: Corpus) -> None:
    """Refuse grammars that cannot be adapted to these trees."""
    if not grammar.probabilistic:
        raise GrammarError("a grammar with real-valued weights cannot be adapted: its weights are not probabilities")
    if not grammar.occupancy.sum() > 0:
        raise GrammarError("the grammar cannot be adapted: it has no counts of states (`occupancy`)")
    if corpus.transform != grammar.transform:
        different = [
            one.name
            for one in fields(corpus.transform)
            if getattr(corpus.transform, one.name) != getattr(grammar.transform, one.name)
        ]
        if different == ["gaps"]:
            raise InputError(
                "the further trees have gaps, and those of the model had none: close the gaps (--gaps close)"
            )
        raise InputError(f"the further trees were transformed otherwise than those of the model: {different[0]}")


class _Prior:
    """Counts of a grammar's training, in tables of symbols, rules and words that further trees share.

    Attributes
    ----------
    corpus
        The further trees, with these tables.
    """

    def __init__(self, grammar: TensorGrammar, corpus: Corpus) -> None:
        self._grammar = grammar
        donors, table, n_interminals, old_symbols = _joint_symbols(grammar, corpus)
        self.corpus, old_rules = _renumbered(corpus, table, n_interminals, old_symbols[grammar.rules].astype(np.int32))
        own = np.full(len(table), -1, np.int64)
        own[old_symbols] = np.arange(len(old_symbols))
        donor = np.where(own >= 0, own, donors)
        self.states = np.where(donor >= 0, grammar.states[donor], 1).astype(np.int32)
        self.layout = WeightLayout(self.corpus.rules, self.states)
        # Places of the grammar's own states and weights.
        self._state_at = ranges(self.layout.state_offsets[old_symbols], grammar.states)
        self._weight_at = ranges(self.layout.tensor_offsets[old_rules], np.diff(grammar.tensor_offsets))
        self._own, self._donor, self._old_rules = own, donor, old_rules
        parent = grammar.rules[:, 0]
        rows = ranges(grammar.state_offsets[parent], grammar.states[parent])
        per_row = grammar.states[grammar.rules[:, 1:]].prod(axis=1, dtype=np.int64)
        self.tensors = np.zeros(int(self.layout.tensor_offsets[-1]))
        self.tensors[self._weight_at] = grammar.tensors * np.repeat(
            grammar.occupancy[rows], np.repeat(per_row, grammar.states[parent])
        )
        self.rule_counts = np.zeros(len(self.corpus.rules))
        self.rule_counts[old_rules] = grammar.rule_counts
        self.occupancy = np.zeros(len(self._state_of))
        self.occupancy[self._state_at] = grammar.occupancy
        self.root = np.zeros(len(self._state_of))
        self.root[self._state_at] = grammar.root * trees_of(grammar)
        self.words = _PriorWords(self)

    @property
    def grammar(self) -> TensorGrammar:
        """The grammar."""
        return self._grammar

    @property
    def n_interminals(self) -> int:
        """Number of interminals."""
        return self.corpus.n_interminals

    @property
    def _state_of(self) -> Int64[Array, "all_states"]:
        return self.layout.symbol_of_state

    def emitters(self) -> Int64[Array, "preterminals"]:
        """Return the group of preterminals with the same emissions that each one belongs to."""
        grammar, first = self._grammar, self._grammar.n_interminals
        own, donor = self._own[self.n_interminals :] - first, self._donor[self.n_interminals :] - first
        emitter = grammar.emissions.emitter
        if emitter is None:
            found = own
        else:
            found = np.where(donor >= 0, emitter[donor], -1).astype(np.int64)
        new = np.flatnonzero(found < 0)
        # Unknown tags: one group for each, or for each preterminal if none of the grammar's share emissions.
        tags = self.corpus.symbols[self.n_interminals :].bottom
        number: dict[str, int] = {}
        for place in new.tolist():
            key = tags[place] if emitter is not None else str(place)
            found[place] = len(grammar.states) + number.setdefault(key, len(number))
        return np.unique(found, return_inverse=True)[1]

    def first_guess(self, estep: TreeEStep) -> Expectations:
        """Return expected counts of what is new, and none of what the grammar knows."""
        corpus, grammar = self.corpus, self._grammar
        layout = self.layout
        known = np.zeros(len(corpus.rules), bool)
        known[self._old_rules] = True
        tensors = np.zeros_like(self.tensors)
        share = self._state_shares()
        alike = self._rules_alike()
        for rule in np.flatnonzero(~known).tolist():
            a, b, c = corpus.rules[rule].tolist()
            shape = tuple(self.states[[a, b, c]].tolist())
            rows = share[layout.state_offsets[a] : layout.state_offsets[a + 1]]
            donor = alike.get(self._kinds(a, b, c))
            guess = None
            if donor is not None and tuple(grammar.states[grammar.rules[donor]].tolist()) == shape:
                guess = grammar.tensor(donor) * rows[:, None, None]
            if guess is None or not guess.sum() > 0:
                left, right = (share[layout.state_offsets[child] : layout.state_offsets[child + 1]] for child in (b, c))
                guess = rows[:, None, None] * left[:, None] * right
            begin, end = layout.tensor_offsets[rule], layout.tensor_offsets[rule + 1]
            tensors[begin:end] = (guess / guess.sum()).ravel()
        counts = corpus.rule_counts()
        tensors *= np.repeat(counts, np.diff(layout.tensor_offsets))
        new_symbol = self._own < 0
        of_symbol = corpus.symbol_counts() * new_symbol
        roots = corpus.root_counts() * ~(np.bincount(self._state_of, weights=self.root) > 0)
        offsets = offsets_of(self.states[estep.pair_symbol])
        often = corpus.lexical_counts()[2]
        where = np.repeat(layout.state_offsets[estep.pair_symbol] - offsets[:-1], np.diff(offsets))
        lexical = share[where + np.arange(int(offsets[-1]))] * np.repeat(often, np.diff(offsets))
        return Expectations(
            tensors, lexical, offsets, roots[self._state_of] * share, of_symbol[self._state_of] * share, np.zeros(0)
        )

    def _state_shares(self) -> Float64[Array, "all_states"]:
        """Return the shares of the states of each symbol, those of a new symbol as of the known one it ends in."""
        grammar = self._grammar
        found = self.occupancy.copy()
        for symbol in np.flatnonzero((self._own < 0) & (self._donor >= 0)).tolist():
            at, donor = self.layout.state_offsets[symbol], self._donor[symbol]
            first, last = grammar.state_offsets[donor], grammar.state_offsets[donor + 1]
            found[at : at + last - first] = grammar.occupancy[first:last]
        total = np.bincount(self._state_of, weights=found)[self._state_of]
        return np.where(total > 0, found / np.where(total > 0, total, 1.0), 1.0 / self.states[self._state_of])

    def _kinds(self, *symbols: int) -> tuple[Any, ...]:
        return tuple(_ends_in(self.corpus.symbols[symbol].parts, symbol < self.n_interminals) for symbol in symbols)

    def _rules_alike(self) -> dict[tuple[Any, ...], int]:
        """Return the most frequent rule of the grammar between symbols that end in each triple."""
        found: dict[tuple[Any, ...], int] = {}
        for rule in np.argsort(self._grammar.rule_counts, kind="stable").tolist():
            found[self._kinds(*self.corpus.rules[self._old_rules[rule]].tolist())] = rule
        return found

    def m_step(self, expected: Expectations, weight: float) -> TensorGrammar:
        """Return the grammar of the counts of its training plus these."""
        layout, corpus, grammar = self.layout, self.corpus, self._grammar
        counts = self.tensors + weight * expected.tensors
        totals = np.zeros(len(self._state_of))
        tensors = np.zeros(len(counts), np.float32)
        kernels.row_totals(layout, 0, len(corpus.rules), counts, totals)
        kernels.normalise_and_smooth(layout, 0, len(corpus.rules), counts, totals, 0.0, 0.0, _LEAST, tensors)
        root = self.root + weight * expected.root
        levels = []
        for level in grammar.levels:
            new = np.zeros(len(self._state_of), np.int32)
            new[self._state_at] = level
            for symbol in np.flatnonzero((self._own < 0) & (self._donor >= 0)).tolist():
                at, donor = layout.state_offsets[symbol], self._donor[symbol]
                first, last = grammar.state_offsets[donor], grammar.state_offsets[donor + 1]
                new[at : at + last - first] = level[first:last]
            levels.append(new)
        return TensorGrammar(
            symbols=corpus.symbols,
            n_interminals=corpus.n_interminals,
            states=self.states,
            rules=corpus.rules,
            tensors=tensors,
            root=root / root.sum(),
            emissions=self.words.emissions(expected.lexical, weight),
            probabilistic=True,
            occupancy=self.occupancy + weight * expected.occupancy,
            rule_counts=self.rule_counts + weight * corpus.rule_counts(),
            levels=tuple(levels),
            normaliser=grammar.normaliser,
            transform=grammar.transform,
            info=grammar.info,
        )


@dataclass(frozen=True, eq=False)
class WordCounts:
    """Expected counts of states with words, recovered from the emissions of a grammar.

    Attributes
    ----------
    state, word, count
        Emitting states (positions in a row of `Emissions`), numbers of words of the lexicon, and counts.
    """

    state: Int64[Array, "entries"]
    word: Int64[Array, "entries"]
    count: Float64[Array, "entries"]

    @classmethod
    def of(cls, grammar: TensorGrammar) -> WordCounts:
        """Recover the counts of a grammar with `occupancy`.

        `E` is proportional to the counts of the states of a tag with a word, `E + G` to that of the tag, and with the
        back-off to that of the word (`sapwood.learn.lpcfg.lexical`).
        """
        emissions, n_words = grammar.emissions, grammar.lexicon.n_words
        occupancy = emitting_occupancy(grammar)
        total = occupancy.sum()
        last = int(emissions.offsets[n_words])
        sizes = emissions.states[emissions.symbol[:last]].astype(np.int64)
        state = ranges(emissions.state_offsets[emissions.symbol[:last]], sizes)
        word = np.repeat(np.repeat(np.arange(n_words), np.diff(emissions.offsets[: n_words + 1])), sizes)
        n_tags = len(emissions.tags)
        # `share` is a state's part of its tag, divided by the joint weight of all its words.
        tag = emissions.tag_of[emissions.symbol_of_state]
        part = occupancy / np.maximum(np.bincount(tag, weights=occupancy, minlength=n_tags), 1e-30)[tag]
        mass = np.where(
            emissions.share > 0, part / np.where(emissions.share > 0, emissions.share, 1.0), occupancy / total
        )
        own = emissions.values[: len(state)].astype(float) * mass[state]
        key = word * n_tags + emissions.tag_of[emissions.symbol_of_state[state]]
        own_of_tag = np.bincount(key, weights=own, minlength=n_words * n_tags)
        tagged = int(emissions.tag_offsets[n_words])
        of_word = np.repeat(np.arange(n_words), np.diff(emissions.tag_offsets[: n_words + 1]))
        by_tag = own_of_tag + np.bincount(
            of_word * n_tags + emissions.tag[:tagged], weights=emissions.tag_values[:tagged], minlength=n_words * n_tags
        )
        by_tag *= own_of_tag > 0
        of_tags = by_tag.reshape(n_words, n_tags).sum(axis=1)
        unseen = min(float(emissions.backoff[n_words:].sum()), _MOST_UNSEEN)
        times = (of_tags + emissions.backoff[:n_words]) * total / (1 - unseen)
        whole = np.round(times)
        times = np.where(np.abs(times - whole) <= _ROUNDING * whole, whole, times)
        scale = np.repeat(times / np.where(of_tags > 0, of_tags, 1.0), n_tags)
        tag_times = by_tag * scale
        count = own * (tag_times / np.where(own_of_tag > 0, own_of_tag, 1.0))[key]
        some = count > 0
        return cls(state[some], word[some], count[some])


def emitting_occupancy(grammar: TensorGrammar) -> Float64[Array, "leaf_states"]:
    """Return the expected counts of the states of preterminals, those with one emitter summed at it."""
    emissions = grammar.emissions
    leaves = grammar.occupancy[grammar.state_offsets[grammar.n_interminals] :]
    return np.bincount(emissions.emitting_state, weights=leaves, minlength=len(leaves))


class _PriorWords:
    """Words of a grammar and of further trees, for estimating emissions from the counts of both."""

    def __init__(self, prior: _Prior) -> None:
        grammar, corpus = prior.grammar, prior.corpus
        self._grammar = grammar
        self._group = prior.emitters()
        first = corpus.n_interminals
        self._owner = np.unique(self._group, return_index=True)[1]
        self._states = prior.states[first:][self._owner]
        old = WordCounts.of(grammar)
        # Groups and states of the grammar's preterminals, and pairs of group and word with counts of states.
        number_of = np.flatnonzero(prior._own[first:] >= 0)
        group_of_old = np.empty(len(number_of), np.int64)
        group_of_old[prior._own[first:][number_of] - grammar.n_interminals] = self._group[number_of]
        symbol = grammar.emissions.symbol_of_state[old.state]
        within = old.state - grammar.emissions.state_offsets[symbol]
        self._old = group_of_old[symbol], old.word, within, old.count
        self._corpus, self._first = corpus, first
        lexicon = grammar.lexicon
        number = {word: place for place, word in enumerate(lexicon.words)}
        self._spellings = list(lexicon.words)
        new_word = []
        for word in corpus.words:
            if word not in number:
                number[word] = len(self._spellings)
                self._spellings.append(word)
            new_word.append(number[word])
        self._new_word = np.array(new_word, np.int64)

    def emissions(self, expected: np.ndarray, weight: float) -> Emissions:
        """Return emissions, given the expected counts of states with each pair of preterminal and word."""
        group, word, within, count = self._old
        corpus = self._corpus
        symbol, number, _ = corpus.lexical_counts()
        new_group, new_word = self._group[symbol - self._first], self._new_word[number]
        sizes = self._states[new_group].astype(np.int64)
        n_words = len(self._spellings)
        # Every pair of group and word, in the order of `LexicalModel`.
        old_keys, new_keys = group * n_words + word, new_group * n_words + new_word
        keys = np.unique(np.concatenate([old_keys, new_keys]))
        offsets = offsets_of(self._states[keys // n_words])
        counts = np.bincount(
            np.concatenate(
                [
                    offsets[np.searchsorted(keys, old_keys)] + within,
                    ranges(offsets[np.searchsorted(keys, new_keys)], sizes),
                ]
            ),
            weights=np.concatenate([count, weight * expected]),
            minlength=int(offsets[-1]),
        )
        pairs, which = np.unique(old_keys, return_inverse=True)
        leaves = self._old_leaves(pairs, np.bincount(which, weights=count)).joined(self._new_leaves(weight))
        names = corpus.symbols[self._first :]
        model = LexicalModel(
            _Vocabulary(self._spellings), _lexical_settings(self._grammar), leaves,
            [names[owner] for owner in self._owner.tolist()],
        )  # fmt: skip
        made = model.emissions(self._states, counts)
        return made if self._grammar.emissions.emitter is None else _shared(made, self._group, self._owner)

    def _old_leaves(self, pairs: np.ndarray, times: np.ndarray) -> Leaves:
        """Return the leaves of the grammar's training: where a word began sentences is known on average only."""
        n_words, lexicon = len(self._spellings), self._grammar.lexicon
        group, word = pairs // n_words, pairs % n_words
        spread = self._grammar.emissions.backoff[lexicon.n_words :]
        by_word = np.bincount(word, weights=times, minlength=n_words)
        share = np.zeros(n_words)
        for rare in np.flatnonzero((by_word > 0) & (by_word <= _lexical_settings(self._grammar).rare + 1)).tolist():
            within, initial = (lexicon.signature(self._spellings[rare], first) for first in (False, True))
            if within != initial:
                share[rare] = spread[initial] / max(spread[initial] + spread[within], 1e-30)
        split = np.flatnonzero(share[word] > 0)
        begins = np.concatenate([np.zeros(len(word), bool), np.ones(len(split), bool)])
        return Leaves(
            np.concatenate([group, group[split]]),
            np.concatenate([word, word[split]]),
            begins,
            np.concatenate([times * (1 - share[word]), (times * share[word])[split]]),
        )

    def _new_leaves(self, weight: float) -> Leaves:
        corpus = self._corpus
        at = np.flatnonzero(corpus.word >= 0)
        group = self._group[corpus.symbol[at] - self._first]
        return Leaves(group, self._new_word[corpus.word[at]], corpus.start[at] == 0, np.full(len(at), float(weight)))


@dataclass(frozen=True)
class _Vocabulary:
    words: Sequence[str]


def _lexical_settings(grammar: TensorGrammar) -> LexicalSettings:
    """Return the smoothing that a grammar was trained with, or the default."""
    told = grammar.info.get("lexical", {})
    told = told if isinstance(told, Mapping) else {}
    usual = LexicalSettings(state_strength=5.0, signature_state_strength=5.0)
    known = {
        one.name: told[one.name]
        for one in fields(usual)
        if one.name != "classes" and isinstance(told.get(one.name), int | float)
    }
    return replace(usual, **known, classes=grammar.lexicon.classes)


def _shared(emissions: Emissions, group: np.ndarray, owner: np.ndarray) -> Emissions:
    """Return the emissions of preterminals, given those of their groups."""
    sizes = emissions.states[group].astype(np.int64)
    return replace(
        emissions,
        states=emissions.states[group],
        symbol=owner[emissions.symbol].astype(np.int32),
        tag_of=emissions.tag_of[group],
        share=emissions.share[ranges(emissions.state_offsets[group], sizes)],
        emitter=owner[group].astype(np.int32),
    )


def _ends_in(parts: Parts, inner: bool) -> tuple[Any, ...]:
    """Return what symbols with the same states have in common: all but the labels above the last one."""
    return (inner, parts.intermediate, parts.labels[-1:] if not parts.intermediate else parts.labels)


def _joint_symbols(
    grammar: TensorGrammar, corpus: Corpus
) -> tuple[Int64[Array, "symbols"], SymbolTable, int, Int64[Array, "old_symbols"]]:
    """Return the symbols of both, interminals first, those of the grammar before new ones.

    Returns, for each, the most frequent symbol of the grammar that ends in it (-1 if there is none); the table; the
    number of interminals; and the numbers of the grammar's symbols.
    """
    frequency = np.bincount(np.repeat(np.arange(len(grammar.states)), grammar.states), weights=grammar.occupancy)
    likes: dict[tuple[Any, ...], int] = {}
    for old in np.argsort(frequency, kind="stable").tolist():
        likes[_ends_in(grammar.symbols[old].parts, old < grammar.n_interminals)] = old
    names: list[Any] = []
    n_interminals, numbers = 0, []
    for one, other in (
        (grammar.symbols[: grammar.n_interminals], corpus.symbols[: corpus.n_interminals]),
        (grammar.symbols[grammar.n_interminals :], corpus.symbols[corpus.n_interminals :]),
    ):
        n_interminals = len(names)
        numbers.append(len(names) + np.arange(len(one)))
        names += list(dict.fromkeys([*one, *other]))
    donors = [likes.get(_ends_in(name.parts, place < n_interminals), -1) for place, name in enumerate(names)]
    return np.array(donors), SymbolTable.from_names(names), n_interminals, np.concatenate(numbers)


def _renumbered(
    corpus: Corpus, symbols: SymbolTable, n_interminals: int, old_rules: Int32[Array, "old_rules 3"]
) -> tuple[Corpus, Int64[Array, "old_rules"]]:
    """Return trees with these symbols and, besides their own, these rules; and the numbers of the latter."""
    number = {(name, place >= n_interminals): place for place, name in enumerate(symbols)}
    new = np.array([number[name, s >= corpus.n_interminals] for s, name in enumerate(corpus.symbols)], np.int32)
    made = Corpus.from_columns(
        symbols, n_interminals, corpus.words, new[corpus.symbol], corpus.word, corpus.offsets, corpus.normaliser,
        corpus.transform,
    ).with_rules(old_rules)  # fmt: skip
    size = len(symbols)
    key = [(one[:, 0].astype(np.int64) * size + one[:, 1]) * size + one[:, 2] for one in (made.rules, old_rules)]
    return made, np.searchsorted(key[0], key[1])
