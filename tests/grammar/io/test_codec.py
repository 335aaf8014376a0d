"""How weights are stored: places as gaps, weights as halves, and bytes that are neither."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood.errors import ModelError
from sapwood.grammar.io.codec import (
    as_halves,
    from_halves,
    pack_places,
    pack_weights,
    to_halves,
    unpack_places,
    unpack_weights,
)


def slow_bytes(places: list[int]) -> list[int]:
    found, before = [], -1
    for place in places:
        gap, before = place - before - 1, place
        while gap >= 128:
            found.append(gap % 128 + 128)
            gap //= 128
        found.append(gap)
    return found


@given(st.sets(st.integers(0, 2**32 - 1)))
def test_places(numbers):
    places = np.array(sorted(numbers), np.int64)
    packed = pack_places(places)
    assert packed.tolist() == slow_bytes(sorted(numbers))
    assert unpack_places(packed).tolist() == sorted(numbers)


@pytest.mark.parametrize("wrong", [[128], [3, 200], [128, 128, 128, 128, 128, 1]])
def test_bytes_that_are_no_numbers(wrong):
    with pytest.raises(ModelError, match="bytes that are not numbers"):
        unpack_places(np.array(wrong, np.uint8))


def test_halves():
    values = np.random.default_rng(0).random(1000).astype(np.float32) ** 8
    rounded = to_halves(values)
    large = values > 2e-9
    assert np.abs(rounded / values - 1)[large].max() <= 2.0**-11
    assert np.abs(rounded - values).max() <= 2.0**-12
    assert np.array_equal(to_halves(rounded), rounded)
    halves = as_halves(rounded)
    assert halves is not None
    assert halves.nbytes == 2000
    assert np.array_equal(from_halves(halves), rounded)
    # What would be changed is left as it is.
    assert as_halves(values) is None
    assert as_halves(rounded.astype(np.float64)) is None
    assert as_halves(np.array([2.0], np.float32)) is None


@pytest.mark.parametrize("halves", [False, True])
@pytest.mark.parametrize("density", [0.0, 0.1, 0.9])
def test_weights(halves, density):
    rng = np.random.default_rng(1)
    tensors = np.where(rng.random(5000) < density, rng.random(5000), 0).astype(np.float32)
    tensors = to_halves(tensors) if halves else tensors
    arrays, metadata = pack_weights(tensors)
    assert ("tensors" in arrays) == (density > 0.5)
    assert ("tensors.half" in arrays) == (halves and density == 0.1)
    assert np.array_equal(unpack_weights(arrays, metadata, len(tensors)), tensors)
    if density == 0.1:
        with pytest.raises(ModelError, match="not as many weights"):
            unpack_weights(arrays, metadata, len(tensors) - 1)
        with pytest.raises(ModelError, match="does not fit"):
            unpack_weights({**arrays, "tensors.gaps": arrays["tensors.gaps"][1:]}, metadata, len(tensors))
        with pytest.raises(ModelError, match=r"tensors\.values: missing"):
            unpack_weights({"tensors.gaps": arrays["tensors.gaps"]}, metadata, len(tensors))
    # Files of format 3 have places themselves.
    old = {"tensors.places": np.flatnonzero(tensors).astype(np.uint32), "tensors.values": tensors[tensors != 0]}
    assert np.array_equal(unpack_weights(old, {"weights": len(tensors)}, len(tensors)), tensors)
