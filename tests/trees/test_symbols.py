"""Symbols: names for people, parts for programs, and tables of both."""

from __future__ import annotations

import copy
import pickle
from typing import TypedDict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.strategies import odd_labels
from sapwood.errors import ModelError
from sapwood.storage.schema import Schema
from sapwood.trees.symbols import SYMBOLS, Parts, Symbol, SymbolTable, as_symbol, make_symbol, parse_symbol

any_labels = odd_labels | st.just("")
chains = st.lists(any_labels, min_size=1, max_size=3).map(tuple)
symbols = st.builds(
    make_symbol, chains, st.lists(any_labels, max_size=3).map(tuple), st.lists(chains, max_size=3).map(tuple),
    st.booleans(),
)  # fmt: skip


# The notation.


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("NP", (("NP",), (), (), False)),
        ("S|VP", (("S", "VP"), (), (), False)),
        ("S|VP^ROOT", (("S", "VP"), ("ROOT",), (), False)),
        ("NP^VP^S", (("NP",), ("VP", "S"), (), False)),
        ("@VP", (("VP",), (), (), True)),
        ("@VP~NP~PP", (("VP",), (), (("NP",), ("PP",)), True)),
        ("@VP^S^ROOT~NP|N", (("VP",), ("S", "ROOT"), (("NP", "N"),), True)),
        ("@VP~NP|N~X|Y|Z", (("VP",), (), (("NP", "N"), ("X", "Y", "Z")), True)),
        (r"\@VP", (("@VP",), (), (), False)),
        (r"a\|b|c\^d^e\~f", (("a|b", "c^d"), ("e~f",), (), False)),
        (r"@\\~\\\~", (("\\",), (), (("\\~",),), True)),
        ("", (("",), (), (), False)),
        ("|NP", (("", "NP"), (), (), False)),
        ("@", (("",), (), (), True)),
        ("a\nb|\\\n", (("a\nb", "\n"), (), (), False)),
    ],
)
def test_reading_names(name, parts):
    symbol = parse_symbol(name)
    assert (symbol, symbol.parts) == (name, parts)
    assert symbol.chain == (() if parts[3] else parts[0])


@pytest.mark.parametrize("name", ["a@b", "a\\", "@@", "NP^S|X", "@VP~NP^S", "NP~@X", "\\"])
def test_names_that_are_not_in_the_notation_are_one_label(name):
    assert parse_symbol(name) is None
    assert (as_symbol(name), as_symbol(name).parts) == (name, Parts((name,)))


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("NP", "NP"), ("S|VP^ROOT", "S|VP"), ("@VP^S~NP|N~PP", "@VP"), (r"a\|b|c\^d^e", r"a\|b|c\^d"),
        (r"@\@^\~~x", r"@\@"), ("", ""), ("@~NP", "@"), ("^NP", ""),
    ],
)  # fmt: skip
def test_base_symbols(name, base):
    assert as_symbol(name).base == base
    assert as_symbol(base).base == base


@given(symbols)
def test_names_say_everything(symbol):
    again = parse_symbol(str(symbol))
    assert (again, again.parts) == (symbol, symbol.parts)
    assert symbol.base.parts == Parts(symbol.parts.labels, intermediate=symbol.parts.intermediate)


@given(symbols, symbols)
def test_different_symbols_have_different_names(one, other):
    assert (one == other) == (one.parts == other.parts)


@given(any_labels, any_labels)
def test_labels_are_kept_apart(one, other):
    assert (make_symbol((one,)) == make_symbol((other,))) == (one == other)
    assert not make_symbol((one,)).startswith("@")


def test_symbols_do_not_change_and_survive_copies():
    symbol = make_symbol(("S", "VP"), ("ROOT",))
    with pytest.raises(AttributeError, match="immutable"):
        symbol.parts = Parts(("NP",))
    for again in (copy.copy(symbol), copy.deepcopy(symbol), pickle.loads(pickle.dumps(symbol))):
        assert (type(again), again, again.parts) == (Symbol, symbol, symbol.parts)


# Tables.


