"""A bundle gives back the same grammars to the last bit, or an error."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sapwood.errors import InputError, ModelError, SapwoodError, UsageError
from sapwood.grammar.tensor_grammar import BUNDLE_KIND, TensorGrammar
from sapwood.model.file import BUNDLE_VERSION, CompressedGrammar, load_models, save_models
from sapwood.storage.arrays import read_arrays, read_header, write_arrays
from sapwood.testing.grammars import random_grammar, random_states
from sapwood.trees.corpus import Corpus
from sapwood.trees.normalise import Normaliser


@pytest.fixture
def grammars() -> list[TensorGrammar]:
    rng = np.random.default_rng(1)
    base = random_grammar(rng, states=(1, 1))
    members = [random_states(base, states, rng).with_info(seed=states, note="Ærø ∑") for states in (2, 3, 2)]
    return [replace(grammar, normaliser=Normaliser(function_tags="all")) for grammar in members]


def assert_same(ours: TensorGrammar, theirs: TensorGrammar) -> None:
    assert ours == theirs
    assert ours.info == theirs.info
    assert (ours.normaliser, ours.transform) == (theirs.normaliser, theirs.transform)
    first, second = ours._content()[0], theirs._content()[0]
    for name in first:
        assert first[name].dtype == second[name].dtype
        assert first[name].tobytes() == second[name].tobytes()


def test_round_trip(tmp_path, grammars):
    save_models(iter(grammars), tmp_path / "a")
    again = load_models(tmp_path / "a")
    assert len(again) == 3
    for ours, theirs in zip(grammars, again, strict=True):
        assert_same(ours, theirs)
    save_models(again, tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_packed_grammars_are_the_same(tmp_path, grammars):
    sparse = replace(grammars[0], tensors=np.where(grammars[0].tensors > 0.3, grammars[0].tensors, 0))
    for ours in (*grammars, sparse):
        assert_same(ours, CompressedGrammar(ours).unpacked())
        ours.save(tmp_path / "a")
        save_models([CompressedGrammar(ours)], tmp_path / "b")
        assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    save_models(grammars, tmp_path / "a")
    save_models(map(CompressedGrammar, grammars), tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_packed_grammars_take_no_room_for_zeros(grammars):
    large = replace(grammars[0], tensors=np.zeros(10**6, np.float32))
    large.tensors[::1000] = 0.5
    assert sum(array.nbytes for array in CompressedGrammar(large)._content()[0].values()) < 20_000


def test_grammars_that_share_nothing(tmp_path):
    """The file format does not ask for grammars that go together; the parser does."""
    rng = np.random.default_rng(2)
    grammars = [random_grammar(rng, interminals=2), random_grammar(rng, words=7, real=True), random_grammar(rng)]
    save_models(grammars, tmp_path / "a")
    for ours, theirs in zip(grammars, load_models(tmp_path / "a"), strict=True):
        assert_same(ours, theirs)


def test_more_than_ten_members(tmp_path, grammars):
    members = [grammars[number % 3].with_info(number=number) for number in range(12)]
    save_models(members, tmp_path / "a")
    for ours, theirs in zip(members, load_models(tmp_path / "a"), strict=True):
        assert_same(ours, theirs)


def test_what_is_shared_is_stored_once(tmp_path, grammars):
    save_models(grammars, tmp_path / "a")
    stored = read_header(tmp_path / "a")["tensors"]
    for name in ("symbols", "rules", "lexicon.words", "emissions.tags", "rule_counts"):
        assert {key for key in stored if key.endswith(f".{name}")} == {f"0.{name}"}
    assert {key for key in stored if key.endswith(".tensors")} == {"0.tensors", "1.tensors", "2.tensors"}
    # Two states like the first member, three in the second.
    assert {key for key in stored if key.endswith(".states")} == {"0.states", "1.states"}
    first, second, _ = load_models(tmp_path / "a")
    assert first.rules is second.rules


def test_arrays_that_not_all_have(tmp_path, grammars):
    """What only the first member has must not be lent to the others, nor what only another has be missed."""
    plain = grammars[0]
    own = np.arange(len(plain.emissions.states), dtype=np.int32)
    special = replace(plain, emissions=replace(plain.emissions, emitter=own))
    for members in ([plain, special], [special, plain]):
        save_models(members, tmp_path / "a")
        for ours, theirs in zip(members, load_models(tmp_path / "a"), strict=True):
            assert (ours.emissions.emitter is None) == (theirs.emissions.emitter is None)
            assert_same(ours, theirs)


def test_equal_is_not_the_same(tmp_path, grammars):
    """Negative zeros are equal to zeros, but not the same bits; and types count, too."""
    first = replace(grammars[0], rule_counts=np.zeros(len(grammars[0].rules)))
    zeros = -first.rule_counts
    assert zeros.tobytes() != first.rule_counts.tobytes()
    negative = replace(first, rule_counts=zeros)
    wide = replace(first, tensors=first.tensors.astype(float))
    save_models([first, negative, wide], tmp_path / "a")
    again = load_models(tmp_path / "a")
    assert again[1].rule_counts.tobytes() == zeros.tobytes()
    assert [grammar.tensors.dtype for grammar in again] == [np.float32, np.float32, np.float64]


def test_a_single_grammar_is_an_ordinary_model(tmp_path, grammars):
    save_models(grammars[:1], tmp_path / "bundle")
    grammars[0].save(tmp_path / "model")
    assert (tmp_path / "bundle").read_bytes() == (tmp_path / "model").read_bytes()
    (again,) = load_models(tmp_path / "model")
    assert_same(again, grammars[0])
    with pytest.raises(UsageError, match="none: there are no grammars"):
        save_models([], tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_one_grammar_is_asked_for(tmp_path, grammars):
    save_models(grammars, tmp_path / "a")
    with pytest.raises(ModelError, match=r"a: holds several grammars, not one; choose a model with one grammar"):
        TensorGrammar.load(tmp_path / "a")
    with pytest.raises(ModelError, match="holds a bundle, not a corpus"):
        Corpus.load(tmp_path / "a")


def test_saving_replaces_whole_and_leaves_nothing_else(tmp_path, grammars):
    path = tmp_path / "model"
    path.write_text("something else")
    save_models(grammars, path)
    assert len(load_models(path)) == 3
    assert [file.name for file in tmp_path.iterdir()] == ["model"]


def test_truncated(tmp_path, grammars):
    path = tmp_path / "model"
    save_models(grammars, path)
    content = path.read_bytes()
    for length in sorted({*range(0, len(content), len(content) // 50), 1, 7, 8, 9, len(content) - 1}):
        path.write_bytes(content[:length])
        with pytest.raises(ModelError, match="model"):
            load_models(path)
    path.write_bytes(content + b"\0")
    with pytest.raises(ModelError):
        load_models(path)


def test_flipped_bits(tmp_path, grammars):
    path = tmp_path / "model"
    save_models(grammars, path)
    content = path.read_bytes()
    header = 8 + int.from_bytes(content[:8], "little")
    rng = np.random.default_rng(0)
    positions = [*range(12), *rng.integers(0, header, 150), *rng.integers(header, len(content), 100)]
    found_out = 0
    for position in positions:
        damaged = bytearray(content)
        damaged[position] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        try:
            loaded = load_models(path)
        except SapwoodError:
            found_out += 1
        else:
            # Only what is not part of the grammars can go unseen.
            assert position < header
            assert loaded == grammars
    assert found_out >= len(positions) - 10


def test_wrong_content(tmp_path, grammars):
    save_models(grammars, tmp_path / "a")
    arrays, metadata = read_arrays(tmp_path / "a", kind=BUNDLE_KIND, version=BUNDLE_VERSION)

    def load(arrays, metadata, version=BUNDLE_VERSION):
        write_arrays(tmp_path / "b", arrays, metadata, kind=BUNDLE_KIND, version=version)
        return load_models(tmp_path / "b")

    assert load(arrays, metadata) == grammars
    with pytest.raises(ModelError, match="upgrade sapwood"):
        load(arrays, metadata, BUNDLE_VERSION + 1)
    with pytest.raises(ModelError, match="b: not a complete bundle of grammars: its grammar 1: tensors: missing"):
        load({name: array for name, array in arrays.items() if name != "0.tensors"}, metadata)
    with pytest.raises(ModelError, match=r"its grammar 2: .*probabilities sum to"):
        load({**arrays, "1.tensors": arrays["1.tensors"] * 2}, metadata)
    with pytest.raises(ModelError, match="its grammar 2: tensors: missing"):
        load({name: array for name, array in arrays.items() if name != "1.tensors"}, metadata)
    with pytest.raises(ModelError, match="its grammar 2: symbols: missing"):
        load(arrays, _without_shared(metadata))
    for members in ([], None, {}, "xyz", [3, 4], [{}], [{"shared": 3}], [{"shared": ["nothing"]}]):
        with pytest.raises(ModelError, match="b: "):
            load(arrays, {"members": members})
    with pytest.raises(ModelError, match="without grammars"):
        load({}, {"members": []})


def _without_shared(metadata):
    return {"members": [{**member, "shared": []} for member in metadata["members"]]}


def test_not_a_model_at_all(tmp_path, grammars):
    (tmp_path / "x").write_bytes(b"(S (N a))\n")
    with pytest.raises(ModelError, match="not a sapwood file"):
        load_models(tmp_path / "x")
    with pytest.raises(InputError, match="no such file"):
        load_models(tmp_path / "nowhere")
    with pytest.raises(InputError, match="is a directory"):
        load_models(tmp_path)
    with pytest.raises(InputError, match="nowhere"):
        save_models(grammars, tmp_path / "nowhere" / "model")
