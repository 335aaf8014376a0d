"""Conversion of automata of one sort to and from weighted context-free grammars (section 4.1), and to models.

An automaton gives a tree without labels the sum of the weights of all derivations of that shape; states are
nonterminals. In a model its states are those of one symbol, which labels both phrases and words.
"""

from __future__ import annotations

from typing import Literal, Unpack

import numpy as np

from sapwood.automata.automaton import TreeAutomaton
from sapwood.automata.reduce.truncation import MOST_WEIGHTS, ReducedAutomaton, minimise_automaton
from sapwood.automata.svta import StateBudget
from sapwood.automata.tensors import compact, dense
from sapwood.automata.wcfg.files import read_grammar, write_grammar
from sapwood.automata.wcfg.wcfg import WeightedGrammar
from sapwood.errors import InputError, UsageError
from sapwood.grammar.tensor_grammar import TensorGrammar, plain_emissions
from sapwood.runtime.progress import Progress
from sapwood.storage.shapes import Array, Float
from sapwood.trees.symbols import SymbolTable

# Files with this ending are models.
MODEL_ENDING = ".sapwood"
# Maximum number of steps and size of the sums of all trees' vectors.
_MOST_STEPS, _LARGEST_SUM = 10_000, 1e100


def from_weighted_grammar(grammar: WeightedGrammar) -> TreeAutomaton:
    """Return the automaton with a state for each nonterminal: `f(t)` sums over all derivations of the shape of `t`.

    Examples
    --------
    >>> from sapwood.automata.wcfg.files import parse_grammar
    >>> grammar = parse_grammar("S -> S S [0.25] | 'a' [0.5] | 'b' [0.25]")
    >>> from_weighted_grammar(grammar).weight(("a", ("b", "a")))
    0.00390625
    """
    return TreeAutomaton.single(
        grammar.root, compact(grammar.binary), grammar.lexical.toarray().T.copy(), grammar.words
    )


def to_weighted_grammar(automaton: TreeAutomaton) -> WeightedGrammar:
    """Return the grammar with a nonterminal for each state of each sort."""
    if automaton.words is None:
        raise UsageError("this automaton has no words: it was made with words=False")
    one = automaton if len(automaton.sorts) == 1 else automaton.joined()
    transitions = one.transitions[0] if one.transitions else np.zeros((one.n_states,) * 3)
    return WeightedGrammar.from_parts(one.root[0], transitions, one.leaves[0].T, automaton.words)


def to_model(automaton: TreeAutomaton, label: str = "X") -> TensorGrammar:
    """Return an automaton of one sort as a model with one label, to parse sentences into trees without other labels.

    Each state occurs twice: for the label over phrases, and over words.

    Examples
    --------
    >>> from sapwood.automata.wcfg.files import parse_grammar
    >>> model = to_model(from_weighted_grammar(parse_grammar("S -> S S [0.25] | 'a' [0.5] | 'b' [0.25]")))
    >>> model.rule_counts.round(5).tolist(), model.occupancy.round(5).tolist()
    ([0.03125, 0.09375, 0.09375, 0.28125], [2.0, 2.0])
    """
    if len(automaton.sorts) != 1 or automaton.words is None:
        raise UsageError("only an automaton of one sort, with words, is a model of one label")
    n = automaton.n_states
    if 4 * n**3 > MOST_WEIGHTS:
        raise UsageError(f"a model of {n:,} states would have 4 x {n:,}^3 weights; keep fewer states")
    tensor = dense(automaton.transitions[0]) if automaton.transitions else np.zeros((n, n, n))
    rows = automaton.leaves[0]
    vectors = {(0, word): rows[word] for word in np.flatnonzero(rows.any(axis=1)).tolist()}
    outside, counts = _expectations(automaton.root[0], tensor, rows.sum(axis=0))
    return TensorGrammar(
        symbols=SymbolTable.from_names([label, label]),
        n_interminals=1,
        states=np.array([n, n], np.int32),
        rules=np.array([[0, 0, 0], [0, 0, 1], [0, 1, 0], [0, 1, 1]], np.int32),
        tensors=np.tile(tensor.ravel(), 4),
        root=np.tile(automaton.root[0], 2),
        emissions=plain_emissions(automaton.words, [label], np.array([n], np.int32), vectors),
        probabilistic=False,
        occupancy=np.tile(outside, 2),
        rule_counts=counts,
        info={"method": "automaton"},
    ).validate()


def _expectations(
    root: Float[Array, "states"], tensor: Float[Array, "states states states"], leaves: Float[Array, "states"]
) -> tuple[Float[Array, "states"], Float[Array, "4"]]:
    """Return the sum of all contexts' vectors, and the expected uses of the model's rules, which prune its charts.

    The sum of all trees' vectors is a fixed point of `s = T(s, s) + leaves`. If it is not finite, or the weights are so
    far from probabilities that counts are negative, the vectors of one tree and equal counts are used.
    """
    total = leaves
    for _ in range(_MOST_STEPS):
        total, last = leaves + (tensor @ total) @ total, total
        if not np.abs(total).max(initial=0.0) < _LARGEST_SUM or np.allclose(total, last, rtol=1e-12, atol=0.0):
            break
    phrases = total - leaves
    try:
        slope = tensor @ total + np.einsum("ijk,j->ik", tensor, total)
        outside = np.linalg.solve((np.eye(len(root)) - slope).T, root)
    except np.linalg.LinAlgError:
        return root, np.ones(4)
    counts = np.array([outside @ (tensor @ right) @ left for left in (phrases, leaves) for right in (phrases, leaves)])
    if not (np.isfinite(counts).all() and (counts >= 0).all() and counts.any() and outside @ leaves > 0):
        return root, np.ones(4)
    return outside, counts


def minimise_text(
    source: str,
    output: str,
    *,
    weighting: Literal["l2", "gamma"] = "l2",
    gamma: float | None = None,
    progress: Progress | None = None,
    **choice: Unpack[StateBudget],
) -> ReducedAutomaton:
    """Reduce the nonterminals of a weighted grammar in a text file, and write the result.

    Parameters
    ----------
    source
        The grammar, in a notation that `sapwood.automata.wcfg.files` reads.
    output
        File for the smaller grammar: a model to parse with (`to_model`) if the name ends in `.sapwood`, else in the
        plain notation.
    weighting, gamma, progress, choice
        See `sapwood.automata.reduce.truncation.truncate`.
    """
    automaton = from_weighted_grammar(read_grammar(source))
    found = minimise_automaton(automaton, weighting=weighting, gamma=gamma, progress=progress, **choice)
    if not any(values.any() for values in found.states.values):
        raise InputError(f"{source}: no tree has any weight; are words in quotes, and has every nonterminal rules?")
    if output.endswith(MODEL_ENDING):
        to_model(found.automaton).save(output)
    else:
        write_grammar(to_weighted_grammar(found.automaton), output)
    return found
