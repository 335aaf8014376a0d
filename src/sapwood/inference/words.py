"""From a sentence to what its words can be: the lexical weights of each, looked up once for each word."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sapwood.errors import InputError, UsageError, listed
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.inference.compiled import Leaf
from sapwood.inference.product import Ensemble

# Words whose lexical weights are kept at hand, divided by the number of grammars.
_KEPT_WORDS = 8192
Sentence = Iterable[str | tuple[str, str | None]]


class WordReader:
    """Looks up the words of sentences in one or several grammars.

    Parameters
    ----------
    grammars, ensemble
        The grammars, and the same laid out for the kernels.
    """

    def __init__(self, grammars: Sequence[TensorGrammar], ensemble: Ensemble) -> None:
        self._grammars, self._ensemble = grammars, ensemble
        self._kept: dict[int, Leaf] = {}

    def read(self, sentence: Sentence) -> tuple[list[str], list[Leaf]]:
        """Return the words of a sentence, and the lexical weights of each."""
        if isinstance(sentence, str):
            raise UsageError("a sentence is a sequence of words, not a string: `parse_text` takes plain text")
        words: list[str] = []
        leaves: list[Leaf] = []
        for token in sentence:
            pair = (token, None) if isinstance(token, str) else token
            if not (isinstance(pair, Sequence) and len(pair) == 2 and isinstance(pair[0], str)):
                raise UsageError(f"a token is a word or a (word, tag) pair, not {token!r}")
            leaves.append(self._leaf(pair[0], pair[1], not words))
            words.append(pair[0])
        return words, leaves

    def _leaf(self, word: str, tag: str | None, initial: bool) -> Leaf:
        """Return the lexical weights of a word, only those of the given tag if there is one."""
        first = self._grammars[0]
        terminal = first.lexicon.terminal(word, initial)
        if tag is None:
            leaf = self._kept.get(terminal)
            if leaf is None:
                if len(self._kept) >= _KEPT_WORDS // len(self._grammars):
                    self._kept.clear()
                leaf = self._ensemble.leaf([grammar.emissions.row(terminal) for grammar in self._grammars])
                leaf.kind = self._kind(terminal)
                self._kept[terminal] = leaf
            return leaf
        tags = first.emissions.tags
        if tag not in tags:
            raise InputError(f"the grammar has no tag {tag!r} (of {word!r}); it has: {listed(tags)}")
        rows = [grammar.emissions.tagged_row(terminal, tag) for grammar in self._grammars]
        leaf = self._ensemble.leaf(rows, fixed=True)
        leaf.kind = self._kind(terminal)
        return leaf

    def _kind(self, terminal: int) -> int:
        """Return what a word is to the closing of cells (`sapwood.grammar.closing`)."""
        kinds = self._ensemble.joint.kinds
        return 0 if kinds is None else int(kinds[terminal])
