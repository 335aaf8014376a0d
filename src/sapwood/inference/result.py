"""Parse result of a sentence."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from sapwood.errors import InputError
from sapwood.inference.chart.compiled import CompiledGrammar, Leaf
from sapwood.inference.forest.kbest import Derivation
from sapwood.trees.drawing.svg import format_svg
from sapwood.trees.formats.gaps import phrase_blocks, split_gaps
from sapwood.trees.heads.learned import fit_heads
from sapwood.trees.heads.rules import HeadRules, head_positions
from sapwood.trees.normalise import cut_function_tag
from sapwood.trees.transform import base_tree
from sapwood.trees.tree import Tree

if TYPE_CHECKING:
    from sapwood.inference.forest.tree_states import NodeState

Status = Literal["parsed", "relaxed", "coarse", "flat", "too long", "out of memory", "timed out", "empty"]


class Marginal(NamedTuple):
    """Probability that words `start` to `end - 1` are a phrase with that label, or one word with that tag."""

    start: int
    end: int
    label: str
    probability: float


class ParsedPhrase(NamedTuple):
    """A phrase of a parse.

    Attributes
    ----------
    label
        Its label.
    start, end
        It has the words `start .. end - 1`, or some of them if it has gaps.
    text
        Its words, separated by spaces, with `...` for a gap.
    head, head_position
        Its head word, and the position of that word in the sentence.
    start_char, end_char
        Its characters `start_char .. end_char - 1` in the original text; None if the sentence was given as words.
    probability
        Its marginal probability, if it was computed.
    """

    label: str
    start: int
    end: int
    text: str
    head: str
    head_position: int
    start_char: int | None
    end_char: int | None
    probability: float | None


@dataclass(frozen=True, repr=False)
class ParseResult:
    """Parse of one sentence.

    Attributes
    ----------
    words
        The sentence.
    tree
        The tree, labelled as in the treebank; None for an empty sentence.
    log_probability
        Natural logarithm of the sentence's probability under the grammar (the mean over several grammars), or under the
        coarse grammar if the status is `coarse`; None without a parse, or if a real-valued grammar gives a negative
        weight.
    status
        `parsed`; `relaxed` (pruning had left no parse and was relaxed, or a CP decomposition had none and the rules
        parsed); `coarse` (no parse with the grammar, but with
        the coarse grammar that it implies); `flat` (no parse at all: a flat tree over the best tags); `too long`
        (beyond the parser's `max_words`: also flat); `out of memory`, `timed out` (beyond its `max_memory` or
        `timeout`, or the available memory: also flat); `empty`.
    marginals
        Marginal probability of each phrase and tag of the tree, if requested; means over several grammars. A phrase
        `VP` with gaps is listed by its parts, `VP*` (`sapwood.trees.formats.gaps.split_gaps`).
    alternatives
        The best trees with `log p(tree)`, if requested (see `Parser.k_best`).
    offsets
        Character offsets `start .. end - 1` of each word in the original text, if there was one (`Parser.parse_text`),
        however the treebank spells it.
    states, alternative_states
        Hidden states of the tree, and of each alternative, if requested: those of its skeletal tree's nodes, parents
        before children. None for a tree that the grammar cannot build.
    heads
        Head rules that fit the labels of the model (`Parser.heads`).
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
    heads: HeadRules | None = field(default=None, compare=False)

    @property
    def failed(self) -> bool:
        """True if the tree comes from no grammar at all."""
        return self.status not in ("parsed", "relaxed", "coarse")

    @property
    def state_tree(self) -> Tree | None:
        """The tree with the hidden state after each label, `NP-3`; None without states."""
        if self.tree is None or self.states is None:
            return None
        from sapwood.inference.forest.tree_states import show_states

        return show_states(self.states, self.words, self.tree.label)

    def phrases(self, *labels: str, heads: HeadRules | None = None) -> list[ParsedPhrase]:
        """Return the phrases with one of these labels, parents before children.

        Parameters
        ----------
        labels
            Labels, with or without function tags: `NP` also selects `NP-SBJ`. None selects every phrase.
        heads
            Head rules. Default: those that fit the model, or else, in a result that no parser returned, the tree.

        Examples
        --------
        >>> import sapwood
        >>> [result] = sapwood.Parser().parse_text("She saw the old dog in the garden.")
        >>> for phrase in result.phrases("NP", "PP"):
        ...     print(phrase.label, phrase.start_char, phrase.end_char, phrase.head, "|", phrase.text)
        NP 0 3 She | She
        NP 8 33 dog | the old dog in the garden
        NP 8 19 dog | the old dog
        PP 20 33 in | in the garden
        NP 23 33 garden | the garden
        """
        if self.tree is None:
            return []
        positions = head_positions(self.tree, heads or self.heads or fit_heads([self.tree]))
        inner = (place for place, node in zip(positions, self.tree.nodes(), strict=True) if node.word is None)
        probability = {(one.start, one.end, one.label): one.probability for one in self.marginals or ()}
        found = []
        for (blocks, label), head in zip(phrase_blocks(self.tree), inner, strict=True):
            start, end = blocks[0][0], blocks[-1][1]
            if not labels or label in labels or cut_function_tag(label) in labels:
                begins = None if self.offsets is None else self.offsets[start][0]
                ends = None if self.offsets is None else self.offsets[end - 1][1]
                text = " ... ".join(" ".join(self.words[first:last]) for first, last in blocks)
                sure = probability.get((start, end, label)) if len(blocks) == 1 else None
                found.append(ParsedPhrase(label, start, end, text, self.words[head], head, begins, ends, sure))
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return the result as lists, numbers and strings: the output of `sapwood parse --json`.

        Trees are in brackets, or in discbracket if they have gaps, which `gaps` says; probabilities are rounded to six
        places, and missing values omitted.
        """
        value: dict[str, Any] = {"words": list(self.words)}
        if self.offsets is not None:
            value["offsets"] = [list(place) for place in self.offsets]
        value |= {"tree": None} if self.tree is None else _tree_value(self.tree)
        value["log_probability"] = self.log_probability
        value["status"] = self.status
        if self.marginals is not None:
            value["marginals"] = [[*phrase, round(probability, 6)] for *phrase, probability in self.marginals]
        if self.alternatives is not None:
            value["alternatives"] = [
                {**_tree_value(tree), "log_probability": score} for tree, score in self.alternatives
            ]
        if self.states is not None:
            value["states"] = _state_rows(self.states)
        for alternative, states in zip(value.get("alternatives", ()), self.alternative_states or (), strict=False):
            alternative["states"] = None if states is None else _state_rows(states)
        return value

    def _repr_svg_(self) -> str | None:
        """Return an SVG picture for notebooks, with less probable phrases shaded if there are marginals."""
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


def _tree_value(tree: Tree) -> dict[str, Any]:
    """Return a tree as text, and whether it is discbracket because it has gaps."""
    return {"tree": str(tree), **({"gaps": True} if tree.has_gaps else {})}


def _state_rows(states: Sequence[NodeState]) -> list[list[Any]]:
    return [[*node, round(probability, 6)] for *node, probability in states]


def known_log_probability(log_probability: float) -> float | None:
    """Return the log probability unless it is NaN, as for negative weights of real-valued grammars."""
    return None if math.isnan(log_probability) else log_probability


def marginals_of(tree: Tree, posterior: Mapping[tuple[int, int, str], float]) -> list[Marginal]:
    """Return the phrases of the tree (without the root label, if it was added) and its tags with their posteriors.

    Of a phrase with gaps, these are the parts.
    """
    tags = [(position, position + 1, label) for position, label in enumerate(tree.tags())]
    spans = (split_gaps(tree) if tree.is_placed else tree).spans()
    found = [key for key in spans if key in posterior] + tags
    return [Marginal(*key, posterior.get(key, 0.0)) for key in found]


def with_states(result: ParseResult, compiled: CompiledGrammar, leaves: Sequence[Leaf]) -> ParseResult:
    """Return the result with the hidden states of its trees, given the lexical weights of its words."""
    transform = compiled.grammar.transform

    from sapwood.inference.forest.tree_states import tree_states

    def states_of(tree: Tree) -> list[NodeState] | None:
        return tree_states(compiled, leaves, base_tree(transform(tree)))

    if result.tree is None or result.status == "coarse":
        return result
    others = None if result.alternatives is None else [states_of(tree) for tree, _ in result.alternatives]
    return replace(result, states=states_of(result.tree), alternative_states=others)
