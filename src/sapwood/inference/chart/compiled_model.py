"""Compiled model: grammars laid out for the kernels on first use, and cached lexical weights of words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

from sapwood.errors import InputError, UsageError, listed
from sapwood.inference.chart.compiled import Leaf
from sapwood.inference.ensemble import Ensemble
from sapwood.inference.span_scorer import EncoderSource, open_span_scorer
from sapwood.model.parser_model import ParserModel

# Size of the cache in words, divided by the number of grammars.
_KEPT_WORDS = 8192
Sentence = Iterable[str | tuple[str, str | None]]


class LexicalLookup:
    """Lexical lookup in one or several grammars.

    Parameters
    ----------
    model, ensemble
        The model, and its compiled ensemble.
    """

    def __init__(self, model: ParserModel, ensemble: Ensemble) -> None:
        self._model, self._ensemble = model, ensemble
        self._cache: dict[int, Leaf] = {}
        self._spellings: dict[tuple[str, bool], int] = {}  # terminals of words, initial or not

    def score(self, sentence: Sentence) -> tuple[list[str], list[Leaf]]:
        """Return the words of a sentence, and the lexical weights of each."""
        if isinstance(sentence, str):
            raise UsageError("a sentence is a sequence of words, not a string: `parse_text` takes plain text")
        words: list[str] = []
        leaves: list[Leaf] = []
        for token in sentence:
            if isinstance(token, str):
                word, leaf = token, self._leaf(self._terminal(token, not words))
            elif isinstance(token, Sequence) and len(token) == 2 and isinstance(token[0], str):
                word, terminal = token[0], self._terminal(token[0], not words)
                leaf = self._leaf(terminal) if token[1] is None else self._tagged_leaf(word, terminal, token[1])
            else:
                raise UsageError(f"a token is a word or a (word, tag) pair, not {token!r}")
            leaves.append(leaf)
            words.append(word)
        return words, leaves

    def _terminal(self, word: str, initial: bool) -> int:
        """Return the terminal of a word."""
        key = word, initial
        found = self._spellings.get(key)
        if found is None:
            if len(self._spellings) >= _KEPT_WORDS:
                self._spellings.clear()
            found = self._spellings[key] = self._model.grammar.lexicon.terminal(word, initial)
        return found

    def _leaf(self, terminal: int) -> Leaf:
        """Return the lexical weights of a word."""
        leaf = self._cache.get(terminal)
        if leaf is None:
            grammars = self._model.grammars
            if len(self._cache) >= _KEPT_WORDS // len(grammars):
                self._cache.clear()
            leaf = self._ensemble.leaf([grammar.emissions.row(terminal) for grammar in grammars])
            leaf.kind = self._kind(terminal)
            self._cache[terminal] = leaf
        return leaf

    def _tagged_leaf(self, word: str, terminal: int, tag: str) -> Leaf:
        """Return the lexical weights of a word, restricted to the given tag."""
        tags = self._model.grammar.emissions.tags
        if tag not in tags:
            raise InputError(f"the grammar has no tag {tag!r} (of {word!r}); it has: {listed(tags)}")
        rows = [grammar.emissions.tagged_row(terminal, tag) for grammar in self._model.grammars]
        leaf = self._ensemble.leaf(rows, fixed=True)
        leaf.kind = self._kind(terminal)
        return leaf

    def _kind(self, terminal: int) -> int:
        """Return the word class of a word for cell pruning (`sapwood.model.cell_pruner`)."""
        ids = self._ensemble.joint.word_ids
        return 0 if ids is None else int(ids[terminal])


class CompiledModel:
    """Grammars compiled for the kernels, each part on first use.

    Parameters
    ----------
    model
        Grammars and components.
    dtype
        Precision of the fine passes.
    crf
        Use its CRF and span scorer, if any.
    encoder
        Pretrained encoder of the span scorer (`open_span_scorer`).
    """

    def __init__(
        self, model: ParserModel, dtype: type, *, crf: bool, encoder: EncoderSource | None = None
    ) -> None:  # fmt: skip
        self._model, self._dtype, self._crf, self._encoder = model, dtype, crf, encoder

    def release_weights(self) -> ParserModel:
        """Return the model without the weights that the kernels hold, and release the original."""
        self._model = self._model.replace(grammars=tuple(member.grammar for member in self.ensemble.members))
        vars(self).pop("lookup", None)  # holds them as well
        return self._model

    @cached_property
    def ensemble(self) -> Ensemble:
        """All grammars."""
        model = self._model
        crf = model.crf if self._crf else None
        span_scorer = open_span_scorer(model, self._encoder) if self._crf else None
        return Ensemble(model.grammars, self._dtype, crf, span_scorer, model.cell_pruner)

    @cached_property
    def lookup(self) -> LexicalLookup:
        """Cached lexical lookup."""
        return LexicalLookup(self._model, self.ensemble)

    @cached_property
    def coarse(self) -> Ensemble:
        """Coarse grammar implied by the grammars, for sentences that they cannot parse."""
        return Ensemble([self.ensemble.joint.coarse], self._dtype)
