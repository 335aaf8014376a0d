"""Sparse feature matrices: per symbol one of inside and one of outside features, with a row for each node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from scipy import sparse

from sapwood.errors import UsageError
from sapwood.kernels import fill_rows
from sapwood.learn.spectral.features import (
    FEATURE_SETS,
    INSIDE,
    OUTSIDE,
    Entries,
    Feature,
    FeatureFunction,
    Side,
    compact,
    number_keys,
)
from sapwood.learn.spectral.node_table import NodeTable
from sapwood.runtime.registry import named
from sapwood.storage.shapes import Array, Float64, Int


@dataclass(frozen=True, eq=False)
class _Columns:
    """Features of one side as one sparse matrix of all nodes: rows sorted by symbol, columns numbered within symbols.

    The columns of symbol `a` are `begins[a] .. begins[a + 1] - 1` of the last three arrays, which hold the feature of
    each column, its value, and a node that has it.
    """

    features: list[Feature]
    names: list[Sequence[str]]
    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    begins: np.ndarray
    feature: np.ndarray
    value: np.ndarray
    example: np.ndarray


class SymbolFeatures:
    """Features of all nodes, as returned by `extract`.

    Symbols are given by their indices in the corpus. Matrices share memory with this object: copy before modifying one.
    """

    def __init__(
        self,
        table: NodeTable,
        order: Int[Array, "nodes"],
        offsets: Int[Array, "symbol_bounds"],
        inside: _Columns,
        outside: _Columns,
    ) -> None:
        self.table, self._order, self._offsets = table, order, offsets
        self._inside, self._outside = inside, outside

    def __repr__(self) -> str:
        return (
            f"<SymbolFeatures: {len(self._offsets) - 1:,} symbols, {len(self._order):,} nodes, "
            f"{len(self._inside.feature):,} inside and {len(self._outside.feature):,} outside features>"
        )

    def nodes(self, symbol: int) -> Int[Array, "nodes_of_symbol"]:
        """Return the nodes of a symbol: the rows of its matrices."""
        return self._order[self._offsets[symbol] : self._offsets[symbol + 1]]

    def inside(self, symbol: int) -> sparse.csr_array:
        """Return the inside features of a symbol's nodes, shape `(nodes, features)`."""
        return self._matrix(self._inside, symbol)

    def outside(self, symbol: int) -> sparse.csr_array:
        """Return the outside features of a symbol's nodes, shape `(nodes, features)`."""
        return self._matrix(self._outside, symbol)

    def most_of_a_node(self) -> tuple[int, int]:
        """Return the maximum numbers of inside and of outside features per node; at least 1."""
        inside, outside = (int(np.diff(side.indptr).max(initial=1)) for side in (self._inside, self._outside))
        return inside, outside

    @property
    def inside_names(self) -> list[str]:
        """Names of the inside features."""
        return [feature.name for feature in self._inside.features]

    def inside_feature(self, symbol: int) -> Int[Array, "features"]:
        """Return the index in `inside_names` of each column of `inside(symbol)`."""
        return self._inside.feature[self._inside.begins[symbol] : self._inside.begins[symbol + 1]]

    def describe_inside(self, symbol: int, column: int) -> str:
        """Return a description of a column of `inside(symbol)`, as `feature: value`."""
        return self._describe(self._inside, symbol, column)

    def describe_outside(self, symbol: int, column: int) -> str:
        """Return a description of a column of `outside(symbol)`, as `feature: value`."""
        return self._describe(self._outside, symbol, column)

    def _matrix(self, columns: _Columns, symbol: int) -> sparse.csr_array:
        indptr = columns.indptr[self._offsets[symbol] : self._offsets[symbol + 1] + 1]
        part = slice(indptr[0], indptr[-1])
        width = int(columns.begins[symbol + 1] - columns.begins[symbol])
        return sparse.csr_array(
            (columns.data[part], columns.indices[part], (indptr - indptr[0]).astype(np.int32)),
            shape=(len(indptr) - 1, width),
        )

    def _describe(self, columns: _Columns, symbol: int, column: int) -> str:
        if not 0 <= column < columns.begins[symbol + 1] - columns.begins[symbol]:
            raise IndexError(f"symbol {symbol} has no column {column}")
        at = columns.begins[symbol] + column
        feature, names = columns.features[columns.feature[at]], columns.names[columns.feature[at]]
        value = int(columns.value[at])
        if feature.describe is not None:
            return f"{feature.name}: {feature.describe(self.table, int(columns.example[at]))}"
        return f"{feature.name}: {names[value] if value < len(names) else value}"


Chosen: TypeAlias = str | Sequence[str | FeatureFunction]


def extract(table: NodeTable, inside: Chosen = "rich", outside: Chosen = "rich", *, least: int = 1) -> SymbolFeatures:
    """Compute the features of all nodes, grouped by symbol.

    Parameters
    ----------
    table
        The nodes.
    inside, outside
        Features: the name of one of `FEATURE_SETS`, or a list of names and functions.
    least
        Features with fewer nodes of a symbol are skipped for that symbol.
    """
    counts = table.corpus.symbol_counts()
    offsets = np.concatenate([[0], np.cumsum(counts)])
    order = np.argsort(table.corpus.symbol, kind="stable")
    row = np.empty(len(order), np.int32)
    row[order] = np.arange(len(order), dtype=np.int32)
    return SymbolFeatures(
        table,
        order,
        offsets,
        _gather(table, _choose(inside, "inside"), row, least),
        _gather(table, _choose(outside, "outside"), row, least),
    )


