r"""Grammar symbols, whose parts are stored next to their names rather than parsed from them.

A node of a skeletal tree (`sapwood.trees.transform`) represents a chain of labels, one below the other; it may record
its ancestors, and an intermediate symbol of binarisation also the siblings cut off before. A `Symbol` is an ordinary
string, the name, together with these `Parts`. A `SymbolTable` has the symbols of a corpus or of a grammar, and their
parts as columns.

Names are for people: `[@]label(|label)*(^ancestor)*(~sibling(|label)*)*`, with a backslash before any of `@ | ^ ~ \`
inside labels. Only `parse_symbol` reads this notation. It is for input from outside: names in files written before
tables were stored, in handwritten grammars, and in skeletal trees that were written to files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple, NoReturn, SupportsIndex, overload

import numpy as np

from sapwood.errors import ModelError
from sapwood.storage.arrays import pack_strings, unpack_strings
from sapwood.storage.schema import Column
from sapwood.storage.shapes import Array, Bool, Shaped

_SPECIAL = re.compile(r"([@|^~\\])")
_LABEL = r"(?:[^@|^~\\]|\\.)*"
_NAME = re.compile(rf"(@?)({_LABEL}(?:\|{_LABEL})*)((?:\^{_LABEL})*)((?:~{_LABEL}(?:\|{_LABEL})*)*)", re.DOTALL)
_PIECE = re.compile(rf"([|^~])({_LABEL})", re.DOTALL)
_CACHE = 1 << 16
# Kinds of stored parts of a symbol.
_OF_CHAIN, _ANCESTOR, _SIBLING, _OF_SIBLING = range(4)
# The kinds that may follow each kind, and that may come first.
_FOLLOWS = [[1, 1, 1, 0], [0, 1, 1, 0], [0, 0, 1, 1], [0, 0, 1, 1]]
_FIRST = [1, 0, 0, 0]
# The arrays of a table in a file. Each symbol has at least one label.
SYMBOLS = (
    Column("symbols", "text", "symbols"),
    Column("symbols.labels", "text", "labels", along="symbols.part"),
    Column("symbols.part", "int32", "parts", least=0, below="labels", along="symbols.part"),
    Column("symbols.kind", "uint8", "parts", most=len(_FOLLOWS) - 1, along="symbols.part"),
    Column("symbols.offsets", "int64", "symbols+1", offsets_of="parts", step=1, along="symbols.part"),
    Column("symbols.intermediate", "uint8", "symbols", most=1, along="symbols.part"),
)


class Parts(NamedTuple):
    """The parts of a symbol.

    Attributes
    ----------
    labels
        The chain of labels from top to bottom; for an intermediate symbol, the label of its phrase.
    ancestors
        Labels above, the nearest first.
    siblings
        Chains of labels of the siblings that were cut off before, the last first.
    intermediate
        True if binarisation introduced the symbol, so that it has no label in a tree.
    """

    labels: tuple[str, ...]
    ancestors: tuple[str, ...] = ()
    siblings: tuple[tuple[str, ...], ...] = ()
    intermediate: bool = False


class Symbol(str):
    """The name of a symbol, together with its `parts`."""

    __slots__ = ("parts",)
    parts: Parts

    def __new__(cls, name: str, parts: Parts) -> Symbol:
        """Build from a name and its parts."""
        symbol = super().__new__(cls, name)
        object.__setattr__(symbol, "parts", parts)
        return symbol

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError("a Symbol is immutable: build a new one")

    def __reduce__(self) -> tuple[type[Symbol], tuple[str, Parts]]:
        return Symbol, (str(self), self.parts)

    @property
    def base(self) -> Symbol:
        """The symbol without ancestors and siblings, as with v = 1 and h = 0."""
        return make_symbol(self.parts.labels, intermediate=self.parts.intermediate) if self.parts.labels else self

    @property
    def chain(self) -> tuple[str, ...]:
        """The tree labels that the symbol represents, top first: none for an intermediate one."""
        return () if self.parts.intermediate else self.parts.labels


@lru_cache(_CACHE)
def make_symbol(
    labels: tuple[str, ...],
    ancestors: tuple[str, ...] = (),
    siblings: tuple[tuple[str, ...], ...] = (),
    intermediate: bool = False,
) -> Symbol:
    r"""Return the symbol with these parts, with its name in the usual notation.

    >>> make_symbol(("VP",), siblings=(("NP", "N"),), intermediate=True)
    '@VP~NP|N'
    >>> make_symbol(("S", "a|b"), ("ROOT",))
    'S|a\\|b^ROOT'
    """
    name = "@" * intermediate + _chain(labels)
    name += "".join("^" + _quote(label) for label in ancestors) + "".join("~" + _chain(chain) for chain in siblings)
    return Symbol(name, Parts(labels, ancestors, siblings, intermediate))


def _quote(label: str) -> str:
    return _SPECIAL.sub(r"\\\1", label)


def _chain(labels: tuple[str, ...]) -> str:
    return "|".join(map(_quote, labels))


@lru_cache(_CACHE)
def parse_symbol(name: str) -> Symbol | None:
    r"""Parse the name of a symbol; returns None if it is not in the notation.

    >>> parse_symbol("S|VP^ROOT").parts
    Parts(labels=('S', 'VP'), ancestors=('ROOT',), siblings=(), intermediate=False)
    >>> parse_symbol("@VP~NP|N").parts
    Parts(labels=('VP',), ancestors=(), siblings=(('NP', 'N'),), intermediate=True)
    >>> parse_symbol("a@b") is None
    True
    """
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    intermediate, labels, ancestors, siblings = match.groups()
    chains: list[tuple[str, ...]] = []
    for sign, label in _pieces(siblings):
        chains.append((label,) if sign == "~" else (*chains.pop(), label))
    parts = Parts(
        tuple(label for _, label in _pieces("|" + labels)),
        tuple(label for _, label in _pieces(ancestors)),
        tuple(chains),
        bool(intermediate),
    )
    return Symbol(name, parts)


def _pieces(text: str) -> list[tuple[str, str]]:
    """Return the separators and the labels after them, without backslashes."""
    return [(sign, re.sub(r"\\(.)", r"\1", label, flags=re.DOTALL)) for sign, label in _PIECE.findall(text)]


def as_symbol(label: str) -> Symbol:
    """Return a symbol unchanged, or parse a name; a name that is not in the notation becomes a single label."""
    return label if isinstance(label, Symbol) else parse_symbol(label) or Symbol(label, Parts((label,)))


@dataclass(frozen=True, eq=False, repr=False)
class SymbolTable(Sequence[Symbol]):
    """The symbols of a corpus or of a grammar: a sequence that equals a list of the same names.

    Each column is a sequence over the symbols.

    Examples
    --------
    >>> table = SymbolTable.from_names(["S|VP^ROOT", "@VP~NP", "NN"])
    >>> table[0], table == ["S|VP^ROOT", "@VP~NP", "NN"]
    ('S|VP^ROOT', True)
    >>> table.top, table.bottom, table.chain
    (['S', 'VP', 'NN'], ['VP', 'VP', 'NN'], [('S', 'VP'), (), ('NN',)])
    >>> table.base, table.intermediate.tolist()
    (['S|VP', '@VP', 'NN'], [False, True, False])
    """

    entries: tuple[Symbol, ...]

    @classmethod
    def from_names(cls, names: Iterable[str]) -> SymbolTable:
        """Return the table of names in the notation of `parse_symbol`; symbols and whole tables are kept unchanged."""
        return names if isinstance(names, SymbolTable) else cls(tuple(map(as_symbol, names)))

    @overload
    def __getitem__(self, index: SupportsIndex) -> Symbol: ...
    @overload
    def __getitem__(self, index: slice) -> SymbolTable: ...
    def __getitem__(self, index: SupportsIndex | slice) -> Symbol | SymbolTable:
        found = self.entries[index]
        return SymbolTable(found) if isinstance(found, tuple) else found

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[Symbol]:
        return iter(self.entries)

    def __repr__(self) -> str:
        return repr(list(self.entries))

    def __eq__(self, other: object) -> bool:
        """Compare names and parts; with other sequences of strings, only names."""
        if isinstance(other, SymbolTable):
            return self.entries == other.entries and self.parts == other.parts
        return self.entries == tuple(other) if isinstance(other, list | tuple) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.entries)

    @cached_property
    def parts(self) -> list[Parts]:
        """The parts of each symbol: symbols of the same role with the same parts are identical."""
        return [symbol.parts for symbol in self]

    @cached_property
    def intermediate(self) -> Bool[Array, "symbols"]:
        """True for symbols introduced by binarisation."""
        return np.array([parts.intermediate for parts in self.parts], bool)

    @cached_property
    def chain(self) -> list[tuple[str, ...]]:
        """The tree labels that each symbol represents, top first: none for intermediate ones."""
        return [symbol.chain for symbol in self]

    @cached_property
    def top(self) -> list[str]:
        """The first label of the chain; `VP` for `@VP`."""
        return [parts.labels[0] if parts.labels else "" for parts in self.parts]

    @cached_property
    def bottom(self) -> list[str]:
        """The last label of the chain, a preterminal's tag; `VP` for `@VP`."""
        return [parts.labels[-1] if parts.labels else "" for parts in self.parts]

    @cached_property
    def tags(self) -> list[str]:
        """The tags of preterminals: their last labels, or their names if binarisation introduced them."""
        return [symbol.chain[-1] if symbol.chain else str(symbol) for symbol in self]

    @cached_property
    def base(self) -> list[Symbol]:
        """The symbol without ancestors and siblings."""
        return [symbol.base for symbol in self]

    def to_arrays(self) -> dict[str, Shaped[Array, "..."]]:
        """Return names, distinct labels, and parts (numbers of labels, with their kinds) as arrays, for storage."""
        numbers: dict[str, int] = {}
        offsets, part, kind = [0], [], []
        for parts in self.parts:
            run = [(_OF_CHAIN, label) for label in parts.labels] + [(_ANCESTOR, label) for label in parts.ancestors]
            for chain in parts.siblings:
                run += [(_OF_SIBLING if place else _SIBLING, label) for place, label in enumerate(chain)]
            kind += [what for what, _ in run]
            part += [numbers.setdefault(label, len(numbers)) for _, label in run]
            offsets.append(len(part))
        return {
            "symbols": pack_strings(self),
            "symbols.labels": pack_strings(list(numbers)),
            "symbols.offsets": np.array(offsets, np.int64),
            "symbols.part": np.array(part, np.int32),
            "symbols.kind": np.array(kind, np.uint8),
            "symbols.intermediate": self.intermediate.astype(np.uint8),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Shaped[Array, "..."]]) -> SymbolTable:
        """Build from the result of `to_arrays`, or from the names alone, which is all that older files have.

        The arrays must fit `SYMBOLS`; raises `ModelError` if parts are not in order.
        """
        names = unpack_strings(arrays["symbols"])
        if "symbols.part" not in arrays:
            return cls.from_names(names)
        labels = unpack_strings(arrays["symbols.labels"])
        offsets, part, kind, intermediate = (
            arrays[f"symbols.{name}"] for name in ("offsets", "part", "kind", "intermediate")
        )
        _check_order(offsets, kind)
        symbols = []
        bounds, spelt, kinds = offsets.tolist(), [labels[number] for number in part.tolist()], kind.tolist()
        for name, begin, end, between in zip(names, bounds, bounds[1:], intermediate.tolist(), strict=False):
            found: tuple[list[str], list[str]] = [], []
            siblings: list[tuple[str, ...]] = []
            for label, what in zip(spelt[begin:end], kinds[begin:end], strict=True):
                if what in (_OF_CHAIN, _ANCESTOR):
                    found[what].append(label)
                else:
                    siblings.append((label,) if what == _SIBLING else (*siblings.pop(), label))
            symbols.append(Symbol(name, Parts(tuple(found[0]), tuple(found[1]), tuple(siblings), bool(between))))
        return cls(tuple(symbols))


def _check_order(offsets: np.ndarray, kind: np.ndarray) -> None:
    """Refuse stored parts of symbols that are not in the order of their kinds."""
    before = np.concatenate([[_OF_CHAIN], kind[:-1]])
    before[offsets[:-1]] = len(_FOLLOWS)
    if not np.array([*_FOLLOWS, _FIRST])[before, kind].all():
        raise ModelError("symbols.kind: the symbols' parts are not in order")
