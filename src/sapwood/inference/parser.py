"""Parser: one result per sentence, in order, streamed, with a fallback for every failure.

If pruning leaves no parse, the sentence is parsed again: without cell pruning, if the model has a cell pruner
(`sapwood.model.cell_pruner`), with less pruning (up to 150 words), and with hardly any (up to 60). If the grammar has
no parse, the coarse grammar that it implies is used, with the tags of unknown words allowed for every word; if that
fails as well, a flat tree over the most probable tags is returned. The `status` of the result reports which of these
happened.

With several grammars all of this uses the product of their posteriors (`sapwood.inference.ensemble`).

If the model has a CP decomposition, its factors choose the tree (`sapwood.inference.cp_decomposition`), and the rules
only where factors give a sentence no weight. Charts, k-best lists, samples, and parses with required phrases are those
of the rules, and so is everything with a threshold of 0.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import cached_property, partial
from itertools import chain, count, islice, repeat
from typing import Any, Literal, TypeVar, get_args

import numpy as np

from sapwood.errors import GrammarError, NoParse, OutOfMemory, TimedOut, UsageError
from sapwood.grammar.describe import label_counts
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.inference.chart.compiled import CompiledGrammar, Leaf
from sapwood.inference.chart.compiled_model import CompiledModel, LexicalLookup, Sentence
from sapwood.inference.chart.posteriors import Workspace
from sapwood.inference.constraints import Requirement, as_requirements
from sapwood.inference.cp_decomposition import DECODERS as CP_DECODERS
from sapwood.inference.cp_decomposition import CompiledCP
from sapwood.inference.decode import PRODUCT_DECODERS, find_decoder
from sapwood.inference.ensemble import AnyChart, Ensemble
from sapwood.inference.fallbacks import Attempt, attempts
from sapwood.inference.forest.kbest import Derivation, KBestList
from sapwood.inference.result import Marginal, ParseResult, Status, known_log_probability, marginals_of, with_states
from sapwood.inference.span_scorer import EncoderSource
from sapwood.model.installed import default_model_path
from sapwood.model.parser_model import ParserModel, Sources
from sapwood.runtime.executor import Executor, Handle, Threads
from sapwood.trees.formats.gaps import drop_single_parts, find_partners, lacks_partners
from sapwood.trees.heads.learned import LEARNED
from sapwood.trees.heads.rules import HeadRules
from sapwood.trees.punctuation import is_punctuation
from sapwood.trees.tokenise.attached import AttachedPunctuation, PlainTextWarning
from sapwood.trees.tokenise.lines import Lines, Tokeniser, tokenise_lines, tokenise_texts
from sapwood.trees.tokenise.penn import Token
from sapwood.trees.tokenise.registry import Sentences, find_tokeniser, from_function
from sapwood.trees.transform import base_tree
from sapwood.trees.tree import Tree

# Sentences read ahead for each thread: enough to keep all busy during a long sentence. Also the batch size of remote
# workers.
_WINDOW = 32
# Options that results depend on besides the model: those of the compiled model, and those that parsers can vary that
# share one.
_FIXED_OPTIONS = ("decoder", "threshold", "crf", "precision", "encoder")
_VARIABLE_OPTIONS = ("max_words", "max_memory", "timeout", "marginals", "alternatives", "states", "tokeniser")
# Default pruning threshold, if neither the user nor the model sets one.
PRUNING_THRESHOLD = 2e-5
Precision = Literal["single", "double"]
R = TypeVar("R")
T = TypeVar("T")
# Sentences in the first batch sent to a worker, and in the largest.
_LEAST, _MOST = 16, 128


class Parser:
    """Parser with a grammar, or with the product of several.

    Parameters
    ----------
    model
        A `ParserModel`, a grammar, the path of a model file, or the name of an included model; or a sequence of these.
        Several grammars must have the same symbols, rules and words, as those have that were trained on the same trees
        from different seeds. Without one it is the included English model.
    decoder
        Decoder that chooses the tree from the posteriors: `max-rule`, `max-rule-sum`, `recall`, `f1`,
        `max-rule-absolute`, `viterbi`, or one from another package (`sapwood.inference.decode`). With several grammars
        `max-rule` takes the product of posteriors, `max-rule-sum`, `recall` and `f1` the mean; the others require a
        single grammar. Default: `f1` with a CRF or a span scorer, whose posteriors are well calibrated, and
        with a CP decomposition, which takes only `f1` and `recall`; else `max-rule`.
    threshold
        Posterior below which the coarse pass prunes a rule at a split; 0 parses exactly, in double precision. Default:
        the model's own, or else 2e-5.
    threads
        Number of sentences parsed in parallel.
    workers
        Remote executor to use instead of local threads: a `sapwood.runtime.dask.executor.DaskCluster`.
    max_words
        Longer sentences get a flat tree immediately.
    max_memory, timeout
        Approximate memory limit of the chart of a sentence in bytes, and time limit in seconds (None: no limit). A
        sentence that exceeds one gets a flat tree. Each thread parses a sentence of its own.
    marginals
        Compute marginal probabilities of phrases.
    alternatives
        Number of best trees to return with each result.
    crf
        Use the CRF on top of the first grammar's posteriors (`sapwood.inference.forest_crf`) and its span scorer, if
        any.
    encoder
        Pretrained encoder, for models whose span scorer uses one (`sapwood.encoders`): its folder, or the name of an
        installed package. By default it is looked for by the digest in the model; without it, the span scorer is not
        used, and there is a warning.
    states
        Return the hidden states of the tree (`sapwood.inference.forest.tree_states`); requires a single probabilistic
        grammar.
    tokeniser
        Tokeniser of plain text: the name of one (`sapwood.trees.tokenise.registry`), or a function that returns the
        sentences of a text as lists of words. Default: the model's own.
    precision
        Precision of the fine pass, `single` or `double`; always double with a threshold of 0, and for weights beyond
        single precision.

    Attributes
    ----------
    model
        Grammars and components.

    Examples
    --------
    >>> for result in Parser().parse_text("She saw it. Did you?"):
    ...     print(result.tree)
    (ROOT (S (NP (PRP She)) (VP (VBD saw) (NP (PRP it))) (. .)))
    (ROOT (SQ (VBD Did) (NP (PRP you)) (. ?)))
    """

    def __init__(
        self,
        model: Sources | None = None,
        *,
        decoder: str | None = None,
        threshold: float | None = None,
        threads: int = 1,
        workers: Executor | None = None,
        max_words: int = 500,
        max_memory: int | None = None,
        timeout: float | None = None,
        marginals: bool = False,
        alternatives: int = 0,
        crf: bool = True,
        encoder: EncoderSource | None = None,
        states: bool = False,
        tokeniser: str | Callable[[str], Sentences] | None = None,
        precision: Precision = "single",
    ) -> None:
        if threshold is not None and not 0 <= threshold < 1:
            raise UsageError(f"the threshold must be at least 0 and below 1, not {threshold}")
        if precision not in get_args(Precision):
            raise UsageError(f"precision must be one of {', '.join(get_args(Precision))}, not {precision!r}")
        self.workers = workers if workers is not None else Threads(threads)
        self.model = ParserModel.gather(default_model_path() if model is None else model)
        self.crf, self.precision, self.encoder = crf, precision, encoder
        used, defaults = self.model.crf if crf else None, self.model.defaults
        if threshold is None:
            threshold = PRUNING_THRESHOLD if defaults.threshold is None else defaults.threshold
        self.threshold = float(threshold)
        factored = self.model.cp is not None and self.threshold > 0
        if decoder is None:
            decoder = defaults.decoder or ("max-rule" if used is None and not factored else "f1")
        if factored and decoder not in CP_DECODERS:
            raise UsageError(
                f"{decoder} needs rules, and this model has a CP decomposition of them; choose from "
                f"{', '.join(CP_DECODERS)}, or parse with the rules themselves (a threshold of 0, `--exact`)"
            )
        self._decode = find_decoder(decoder)
        if len(self.grammars) > 1 and (decoder == "max-rule-absolute" or (decoder == "viterbi" and used is None)):
            raise UsageError(
                f"{decoder} takes one grammar, not {len(self.grammars)}; choose from {', '.join(PRODUCT_DECODERS)}"
            )
        if decoder == "viterbi" and not self.grammar.probabilistic and used is None:
            raise GrammarError("viterbi needs a probabilistic grammar; this one has real-valued weights")
        self.decoder = decoder
        self.threads = self.workers.threads
        self.max_words = max_words
        self.max_memory = max_memory
        self.timeout = timeout
        self.marginals = marginals
        self.alternatives = alternatives
        self.states = states
        self.tokeniser = tokeniser
        self._check_limits()
        # Exact parsing requires exact arithmetic; and weights may be beyond single precision.
        weights = [values for grammar in self.grammars for values in (grammar.tensors, grammar.root)]
        largest = max(float(np.abs(values).max(initial=0.0)) for values in weights)
        double = precision == "double" or self.threshold == 0 or largest > 1e30
        self._compiled_model = CompiledModel(self.model, np.float64 if double else np.float32, crf=crf, encoder=encoder)
        if self.workers.is_local:  # remote workers compile it themselves
            assert self.compiled is not None
        self._cp = CompiledCP(self.grammar, self.model.cp) if factored and self.model.cp is not None else None
        self._workspace = Workspace()
        # True if only the tree is requested, which takes a single kernel call.
        self._direct = self._is_direct()

    @property
    def grammars(self) -> tuple[TensorGrammar, ...]:
        """All grammars."""
        return self.model.grammars

    @property
    def grammar(self) -> TensorGrammar:
        """The first grammar: symbols, rules, words and tree transformation are the same for all."""
        return self.model.grammar

    @property
    def _ensemble(self) -> Ensemble:
        return self._compiled_model.ensemble

    @property
    def compiled(self) -> CompiledGrammar:
        """Compiled grammars."""
        return self._compiled_model.ensemble.joint

    def release_weights(self) -> None:
        """Release the weights of the grammars, which the kernels hold as well; afterwards only parsing is possible."""
        self.model = self._compiled_model.release_weights()

    @property
    def _lookup(self) -> LexicalLookup:
        return self._compiled_model.lookup

    def __reduce__(self) -> tuple[Callable[[ParserModel], Parser], tuple[ParserModel]]:
        # Compiled arrays and work buffers are rebuilt.
        return partial(type(self), **self._settings(), threads=self.threads), (self.model,)

    def with_options(self, **options: Any) -> Parser:
        """Return a copy with different limits or outputs; large data are shared."""
        if unknown := options.keys() - {*_VARIABLE_OPTIONS}:
            raise UsageError(f"a parser cannot get another {', '.join(sorted(unknown))}; make a new one")
        other = object.__new__(type(self))
        kept = {name: value for name, value in vars(self).items() if name not in ("remote", "_cut")}
        vars(other).update(kept | options)
        other._check_limits()
        other._direct = other._is_direct()
        return other

    def _check_limits(self) -> None:
        if self.states and (len(self.grammars) > 1 or not self.grammar.probabilistic):
            raise UsageError("hidden states require a single probabilistic grammar; these are several, or real-valued")
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
        """Parse plain text; like `parse_text`, but returns a list."""
        return list(self.parse_text(text))

    def parse_text(self, text: str | Iterable[str], *, lines: Lines | None = None) -> Iterator[ParseResult]:
        """Return an iterator of one result per sentence of plain text, tokenised in the style of the treebank.

        The `offsets` of a result locate its words in the text. An iterable, such as a list of texts, a pandas Series or
        an open file, is read only as needed. Each item is a text of its own, unless it ends in a line break: then the
        text goes on in the next item, as with the lines of a file. Offsets are those in all items joined. `lines` is
        as for `tokenise`.
        """
        return self.parse_tokens(self.tokenise(text, lines=lines))

    def parse_tokens(self, sentences: Iterable[Sequence[Token]]) -> Iterator[ParseResult]:
        """Return an iterator of one result per sentence, given by its tokens, with their `offsets`."""
        return self.map(_parse_tokens, sentences)

    def tokenise(self, text: str | Iterable[str], *, lines: Lines | None = None) -> Iterator[list[Token]]:
        """Yield the tokens of each sentence of plain text, tokenised in the style of the grammar's treebank.

        `lines` says how to read line ends: every line is one sentence (`"sentences"`) or paragraph (`"paragraphs"`), or
        line ends are white space (`"free"`). By default (`"auto"`) lines are paragraphs unless they are wrapped; a
        tokeniser that is a function gets the whole text instead. See `sapwood.trees.tokenise.lines`. An iterable is
        read as by `parse_text`.
        """
        if isinstance(text, str):
            return tokenise_lines(self._cut, text, self._line_ends(lines))
        if isinstance(text, bytes) or not isinstance(text, Iterable):
            raise UsageError(f"text is a string or an iterable of strings, not {type(text).__name__}")
        return tokenise_texts(self._cut, text, self._line_ends(lines))

    def tokenise_pieces(self, pieces: Iterable[str], *, lines: Lines | None = None) -> Iterator[list[Token]]:
        """Yield the tokens of each sentence of a single text, which is given in pieces."""
        return tokenise_lines(self._cut, pieces, self._line_ends(lines))

    def _line_ends(self, lines: Lines | None) -> Lines:
        """Return how line ends are read."""
        return lines or ("free" if callable(self.tokeniser) else "auto")

    @cached_property
    def _cut(self) -> Tokeniser:
        if self.tokeniser is not None and not isinstance(self.tokeniser, str):
            return from_function(self.tokeniser)
        style = self.model.preparation.tokeniser
        return find_tokeniser(self.tokeniser or style.name, asdict(style))

    def map(self, call: Callable[[Parser, T], R], sentences: Iterable[T]) -> Iterator[R]:
        """Return an iterator of `call(parser, sentence)` for each sentence, in order, computed by the workers."""
        if self.workers.is_local:
            return self.workers.map(partial(call, self), sentences, ahead=_WINDOW * self.threads)
        parts = self.workers.map(partial(_parse_batch, call), repeat(self.remote), _batches(sentences))
        return chain.from_iterable(parts)

    @cached_property
    def remote(self) -> Handle:
        """Copy of this parser on its workers."""
        return self.workers.submit(_make_parser, [type(self)], [self.model], [self._settings()])[0]

    def _settings(self) -> dict[str, Any]:
        """Return the settings that results depend on, besides the model."""
        return {name: getattr(self, name) for name in (*_FIXED_OPTIONS, *_VARIABLE_OPTIONS)}

    def fingerprint(self) -> dict[str, Any]:
        """Return everything that results depend on, as JSON values."""
        settings = self._settings()
        if callable(self.tokeniser):
            settings["tokeniser"] = f"{self.tokeniser.__module__}.{self.tokeniser.__qualname__}"
        # The digest of the model has that of the encoder; where it was found changes nothing.
        del settings["encoder"]
        scorer = self.model.span_scorer
        if self.model.plugged_scorer is not None or (scorer is not None and scorer.encoder is not None):
            settings["span_scorer"] = self._ensemble.span_scorer is not None
        return {"model": self.model.digest(), **settings}

    @property
    def tags(self) -> Collection[str]:
        """Tags that words may be given."""
        return set(self.grammar.emissions.tags)

    @property
    def labels(self) -> list[str]:
        """Labels of phrases, those of the most frequent symbols first."""
        grammar = self.grammar
        counts: dict[str, float] = {}
        for number, symbol in enumerate(grammar.symbols):
            begin, end = grammar.state_offsets[number : number + 2]
            chain = symbol.chain[:-1] if number >= grammar.n_interminals else symbol.chain
            for label in chain:
                counts[label] = counts.get(label, 0.0) + float(grammar.occupancy[begin:end].sum())
        return sorted(counts, key=lambda label: (-counts[label], label))

    @cached_property
    def heads(self) -> HeadRules | None:
        """Head rules that fit the labels: the built-in ones, or those learned in training; None if there are none."""
        table = self.model.preparation.heads
        return HeadRules.parse(table, source=LEARNED) if table else HeadRules.fitting(*label_counts(self.grammar))

    def parse(self, sentences: Iterable[Sentence], *, check_tokens: bool = True) -> Iterator[ParseResult]:
        """Return an iterator of one result per sentence, in order, reading sentences only as needed.

        A sentence is a sequence of words, or of `(word, tag)` pairs with required tags (None: any tag). If words look
        like plain text that is not tokenised, there is a `PlainTextWarning`, once per parser, unless `check_tokens` is
        false.
        """
        return self.map(_parse_one, self._detector.watched(sentences, _warn) if check_tokens else sentences)

    def attached_punctuation(self) -> AttachedPunctuation:
        """Return a detector of plain text that is not tokenised, by the vocabulary of the model."""
        knows, induced = self.grammar.lexicon.knows, self.model.preparation.induced
        if induced is None or induced.punctuation == "keep":
            return AttachedPunctuation(knows)
        return AttachedPunctuation(lambda word: is_punctuation(word) or knows(word))  # the model has none

    @cached_property
    def _detector(self) -> AttachedPunctuation:
        return self.attached_punctuation()

    def parse_one(
        self, sentence: Sentence, *, phrases: Sequence[Requirement] = (), check_tokens: bool = True
    ) -> ParseResult:
        """Parse one sentence; `phrases` (start, end, label or None) are required in its tree.

        With a final True they are forbidden. Raises `NoParse` if the grammar has no such parse. `check_tokens` is as
        for `parse`.
        """
        return replace(self._parse_one(sentence, phrases, check_tokens), heads=self.heads)

    def _parse_one(self, sentence: Sentence, phrases: Sequence[Requirement], check_tokens: bool) -> ParseResult:
        tokens = sentence if isinstance(sentence, str) else list(sentence)
        if check_tokens and not isinstance(tokens, str):
            [tokens] = self._detector.watched([tokens], _warn)
        words, leaves = self._lookup.score(tokens)
        phrases = as_requirements(phrases)
        if not words:
            return ParseResult([], None, None, "empty")
        if len(words) > self.max_words:
            return ParseResult(words, self._ensemble.flat_tree(words, leaves), None, "too long")
        parse = self._tree if self._direct else self._tree_of_chart
        failure: Status = "flat"
        try:
            with self._limits():
                factored = self._cp is not None and not phrases
                if factored and (result := self._tree_of_factors(tokens, words, leaves)) is not None:
                    return result
                for attempt in self._attempts(leaves):
                    if (result := parse(attempt, words, phrases)) is not None:
                        return replace(result, status="relaxed") if factored and result.status == "parsed" else result
        except (OutOfMemory, TimedOut) as error:
            if phrases:
                raise
            failure = "out of memory" if isinstance(error, OutOfMemory) else "timed out"
        if phrases:
            raise NoParse(f"the grammar has no parse with the phrases {list(phrases)}")
        return ParseResult(words, self._ensemble.flat_tree(words, leaves), None, failure)

    @contextlib.contextmanager
    def _limits(self) -> Iterator[None]:
        """Enforce the memory and time limits of a sentence."""
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

    def _is_direct(self) -> bool:
        """Return whether trees are made without a chart in Python, which only the tree is taken from."""
        needs_chart = self.marginals or self.alternatives or self.grammar.transform.gaps
        return self.decoder in PRODUCT_DECODERS and not needs_chart

    def _tree(self, attempt: Attempt, words: list[str], phrases: Sequence[Requirement]) -> ParseResult | None:
        """Parse without building a chart in Python."""
        settings = attempt.settings(self._workspace, phrases, words)
        found = attempt.ensemble.parse(attempt.leaves, self.decoder, **settings)
        if found is None:
            return None
        coarse = attempt.ensemble.joint.coarse
        tree = self.grammar.transform.invert_symbols(found[0], coarse.symbols.chain, coarse.n_interminals, words)
        result = ParseResult(words, tree, known_log_probability(found[1]), attempt.status)
        return with_states(result, self.compiled, attempt.leaves) if self.states else result

    def _tree_of_chart(self, attempt: Attempt, words: list[str], phrases: Sequence[Requirement]) -> ParseResult | None:
        """Parse with a full chart."""
        status, ensemble, leaves = attempt.status, attempt.ensemble, attempt.leaves
        settings = attempt.settings(self._workspace, phrases, words)
        chart = ensemble.chart(leaves, keep_members=self.alternatives > 0, **settings)
        tree = None if chart is None else self._decode(chart, words)
        if tree is None or chart is None:
            return None
        parts = self.grammar.transform.invert_parts(tree)
        if self.grammar.transform.gaps and lacks_partners(parts):
            parts = find_partners(parts, chart.label_posteriors())
            # Parts that are required stay, as phrases of their own.
            parts = parts if phrases else drop_single_parts(parts)
        marginals = marginals_of(parts, chart.label_posteriors()) if self.marginals else None
        best = self._k_best(chart, words, self.alternatives) if self.alternatives else None
        score = known_log_probability(chart.log_probability)
        result = ParseResult(words, self.grammar.transform.joined(parts), score, status, marginals, best)
        return with_states(result, self.compiled, leaves) if self.states else result

    def _tree_of_factors(self, tokens: Sentence, words: list[str], leaves: list[Leaf]) -> ParseResult | None:
        """Parse with the CP decomposition of the rules."""
        assert self._cp is not None
        self._workspace.native.check_room(self._cp.memory(len(words)))
        pairs = [(token, None) if isinstance(token, str) else token for token in tokens]
        rows = np.array([self._cp.leaf(word, tag, place == 0) for place, (word, tag) in enumerate(pairs)])
        chart = self._cp.chart(rows, timeout=self.timeout)
        if chart is None:
            return None
        tree = self._cp.best(chart, words, self.decoder)
        marginals = marginals_of(tree, self._cp.label_posteriors(chart)) if self.marginals else None
        best = self.k_best(tokens, self.alternatives) if self.alternatives else None
        result = ParseResult(words, tree, chart.log_weight, "parsed", marginals, best)
        return with_states(result, self.compiled, leaves) if self.states else result

    def chart(self, sentence: Sentence, *, phrases: Sequence[Requirement] = (), brief: bool = False) -> AnyChart | None:
        """Return the chart of posteriors of a sentence under the grammar or grammars; None without a parse.

        If `brief`, the chart of several grammars is without those of its members, which takes less memory and time.
        """
        workspace = self._workspace if brief else None
        return self._chart(*self._lookup.score(sentence), workspace, as_requirements(phrases))

    def _chart(
        self,
        words: list[str],
        leaves: list[Leaf],
        workspace: Workspace | None,
        phrases: Sequence[Requirement] = (),
    ) -> AnyChart | None:
        if not leaves:
            return None
        for attempt in self._attempts(leaves):
            if attempt.status != "coarse":
                settings = attempt.settings(workspace, phrases, words)
                chart = attempt.ensemble.chart(attempt.leaves, **settings)
                if chart is not None:
                    return chart
        return None

    def posteriors(
        self, sentence: Sentence, *, phrases: Sequence[Requirement] = (), least: float = 0.0
    ) -> list[Marginal]:
        """Return all phrases and tags of all parses with posterior at least `least`, in the order of their words."""
        words, leaves = self._lookup.score(sentence)
        with self._limits():
            chart = self._chart(words, leaves, self._workspace, as_requirements(phrases))
            found = {} if chart is None else chart.label_posteriors()
        return sorted(Marginal(*key, value) for key, value in found.items() if value >= least)

    def k_best(self, sentence: Sentence, count: int, *, phrases: Sequence[Requirement] = ()) -> KBestList:
        """Return up to `count` distinct trees, the most probable first, with `log p(tree)` summed over states.

        With one state per symbol, and with a CRF, these are exactly the most probable trees that pruning leaves; a
        `threshold` of 0 prunes none. With hidden states they are if `exact` is true for the list; otherwise its
        `bound` limits the probability of all other trees (see `sapwood.inference.forest.kbest.k_best`). The probability
        of a tree under several grammars is the mean of their probabilities. With a CRF it is the probability of the
        sentence times the CRF's for the tree. If the grammar has no parse, the trees and probabilities are those of the
        coarse grammar, as in `alternatives` of `parse_one`; the list is empty if that has none, either.
        """
        if count < 0:
            raise UsageError(f"the number of trees must not be negative: {count}")
        words, leaves = self._lookup.score(sentence)
        with self._limits():
            for attempt in self._attempts(leaves) if leaves else ():
                settings = attempt.settings(self._workspace, as_requirements(phrases), words)
                chart = attempt.ensemble.chart(attempt.leaves, keep_members=True, **settings)
                if chart is not None:
                    return self._k_best(chart, words, count)
        return KBestList()

    def _k_best(self, chart: AnyChart, words: list[str], count: int) -> KBestList:
        found = chart.k_best(words, count, self._workspace)
        invert = self.grammar.transform.invert
        best = [Derivation(invert(tree), value) for tree, value in found]
        if self.grammar.transform.gaps:
            # Parts without a partner become phrases, so that two derivations can have the same tree.
            best = list({str(one.tree): one for one in reversed(best)}.values())[::-1]
            best.sort(key=lambda one: -one.log_probability)
        return KBestList(best, found.bound)

    def sample(
        self,
        sentence: Sentence,
        count: int,
        *,
        random_state: int | np.random.Generator | None = None,
        phrases: Sequence[Requirement] = (),
    ) -> list[Tree]:
        """Sample trees from the posterior over a sentence's parses; the list is empty without a parse.

        With several grammars each tree is sampled from one of them, chosen by the probability it gives the sentence.
        With a CRF trees are sampled from the CRF.
        """
        if count < 0:
            raise UsageError(f"the number of trees must not be negative: {count}")
        words, leaves = self._lookup.score(sentence)
        # With several grammars all charts are needed, not only the last.
        workspace = self._workspace if len(self.grammars) == 1 else None
        with self._limits():
            chart = self._chart(words, leaves, workspace, as_requirements(phrases))
        if chart is None:
            return []
        rng = np.random.default_rng(random_state)
        return [self.grammar.transform.invert(tree) for tree in chart.sample(words, count, rng)]

    def tree_log_probability(self, tree: Tree) -> float:
        """Return `log p(tree)` of a treebank tree (words included), -inf if the grammar cannot build it.

        The probability under several grammars is the mean of those under each; the CRF is not used.
        """
        # A parse can have words that look like traces; they are not, unless the tree marks them as such.
        has_empties = any(tag == "-NONE-" for tag in tree.tags())
        clean = (self.grammar.normaliser if has_empties else replace(self.grammar.normaliser, empties=False))(tree)
        if clean is None:
            raise UsageError("the tree is empty after normalisation")
        _, leaves = self._lookup.score(clean.words())
        # Ancestors and siblings follow from the tree itself, so base symbols suffice.
        return self._ensemble.tree_log_probability(leaves, base_tree(self.grammar.transform(clean)))

    def _attempts(self, leaves: list[Leaf]) -> Iterator[Attempt]:
        return attempts(self._ensemble, lambda: self._compiled_model.coarse, leaves, self.threshold)


def _warn(finding: str) -> None:
    """Warn of plain text where words are expected."""
    warnings.warn(f"{finding}; use `parse_text` to tokenise it", PlainTextWarning, stacklevel=4)


# Functions for workers; remote ones import them by name.


def _make_parser(kind: type[Parser], model: ParserModel, settings: dict[str, Any]) -> Parser:
    """Return a parser with settings."""
    return kind(model, **settings)


def _parse_one(parser: Parser, sentence: Sentence) -> ParseResult:
    """Parse a sentence."""
    return parser.parse_one(sentence, check_tokens=False)


def _parse_tokens(parser: Parser, tokens: Sequence[Token]) -> ParseResult:
    """Parse a sentence and record the character offsets of its words."""
    found = parser.parse_one([token.word for token in tokens], check_tokens=False)
    return replace(found, offsets=[(token.start, token.end) for token in tokens])


def _batches(sentences: Iterable[T]) -> Iterator[list[T]]:
    """Split sentences into batches for workers, small ones first so that no worker is idle."""
    rest = iter(sentences)
    for number in count():
        part = list(islice(rest, min(_LEAST << number // 4, _MOST)))
        if not part:
            return
        yield part


def _parse_batch(call: Callable[[Parser, T], R], parser: Parser, sentences: list[T]) -> list[R]:
    """Parse a batch of sentences, each with `call`."""
    return [call(parser, sentence) for sentence in sentences]
