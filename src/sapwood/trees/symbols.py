r"""Grammar symbols: what they stand for is kept beside their names, never read out of them.

A node of a skeletal tree (`sapwood.trees.transform`) stands for a chain of labels, one below the other; it can know
its ancestors, and an intermediate symbol of binarisation also the siblings that were cut off before. A `Symbol` is the
name of all that, an ordinary string, with the `Parts` themselves. A `SymbolTable` has the symbols of a corpus or of a
grammar, and their parts as columns.

Names are for people: `[@]label(|label)*(^ancestor)*(~sibling(|label)*)*`, where the signs `@ | ^ ~ \` inside labels are
behind a backslash. `parse_symbol` is the only function that reads this notation. It is for what comes from outside:
names in files that were written before tables were stored, in grammars made by hand, and in skeletal trees that were
written out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple, NoReturn, SupportsIndex, overload

import numpy as np

from sapwood.errors import ModelError
from sapwood.schema import Column
from sapwood.shapes import Array, Bool, Shaped
from sapwood.storage import pack_strings, unpack_strings

_SPECIAL = re.compile(r"([@|^~\\])")
_LABEL = r"(?:[^@|^~\\]|\\.)*"
_NAME = re.compile(rf"(@?)({_LABEL}(?:\|{_LABEL})*)((?:\^{_LABEL})*)((?:~{_LABEL}(?:\|{_LABEL})*)*)", re.DOTALL)
_PIECE = re.compile(rf"([|^~])({_LABEL})", re.DOTALL)
_CACHE = 1 << 16
# What a stored part of a symbol is.
_OF_CHAIN, _ANCESTOR, _SIBLING, _OF_SIBLING = range(4)
# Which kinds of part may come behind each of them, and at first.
_FOLLOWS = [[1, 1, 1, 0], [0, 1, 1, 0], [0, 0, 1, 1], [0, 0, 1, 1]]
_FIRST = [1, 0, 0, 0]
# The arrays of a table in a file. Each symbol has a label at least.
SYMBOLS = (
    Column("symbols", "text", "symbols"),
    Column("symbols.labels", "text", "labels", along="symbols.part"),
    Column("symbols.part", "int32", "parts", least=0, below="labels", along="symbols.part"),
    Column("symbols.kind", "uint8", "parts", most=len(_FOLLOWS) - 1, along="symbols.part"),
    Column("symbols.offsets", "int64", "symbols+1", offsets_of="parts", step=1, along="symbols.part"),
    Column("symbols.intermediate", "uint8", "symbols", most=1, along="symbols.part"),
)


class Parts(NamedTuple):
    """What a symbol is made of.

    Attributes
    ----------
    labels
        The chain of labels from top to bottom; of an intermediate symbol the label of its phrase.
    ancestors
        Labels above, the nearest first.
    siblings
        Chains of labels of the siblings that were cut off before, the last first.
    intermediate
        Whether binarising introduced it, so that no label of a tree stands for it.
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
        """Build from a name and what it stands for."""
        symbol = super().__new__(cls, name)
        object.__setattr__(symbol, "parts", parts)
        return symbol

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError("a Symbol is immutable: build a new one")

    def __reduce__(self) -> tuple[type[Symbol], tuple[str, Parts]]:
        return Symbol, (str(self), self.parts)

    @property
    def base(self) -> Symbol:
        """The symbol without ancestors and siblings: what it is at v = 1, h = 0."""
        return make_symbol(self.parts.labels, intermediate=self.parts.intermediate) if self.parts.labels else self

    @property
    def chain(self) -> tuple[str, ...]:
        """The labels of a tree that the symbol stands for, top first: none for an intermediate one."""
        return () if self.parts.intermediate else self.parts.labels


@lru_cache(_CACHE)
def make_symbol(
    labels: tuple[str, ...],
    ancestors: tuple[str, ...] = (),
    siblings: tuple[tuple[str, ...], ...] = (),
    intermediate: bool = False,
) -> Symbol:
    r"""Return the symbol with these parts, named in the usual notation.

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
    r"""Return the symbol of a name from outside, None if it is not in the notation.

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
    """Return the signs and the labels behind them, without backslashes."""
    return [(sign, re.sub(r"\\(.)", r"\1", label, flags=re.DOTALL)) for sign, label in _PIECE.findall(text)]


def as_symbol(label: str) -> Symbol:
    """Return a symbol itself, and the symbol of a name from outside; one that is not in the notation is one label."""
    return label if isinstance(label, Symbol) else parse_symbol(label) or Symbol(label, Parts((label,)))


@dataclass(frozen=True, eq=False, repr=False)
class SymbolTable(Sequence[Symbol]):
    """The symbols of a corpus or of a grammar: a sequence of their names that equals a list of the same names.

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
        """Return the table of names in the notation of `parse_symbol`; symbols and whole tables stay as they are."""
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
        """Compare names and parts; with other sequences of strings names alone."""
        if isinstance(other, SymbolTable):
            return self.entries == other.entries and self.parts == other.parts
        return self.entries == tuple(other) if isinstance(other, list | tuple) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.entries)

    @cached_property
    def parts(self) -> list[Parts]:
        """What each symbol is made of: two symbols of the same role with the same parts are the same."""
        return [symbol.parts for symbol in self]

    @cached_property
    def intermediate(self) -> Bool[Array, "symbols"]:
        """Whether binarising introduced the symbol."""
        return np.array([parts.intermediate for parts in self.parts], bool)

    @cached_property
    def chain(self) -> list[tuple[str, ...]]:
        """The labels of a tree that the symbol stands for, top first: none for intermediate ones."""
        return [symbol.chain for symbol in self]

    @cached_property
    def top(self) -> list[str]:
        """The first label of the chain; of `@VP` the `VP`."""
        return [parts.labels[0] if parts.labels else "" for parts in self.parts]

    @cached_property
    def bottom(self) -> list[str]:
        """The last label of the chain, a preterminal's tag; of `@VP` the `VP`."""
        return [parts.labels[-1] if parts.labels else "" for parts in self.parts]

    @cached_property
    def tags(self) -> list[str]:
        """The tags of preterminals: their last labels, or if binarising introduced them, their names."""
        return [symbol.chain[-1] if symbol.chain else str(symbol) for symbol in self]

    @cached_property
    def base(self) -> list[Symbol]:
        """The symbol without ancestors and siblings."""
        return [symbol.base for symbol in self]

    def to_arrays(self) -> dict[str, Shaped[Array, "..."]]:
        """Return names, distinct labels, and the symbols' parts, as numbers of labels with their kinds, for storage."""
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
        """Build from `to_arrays`' result, or from the names alone, which is what older files have.

        The arrays fit `SYMBOLS`; raises `ModelError` if parts are not in order.
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
    """Refuse stored parts of symbols that do not come in the order of their kinds."""
    before = np.concatenate([[_OF_CHAIN], kind[:-1]])
    before[offsets[:-1]] = len(_FOLLOWS)
    if not np.array([*_FOLLOWS, _FIRST])[before, kind].all():
        raise ModelError("symbols.kind: the symbols' parts are not in order")
