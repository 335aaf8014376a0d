"""Random grammars keep what they promise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.effort import examples
from sapwood.errors import UsageError
from sapwood.grammar.expectations import expected_counts
from sapwood.testing.grammars import random_bases, random_grammar


@examples(100)
@given(st.integers(0, 2**32 - 1), st.integers(0, 4), st.integers(1, 4), st.floats(0, 1))
def test_proper_normalised_and_finite(seed, interminals, preterminals, density):
    grammar = random_grammar(
        np.random.default_rng(seed), interminals=interminals, preterminals=preterminals, density=density
    )
    grammar.validate(tolerance=1e-12)
    assert grammar.n_interminals == interminals
    assert len(grammar.symbols) == interminals + preterminals
    assert set(grammar.states.tolist()) <= {1, 2, 3}
    occupancy, _ = expected_counts(grammar)
    # At most 0.8 interminals are expected below one, so at most 1 + 0.8 + 0.8^2 + ... = 5 in a tree.
    assert occupancy[: grammar.state_offsets[interminals]].sum() <= 5 + 1e-9
    for word in range(4):
        assert (grammar.emissions.row(word) > 0).all()


def test_mixed_states_and_preterminal_roots():
    grammars = [random_grammar(np.random.default_rng(seed)) for seed in range(10)]
    assert any(len(set(grammar.states.tolist())) > 1 for grammar in grammars)
    assert any(grammar.root[grammar.state_offsets[grammar.n_interminals] :].any() for grammar in grammars)


def test_same_seed_same_grammar():
    first, second, third = (random_grammar(np.random.default_rng(seed)) for seed in (5, 5, 6))
    assert first == second
    assert first != third


def test_real():
    grammar = random_grammar(np.random.default_rng(2), real=True)
    assert not grammar.probabilistic
    assert (grammar.tensors < 0).any()
    grammar.validate()


def test_bases_are_well_conditioned():
    rng = np.random.default_rng(0)
    for basis in random_bases(rng, random_grammar(rng, states=(1, 6))):
        assert np.linalg.cond(basis) < 3


def test_bad_settings():
    rng = np.random.default_rng(0)
    with pytest.raises(UsageError, match="at least one preterminal"):
        random_grammar(rng, preterminals=0)
    with pytest.raises(UsageError, match="fewest"):
        random_grammar(rng, states=(3, 2))
