"""Passes over bigrams in tiles, against dense arrays."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from helpers.elsewhere import Elsewhere
from sapwood import kernels
from sapwood.errors import UsageError
from sapwood.lm.latent import tiles as tiles_module
from sapwood.lm.latent.tiles import BigramTiles
from sapwood.runtime.executor import Threads


def random_counts(rng: np.random.Generator, size: int, share: float) -> scipy.sparse.csr_array:
    counts = rng.integers(1, 9, (size, size)) * (rng.random((size, size)) < share)
    counts[0, 0] += 1
    return scipy.sparse.csr_array(counts)


@st.composite
def problems(draw):
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    size, states = draw(st.integers(1, 40)), draw(st.integers(1, 19))
    counts = random_counts(rng, size, draw(st.sampled_from([0.05, 0.3, 1.0])))
    options = {
        "groups": draw(st.integers(1, 12)),
        "workers": draw(st.sampled_from([Threads(1), Threads(3), Elsewhere(1), Elsewhere(2), Elsewhere(5)])),
        "dtype": np.float64,
    }
    return rng, counts, states, options


@given(problems())
def test_a_pass_expects_what_dense_arrays_do(problem):
    rng, counts, states, options = problem
    size = counts.shape[0]
    r, s = rng.random((size, states)) + 0.1, rng.random((size, states)) + 0.1
    tiles = BigramTiles(counts, states, **options)
    r_sums, s_sums = np.zeros_like(r), np.zeros_like(s)
    found = tiles.expect(r[tiles.rows], s[tiles.columns], r_sums, s_sums)
    dense = counts.toarray()
    ratio = dense / (r @ s.T)
    assert found == pytest.approx((dense * np.log(r @ s.T)).sum(), rel=1e-12)
    np.testing.assert_allclose(r_sums, (ratio @ s)[tiles.rows], rtol=1e-12)
    np.testing.assert_allclose(s_sums, (ratio.T @ r)[tiles.columns], rtol=1e-12)
    rows_alone = np.zeros_like(r)
    assert tiles.expect_rows(r[tiles.rows], s[tiles.columns], rows_alone) == pytest.approx(found, rel=1e-12)
    np.testing.assert_allclose(rows_alone, r_sums, rtol=1e-12)


@given(problems())
def test_products_totals_and_orders(problem):
    rng, counts, states, options = problem
    size = counts.shape[0]
    tiles = BigramTiles(counts, states, **options)
    assert sorted(tiles.rows) == sorted(tiles.columns) == list(range(size))
    np.testing.assert_array_equal(tiles.row_place[tiles.rows], np.arange(size))
    inner = counts.toarray()[np.ix_(tiles.rows, tiles.columns)]
    np.testing.assert_array_equal(tiles.dense(), inner)
    np.testing.assert_array_equal(tiles.row_totals, inner.sum(axis=1))
    np.testing.assert_array_equal(tiles.column_totals, inner.sum(axis=0))
    dense = rng.random((size, states))
    np.testing.assert_allclose(tiles.multiply(dense), inner @ dense, rtol=1e-12)
    np.testing.assert_allclose(tiles.multiply(dense, transposed=True), inner.T @ dense, rtol=1e-12)


@given(problems())
def test_rounds_add_up(problem):
    rng, counts, states, options = problem
    size = counts.shape[0]
    r, s = rng.random((size, states)) + 0.1, rng.random((size, states)) + 0.1
    tiles = BigramTiles(counts, states, **options)
    whole, split = np.zeros((2, 2, size, states))
    value = tiles.expect(r, s, whole[0], whole[1])
    values = [tiles.expect(r, s, split[0], split[1], [number]) for number in range(tiles.groups)]
    assert sum(values) == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(split, whole, rtol=1e-12)
    # With parameters for which each bigram counts as often as it was seen:
    ones, sums = np.full((size, 1), 1.0), np.zeros((2, size, 1))
    for number, total in enumerate(tiles.round_totals()):
        tiles.expect(ones, ones, sums[0], sums[1], [number])
        assert sums[0].sum() == pytest.approx(tiles.round_totals()[: number + 1].sum())
        assert total >= 0


@pytest.mark.parametrize("block", [1, 2000, 1 << 22])
def test_single_precision_is_the_same_on_any_number_of_threads(monkeypatch, block):
    monkeypatch.setattr(tiles_module, "_BLOCK", block)
    rng = np.random.default_rng(5)
    counts = random_counts(rng, 150, 0.2)
    r, s = rng.random((150, 24), np.float32), rng.random((150, 24), np.float32)
    sums = []
    for workers in (Threads(1), Threads(2), Threads(5), Elsewhere(1), Elsewhere(3), Elsewhere(20)):
        tiles = BigramTiles(counts, 24, workers=workers)
        r_sums, s_sums, rows_alone = np.zeros_like(r), np.zeros_like(s), np.zeros_like(r)
        value = tiles.expect(r, s, r_sums, s_sums), tiles.expect_rows(r, s, rows_alone)
        products = [tiles.multiply(s, transposed=transposed).tobytes() for transposed in (False, True)]
        arrays = [array.tobytes() for array in (r_sums, s_sums, rows_alone, tiles.dense(), tiles.round_totals())]
        sums.append((value, arrays, products))
    assert all(each == sums[0] for each in sums)
    ratio = tiles.dense() / (r.astype(float) @ s.T)
    np.testing.assert_allclose(s_sums, ratio.T @ r, rtol=2e-5)


def test_columns_of_a_block_stand_together(monkeypatch):
    monkeypatch.setattr(tiles_module, "_BLOCK", 2 * 8 * 6 * 5)
    counts = random_counts(np.random.default_rng(1), 60, 0.5)
    tiles = BigramTiles(counts, 6, dtype=np.float64, groups=3)
    assert tiles._blocks == 4  # twenty columns of a group in blocks of five
    for row in tiles._rows:
        for first, last in pairwise(row.segments.begins[row.offsets]):
            block = row.segments.columns[first:last]
            assert len(block) == 0 or block.max() - block.min() < 5


@pytest.mark.parametrize(
    ("values", "complaint"), [([], "all zero"), ([0.0], "all zero"), ([-1.0], "none below 0"), ([np.nan], "finite")]
)
def test_counts_that_are_none(values, complaint):
    places = np.arange(len(values))
    with pytest.raises(UsageError, match=complaint):
        BigramTiles(scipy.sparse.csr_array((values, (places, places)), (3, 3)), 2)


def test_rows_are_maximised_with_priors_and_a_least_probability():
    rng = np.random.default_rng(0)
    r, sums = rng.random((6, 4)), rng.random((6, 4))
    sums[2] = 0.0
    r[3, 1] = 1e-12
    expected, before = r * sums, r.copy()
    kernels.blend_rows(0, 6, r, sums, np.array([0.0, 1.0]), sums, 0.25, 1e-3)
    np.testing.assert_array_equal(r[2], before[2])
    wanted = (expected + 0.25) / (expected + 0.25).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(np.delete(r, 2, 0), np.maximum(np.delete(wanted, 2, 0), 1e-3))


def test_columns_are_maximised_and_blended():
    rng = np.random.default_rng(0)
    s, sums, kept = rng.random((3, 5, 4))
    before, expected = kept.copy(), s * sums
    totals = np.zeros(4)
    kernels.blend_columns(0, 5, s, sums, np.array([0.25, 3.0]), kept, totals)
    np.testing.assert_allclose(kept, 0.25 * before + 3 * expected)
    np.testing.assert_allclose(totals, kept.sum(axis=0))
    totals[:] = 0.0
    kernels.blend_columns(0, 5, s, sums, np.array([0.0, 1.0]), sums, totals)
    np.testing.assert_allclose(sums, expected)
    np.testing.assert_allclose(totals, expected.sum(axis=0))
    pseudo, scale = rng.random(5), rng.random(4)
    kernels.maximise_columns(0, 5, s, sums, pseudo, scale, 0.1)
    wanted = (expected + pseudo[:, None]) * scale
    np.testing.assert_allclose(s, np.where(wanted >= 0.1, wanted, 0.0))


def test_rows_are_blended():
    rng = np.random.default_rng(0)
    r, sums, kept = rng.random((3, 5, 4))
    kept[1] = sums[1] = 0.0
    wanted, before = 0.25 * kept + 3 * r * sums, r.copy()
    kernels.blend_rows(0, 5, r, sums, np.array([0.25, 3.0]), kept, 0.5, 0.0)
    np.testing.assert_allclose(kept, wanted)
    np.testing.assert_array_equal(r[1], before[1])
    shares = (wanted + 0.5) / (wanted + 0.5).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(np.delete(r, 1, 0), np.delete(shares, 1, 0))


def test_logarithms_of_many_small_numbers():
    values = np.random.default_rng(0).random((7, 19)) ** 30 + 1e-27
    weights = np.array([0, 1, 2, 0.5, 0, 3, 1])
    found = kernels.weighted_logs(0, 7, values, weights)
    assert found == pytest.approx((np.log(values).sum(axis=1) * weights).sum(), rel=1e-12)
