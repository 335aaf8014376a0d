"""Encoders in folders: vectors of words from those of their pieces."""

from __future__ import annotations

import json
import pickle
import sys

import numpy as np
import pytest
from safetensors.numpy import save_file

from helpers import tiny_encoder
from oracles.bert import hidden_states
from sapwood.encoders.encoder import Encoder
from sapwood.errors import InputError, SapwoodError, UsageError

pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
pytest.importorskip("tokenizers", reason="tokenizers is not installed")


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return Encoder(tiny_encoder.bert_folder(tmp_path_factory.mktemp("encoders") / "tiny"))


def expected(*pieces: str) -> list[np.ndarray]:
    numbers = [tiny_encoder.PIECES.index(piece) for piece in ("[CLS]", *pieces, "[SEP]")]
    layers = hidden_states(tiny_encoder.weights(), numbers, tiny_encoder.HEADS, tiny_encoder.EPSILON)
    return [layer[1:-1] for layer in layers]


def test_the_vector_of_a_word_is_the_mean_of_its_pieces(encoder):
    pieces = expected("the", "dog", "##s", "(", "a", "##b", '"')
    found = encoder.all_vectors(["The", "dogs", "-LRB-", "ab", "``"], [1, 3])
    for number, layer in enumerate((1, 3)):
        rows = pieces[layer]
        words = [rows[0], rows[1:3].mean(axis=0), rows[3], rows[4:6].mean(axis=0), rows[6]]
        np.testing.assert_allclose(found[number], words, atol=1e-4)
    assert np.abs(found[0] - found[1]).max() > 0.1
    assert encoder.vectors(["The"], 2).shape == (1, encoder.size) == (1, tiny_encoder.SIZE)


def test_words_without_pieces_get_the_mean_of_the_sentence(encoder):
    found = encoder.vectors(["the", "\u200b", "dog"], 2)
    assert np.isfinite(found).all()
    numbers = [tiny_encoder.PIECES.index(piece) for piece in ("[CLS]", "the", "dog", "[SEP]")]
    layers = hidden_states(tiny_encoder.weights(), numbers, tiny_encoder.HEADS, tiny_encoder.EPSILON)
    np.testing.assert_allclose(found[1], layers[2].mean(axis=0), atol=1e-4)
    assert encoder.vectors([], 2).shape[0] == 0


def test_long_sentences_are_read_in_windows(encoder):
    """A word gets the vector that it has in the window in which it is farthest from an end."""
    words = ["dogs", "saw", "the"] * 20
    windows = list(encoder._windows(words))
    assert windows[0][0] == 0
    assert windows[-1][1] == len(words)
    assert len(windows) > 3
    room = tiny_encoder.POSITIONS - 2
    for begin, end in windows:
        assert sum(2 if word == "dogs" else 1 for word in words[begin:end]) <= room
    found = encoder.vectors(words, 2)
    for place in (0, 17, 30, len(words) - 1):
        margins = {
            (begin, end): min(place - begin if begin else 99, end - 1 - place if end < len(words) else 99)
            for begin, end in windows
            if begin <= place < end
        }
        best = max(margins.values())
        begin, end = next(window for window, margin in margins.items() if margin == best)
        np.testing.assert_array_equal(found[place], encoder.vectors(words[begin:end], 2)[place - begin])
    # A word longer than a window is cut.
    assert np.isfinite(encoder.vectors(["the", "a" * 500, "dog"], 1)).all()


def with_json(name, **changes):
    """Return a change to members of a file, or to those of the tokenizer's model."""

    def change(folder):
        value = json.loads((folder / name).read_text())
        (value["model"] if "model" in value and "normalizer" not in changes else value).update(changes)
        (folder / name).write_text(json.dumps(value))

    return change


def with_weights(name, values):
    def change(folder):
        save_file({**tiny_encoder.weights(), name: values}, folder / "model.safetensors")

    return change


def with_bytes(name, content):
    return lambda folder: (folder / name).write_bytes(content)


