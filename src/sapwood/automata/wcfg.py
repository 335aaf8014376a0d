"""Weighted context-free grammars in Chomsky normal form (Rabusseau et al. 2016, section 4.1).

Rules are `a -> b c`, `a -> x` and `-> a` (roots), with any real weights. The weight of a derivation is the product of
the weights of its rules, once for each use, and the weight of a sentence is the sum over its derivations,

    f_G(w) = sum over derivations t of w of weight(t).

An automaton with one state per nonterminal has these very arrays: `root` is `alpha`, `binary` is `T` and the columns
of `lexical` are the vectors `omega_x`.

Other rules are brought into this form by `WeightedGrammar.from_rules`, without changing the weight of any sentence:

- `a -> b c d` becomes `a -> b @c+d` and `@c+d -> c d`, the second with weight 1 and shared by all rules that end so;
- a word among other symbols becomes a nonterminal of its own, `a -> b x` the two rules `a -> b @x` and `@x -> x`;
- rules `a -> b` are removed: with their weights in a matrix `U`, what `a` can be rewritten to by any number of them
  has the weights `(I - U)^{-1}(a, .)`, and `a` takes over the other rules of all these nonterminals, so weighted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse

from sapwood.automata.tensors import SparseTensor, Tensor, as_sparse
from sapwood.automata.wcfg_rules import Rule, RuleTable, UniqueNames, contracted, unary_closure
from sapwood.errors import GrammarError, UsageError
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.shapes import Array, Float


@dataclass(frozen=True, eq=False, repr=False)
class WeightedGrammar:
    """A weighted grammar.

    Attributes
    ----------
    nonterminals, words
        Their names, each different. A word and a nonterminal may have the same name.
    binary
        The weight of `a -> b c` at `(a, b, c)`.
    lexical
        The weight of `a -> x` at `(a, x)`, no zeros stored.
    root
        The weight of `-> a`.

    Examples
    --------
    >>> from sapwood.automata.wcfg_rules import Rule, Symbol
    >>> dogs, sleep = Symbol("dogs", is_word=True), Symbol("sleep", is_word=True)
    >>> rules = [
    ...     Rule(None, (Symbol("S"),), 1.0),
    ...     Rule("S", (Symbol("N"), Symbol("V")), 0.75),
    ...     Rule("S", (Symbol("N"), Symbol("N"), sleep), 0.25),
    ...     Rule("N", (dogs,), 1.0),
    ...     Rule("V", (sleep,), 0.5),
    ... ]
    >>> grammar = WeightedGrammar.from_rules(rules)
    >>> grammar
    <WeightedGrammar: 5 nonterminals, 2 words, 6 rules>
    >>> grammar.weight(["dogs", "sleep"]), grammar.weight(["dogs", "dogs", "sleep"])
    (0.375, 0.25)
    """

    nonterminals: list[str]
    words: list[str]
    binary: SparseTensor
    lexical: scipy.sparse.csr_array
    root: Float[Array, "nonterminals"]

    def __post_init__(self) -> None:
        n, n_words = len(self.nonterminals), len(self.words)
        for kind, names in (("nonterminal", self.nonterminals), ("word", self.words)):
            if len(set(names)) < len(names):
                twice = Counter(names).most_common(1)[0][0]
                raise GrammarError(f"two {kind}s of a weighted grammar have the same name, {twice!r}")
        if not n:
            raise GrammarError("a weighted grammar needs at least one nonterminal")
        shapes = {"root": (n,), "binary": (n, n, n), "lexical": (n, n_words)}
        for name, shape in shapes.items():
            if getattr(self, name).shape != shape:
                raise GrammarError(
                    f"the {name} weights of {n:,} nonterminals and {n_words:,} words have the shape {shape}, "
                    f"not {getattr(self, name).shape}"
                )
        lexical = self.lexical.astype(float)
        lexical.sum_duplicates()
        lexical.eliminate_zeros()
        # In one form, so that equal grammars have equal arrays: sorted, no zeros stored, none of them negative.
        binary = SparseTensor.from_entries((n, n, n), self.binary.places, self.binary.values)
        object.__setattr__(self, "binary", binary)
        object.__setattr__(self, "lexical", lexical)
        object.__setattr__(self, "root", np.asarray(self.root, float) + 0.0)
        for name, values in (("root", self.root), ("binary", self.binary.values), ("lexical", self.lexical.data)):
            if not np.isfinite(values).all():
                raise GrammarError(f"the {name} weights of a weighted grammar must be finite numbers")

    @property
    def n_rules(self) -> int:
        """Number of rules `a -> b c` and `a -> x`."""
        return len(self.binary.values) + int(self.lexical.nnz)

    @cached_property
    def _word_numbers(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.words)}

    def __repr__(self) -> str:
        sizes = f"{len(self.nonterminals):,} nonterminals, {len(self.words):,} words, {self.n_rules:,} rules"
        return f"<WeightedGrammar: {sizes}>"

    def __eq__(self, other: object) -> bool:
        """Compare names, their order, and weights to the last bit."""
        if not isinstance(other, WeightedGrammar):
            return NotImplemented
        pairs = [
            (self.root, other.root),
            (self.binary.places, other.binary.places),
            (self.binary.values, other.binary.values),
            (self.lexical.indptr, other.lexical.indptr),
            (self.lexical.indices, other.lexical.indices),
            (self.lexical.data, other.lexical.data),
        ]
        names = self.nonterminals == other.nonterminals and self.words == other.words
        return names and all(np.array_equal(ours, theirs) for ours, theirs in pairs)

    __hash__ = None  # type: ignore[assignment]

    def weight(self, sentence: Sequence[str]) -> float:
        """Return `f_G`, the sum of the weights of all derivations; 0 if a word is unknown or there is none.

        Numbers are not scaled: the weights of very long sentences can be too small for them.
        """
        if isinstance(sentence, str):
            raise UsageError("a sentence is a list of words, not one string; split it first")
        numbers = [self._word_numbers.get(word, -1) for word in sentence]
        if not numbers or min(numbers) < 0:
            return 0.0
        length, n = len(numbers), len(self.nonterminals)
        inside = np.zeros((length, length + 1, n))
        inside[np.arange(length), np.arange(1, length + 1)] = self.lexical[:, numbers].toarray().T
        above, left, right = self.binary.places.T
        for width in range(2, length + 1):
            for i in range(length - width + 1):
                j = i + width
                pairs = inside[i, i + 1 : j].T @ inside[i + 1 : j, j]  # summed over the splits
                inside[i, j] = np.bincount(above, self.binary.values * pairs[left, right], minlength=n)
        return float(inside[0, length] @ self.root)

    @classmethod
    def from_parts(
        cls,
        root: Sequence[float] | Float[Array, "..."],
        binary: Tensor,
        lexical: Sequence[Sequence[float]] | Float[Array, "..."] | scipy.sparse.sparray,
        words: Sequence[str],
        nonterminals: Sequence[str] | None = None,
    ) -> WeightedGrammar:
        """Build from the weights of an automaton.

        Without names the nonterminals are `Q0`, `Q1`, ... Of an automaton without states, which has the weight 0 for
        everything, one nonterminal without rules is made.
        """
        root = np.asarray(root, float)
        if root.shape == (0,) and not nonterminals:
            root, binary, lexical = np.zeros(1), np.zeros((1, 1, 1)), np.zeros((1, len(words)))
        if nonterminals is None:
            nonterminals = [f"Q{number}" for number in range(root.size)]
        matrix: Any = lexical if scipy.sparse.issparse(lexical) else np.asarray(lexical, float)
        for name, axes, shape in (("binary", 3, binary.shape), ("lexical", 2, matrix.shape)):
            if len(shape) != axes:
                raise GrammarError(f"the {name} weights of a grammar have {axes} axes, not {len(shape)}")
        return cls(list(nonterminals), list(words), as_sparse(binary), scipy.sparse.csr_array(matrix), root)

    @classmethod
    def from_rules(cls, rules: Iterable[Rule]) -> WeightedGrammar:
        """Build from rules of any shape, see the module's text; weights of the same rule are added.

        Nonterminals and words are in the order in which the rules have them, new nonterminals behind. Raises
        `GrammarError` if there is no root, a rule has an empty right-hand side, or unary rules have cycles whose
        weights do not converge absolutely.
        """
        table = RuleTable()
        for rule in rules:
            table.add(rule)
        nonterminals, words = table.names(), list(table.words)
        n = len(nonterminals)
        at, weights = table.arrays("root")
        if not len(at):
            raise GrammarError(
                "no root: add a rule '-> S' with its weight, a line such as '1.0 -> S', for a nonterminal S"
            )
        root = np.bincount(at[:, 0], weights, minlength=n)
        binary = SparseTensor.from_entries((n, n, n), *table.arrays("binary"))
        places, weights = table.arrays("lexical")
        lexical = scipy.sparse.csr_array((weights, tuple(places.T)), shape=(n, len(words)))
        places, weights = table.arrays("unary")
        if len(places):
            unary = scipy.sparse.csr_array((weights, tuple(places.T)), shape=(n, n))
            unary.eliminate_zeros()
            closure = unary_closure(unary, nonterminals)
            binary, lexical = contracted(closure, binary), closure @ lexical
        return cls(nonterminals, words, binary, lexical, root)

    @classmethod
    def from_tensor_grammar(cls, grammar: TensorGrammar) -> WeightedGrammar:
        """Build from a sapwood model: a nonterminal for each state of each symbol, a word for each terminal.

        Nonterminals are named `NP` or, where a symbol has several states, `NP_0`, `NP_1`, ...; preterminals whose name
        an interminal has as well, `NP/tag`. Words are numbered as the lexicon's terminals, known words first, then
        signatures in angle brackets. So the model's probability of a sentence is the weight of
        `[weighted.words[t] for t in grammar.lexicon.terminals(sentence)]`.
        """
        names, terms = UniqueNames(), UniqueNames()
        inner = set(grammar.symbols[: grammar.n_interminals])
        nonterminals = []
        for number, symbol in enumerate(grammar.symbols):
            name = f"{symbol}/tag" if number >= grammar.n_interminals and symbol in inner else symbol
            states = int(grammar.states[number])
            nonterminals += [names.new(name if states == 1 else f"{name}_{state}") for state in range(states)]
        words = [terms.new(grammar.lexicon.name(terminal)) for terminal in range(grammar.lexicon.n_terminals)]
        n, first = len(nonterminals), int(grammar.state_offsets[grammar.n_interminals])
        columns = [
            scipy.sparse.csr_array(grammar.emissions.column(preterminal).T)
            for preterminal in range(len(grammar.symbols) - grammar.n_interminals)
        ]
        lexical = scipy.sparse.vstack([scipy.sparse.csr_array((first, len(words))), *columns], format="csr")
        return cls(nonterminals, words, _tensor_of(grammar, n), lexical, grammar.root)


def _tensor_of(grammar: TensorGrammar, n: int) -> SparseTensor:
    """Return the weights of all rules of a sapwood model by the states' numbers among all, `(n, n, n)`."""
    at = np.flatnonzero(grammar.tensors)
    rule = np.searchsorted(grammar.tensor_offsets, at, side="right") - 1
    local = at - grammar.tensor_offsets[rule]
    _, second, third = grammar.states[grammar.rules[rule]].astype(np.int64).T
    states = np.column_stack([local // (second * third), local // third % second, local % third])
    places = grammar.state_offsets[grammar.rules[rule]] + states
    return SparseTensor.from_entries((n, n, n), places, grammar.tensors[at].astype(float))