def _choose(chosen: Chosen, side: Side) -> list[Feature]:
    """Look up features by name."""
    registry = INSIDE if side == "inside" else OUTSIDE
    if isinstance(chosen, str):
        if chosen not in FEATURE_SETS:
            raise UsageError(f"no set of features {chosen!r}; choose {' or '.join(FEATURE_SETS)}, or give a list")
        chosen = FEATURE_SETS[chosen][side == "outside"]
    features: list[Feature] = []
    for item in chosen:
        if isinstance(item, Feature):
            if item.side != side:
                raise UsageError(f"{item.name!r} is an {item.side} feature, not an {side} one")
            features.append(item)
        elif not isinstance(item, str):
            features.append(Feature(getattr(item, "__name__", "function"), side, item))
        else:
            found = named(item, registry, "sapwood.features", f"{side} feature")
            if not isinstance(found, Feature) or found.side != side:
                raise UsageError(f"the feature {item!r} is {found!r}, not an {side} Feature; repair its package")
            features.append(found)
    names = [feature.name for feature in features]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"two {side} features are called {name!r}; register_feature gives a function another name")
    return features


def _entries(feature: Feature, table: NodeTable) -> Entries:
    """Compute a feature and return its values as distinct entries, sorted by node and value."""
    found = feature(table)
    if isinstance(found, np.ndarray):
        nodes = np.flatnonzero(found >= 0)
        return Entries(nodes, found[nodes], np.ones(len(nodes)))
    order = np.lexsort((found.value, found.node))
    node, value = found.node[order], found.value[order]
    new = np.ones(len(node), bool)
    new[1:] = (np.diff(node) != 0) | (np.diff(value) != 0)
    weight = np.bincount(np.cumsum(new) - 1, weights=found.weight[order], minlength=int(new.sum()))
    return Entries(node[new], value[new], weight, found.names)


def _gather(table: NodeTable, features: list[Feature], row: np.ndarray, least: int) -> _Columns:
    """Number the columns of each symbol by feature and value, and fill in the rows."""
    symbol, n_symbols = table.corpus.symbol, len(table.corpus.symbols)
    rows, columns, weights, names = [], [], [], []
    of_symbol, of_feature, of_value, example = [], [], [], []
    n_columns = 0
    for number, feature in enumerate(features):
        entries = _entries(feature, table)
        value, size = compact(entries.value, n_symbols)
        distinct, key = number_keys(symbol[entries.node] * np.int64(size) + value, n_symbols * size)
        kept = np.bincount(key, minlength=len(distinct)) >= least
        some = np.empty(len(distinct), np.int64)
        some[key] = np.arange(len(key))  # an entry of each column
        some = some[kept]
        used = kept[key]
        rows.append(row[entries.node[used]])
        columns.append((n_columns + np.cumsum(kept) - 1).astype(np.int32)[key[used]])
        weights.append(entries.weight[used].astype(float))
        names.append(entries.names)
        of_symbol.append(symbol[entries.node[some]])
        of_feature.append(np.full(len(some), number, np.int32))
        of_value.append(entries.value[some])
        example.append(entries.node[some])
        n_columns += len(some)
    # Reorder columns from (feature, symbol, value) to (symbol, feature, value).
    order = np.argsort(_joined(of_symbol), kind="stable")
    begins = np.searchsorted(_joined(of_symbol)[order], np.arange(n_symbols + 1))
    local = np.empty(n_columns, np.int32)
    local[order] = np.arange(n_columns) - begins[_joined(of_symbol)[order]]
    sizes = sum((np.bincount(part, minlength=len(row)) for part in rows), np.zeros(len(row), np.int64))
    indptr = np.concatenate([[0], np.cumsum(sizes)])
    indices, data = np.empty(indptr[-1], np.int32), np.empty(indptr[-1])
    next_entry = indptr[:-1].copy()
    for part, column, weight in zip(rows, columns, weights, strict=True):
        fill_rows(part, local[column], weight, next_entry, indices, data)
    return _Columns(
        features=features,
        names=names,
        indptr=indptr,
        indices=indices,
        data=data,
        begins=begins,
        feature=_joined(of_feature)[order],
        value=_joined(of_value)[order],
        example=_joined(example)[order],
    )


def _joined(parts: list[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.zeros(0, np.int64), *parts])


def scale_factors(matrix: sparse.csr_array, kappa: float) -> Float64[Array, "columns"]:
    """Return `sqrt(M / (count_i + kappa))` for each column: `M` rows, `count_i` the column's sum of squares.

    The factor of a column without entries is 0.
    """
    if kappa < 0:
        raise UsageError(f"kappa must not be negative: {kappa}")
    counts = np.bincount(matrix.indices, weights=matrix.data**2, minlength=matrix.shape[1])
    return np.sqrt(np.divide(matrix.shape[0], counts + kappa, out=np.zeros(len(counts)), where=counts > 0))


def scale(matrix: sparse.csr_array, kappa: float) -> sparse.csr_array:
    """Return the matrix with each column multiplied by its `scale_factors`: rare features count more.

    With orthogonal columns and `kappa = 0` this makes the SVD of the covariance a canonical correlation analysis.
    """
    data = matrix.data * scale_factors(matrix, kappa)[matrix.indices]
    return sparse.csr_array((data, matrix.indices, matrix.indptr), shape=matrix.shape)