def test_a_table_is_a_sequence_of_names():
    names = ["S|VP^ROOT", "@VP~NP", "NN", "NN"]
    table = SymbolTable.from_names(names)
    assert len(table) == 4
    assert list(table) == names
    assert table == names
    assert names == table
    assert table == tuple(names)
    assert table != names[:-1]
    assert table != "S|VP^ROOT"
    assert (table[1], table[-1], table[np.int32(2)], table.index("NN"), table.count("NN")) == (
        names[1],
        "NN",
        "NN",
        2,
        2,
    )
    assert table[1:] == names[1:]
    assert isinstance(table[1:], SymbolTable)
    assert repr(table) == repr(names)
    assert SymbolTable.from_names(table) is table
    assert hash(table) == hash(SymbolTable.from_names(names))
    with pytest.raises(AttributeError):
        table.entries = ()


def test_columns():
    table = SymbolTable.from_names(["S|VP^ROOT", "@VP^S~NP", "X|Y|Z", "a@b"])
    assert table.intermediate.tolist() == [False, True, False, False]
    assert table.top == ["S", "VP", "X", "a@b"]
    assert table.bottom == ["VP", "VP", "Z", "a@b"]
    assert table.tags == ["VP", "@VP^S~NP", "Z", "a@b"]
    assert table.chain == [("S", "VP"), (), ("X", "Y", "Z"), ("a@b",)]
    assert table.base == ["S|VP", "@VP", "X|Y|Z", r"a\@b"]
    assert table.parts[1] == (("VP",), ("S",), (("NP",),), True)
    assert table[2:].bottom == ["Z", "a@b"]


def test_tables_with_the_same_names_can_differ():
    one = SymbolTable((Symbol("X", Parts(("A", "B"))),))
    other = SymbolTable.from_names(["X"])
    assert one == ["X"]
    assert other == ["X"]
    assert one != other


@given(st.lists(st.builds(Symbol, any_labels.filter(lambda name: "\0" not in name), symbols.map(lambda s: s.parts))))
def test_storage(entries):
    table = SymbolTable(tuple(entries))
    if any(
        "\0" in label for parts in table.parts for label in (*parts.labels, *parts.ancestors, *sum(parts.siblings, ()))
    ):
        with pytest.raises(ModelError, match="zero byte"):
            table.to_arrays()
        return
    again = SymbolTable.from_arrays(table.to_arrays())
    assert again == table
    assert again.parts == table.parts


def test_names_alone_are_read():
    names = ["S|VP^ROOT", "@VP~NP", "NN"]
    arrays = SymbolTable.from_names(names).to_arrays()
    assert SymbolTable.from_arrays({"symbols": arrays["symbols"]}) == SymbolTable.from_names(names)


class Nothing(TypedDict):
    pass


def checked_table(arrays: dict[str, np.ndarray]) -> SymbolTable:
    Schema("table", 1, "table", "", SYMBOLS, Nothing).check(arrays, {})
    return SymbolTable.from_arrays(arrays)


TABLE = SymbolTable.from_names(["S|VP^ROOT", "@VP^S~NP|N~X", "NN"]).to_arrays()


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("offsets", lambda a: a[:-1], r"offsets: has the shape \(3,\), expected \(symbols\+1\)"),
        ("offsets", lambda a: a + 1, "offsets: does not rise"),
        ("offsets", lambda a: a[::-1], "offsets: does not rise"),
        ("offsets", lambda a: np.where(a == a[1], 0, a), "offsets: does not rise"),
        ("offsets", lambda a: a.astype(float), "offsets: is of type"),
        ("offsets", lambda a: a[:, None], "offsets: has the shape"),
        ("offsets", lambda a: np.where(a == a[-1], a - 1, a), "offsets: does not rise"),
        ("part", lambda a: a + 1, "part: has values"),
        ("part", lambda a: a - 1, "part: has values"),
        ("part", lambda a: a[:-1], "kind: has the shape"),
        ("kind", lambda a: a + 3, "kind: has values"),
        ("kind", lambda a: a[:-1], "kind: has the shape"),
        ("kind", lambda a: a[::-1], "not in order"),
        ("kind", lambda a: np.full_like(a, 3), "not in order"),
        ("kind", lambda a: np.where(a == 2, 3, a), "not in order"),
        ("intermediate", lambda a: a + 2, "intermediate: has values"),
        ("intermediate", lambda a: a[:-1], "intermediate: has the shape"),
        ("labels", lambda a: a[:2], "part: has values"),
    ],
)
def test_wrong_tables_are_refused(name, change, message):
    arrays = {**TABLE, f"symbols.{name}": change(TABLE[f"symbols.{name}"])}
    with pytest.raises(ModelError, match=message):
        checked_table(arrays)
