"""Tensor grammar: a tree grammar whose symbols carry vectors and whose rules are small tensors.

With one state per symbol it is a PCFG; with `m_a` states and non-negative normalised weights an
L-PCFG (Cohen et al., long paper, section 4.1: `T^{a -> b c}`, `q_{a -> x}`, `pi^a`); with any real weights
the tensor form of section 6.1 (`C^{a -> b c}`, `c^inf_{a -> x}`, `c^1_a`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from sapwood.errors import GrammarError, ModelError
from sapwood.grammar.emissions import EMISSIONS, Emissions, offsets_of
from sapwood.grammar.io.codec import RULE_WEIGHTS, pack_weights, unpack_weights
from sapwood.storage.arrays import content_digest, read_header
from sapwood.storage.schema import Column, Notes, Schema, check_json
from sapwood.storage.shapes import Array, Float, Int, Int32, Int64
from sapwood.trees.corpus import PreparationMetadata
from sapwood.trees.lexicon.lexicon import Lexicon
from sapwood.trees.lexicon.signatures import UNKNOWN, SignatureModel
from sapwood.trees.normalise import Normaliser
from sapwood.trees.symbols import SYMBOLS, SymbolTable
from sapwood.trees.transform import TreeTransform

# Format of files with one grammar; a whole model (`sapwood.model.file`) has the next one.
FORMAT_VERSION = 4
# Kind of files with several grammars (`sapwood.model.file`).
BUNDLE_KIND = "bundle"


class _Tokeniser(TypedDict, total=False):
    name: str
    rewrite: bool
    split_hyphens: bool


# Keys of `info` that programs use; the rest is for people.
_INFO = {"iterations": int, "threshold": float, "tokeniser": _Tokeniser}


class _Required(PreparationMetadata):
    probabilistic: bool
    info: Notes


class GrammarMetadata(_Required, total=False):
    """Metadata of a grammar in a model file."""

    weights: int
    levels: int


GRAMMAR = Schema(
    kind="model",
    version=FORMAT_VERSION,
    title="model",
    remedy="copy or train it again",
    columns=(
        *SYMBOLS,
        Column("states", "int32", "symbols", least=1, total="states"),
        Column("rules", "int32", "rules 3", least=0, below="symbols"),
        *RULE_WEIGHTS,
        Column("root", "float", "states"),
        Column("occupancy", "float", "states"),
        Column("rule_counts", "float", "rules"),
        Column("level.*", "int32", "states", least=-1),
        *EMISSIONS,
    ),
    metadata=GrammarMetadata,
)


@dataclass(frozen=True, eq=False)
class TensorGrammar:
    """Latent-variable grammar: symbols with states, binary-rule tensors, lexical and root vectors.

    Attributes
    ----------
    symbols
        Interminals `0 .. n_interminals - 1`, then preterminals. Plain names become a table (`SymbolTable.from_names`).
    states
        Number of states `m_a` of each symbol.
    rules
        `a -> b c`, sorted.
    tensors
        All rule tensors, each `(m_a, m_b, m_c)` in C order, concatenated.
    root
        The vectors `pi^a` of all symbols, zero where a symbol cannot be a root.
    emissions
        Lexical vectors and the lexicon.
    probabilistic
        True if the weights are probabilities (checked by `validate`).
    occupancy
        Expected count of each state in the training trees; used to average over states and to derive coarser grammars.
    rule_counts
        Count (or expected count) of each rule in the training trees.
    levels
        Coarser versions of the states, used for pruning, the coarsest first: for each, the group index of each state
        within its symbol, non-decreasing. In a real-valued grammar the last states of a symbol can be dropped, -1.
    normaliser, transform
        Preprocessing of the training trees, and so postprocessing of parses.
    info
        Training information: JSON values only.
    """

    symbols: SymbolTable
    n_interminals: int
    states: Int32[Array, "symbols"]
    rules: Int32[Array, "rules 3"]
    tensors: Float[Array, "weights"]
    root: Float[Array, "all_states"]
    emissions: Emissions
    probabilistic: bool
    occupancy: Float[Array, "all_states"]
    rule_counts: Float[Array, "rules"]
    levels: tuple[Int32[Array, "all_states"], ...] = ()
    normaliser: Normaliser = field(default_factory=Normaliser)
    transform: TreeTransform = field(default_factory=TreeTransform)
    info: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "symbols", SymbolTable.from_names(self.symbols))

    @property
    def lexicon(self) -> Lexicon:
        """Known words and signatures."""
        return self.emissions.lexicon

    @cached_property
    def state_offsets(self) -> Int64[Array, "symbol_bounds"]:
        """Offset of each symbol's states in `root` and `occupancy`, with the total at the end."""
        return offsets_of(self.states)

    @cached_property
    def tensor_offsets(self) -> Int64[Array, "rule_bounds"]:
        """Offset of each rule's tensor in `tensors`, with the total at the end."""
        return offsets_of(self.states[self.rules].astype(np.int64).prod(axis=1))

    @cached_property
    def _symbol_ids(self) -> dict[tuple[str, bool], int]:
        return {(name, number >= self.n_interminals): number for number, name in enumerate(self.symbols)}

    def symbol_number(self, name: str, *, preterminal: bool = False) -> int:
        """Return the index of a symbol; raises KeyError if there is none."""
        return self._symbol_ids[name, preterminal]

    def tensor(self, rule: int) -> Float[Array, "m_a m_b m_c"]:
        """Return the tensor of a rule."""
        begin, end = self.tensor_offsets[rule], self.tensor_offsets[rule + 1]
        return self.tensors[begin:end].reshape(self.states[self.rules[rule]])

    def root_vector(self, symbol: int) -> Float[Array, "m_a"]:
        """Return the root weights of a symbol."""
        return self.root[self.state_offsets[symbol] : self.state_offsets[symbol + 1]]

    def lexical_vector(self, symbol: int, word: str, *, initial: bool = False) -> Float[Array, "m_a"]:
        """Return `q(a -> word)` for preterminal number `symbol`."""
        row = self.emissions.row(self.lexicon.terminal(word, initial))
        offsets = self.emissions.state_offsets
        preterminal = symbol - self.n_interminals
        return row[offsets[preterminal] : offsets[preterminal + 1]]

    def rule_name(self, rule: int) -> str:
        """Return `A -> B C` for messages and listings."""
        a, b, c = (self.symbols[number] for number in self.rules[rule])
        return f"{a} -> {b} {c}"

    def __repr__(self) -> str:
        states = f"{self.states.min()}-{self.states.max()}" if len(set(self.states)) > 1 else f"{self.states[0]}"
        return (
            f"<TensorGrammar: {len(self.symbols):,} symbols ({states} states), {len(self.rules):,} rules, "
            f"{self.lexicon.n_words:,} words>"
        )

    def _repr_html_(self) -> str:
        """Return a summary for notebooks."""
        from sapwood.grammar.describe import describe_html

        return describe_html(self)

    def __eq__(self, other: object) -> bool:
        """Compare everything but `info`: names, shapes and weights, bit by bit."""
        if not isinstance(other, TensorGrammar):
            return NotImplemented
        ours, theirs = self._content(), other._content()
        return ours[1] == theirs[1] and all(
            ours[0][name].dtype == theirs[0][name].dtype and np.array_equal(ours[0][name], theirs[0][name])
            for name in ours[0]
        )

    __hash__ = None  # type: ignore[assignment]

    def with_info(self, **values: Any) -> TensorGrammar:
        """Return the grammar with additional `info`."""
        return replace(self, info={**self.info, **values})

    def validate(self, tolerance: float = 1e-6) -> TensorGrammar:
        """Check shapes, finiteness and (if probabilistic) normalisation; return the grammar itself."""
        from sapwood.grammar.validate import validate

        validate(self, tolerance)
        return self

    def describe(self, *, top: int = 10) -> str:
        """Return a readable summary: sizes, training information, the most frequent symbols and rules."""
        from sapwood.grammar.describe import describe

        return describe(self, top=top)

    def sample(self, count: int, *, random_state: int | np.random.Generator | None = None, max_words: int = 200) -> Any:
        """Return `count` skeletal trees sampled from a probabilistic grammar (see `sampling.sample_trees`)."""
        from sapwood.grammar.sampling import sample_trees

        return sample_trees(self, count, random_state=random_state, max_words=max_words)

    def conjugate(self, matrices: Sequence[Float[Array, "m_a m_a"]]) -> TensorGrammar:
        """Change the basis of each symbol's states: Theorem 1 of the long paper.

        `matrices[a]` is the invertible `G^a`. Inside row vectors become `f = b (G^a)^{-1}`,
        outside column vectors `G^a b`; no tree probability and no marginal changes.
        """
        shapes = [matrix.shape for matrix in matrices]
        if shapes != [(m, m) for m in self.states]:
            raise GrammarError("a change of basis takes one square matrix for each symbol, as large as it has states")
        from sapwood.grammar.state_ops import change_states

        inverses = [np.linalg.inv(matrix) for matrix in matrices]
        return change_states(self, inverses, [np.ascontiguousarray(matrix.T) for matrix in matrices])

    def digest(self) -> str:
        """Return a fingerprint of everything but `info`."""
        return content_digest(*self._content())

    def save(self, path: str | Path) -> None:
        """Write the grammar to one file, atomically (several: `sapwood.model.file.save_models`)."""
        arrays, metadata = self._content()
        metadata["info"] = dict(self.info)
        GRAMMAR.write(path, arrays, metadata)

    @classmethod
    def load(cls, path: str | Path) -> TensorGrammar:
        """Read the grammar of a file, without the components of a model (`sapwood.model.ParserModel` has them all).

        A damaged file raises `ModelError`, never gives a wrong grammar.
        """
        from sapwood.model.file import load_models

        several = read_header(path).get("kind") == BUNDLE_KIND
        grammars = [] if several else load_models(path)
        if len(grammars) != 1:
            raise ModelError(
                f"{path}: holds several grammars, not one; choose a model with one grammar, or load all of them "
                "with sapwood.load"
            )
        return grammars.pop()

    @classmethod
    def _from_content(
        cls, arrays: dict[str, np.ndarray], metadata: Mapping[str, Any], *, check: bool = True
    ) -> TensorGrammar:
        """Inverse of `_content`, given metadata with `info` that fits `GRAMMAR`; check the rest."""
        from sapwood.grammar.validate import check_meaning

        for name in _INFO.keys() & metadata["info"].keys():
            check_json(metadata["info"][name], _INFO[name], f"info.{name}")
        levels = [arrays[name] for name in sorted(arrays) if name.startswith("level.")]
        if len(levels) != metadata.get("levels", 0):
            raise ModelError(f"level.{len(levels)}: missing, or one too many")
        n_interminals = metadata["n_interminals"]
        emissions = Emissions.from_arrays(arrays, arrays["states"][n_interminals:])
        grammar = cls(
            symbols=SymbolTable.from_arrays(arrays),
            n_interminals=n_interminals,
            states=arrays["states"],
            rules=arrays["rules"],
            tensors=unpack_weights(arrays, metadata, weights_of(arrays["states"], arrays["rules"])),
            root=arrays["root"],
            emissions=emissions,
            probabilistic=metadata["probabilistic"],
            occupancy=arrays["occupancy"],
            rule_counts=arrays["rule_counts"],
            levels=tuple(arrays[f"level.{number}"] for number in range(len(levels))),
            normaliser=Normaliser.from_dict(metadata["normaliser"]),
            transform=TreeTransform.from_dict(metadata["transform"]),
            info=metadata["info"],
        )
        if check:
            check_meaning(grammar, tolerance=1e-3)
        return grammar

    def _content(self, *, as_it_is: bool = False) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Return arrays and metadata to be stored; with `as_it_is`, all weights without conversion."""
        arrays = {
            **self.symbols.to_arrays(),
            "states": self.states,
            "rules": self.rules,
            "root": self.root,
            "occupancy": self.occupancy,
            "rule_counts": self.rule_counts,
            **{f"level.{number}": level for number, level in enumerate(self.levels)},
            **self.emissions.to_arrays(as_it_is=as_it_is),
        }
        metadata: dict[str, Any] = {
            "n_interminals": self.n_interminals,
            "probabilistic": self.probabilistic,
            "normaliser": self.normaliser.to_dict(),
            "transform": self.transform.to_dict(),
        }
        weights, told = pack_weights(self.tensors, as_it_is=as_it_is)
        if self.levels:
            metadata["levels"] = len(self.levels)
        return {**arrays, **weights}, {**metadata, **told}

    @classmethod
    def from_parts(
        cls,
        *,
        root: Mapping[str, Any],
        rules: Mapping[tuple[str, str, str], Any],
        words: Mapping[tuple[str, str], Any],
        probabilistic: bool = True,
    ) -> TensorGrammar:
        """Build a grammar by hand from weights by name: scalars for one state, arrays for more.

        Left-hand sides of `rules` are interminals, those of `words` preterminals.

        Examples
        --------
        >>> grammar = TensorGrammar.from_parts(
        ...     root={"S": 1.0},
        ...     rules={("S", "N", "V"): 0.7, ("S", "N", "S"): 0.3},
        ...     words={("N", "dogs"): 0.6, ("N", "cats"): 0.4, ("V", "sleep"): 1.0},
        ... )
        >>> grammar
        <TensorGrammar: 3 symbols (1 states), 2 rules, 3 words>
        """
        tensors = {key: np.asarray(value, float) for key, value in rules.items()}
        for (a, b, c), value in tensors.items():
            if value.ndim not in (0, 3):
                raise GrammarError(f"{a} -> {b} {c}: give a number or an array with three axes, not {value.ndim}")
        tensors = {key: np.atleast_3d(value) for key, value in tensors.items()}
        vectors = {key: np.atleast_1d(np.asarray(value, float)) for key, value in words.items()}
        inner = sorted({a for a, _, _ in tensors})
        leaf = sorted({a for a, _ in vectors})
        if both := set(inner) & set(leaf):
            raise GrammarError(f"a symbol is either an interminal or a preterminal, not both: {sorted(both)}")
        symbols = inner + leaf
        table = SymbolTable.from_names(symbols)
        number = {name: index for index, name in enumerate(symbols)}
        if missing := sorted(({s for key in tensors for s in key} | set(root)) - set(number)):
            raise GrammarError(f"symbols that are never expanded: {missing}")
        sizes: dict[str, int] = {}
        claims = [(name, size) for key, value in tensors.items() for name, size in zip(key, value.shape, strict=True)]
        claims += [(a, value.size) for (a, _), value in vectors.items()]
        claims += [(a, np.atleast_1d(np.asarray(value, float)).size) for a, value in root.items()]
        for name, size in claims:
            if sizes.setdefault(name, size) != size:
                raise GrammarError(f"{name} has {sizes[name]} states in one place and {size} in another")
        states = np.array([sizes[name] for name in symbols], np.int32)
        offsets = np.concatenate([[0], np.cumsum(states)])
        root_flat = np.zeros(offsets[-1])
        for name, value in root.items():
            root_flat[offsets[number[name]] : offsets[number[name] + 1]] = value
        order = sorted(tensors, key=lambda key: tuple(number[name] for name in key))
        vocabulary = sorted({word for _, word in vectors})
        emissions = plain_emissions(
            vocabulary,
            table[len(inner) :],
            states[len(inner) :],
            {(number[a] - len(inner), vocabulary.index(word)): value for (a, word), value in vectors.items()},
        )
        rule_array = np.array([[number[name] for name in key] for key in order], np.int32).reshape(-1, 3)
        grammar = cls(
            symbols=table,
            n_interminals=len(inner),
            states=states,
            rules=rule_array,
            tensors=np.concatenate([tensors[key].ravel() for key in order] or [np.zeros(0)]),
            root=root_flat,
            emissions=emissions,
            probabilistic=probabilistic,
            occupancy=np.ones(offsets[-1]),
            rule_counts=np.ones(len(order)),
            info={"method": "by hand"},
        )
        grammar.validate()
        if probabilistic:
            from sapwood.grammar.expectations import with_expected_counts

            grammar = with_expected_counts(grammar)
        return grammar


def weights_of(states: Int[Array, "symbols"], rules: Int[Array, "rules 3"]) -> float:
    """Return the number of rule weights, as a float, as it may exceed any NumPy integer."""
    return float(states[rules].astype(np.float64).prod(axis=1).sum())


def plain_emissions(
    words: Sequence[str],
    preterminals: Sequence[str],
    states: Int[Array, "preterminals"],
    vectors: Mapping[tuple[int, int], Float[Array, "m_a"]],
) -> Emissions:
    """Return emissions without back-off or sharing, given `(preterminal, word) -> vector`."""
    lexicon = Lexicon(list(words), [UNKNOWN], np.zeros(1, np.int32), np.zeros(len(words), np.int32), SignatureModel())
    keys = sorted(vectors, key=lambda key: (key[1], key[0]))
    counts = np.bincount([word for _, word in keys], minlength=lexicon.n_terminals)
    tags = SymbolTable.from_names(preterminals).tags
    names = sorted(set(tags))
    place = {tag: number for number, tag in enumerate(names)}
    return Emissions(
        lexicon=lexicon,
        states=np.asarray(states, np.int32),
        offsets=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        symbol=np.array([symbol for symbol, _ in keys], np.int32),
        values=np.concatenate([np.asarray(vectors[key], float).ravel() for key in keys] or [np.zeros(0)]),
        backoff=np.zeros(lexicon.n_terminals),
        climb=np.zeros(1),
        tags=names,
        tag_of=np.array([place[tag] for tag in tags], np.int32),
        share=np.zeros(int(np.sum(states))),
        tag_offsets=np.zeros(lexicon.n_terminals + 1, np.int64),
        tag=np.zeros(0, np.int32),
        tag_values=np.zeros(0),
    )
