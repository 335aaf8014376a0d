"""Weighted tree automata with sorts: one in the paper, one for each symbol in a grammar with labelled trees.

An automaton of one sort with `n` states (section 2.1) gives every binary tree over words a weight, `f(t) = alpha^T
omega(t)` with `omega((t1, t2)) = T(I, omega(t1), omega(t2))`. With several sorts every node of a tree has one, each
sort has its own states, and each rule `a -> b c` its own tensor; the paper's results carry over sort by sort: the
Hankel matrix of sort `a` has the contexts whose hole is of that sort as rows, and the trees of that sort as columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np

from sapwood.automata.tensors import SparseTensor, Tensor, apply, as_sparse, compact
from sapwood.errors import GrammarError, UsageError
from sapwood.grammar.emissions import offsets_of
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.storage.shapes import Array, Float, Int, Int64, Num
from sapwood.trees.tree import Tree

# The word that marks the hole of a context.
HOLE = "<hole>"
# A tree over one sort as words and pairs, or one whose labels are sorts.
Term: TypeAlias = "str | tuple[Term, Term] | Tree"


@dataclass(frozen=True, eq=False)
class TreeAutomaton:
    """A weighted tree automaton.

    Attributes
    ----------
    sorts
        Names of the sorts.
    root
        Root weights `alpha` of each sort.
    rules
        Sorts `a -> b c`, without duplicates.
    transitions
        Tensor of each rule, `(n_a, n_b, n_c)`.
    leaves
        Lexical weights of each sort: a row `omega_x` for each word.
    words
        The names of the rows of `leaves`; None if the rows are not words. (Gram matrices depend on leaves only through
        `sum over x of omega_x omega_x^T`, so a few rows can stand for a whole lexicon.)

    Examples
    --------
    >>> automaton = TreeAutomaton.single([1.0], [[[0.25]]], {"a": [0.5], "b": [0.25]})
    >>> automaton.weight(("a", ("b", "a")))
    0.00390625
    """

    sorts: list[str]
    root: tuple[Float[Array, "states"], ...]
    rules: Int[Array, "rules 3"]
    transitions: tuple[Tensor, ...]
    leaves: tuple[Float[Array, "words states"], ...]
    words: list[str] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        sizes = self.sizes.tolist()
        if not (len(self.sorts) == len(self.root) == len(self.leaves) > 0):
            raise GrammarError("an automaton needs a root vector and a matrix of leaves for each sort")
        if self.rules.shape != (len(self.transitions), 3):
            raise GrammarError(f"{len(self.transitions)} tensors for rules of shape {self.rules.shape}")
        if len({tuple(rule) for rule in self.rules.tolist()}) < len(self.rules):
            raise GrammarError("a rule occurs twice")
        for rule, tensor in zip(self.rules.tolist(), self.transitions, strict=True):
            if max(rule) >= len(sizes) or min(rule) < 0 or tensor.shape != tuple(sizes[sort] for sort in rule):
                raise GrammarError(f"the tensor of rule {rule} has shape {tensor.shape}, which does not fit the sorts")
        for sort, leaves in enumerate(self.leaves):
            rows = len(leaves) if self.words is None else len(self.words)
            if leaves.shape != (rows, sizes[sort]):
                raise GrammarError(
                    f"the leaves of {self.sorts[sort]} have shape {leaves.shape}, not {rows, sizes[sort]}"
                )

    @cached_property
    def sizes(self) -> Int64[Array, "sorts"]:
        """Number of states of each sort."""
        return np.array([len(vector) for vector in self.root], np.int64)

    @property
    def n_states(self) -> int:
        """Total number of states."""
        return int(self.sizes.sum())

    def __repr__(self) -> str:
        sorts = "1 sort" if len(self.sorts) == 1 else f"{len(self.sorts)} sorts"
        return f"<TreeAutomaton: {sorts}, {self.n_states} states, {len(self.rules)} rules>"

    @classmethod
    def single(
        cls,
        root: Sequence[float] | Num[Array, "states"],
        transitions: Tensor | Sequence[Sequence[Sequence[float]]],
        leaves: dict[str, Sequence[float]] | Num[Array, "words states"],
        words: Sequence[str] | None = None,
    ) -> TreeAutomaton:
        """Build an automaton of one sort, `<alpha, T, {omega_x}>`; leaves by word, or as an array."""
        if isinstance(leaves, dict):
            words, rows = list(leaves), np.array(list(leaves.values()), float)
        else:
            rows = np.asarray(leaves, float)
        vector = np.asarray(root, float)
        is_tensor = hasattr(transitions, "shape")
        tensor = transitions if is_tensor else np.asarray(transitions, float)
        return cls(
            ["X"], (vector,), np.zeros((1, 3), np.int32), (tensor,), (rows.reshape(-1, len(vector)),),  # type: ignore[arg-type]
            None if words is None else list(words),
        )  # fmt: skip

    @classmethod
    def from_grammar(cls, grammar: TensorGrammar, *, words: bool = True) -> TreeAutomaton:
        """Return the automaton of a grammar, with its symbols as sorts.

        Parameters
        ----------
        grammar
            Any grammar.
        words
            Whether `leaves` have a row for each known word and signature; otherwise each preterminal has as many rows
            as states, with the same Gram matrix.
        """
        return cls._from_grammars([grammar], words)[0]

    @classmethod
    def from_grammars(cls, one: TensorGrammar, other: TensorGrammar) -> tuple[TreeAutomaton, TreeAutomaton]:
        """Return the automata of two grammars with the same symbols and words, for comparison.

        Leaves have the fewest rows that can stand for all words in Gram matrices and in products of both.
        """
        if list(one.symbols) != list(other.symbols) or one.lexicon.words != other.lexicon.words:
            raise UsageError("the grammars have different symbols or words")
        first, second = cls._from_grammars([one, other], False)
        return first, second

    @classmethod
    def _from_grammars(cls, grammars: Sequence[TensorGrammar], words: bool) -> list[TreeAutomaton]:
        first, *_ = grammars
        n_inner, lexicon = first.n_interminals, first.lexicon
        leaves: list[list[np.ndarray]] = [
            [np.zeros((lexicon.n_terminals if words else 0, int(m))) for m in grammar.states[:n_inner]]
            for grammar in grammars
        ]
        factors: dict[tuple[int, ...], list[np.ndarray]] = {}
        for number in range(len(first.emissions.states)):
            emitters = tuple(
                number if grammar.emissions.emitter is None else int(grammar.emissions.emitter[number])
                for grammar in grammars
            )
            if emitters not in factors:
                pairs = zip(grammars, emitters, strict=True)
                columns = [grammar.emissions.column(emitter) for grammar, emitter in pairs]
                if not words:
                    ends = np.cumsum([column.shape[1] for column in columns])[:-1]
                    columns = np.split(_square_root(np.concatenate(columns, axis=1)), ends, axis=1)
                factors[emitters] = columns
            for own, column in zip(leaves, factors[emitters], strict=True):
                own.append(column)
        return [
            cls(
                list(grammar.symbols),
                tuple(grammar.root_vector(symbol).astype(float) for symbol in range(len(grammar.symbols))),
                grammar.rules,
                tuple(_as_tensor(grammar.tensor(rule)) for rule in range(len(grammar.rules))),
                tuple(own),
                [lexicon.name(terminal) for terminal in range(lexicon.n_terminals)] if words else None,
            )
            for grammar, own in zip(grammars, leaves, strict=True)
        ]

    def joined(self) -> TreeAutomaton:
        """Return the automaton of one sort with the states of all: trees lose their labels, weights add up.

        `f(t)` of a tree without labels is the sum over all labellings (section 4.1).
        """
        if self.words is None:
            raise UsageError("sorts can be joined only if their leaves are words: a word can be of several sorts")
        offsets = offsets_of(self.sizes)
        n = self.n_states
        places, values = [np.zeros((0, 3), np.int64)], [np.zeros(0)]
        for rule, tensor in zip(self.rules, self.transitions, strict=True):
            sparse = as_sparse(tensor)
            places.append(sparse.places + offsets[rule])
            values.append(sparse.values)
        joint = SparseTensor.from_entries((n, n, n), np.concatenate(places), np.concatenate(values))
        leaves = np.concatenate(self.leaves, axis=1)
        return TreeAutomaton.single(np.concatenate(self.root), compact(joint), leaves, self.words)

    def without_words(self) -> TreeAutomaton:
        """Return the automaton with the fewest rows of leaves that can stand for all words in Gram matrices."""
        return replace(self, leaves=tuple(_square_root(rows) for rows in self.leaves), words=None)

    @cached_property
    def _sort_numbers(self) -> dict[str, list[int]]:
        numbers: dict[str, list[int]] = {}
        for number, name in enumerate(self.sorts):
            numbers.setdefault(name, []).append(number)
        return numbers

    @cached_property
    def _word_numbers(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.words or [])}

    @cached_property
    def _rule_numbers(self) -> dict[tuple[int, int, int], int]:
        return {tuple(rule): number for number, rule in enumerate(self.rules.tolist())}

    def _sort_of(self, label: str, word: bool) -> int:
        """Return the number of a sort; if an interminal and a preterminal share a name, the latter has words."""
        found = self._sort_numbers.get(label)
        if found is None:
            raise UsageError(f"the automaton has no sort {label!r}; it has {', '.join(self.sorts[:8])}")
        return found[-1] if word else found[0]

    def vector(self, tree: Term) -> Float[Array, "states"]:
        """Return `omega(t)`, over the states of the tree's root."""
        return self._evaluate(tree)[1]

    def weight(self, tree: Term) -> float:
        """Return `f(t)`."""
        sort, vector, _ = self._evaluate(tree)
        return float(self.root[sort] @ vector)

    def context_matrix(self, context: Term) -> Float[Array, "root_states hole_states"]:
        """Return `Xi(c)`: `omega(c[t]) = Xi(c) omega(t)`."""
        return self._evaluate_context(context)[1]

    def context_vector(self, context: Term) -> Float[Array, "hole_states"]:
        """Return `alpha(c)`: `f(c[t]) = alpha(c)^T omega(t)`."""
        sort, matrix = self._evaluate_context(context)
        return np.asarray(self.root[sort] @ matrix)

    def hankel(self, contexts: Sequence[Term], trees: Sequence[Term]) -> Float[Array, "contexts trees"]:
        """Return the block `H(c, t) = f(c[t])` of a Hankel matrix; all contexts and trees are of one sort."""
        rows = np.array([self.context_vector(context) for context in contexts])
        columns = np.array([self.vector(tree) for tree in trees])
        return np.asarray(rows @ columns.T)

    def _evaluate_context(self, context: Term) -> tuple[int, np.ndarray]:
        """Return the sort of a context's root, and `Xi`."""
        sort, _, matrix = self._evaluate(context)
        if matrix is None:
            raise UsageError(f"a context has a hole, the word {HOLE}; this one has none")
        return sort, matrix

    def _evaluate(self, term: Term) -> tuple[int, np.ndarray, np.ndarray | None]:
        """Return the sort of a term's root, `omega`, and `Xi` if there is a hole in it (`omega` is then meaningless).

        Bottom up with an explicit stack, because trees can be deeper than Python's.
        """
        done: list[tuple[int, np.ndarray, np.ndarray | None]] = []
        waiting: list[tuple[Term, bool]] = [(term, False)]
        while waiting:
            node, ready = waiting.pop()
            word, label, children = _parts(node)
            if word is not None:
                done.append(self._leaf(word, label))
            elif not ready:
                waiting += [(node, True), (children[1], False), (children[0], False)]
            else:
                right, left = done.pop(), done.pop()
                done.append(self._inner(label, left, right))
        return done[0]

    def _leaf(self, word: str, label: str | None) -> tuple[int, np.ndarray, np.ndarray | None]:
        if word == HOLE:
            sort = 0 if label is None else self._sort_of(label, False)
            return sort, np.zeros(self.sizes[sort]), np.eye(self.sizes[sort])
        sort = 0 if label is None else self._sort_of(label, True)
        if self.words is None:
            raise UsageError("this automaton has no words: it was made with words=False")
        if word not in self._word_numbers:
            raise UsageError(f"the automaton does not know the word {word!r}")
        return sort, self.leaves[sort][self._word_numbers[word]], None

    def _inner(
        self,
        label: str | None,
        left: tuple[int, np.ndarray, np.ndarray | None],
        right: tuple[int, np.ndarray, np.ndarray | None],
    ) -> tuple[int, np.ndarray, np.ndarray | None]:
        sort = 0 if label is None else self._sort_of(label, False)
        hole = left[2] if left[2] is not None else right[2]
        if left[2] is not None and right[2] is not None:
            raise UsageError("a context has only one hole")
        rule = self._rule_numbers.get((sort, left[0], right[0]))
        n = int(self.sizes[sort])
        if rule is None:
            return sort, np.zeros(n), None if hole is None else np.zeros((n, hole.shape[1]))
        tensor = self.transitions[rule]
        if hole is None:
            return sort, apply(tensor, left[1][None], right[1][None])[0], None
        columns = np.ascontiguousarray(hole.T)
        if left[2] is not None:
            matrix = apply(tensor, columns, np.tile(right[1], (len(columns), 1)))
        else:
            matrix = apply(tensor, np.tile(left[1], (len(columns), 1)), columns)
        return sort, np.zeros(n), np.ascontiguousarray(matrix.T)


def _as_tensor(tensor: np.ndarray) -> Tensor:
    """Return a rule's tensor as float64, sparse if that pays off."""
    values = tensor.astype(np.float64)
    return compact(values) if values.size > 1 << 15 else values


def _square_root(column: np.ndarray) -> np.ndarray:
    """Return a matrix with the same Gram matrix `M^T M` and at most as many rows as columns."""
    return np.asarray(np.linalg.qr(column, mode="r"))


def _parts(node: Term) -> tuple[str | None, str | None, Sequence[Term]]:
    """Return the word, the label and the children of a term."""
    if isinstance(node, str):
        return node, None, ()
    if isinstance(node, Tree):
        if node.word is None and len(node.children) != 2:
            raise UsageError(f"{node.label}: automata read binary trees, this node has {len(node.children)} children")
        return node.word, node.label, node.children
    if len(node) != 2:
        raise UsageError(f"automata read binary trees, this node has {len(node)} children")
    return None, None, node