FORGED = {
    "more positions than weights": with_json("config.json", max_position_embeddings=10_000),
    "more layers than weights": with_json("config.json", num_hidden_layers=1 << 19),
    "infinite epsilon": with_json("config.json", layer_norm_eps=10**400),
    "no number as epsilon": with_json("config.json", layer_norm_eps=float("nan")),
    "deep configuration": with_bytes("config.json", b"[" * 100_000),
    "no numbers": with_weights("encoder.layer.0.output.dense.weight", np.full((8, 12), np.nan, np.float32)),
    "vectors that are not finite": with_weights("encoder.layer.0.output.dense.weight", np.full((8, 12), 3e38, "f4")),
    "no hidden units": with_weights("encoder.layer.0.intermediate.dense.weight", np.zeros((0, 8), np.float32)),
    "flat weights": with_weights("encoder.layer.0.output.dense.weight", np.zeros(3, np.float32)),
    "few pieces": with_weights("embeddings.word_embeddings.weight", np.zeros((2, 8), np.float32)),
    "no segments": with_weights("embeddings.token_type_embeddings.weight", np.zeros((0, 8), np.float32)),
    "a number as embeddings": with_weights("embeddings.word_embeddings.weight", np.zeros((), np.float32)),
    "no UTF-8": with_bytes("tokenizer.json", b"\xff"),
    "large pieces": with_json("tokenizer.json", vocab=dict.fromkeys(tiny_encoder.PIECES, 1 << 31)),
    "no pieces": with_json("tokenizer.json", vocab={}),
    "no unknown piece": with_json("tokenizer.json", type="Unigram", unk_id=None, vocab=[["a", -1.0]]),
}


@pytest.mark.parametrize("name", FORGED)
@pytest.mark.parametrize("int8", [False, True])
def test_forged_encoders_are_errors(name, int8, tmp_path):
    folder = tiny_encoder.bert_folder(tmp_path / "tiny")
    FORGED[name](folder)

    def encode():
        encoder = Encoder(folder)
        return encoder.vectors(["the", "dogs", "x"] * 20, encoder.layers[-1], int8=int8)

    with pytest.raises(InputError, match="tiny"):
        encode()


def test_vectors_depend_on_nothing_else(encoder):
    words = ["the", "dogs", "saw", "."]
    alone = encoder.vectors(words, 3)
    encoder.vectors(["x"] * 9, 3)
    np.testing.assert_array_equal(encoder.all_vectors(words, [1, 2, 3])[2], alone)
    copied = pickle.loads(pickle.dumps(encoder))
    np.testing.assert_array_equal(copied.vectors(words, 3), alone)
    assert copied.digest == encoder.digest


def test_a_graph_of_others_is_cut_at_the_layer(tmp_path):
    encoder = Encoder(tiny_encoder.onnx_folder(tmp_path / "exported"))
    assert encoder.layers == [1, 2]
    table = tiny_encoder.weights()["embeddings.word_embeddings.weight"]
    word = table[tiny_encoder.PIECES.index("saw")]
    np.testing.assert_array_equal(encoder.all_vectors(["saw"], [1, 2])[:, 0], [word, 2 * word])
    with pytest.raises(UsageError, match="has the layers 1, 2, not 3"):
        encoder.vectors(["saw"], 3)
    with pytest.raises(UsageError, match="runs as it is"):
        encoder.vectors(["saw"], 1, int8=True)


def test_the_digest_is_that_of_the_files(tmp_path, encoder):
    same = Encoder(tiny_encoder.bert_folder(tmp_path / "same"))
    other = Encoder(tiny_encoder.bert_folder(tmp_path / "other", seed=1))
    assert same.digest == encoder.digest != other.digest
    (same.folder / "tokenizer.json").write_text(tiny_encoder.tokenizer() + "\n")
    assert Encoder(same.folder).digest != encoder.digest


def test_what_is_wrong_is_named(tmp_path, encoder, monkeypatch):
    with pytest.raises(InputError, match=r"not an encoder: a folder with tokenizer\.json"):
        Encoder(tmp_path)
    bad = Encoder(tiny_encoder.bert_folder(tmp_path / "bad"))
    (bad.folder / "tokenizer.json").write_text("[]")
    with pytest.raises(InputError, match="not a tokenizer"):
        bad.vectors(["the"], 1)
    (tmp_path / "bad" / "model.onnx").write_bytes(b"\x08\x09:\x00")
    (tmp_path / "bad" / "tokenizer.json").write_text(tiny_encoder.tokenizer())
    with pytest.raises(InputError, match="no output"):
        Encoder(tmp_path / "bad").vectors(["the"], 1)
    for package in ("onnxruntime", "tokenizers"):
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, package, None)
            with pytest.raises(SapwoodError, match="pip install onnxruntime tokenizers"):
                Encoder(encoder.folder).vectors(["the"], 1)
