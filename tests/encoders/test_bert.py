"""Encoders from safetensors: each layer against plain NumPy."""

from __future__ import annotations

import json

import numpy as np
import pytest

from helpers import tiny_encoder
from oracles.bert import hidden_states
from sapwood.encoders.bert import Bert
from sapwood.errors import InputError

onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
PIECES = np.array([2, 4, 6, 7, 5, 30, 3])


def layers_of(folder, *, int8: bool) -> list[np.ndarray]:
    bert = Bert(folder)
    session = onnxruntime.InferenceSession(bert.graph([0, 1, 2, 3], int8=int8), providers=["CPUExecutionProvider"])
    return [found[0] for found in session.run(None, {"input": bert.embed(PIECES)})]


@pytest.mark.parametrize("prefix", ["", "bert."])
def test_layers_are_those_of_plain_sums(tmp_path, prefix):
    folder = tiny_encoder.bert_folder(tmp_path / "tiny", prefix=prefix)
    expected = hidden_states(tiny_encoder.weights(), PIECES.tolist(), tiny_encoder.HEADS, tiny_encoder.EPSILON)
    for layer, (found, wanted) in enumerate(zip(layers_of(folder, int8=False), expected, strict=True)):
        np.testing.assert_allclose(found, wanted, atol=1e-4, err_msg=f"layer {layer}")
        if layer:
            assert np.abs(found - expected[layer - 1]).max() > 0.1


def test_integers_of_eight_bits_are_close(tmp_path):
    folder = tiny_encoder.bert_folder(tmp_path / "tiny")
    exact, quick = (layers_of(folder, int8=int8) for int8 in (False, True))
    for layer in (1, 2, 3):
        error = np.linalg.norm(quick[layer] - exact[layer]) / np.linalg.norm(exact[layer])
        assert 0 < error < 0.1, layer


def test_a_layer_needs_no_later_one(tmp_path):
    folder = tiny_encoder.bert_folder(tmp_path / "tiny")
    sizes = [len(Bert(folder).graph([layer], int8=False)) for layer in (1, 2, 3)]
    assert sizes[1] - sizes[0] == pytest.approx(sizes[2] - sizes[1], rel=0.01)
    assert sizes[1] - sizes[0] > 1000


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden_act": "relu"}, "only BERT-like encoders"),
        ({"num_attention_heads": 3}, "a divisor"),
        ({"hidden_size": "8"}, "positive integers"),
        ({"position_embedding_type": "relative_key"}, "only BERT-like encoders"),
    ],
)
def test_other_configurations_are_refused(tmp_path, change, message):
    folder = tiny_encoder.bert_folder(tmp_path / "tiny", **change)
    with pytest.raises(InputError, match=message):
        Bert(folder)


def test_damaged_files_are_refused(tmp_path):
    folder = tiny_encoder.bert_folder(tmp_path / "tiny")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 5}))
    with pytest.raises(InputError, match="layer 3"):
        Bert(folder).graph([5], int8=False)
    (folder / "config.json").write_text("{")
    with pytest.raises(InputError, match="not the configuration"):
        Bert(folder)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors").write_bytes(b"nothing")
    with pytest.raises(InputError, match="not a safetensors file"):
        Bert(folder).graph([1], int8=False)
