"""Numbers that C++ and Python share: models are written with them, so they never change."""

from __future__ import annotations

import numpy as np

from sapwood import kernels
from sapwood.inference.constraints import FORBIDDEN, FREE
from sapwood.model.forest_crf import GRAMMAR_ONLY, GROUPS, FeatureVocabulary, ForestCRF


def test_cells_are_free_or_forbidden() -> None:
    assert (FREE, FORBIDDEN) == (-1, -2)
    scores = np.zeros((6, 1), np.float32)
    scores[[1, 4], 0] = -50, 50  # cells (0, 2) and (1, 3) of three words
    assert set(kernels.prune_cells(scores, 3, 0.01).tolist()) == {FREE, FORBIDDEN}


def test_groups_of_features_are_bits() -> None:
    assert GROUPS == (
        "words", "endings", "tags", "spelling", "lengths", "rules", "splits", "pairs", "posteriors", "classes",
    )  # fmt: skip
    assert [group.value for group in kernels.FeatureGroup] == [1 << bit for bit in range(len(GROUPS))]
    assert ForestCRF.identity().mask == 0


def test_dense_weights_are_numbered_from_zero() -> None:
    assert [weight.value for weight in kernels.DenseWeight] == list(range(10))
    assert GRAMMAR_ONLY == (1, -1, 0, 1, 0, 0, 0, 0, 0, 0)
    assert ForestCRF.identity().with_scorer_weight(0.5).dense.tolist() == [1, -1, 0, 1, 0, 0, 0, 0, 0.5, 0.5]


def test_words_have_as_many_columns_as_the_kernels_read() -> None:
    assert kernels.WORD_COLUMNS == 14
    assert FeatureVocabulary((), ()).row("museums", initial=False).shape == (14,)
