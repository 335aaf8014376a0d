"""ONNX files: what is written runs, and what is cut gives the same numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.effort import examples
from sapwood.encoders.onnx_format import GraphBuilder, OnnxGraph, decode, encode
from sapwood.errors import InputError

onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")


def run(content: bytes, **given: np.ndarray) -> list[np.ndarray]:
    return onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"]).run(None, given)


def small_graph() -> tuple[bytes, str, str]:
    """Return a model with two outputs, and the names of tensors on the way to each."""
    graph = GraphBuilder({"x": ("float32", ["n", 2])})
    one = graph.add("MatMul", ["x", graph.constant("w", np.array([[1, 2], [3, 4]], np.float32))], name="one")
    two = graph.add("LayerNormalization", [one, graph.constant("gain", np.ones(2, np.float32))], axis=-1, epsilon=1e-3)
    three = graph.add("ReduceMean", [two], axes=[0, 1], keepdims=0)
    return graph.model([three]), one, two


def test_a_graph_runs():
    content, _, _ = small_graph()
    x = np.array([[1.0, 0.5], [2.0, -1.0]], np.float32)
    inner = x @ np.array([[1, 2], [3, 4]])
    normal = (inner - inner.mean(axis=1, keepdims=True)) / np.sqrt(inner.var(axis=1, keepdims=True) + 1e-3)
    assert run(content, x=x)[0] == pytest.approx(normal.mean(), abs=1e-6)


def test_a_cut_graph_has_what_its_outputs_need():
    content, one, two = small_graph()
    graph, x = OnnxGraph(content, "small"), np.array([[1.0, 0.5]], np.float32)
    assert graph.outputs != [one]
    cut = graph.cut([one])
    np.testing.assert_allclose(run(cut, x=x)[0], [[2.5, 4.0]])
    again = OnnxGraph(cut, "cut")
    assert again.outputs == [one]
    assert [outputs for _, outputs, _ in again.nodes] == [[one]]
    assert b"LayerNormalization" in content
    assert b"LayerNormalization" not in cut
    assert b"gain" in content
    assert b"gain" not in cut
    both = run(graph.cut([two, one]), x=x)
    np.testing.assert_allclose(both[1], [[2.5, 4.0]])
    assert both[0].sum() == pytest.approx(0, abs=1e-5)


@examples(50)
@given(st.lists(st.tuples(st.integers(1, 1000), st.integers(0, 2**63) | st.binary(max_size=300))))
def test_fields_are_read_as_they_were_written(fields):
    content = encode(fields)
    found = list(decode(content, "fields"))
    assert [number for number, _, _ in found] == [number for number, _ in fields]
    assert b"".join(bytes(whole) for _, _, whole in found) == content
    for (_, value), (_, seen, _) in zip(fields, found, strict=True):
        assert bytes(seen) == (value if isinstance(value, bytes) else b"")


def test_damage_is_named():
    content, _, _ = small_graph()
    refused = 0
    for size in range(0, len(content) - 1, 7):
        try:
            OnnxGraph(content[:size], "damaged.onnx")
        except InputError:
            refused += 1
    assert refused > 20
    with pytest.raises(InputError, match=r"damaged\.onnx"):
        OnnxGraph(content[:-9], "damaged.onnx")
    for garbage in (b"\xff" * 20, b"\x0b\x00", b"not a model"):
        with pytest.raises(InputError, match="not an ONNX model"):
            OnnxGraph(garbage, "garbage.onnx")
