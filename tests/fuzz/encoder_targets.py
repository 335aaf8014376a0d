"""What is fuzzed: folders of pretrained encoders, whose files follow each other behind lines that name them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from fuzz.grammar_targets import MARK
from fuzz.tree_targets import Target, written
from helpers import tiny_encoder
from sapwood.encoders.bert import CONFIG, WEIGHTS
from sapwood.encoders.encoder import MODEL, TOKENIZER, Encoder
from sapwood.encoders.onnx_format import OnnxGraph

_WORDS = ["the", "dogs", "-LRB-", "", "\u200b", "a" * 300, "dogs"]
_TOKENS = (
    '{ } [ ] : , "" null true -1 0 1 2 3 99999999999999999999 1e999 "hidden_size" "type" "F32" "F64" "I64" "BF16" '
    '"shape" "data_offsets" "vocab" "unk_token" "BPE" "Unigram" "WordPiece" "Sequence" "Metaspace" "Replace" "Regex"'
    ' "(a*)*b"'
)


def _content(make: Callable[[Path], object]) -> bytes:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "encoder"
        make(folder)
        return b"".join(MARK + path.name.encode() + b"\n" + path.read_bytes() for path in sorted(folder.iterdir()))


def _use_bert(path: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part in path.read_bytes().split(MARK)[1:]:
            file, _, content = part.partition(b"\n")
            if (wanted := file.decode("ascii", "replace")) in (TOKENIZER, CONFIG, WEIGHTS):
                (folder / wanted).write_bytes(content)
        encoder = Encoder(folder)
        assert len(encoder.digest) == 64
        for int8 in (False, True):
            layers = encoder.layers[:3]
            found = encoder.all_vectors(_WORDS, layers, int8=int8)
            assert found.shape[:2] == (len(layers), len(_WORDS))
            assert np.asarray(encoder.vectors([], layers[0])).shape[0] == 0


def _use_onnx(path: Path) -> None:
    """Read and cut a graph; it is not run: ONNX Runtime is as trusted as the file."""
    graph = OnnxGraph(path.read_bytes(), "x")
    OnnxGraph(graph.cut(graph.outputs), "x")
    for _, outputs, name in graph.nodes:
        assert name.encode()
        graph.cut(outputs[:1])


def encoders() -> dict[str, Target]:
    """Return the targets; none without the packages that run encoders."""
    try:
        import onnxruntime  # noqa: F401
        import tokenizers  # noqa: F401
    except ImportError:
        return {}
    bert = written(_TOKENS, _content(tiny_encoder.bert_folder), use=_use_bert, share=0.1)
    with tempfile.TemporaryDirectory() as folder:
        graph = (tiny_encoder.onnx_folder(Path(folder) / "onnx") / MODEL).read_bytes()
    return {"encoder": bert, "onnx": written("\\x08 layer.0 input_ids", graph, use=_use_onnx, share=0.3)}
