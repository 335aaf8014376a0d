"""`Parser`: sentences in, trees out, in order, as they come, and never without an answer.

If pruning leaves no parse, the sentence is parsed again: without closed cells, if the grammar has any
(`sapwood.grammar.closing`), with less pruning (up to 150 words), and with hardly any (up to 60). If the grammar has no
parse, the coarse grammar that it implies takes its place, every word being allowed the tags of unknown words, too; if
even that has none, a flat tree over the most probable tags is returned. The result's `status` says which happened.

With several grammars all of this is done with the product of their posteriors (`sapwood.inference.product`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import chain, repeat
from typing import Any, Literal, TypeVar, get_args

import numpy as np

from sapwood.errors import GrammarError, NoParse, OutOfMemory, TimedOut, UsageError
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.inference import _calls as calls
from sapwood.inference.attempts import Attempt, attempts
from sapwood.inference.chart import Chart, Posteriors, Workspace
from sapwood.inference.compiled import CompiledGrammar, Leaf
from sapwood.inference.constraints import Requirement, as_requirements
from sapwood.inference.decode import PRODUCT_DECODERS, find_decoder
from sapwood.inference.forest_trees import Derivation, k_best, sample
from sapwood.inference.laid_out import LaidOut
from sapwood.inference.product import AnyChart, Ensemble, Model, gather_grammars
from sapwood.inference.result import Marginal, ParseResult, Status, known_log_probability, marginals_of, with_states
from sapwood.inference.words import Sentence, WordReader
from sapwood.models import default_model_path
from sapwood.run.workers import Kept, Threads, Workers
from sapwood.trees.tokenise import Token
from sapwood.trees.tokenisers import PENN, Sentences, Tokeniser, find_tokeniser, from_function
from sapwood.trees.transform import base_tree
from sapwood.trees.tree import Tree

# Sentences that are taken ahead for each thread: enough to keep all busy while one of them has a long sentence. Workers
# elsewhere get so many at a time.
_WINDOW = 32
# What results depend on beside the grammars; those from the fifth on can be others for the same grammars.
_SETTINGS = (
    "decoder", "threshold", "layer", "precision", "max_words", "max_memory", "timeout", "marginals", "alternatives",
    "states", "tokeniser",
)  # fmt: skip
# What is pruned by, where neither a person nor the model says.
THRESHOLD = 2e-5
Precision = Literal["single", "double"]
R = TypeVar("R")
T = TypeVar("T")


class Parser:
    """Parses with a grammar, or with the product of several.

    Parameters
    ----------
    model
        A grammar, the path of a file with one or several, or the name of an included model; or a sequence of these.
        Several grammars must have the same symbols, rules and words, as those have that were trained on the same trees
        from different seeds. Without one it is the included English model.
    decoder
        How the tree is chosen from the posteriors: `max-rule`, `max-rule-sum`, `recall`, `f1`, `max-rule-absolute`,
        `viterbi`, or what another package adds (`sapwood.inference.decode`). Of several grammars `max-rule` takes the
        product of posteriors, `max-rule-sum`, `recall` and `f1` the mean; the others are for one grammar alone.
        Without one it is `f1` where there is a layer or a network, whose posteriors can be trusted, else `max-rule`.
    threshold
        Posterior below which the coarse pass prunes a rule at a split; 0 parses exactly, in double precision. Without
        one, as the model says, or else 2e-5.
    threads
        Sentences parsed at the same time.
    workers
        Where to parse instead of on threads of this process: a `sapwood.run.cluster.Cluster`.
    max_words
        Longer sentences get a flat tree at once.
    max_memory, timeout
        Bytes that the chart of a sentence may take, about, and seconds to spend on one (None: as much as there is). A
        sentence that needs more gets a flat tree. Each thread has a sentence of its own under way.
    marginals
        Whether results tell how probable each phrase of the tree is.
    alternatives
        How many of the best trees results come with.
    layer
        Whether to use the layer on top of the first grammar's posteriors, if it has one (`sapwood.inference.layered`),
        and its network.
    states
        Whether results tell the hidden states of the tree (`sapwood.inference.tree_states`); of one probabilistic
        grammar only.
    tokeniser
        How plain text is cut up: the name of a tokeniser (`sapwood.trees.tokenisers`), or a function that returns the
        sentences of a text as lists of words. Without one, as the model says.
    precision
        Of the grammar's own pass, `single` or `double`; with a threshold of 0, and for weights beyond single
        precision, it is double either way.

    Attributes
    ----------
    grammars
        All grammars.
    grammar
        The first of them: symbols, rules, words and how trees are turned back are the same for all.

    Examples
    --------
    >>> for result in Parser().parse_text("She saw it. Did you?"):
    ...     print(result.tree)
    (ROOT (S (NP (PRP She)) (VP (VBD saw) (NP (PRP it))) (. .)))
    (ROOT (SQ (VBD Did) (NP (PRP you)) (. ?)))
    """

    def __init__(
        self,
        model: Model | None = None,
        *,
        decoder: str | None = None,
        threshold: float | None = None,
        threads: int = 1,
        workers: Workers | None = None,
        max_words: int = 500,
        max_memory: int | None = None,
        timeout: float | None = None,
        marginals: bool = False,
        alternatives: int = 0,
        layer: bool = True,
        states: bool = False,
        tokeniser: str | Callable[[str], Sentences] | None = None,
        precision: Precision = "single",
    ) -> None:
        if threshold is not None and not 0 <= threshold < 1:
            raise UsageError(f"the threshold must be at least 0 and below 1, not {threshold}")
        if precision not in get_args(Precision):
            raise UsageError(f"precision must be one of {', '.join(get_args(Precision))}, not {precision!r}")
        self.workers = workers if workers is not None else Threads(threads)
        self.grammars = gather_grammars(default_model_path() if model is None else model)
        self.grammar = self.grammars[0]
        self.layer, self.precision = layer, precision
        used = self.grammar.layer if layer else None
        if decoder is None:
            decoder = "max-rule" if used is None else "f1"
        self._decode = find_decoder(decoder)
        if len(self.grammars) > 1 and (decoder == "max-rule-absolute" or (decoder == "viterbi" and used is None)):
            raise UsageError(
                f"{decoder} takes one grammar, not {len(self.grammars)}; choose from {', '.join(PRODUCT_DECODERS)}"
            )
        if decoder == "viterbi" and not self.grammar.probabilistic and used is None:
            raise GrammarError("viterbi needs a probabilistic grammar; this one has real-valued weights")
        self.decoder = decoder
        self.threshold = float(self.grammar.info.get("threshold", THRESHOLD) if threshold is None else threshold)
        self.threads = self.workers.threads
        self.max_words = max_words
        self.max_memory = max_memory
        self.timeout = timeout
        self.marginals = marginals
        self.alternatives = alternatives
        self.states = states
        self.tokeniser = tokeniser
        self._check_limits()
        # Exact parsing is exact in its arithmetic, too; and weights may be beyond single precision.
        weights = [values for grammar in self.grammars for values in (grammar.tensors, grammar.root)]
        largest = max(float(np.abs(values).max(initial=0.0)) for values in weights)
        double = precision == "double" or self.threshold == 0 or largest > 1e30
        self._laid_out = LaidOut(self.grammars, np.float64 if double else np.float32, layer=layer)
        if self.workers.near:  # elsewhere it is laid out there
            assert self.compiled is not None
        self._workspace = Workspace()
        # Whether nothing but the tree is asked for, which takes one call then.
        self._direct = decoder in PRODUCT_DECODERS and not marginals and not alternatives

    @property
    def _ensemble(self) -> Ensemble:
        return self._laid_out.ensemble

    @property
    def compiled(self) -> CompiledGrammar:
        """The grammars as the kernels want them."""
        return self._laid_out.ensemble.joint

    def lighten(self) -> None:
        """Let go of the grammars' weights, of which the kernels have their own: for whoever does nothing but parse."""
        self.grammars = self._laid_out.lighten()
        self.grammar = self.grammars[0]

    @property
    def _words(self) -> WordReader:
        return self._laid_out.words

    def __reduce__(self) -> tuple[Callable[[list[TensorGrammar]], Parser], tuple[list[TensorGrammar]]]:
        # What is laid out for the kernels, and the memory that they work in, is made anew.
        return partial(type(self), **self._settings(), threads=self.threads), (self.grammars,)

    def adapted(self, **settings: Any) -> Parser:
        """Return a parser with other limits or results that shares what is large with this one."""
        if unknown := settings.keys() - {*_SETTINGS[4:]}:
            raise UsageError(f"a parser cannot get another {', '.join(sorted(unknown))}; make a new one")
        other = object.__new__(type(self))
        kept = {name: value for name, value in vars(self).items() if name not in ("shared", "_cut")}
        vars(other).update(kept | settings)
        other._check_limits()
        other._direct = other.decoder in PRODUCT_DECODERS and not other.marginals and not other.alternatives
        return other

    def _check_limits(self) -> None:
        if self.states and (len(self.grammars) > 1 or not self.grammar.probabilistic):
            raise UsageError("hidden states are told of one probabilistic grammar; these are several, or real-valued")
        for name, value in (("max_words", self.max_words), ("alternatives", self.alternatives)):
            if value < 0:
                raise UsageError(f"{name} must not be negative: {value}")
        for name, most in (("max_memory", self.max_memory), ("timeout", self.timeout)):
            if most is not None and not most > 0:
                raise UsageError(f"{name} must be positive, not {most}")

    def __repr__(self) -> str:
        count = f"{len(self.grammars)} grammars like " if len(self.grammars) > 1 else ""
        return f"<Parser: {count}{self.grammar!r}, {self.decoder}, threshold {self.threshold:g}>"

    def __call__(self, text: str) -> list[ParseResult]:
        """Parse plain text: the results of `parse_text` in a list."""
        return list(self.parse_text(text))

    def parse_text(self, text: str | Iterable[str]) -> Iterator[ParseResult]:
        """Return an iterator of one result per sentence of plain text, cut and spelt as the grammar's treebank does.

        The results' `offsets` say where in the text their words stand. Text can also be given in pieces, such as the
        lines of an open file, which are read only as they are needed.
        """
        return self.parse_tokens(self.tokenise(text))

    def parse_tokens(self, sentences: Iterable[Sequence[Token]]) -> Iterator[ParseResult]:
        """Return an iterator of one result per sentence, given by its tokens, with their `offsets`."""
        return self.map(calls.parse_tokens, sentences)

    def tokenise(self, text: str | Iterable[str]) -> Iterator[list[Token]]:
        """Yield the tokens of each sentence of plain text, cut and spelt as the grammar's treebank does."""
        return self._cut(text)

    @cached_property
    def _cut(self) -> Tokeniser:
        if self.tokeniser is not None and not isinstance(self.tokeniser, str):
            return from_function(self.tokeniser)
        style = self.grammar.info.get("tokeniser", {})
        return find_tokeniser(self.tokeniser or style.get("name", PENN), style)

    def map(self, call: Callable[[Parser, T], R], sentences: Iterable[T]) -> Iterator[R]:
        """Return an iterator of `call(parser, sentence)` for each sentence, in order, made where parsing is."""
        if self.workers.near:
            return self.workers.map(partial(call, self), sentences, ahead=_WINDOW * self.threads)
        parts = self.workers.map(partial(calls.parse_part, call), repeat(self.shared), calls.parts(sentences))
        return chain.from_iterable(parts)

    @cached_property
    def shared(self) -> Kept:
        """This parser, made again where its workers are."""
        return self.workers.keep(calls.make, [type(self)], [self.grammars], [self._settings()])[0]

    def _settings(self) -> dict[str, Any]:
        """Return what results depend on beside the grammars."""
        return {name: getattr(self, name) for name in _SETTINGS}

    def key(self) -> dict[str, Any]:
        """Return what results depend on, as JSON values."""
        settings = self._settings()
        if callable(self.tokeniser):
            settings["tokeniser"] = f"{self.tokeniser.__module__}.{self.tokeniser.__qualname__}"
        return {"grammars": [grammar.digest() for grammar in self.grammars], **settings}

    @property
    def known_tags(self) -> Collection[str]:
        """The tags that words may be given."""
        return set(self.grammar.emissions.tags)

    def parse(self, sentences: Iterable[Sentence]) -> Iterator[ParseResult]:
        """Return an iterator of one result per sentence, in order, reading sentences only as they are needed.

        A sentence is a sequence of words, or of `(word, tag)` pairs whose tags must hold (None: any tag).
        """
        return self.map(calls.parse_one, sentences)

    def parse_one(self, sentence: Sentence, *, phrases: Sequence[Requirement] = ()) -> ParseResult:
        """Parse one sentence; `phrases` (start, end, label or None) must be in its tree, or with True behind, must not.

        Raises `NoParse` if the grammar has no parse like that.
        """
        words, leaves = self._words.read(sentence)
        phrases = as_requirements(phrases)
        if not words:
            return ParseResult([], None, None, "empty")
        if len(words) > self.max_words:
            return ParseResult(words, self._ensemble.flat_tree(words, leaves), None, "too long")
        parse = self._tree if self._direct else self._tree_of_chart
        failure: Status = "fallback"
        try:
            with self._limits():
                for attempt in self._attempts(leaves):
                    if (result := parse(attempt, words, phrases)) is not None:
                        return result
        except (OutOfMemory, TimedOut) as error:
            if phrases:
                raise
            failure = "out of memory" if isinstance(error, OutOfMemory) else "timed out"
        if phrases:
            raise NoParse(f"the grammar has no parse with the phrases {list(phrases)}")
        return ParseResult(words, self._ensemble.flat_tree(words, leaves), None, failure)

    @contextlib.contextmanager
    def _limits(self) -> Iterator[None]:
        """Work on a sentence with no more memory and time than it may take."""
        self._workspace.native.begin(self.max_memory, self.timeout)
        try:
            yield
        except MemoryError as error:
            allowed = "there is" if self.max_memory is None else f"the {self.max_memory} bytes that it may take"
            raise OutOfMemory(
                f"a sentence needs more memory than {allowed}; raise `max_memory`, or give a higher `threshold`"
            ) from error
        except TimeoutError as error:
            raise TimedOut(
                f"a sentence takes longer than {self.timeout:g} seconds; raise `timeout` or `threshold`"
            ) from error

    def _tree(self, attempt: Attempt, words: list[str], phrases: Sequence[Requirement]) -> ParseResult | None:
        """Parse without a chart to look at."""
        settings = attempt.settings(self._workspace, phrases, words)
        found = attempt.ensemble.parse(attempt.leaves, self.decoder, **settings)
        if found is None:
            return None
        coarse = attempt.ensemble.joint.coarse
        tree = self.grammar.transform.invert_symbols(found[0], coarse.symbols.chain, coarse.n_interminals, words)
        result = ParseResult(words, tree, known_log_probability(attempt.status, found[1]), attempt.status)
        return with_states(result, self.compiled, attempt.leaves) if self.states else result

    def _tree_of_chart(self, attempt: Attempt, words: list[str], phrases: Sequence[Requirement]) -> ParseResult | None:
        """Parse with all that the chart knows."""
        status, ensemble, leaves = attempt.status, attempt.ensemble, attempt.leaves
        chart = ensemble.chart(leaves, **attempt.settings(self._workspace, phrases, words))
        tree = None if chart is None else self._decode(chart, words)
        if tree is None or chart is None:
            return None
        clean = self.grammar.transform.invert(tree)
        marginals = marginals_of(clean, chart.label_posteriors()) if self.marginals else None
        best = self._k_best(ensemble, chart, leaves, words, self.alternatives) if self.alternatives else None
        score = known_log_probability(status, chart.log_probability)
        result = ParseResult(words, clean, score, status, marginals, best)
        return with_states(result, self.compiled, leaves) if self.states else result

    def chart(self, sentence: Sentence, *, phrases: Sequence[Requirement] = (), brief: bool = False) -> AnyChart | None:
        """Return the chart of posteriors of a sentence under the grammar or grammars; None if there is no parse.

        If it is `brief`, that of several grammars is without the charts of each, which takes less memory and time.
        """
        workspace = self._workspace if brief else None
        return self._chart(*self._words.read(sentence), workspace, as_requirements(phrases))

    def _chart(
        self, words: list[str], leaves: list[Leaf], workspace: Workspace | None, phrases: Sequence[Requirement] = ()
    ) -> AnyChart | None:
        if not leaves:
            return None
        for attempt in self._attempts(leaves):
            if attempt.status != "coarse":
                chart = attempt.ensemble.chart(attempt.leaves, **attempt.settings(workspace, phrases, words))
                if chart is not None:
                    return chart
        return None

    def posteriors(
        self, sentence: Sentence, *, phrases: Sequence[Requirement] = (), least: float = 0.0
    ) -> list[Marginal]:
        """Return all phrases and tags of all parses whose posterior is `least` or more, in the order of their words."""
        words, leaves = self._words.read(sentence)
        with self._limits():
            chart = self._chart(words, leaves, self._workspace, as_requirements(phrases))
            found = {} if chart is None else chart.label_posteriors()
        return sorted(Marginal(*key, value) for key, value in found.items() if value >= least)

    def k_best(self, sentence: Sentence, count: int, *, phrases: Sequence[Requirement] = ()) -> list[Derivation]:
        """Return up to `count` different trees, the most probable first, with `log p(tree)` summed over states.

        They are found by their rule posteriors, which with hidden states or finer symbols need not be the very most
        probable ones (see `forest_trees.k_best`). Of several grammars the products of posteriors find the trees, and
        the mean of their probabilities orders them. With a layer they are its best, exactly, and their probabilities
        are the sentence's times the layer's for the tree. No parse gives an empty list.
        """
        if count < 0:
            raise UsageError(f"the number of trees must not be negative: {count}")
        words, leaves = self._words.read(sentence)
        with self._limits():
            chart = self._chart(words, leaves, self._workspace, as_requirements(phrases))
            return [] if chart is None else self._k_best(self._ensemble, chart, leaves, words, count)

    def _k_best(
        self, ensemble: Ensemble, chart: Posteriors, leaves: Sequence[Leaf], words: list[str], count: int
    ) -> list[Derivation]:
        invert, score = self.grammar.transform.invert, partial(ensemble.tree_log_probability, leaves)
        found = k_best(chart, words, count, score, self._workspace.native.check_time)
        return [Derivation(invert(tree), value) for tree, value in found]

    def sample(
        self,
        sentence: Sentence,
        count: int,
        *,
        random_state: int | np.random.Generator | None = None,
        phrases: Sequence[Requirement] = (),
    ) -> list[Tree]:
        """Draw trees from the posterior over a sentence's parses; no parse gives an empty list.

        With several grammars each tree is drawn from one of them, chosen by how probable it makes the sentence. With a
        layer trees are drawn from what it makes of them all.
        """
        if count < 0:
            raise UsageError(f"the number of trees must not be negative: {count}")
        words, leaves = self._words.read(sentence)
        # Of several grammars all charts are needed, not only the last.
        workspace = self._workspace if len(self.grammars) == 1 else None
        with self._limits():
            chart = self._chart(words, leaves, workspace, as_requirements(phrases))
        if chart is None:
            return []
        rng = np.random.default_rng(random_state)
        drawn = sample(chart, words, count, rng) if isinstance(chart, Chart) else chart.sample(words, count, rng)
        return [self.grammar.transform.invert(tree) for tree in drawn]

    def tree_log_probability(self, tree: Tree) -> float:
        """Return `log p(tree)` of a treebank tree (words included), -inf if the grammar cannot build it.

        The probability under several grammars is the mean of those under each; a layer has no part in it.
        """
        # A parse can have words that look like traces; they are not, unless the tree says so.
        has_empties = any(tag == "-NONE-" for tag in tree.tags())
        clean = (self.grammar.normaliser if has_empties else replace(self.grammar.normaliser, empties=False))(tree)
        if clean is None:
            raise UsageError("nothing is left of the tree after normalising")
        _, leaves = self._words.read(clean.words())
        # Ancestors and siblings follow from the tree itself, so base symbols say everything.
        return self._ensemble.tree_log_probability(leaves, base_tree(self.grammar.transform(clean)))

    def _attempts(self, leaves: list[Leaf]) -> Iterator[Attempt]:
        return attempts(self._ensemble, lambda: self._laid_out.coarse, leaves, self.threshold)
