"""NLTK interface: sapwood as an NLTK parser, and NLTK grammars as models (requires the extra `nltk`).

>>> from nltk import PCFG
>>> grammar = PCFG.fromstring("S -> N V [1.0]\\nN -> 'dogs' [0.5] | 'cats' [0.5]\\nV -> 'sleep' [1.0]")
>>> parser = SapwoodParser(grammar)
>>> for tree in parser.parse(["dogs", "sleep"]):
...     print(tree)
(S (N dogs) (V sleep)) (p=0.5)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

from sapwood.automata.wcfg.files import format_grammar
from sapwood.automata.wcfg.wcfg import WeightedGrammar
from sapwood.errors import UsageError
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.inference import Parser, ParseResult
from sapwood.interop.productions import model_of_productions, quoted_word
from sapwood.trees.formats.gaps import require_no_gaps
from sapwood.trees.tree import Tree

try:
    import nltk
    from nltk.parse.api import ParserI
except ImportError as error:
    raise UsageError("sapwood.interop.nltk needs NLTK: pip install nltk") from error


def model_from_nltk(grammar: nltk.CFG) -> TensorGrammar:
    """Return the model of an `nltk.PCFG`, or of an `nltk.CFG` with equally probable rules.

    Parse it with `Parser(model, decoder="viterbi", threshold=0)` for NLTK's own answers, or with `SapwoodParser`.
    """
    counts: dict[Any, int] = {}
    for rule in grammar.productions():
        counts[rule.lhs()] = counts.get(rule.lhs(), 0) + 1

    def productions() -> Iterator[tuple[str, tuple[tuple[str, bool], ...], float]]:
        for rule in grammar.productions():
            side = tuple((str(part), not isinstance(part, nltk.Nonterminal)) for part in rule.rhs())
            weight = rule.prob() if isinstance(grammar, nltk.PCFG) else 1 / counts[rule.lhs()]
            yield str(rule.lhs()), side, float(weight)

    return model_of_productions(str(grammar.start()), productions())


def model_to_nltk(grammar: TensorGrammar, *, probabilities: bool = True) -> nltk.CFG:
    """Return a probabilistic model as an `nltk.PCFG`, or without `probabilities` as an `nltk.CFG`.

    There is a nonterminal for each state of each symbol.

    Names are those of `WeightedGrammar.from_tensor_grammar`: `NP_3` is a state, and signatures of unknown words are in
    angle brackets. Characters that NLTK's notation does not allow become `_`.
    """
    if not grammar.probabilistic:
        raise UsageError("only a probabilistic model is a PCFG; this one has real-valued weights")
    found = nltk.PCFG.fromstring(format_grammar(WeightedGrammar.from_tensor_grammar(grammar), format="nltk"))
    if probabilities:
        return found
    return nltk.CFG(found.start(), [nltk.Production(rule.lhs(), rule.rhs()) for rule in found.productions()])


class SapwoodParser(ParserI):  # type: ignore[misc]
    """A parser with NLTK's interface: `parse`, `parse_sents`, `parse_one`, `parse_all`, `grammar`.

    Parameters
    ----------
    model
        A model as for `Parser`, or an `nltk.CFG` or `nltk.PCFG`, whose most probable trees are found exactly. Default:
        the included English model.
    trees
        Maximum number of trees, most probable first. A single tree is that of the decoder.
    options
        Further settings of `Parser`.

    Trees are `nltk.tree.ProbabilisticTree`s with the probability of the tree. A sentence without a parse has none.
    """

    def __init__(self, model: Any = None, *, trees: int = 1, **options: Any) -> None:
        if trees < 1:
            raise UsageError(f"the number of trees must be at least 1, not {trees}")
        self._given = model if isinstance(model, nltk.CFG) else None
        if self._given is not None:
            model = model_from_nltk(self._given)
            options = {"decoder": "viterbi", "threshold": 0.0, **options}
        self.parser = Parser(model, **{**options, "alternatives": trees if self._given or trees > 1 else 0})
        self.trees = trees

    def grammar(self) -> nltk.CFG:
        """Return the grammar: the one given, or the model as a PCFG."""
        return self._given or model_to_nltk(self.parser.grammar)

    def parse(self, sent: Iterable[str], *_: Any, **__: Any) -> Iterator[nltk.Tree]:
        """Return an iterator over the trees of a sentence, most probable first."""
        return self._trees(self.parser.parse_one(list(sent)))

    def parse_sents(self, sents: Iterable[Iterable[str]], *_: Any, **__: Any) -> Iterator[Iterator[nltk.Tree]]:
        """Return an iterator over the trees of each sentence, in order; `threads` parses several at a time."""
        return map(self._trees, self.parser.parse(map(list, sents)))

    def _trees(self, result: ParseResult) -> Iterator[nltk.Tree]:
        if result.failed or result.tree is None:
            return
        if result.status == "coarse" and self._given is not None:  # NLTK's own grammar has no such tree
            return
        if result.alternatives is not None and result.status != "coarse":
            for tree, log_probability in result.alternatives[: self.trees]:
                yield self._converted(tree, log_probability)
        else:
            score = -math.inf if result.status == "coarse" else self.parser.tree_log_probability(result.tree)
            yield self._converted(result.tree, score)

    def _converted(self, tree: Tree, log_probability: float) -> nltk.Tree:
        require_no_gaps(tree, "NLTK")
        made = tree.fold(self._node)
        return nltk.tree.ProbabilisticTree(made.label(), list(made), logprob=log_probability / math.log(2))

    def _node(self, node: Tree, below: list[Any]) -> Any:
        if node.word is None:
            return nltk.Tree(node.label, below)
        # In NLTK rules, a word next to other symbols has no tag.
        untagged = self._given is not None and node.label == quoted_word(node.word)
        return node.word if untagged else nltk.Tree(node.label, [node.word])
