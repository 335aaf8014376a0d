"""What a parser says about a sentence."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from sapwood.errors import InputError
from sapwood.inference.compiled import CompiledGrammar, Leaf
from sapwood.inference.forest_trees import Derivation
from sapwood.inference.tree_states import NodeState, show_states, tree_states
from sapwood.trees.svg import format_svg
from sapwood.trees.transform import base_tree
from sapwood.trees.tree import Tree

Status = Literal["parsed", "loosened", "coarse", "fallback", "too long", "out of memory", "timed out", "empty"]


class Marginal(NamedTuple):
    """How probable it is that words `start` to `end - 1` are a phrase of that label, or one word of that tag."""

    start: int
    end: int
    label: str
    probability: float


@dataclass(frozen=True, repr=False)
class ParseResult:
    """One sentence's parse.

    Attributes
    ----------
    words
        The sentence.
    tree
        The tree, labels and all as in the treebank; None for an empty sentence.
    log_probability
        Natural logarithm of the sentence's probability under the grammar (the mean of its probabilities under several
        ones); None where it has no parse.
    status
        `parsed`; `loosened` (pruning had left no parse and was loosened); `coarse` (the grammar has no parse, the
        coarse grammar that it implies has); `fallback` (no parse at all: a flat tree over the best tags); `too long`
        (beyond the parser's `max_words`: likewise flat); `out of memory`, `timed out` (beyond its `max_memory` or
        `timeout`, or what memory there is: likewise flat); `empty`.
    marginals
        How probable each phrase of the tree and each tag is, if the parser was asked for it; means of the posteriors
        of several grammars.
    alternatives
        The best trees with `log p(tree)`, if the parser was asked for them (see `Parser.k_best`).
    offsets
        Where each word stands in the text that it comes from, if there was one (`Parser.parse_text`): characters
        `start .. end - 1`, however the treebank writes them.
    states, alternative_states
        The hidden states of the tree, and of each alternative, if the parser was asked for them: those of its skeletal
        tree's nodes, parents before children. None for a tree that the grammar does not have.
    """

    words: list[str]
    tree: Tree | None
    log_probability: float | None
    status: Status
    marginals: list[Marginal] | None = None
    alternatives: list[Derivation] | None = None
    offsets: list[tuple[int, int]] | None = None
    states: list[NodeState] | None = None
    alternative_states: list[list[NodeState] | None] | None = None

    @property
    def failed(self) -> bool:
        """Whether the tree comes from no grammar at all."""
        return self.status not in ("parsed", "loosened", "coarse")

    @property
    def state_tree(self) -> Tree | None:
        """The tree with the hidden state behind each label, `NP-3`; None where there are no states."""
        if self.tree is None or self.states is None:
            return None
        return show_states(self.states, self.words, self.tree.label)

    def to_dict(self) -> dict[str, Any]:
        """Return the result in lists, numbers and strings: what `sapwood parse --json` prints.

        Trees are in brackets, probabilities rounded to six places, and what there is none of is left out.
        """
        value: dict[str, Any] = {"words": list(self.words)}
        if self.offsets is not None:
            value["offsets"] = [list(place) for place in self.offsets]
        value["tree"] = None if self.tree is None else str(self.tree)
        value["log_probability"] = self.log_probability
        value["status"] = self.status
        if self.marginals is not None:
            value["marginals"] = [[*phrase, round(probability, 6)] for *phrase, probability in self.marginals]
        if self.alternatives is not None:
            value["alternatives"] = [{"tree": str(tree), "log_probability": score} for tree, score in self.alternatives]
        if self.states is not None:
            value["states"] = _state_rows(self.states)
        for alternative, states in zip(value.get("alternatives", ()), self.alternative_states or (), strict=False):
            alternative["states"] = None if states is None else _state_rows(states)
        return value

    def _repr_svg_(self) -> str | None:
        """Return a picture for notebooks, with the less probable phrases shaded if there are marginals."""
        if self.tree is None:
            return None
        try:
            return format_svg(self.tree, confidences=self.marginals or ())
        except InputError:
            return None

    def __repr__(self) -> str:
        text = " ".join(self.words)
        shown = text if len(text) <= 60 else text[:57] + "..."
        score = "" if self.log_probability is None else f", log probability {self.log_probability:.2f}"
        return f"<ParseResult: {shown!r}, {self.status}{score}>"


def _state_rows(states: Sequence[NodeState]) -> list[list[Any]]:
    return [[*node, round(probability, 6)] for *node, probability in states]


def known_log_probability(status: Status, log_probability: float) -> float | None:
    """Return the log probability if it is the grammar's, and a number."""
    return None if status == "coarse" or math.isnan(log_probability) else log_probability


def marginals_of(tree: Tree, posterior: Mapping[tuple[int, int, str], float]) -> list[Marginal]:
    """Return the tree's phrases (without the root label, if it was added) and tags with their posteriors."""
    tags = [(position, position + 1, label) for position, label in enumerate(tree.tags())]
    found = [key for key in tree.spans() if key in posterior] + tags
    return [Marginal(*key, posterior.get(key, 0.0)) for key in found]


def with_states(result: ParseResult, compiled: CompiledGrammar, leaves: Sequence[Leaf]) -> ParseResult:
    """Return the result with the hidden states of its trees, given its words' lexical weights."""
    transform = compiled.grammar.transform

    def states_of(tree: Tree) -> list[NodeState] | None:
        return tree_states(compiled, leaves, base_tree(transform(tree)))

    if result.tree is None or result.status == "coarse":
        return result
    others = None if result.alternatives is None else [states_of(tree) for tree, _ in result.alternatives]
    return replace(result, states=states_of(result.tree), alternative_states=others)
