"""Made-up encoders in folders: random weights, a tokenizer that splits words into letters and a few longer pieces."""

from __future__ import annotations

import json
import string
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from sapwood.encoders.onnx_format import GraphBuilder

SIZE, HEADS, LAYERS, POSITIONS, EPSILON = 8, 2, 3, 32, 1e-12
PIECES = [
    "[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "saw", "dog", "(", ")", '"', ".",
    *string.ascii_lowercase, *(f"##{letter}" for letter in string.ascii_lowercase),
]  # fmt: skip


def tokenizer() -> str:
    """Return the content of a `tokenizer.json`."""
    specials = [
        {
            "id": PIECES.index(name), "content": name, "special": True, "single_word": False, "lstrip": False,
            "rstrip": False, "normalized": False,
        }
        for name in PIECES[:4]
    ]  # fmt: skip
    ends = {name: {"id": name, "ids": [PIECES.index(name)], "tokens": [name]} for name in ("[CLS]", "[SEP]")}
    single = [
        {"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
        {"SpecialToken": {"id": "[SEP]", "type_id": 0}},
    ]  # fmt: skip
    return json.dumps(
        {
            "version": "1.0",
            # As in files from the net: sapwood neither cuts nor pads.
            "truncation": {"max_length": 4, "strategy": "LongestFirst", "stride": 0, "direction": "Right"},
            "padding": {
                "strategy": {"Fixed": 16}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0,
                "pad_type_id": 0, "pad_token": "[PAD]",
            },
            "added_tokens": specials,
            "normalizer": {
                "type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None,
                "lowercase": True,
            },
            "pre_tokenizer": {"type": "BertPreTokenizer"},
            "post_processor": {"type": "TemplateProcessing", "single": single, "pair": single, "special_tokens": ends},
            "decoder": None,
            "model": {
                "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                "max_input_chars_per_word": 100, "vocab": {piece: number for number, piece in enumerate(PIECES)},
            },
        }
    )  # fmt: skip


def weights(seed: int = 0) -> dict[str, np.ndarray]:
    """Return random weights."""
    rng = np.random.default_rng(seed)
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (len(PIECES), SIZE),
        "embeddings.position_embeddings.weight": (POSITIONS, SIZE),
        "embeddings.token_type_embeddings.weight": (2, SIZE),
    }
    linear = {
        "attention.self.query": (SIZE, SIZE),
        "attention.self.key": (SIZE, SIZE),
        "attention.self.value": (SIZE, SIZE),
    }
    linear |= {"attention.output.dense": (SIZE, SIZE), "intermediate.dense": (12, SIZE), "output.dense": (SIZE, 12)}
    norms = ["embeddings.LayerNorm"]
    for layer in range(LAYERS):
        at = f"encoder.layer.{layer}."
        for name, shape in linear.items():
            shapes |= {f"{at}{name}.weight": shape, f"{at}{name}.bias": shape[:1]}
        norms += [f"{at}attention.output.LayerNorm", f"{at}output.LayerNorm"]
    for name in norms:
        shapes |= {f"{name}.weight": (SIZE,), f"{name}.bias": (SIZE,)}
    found = {name: rng.normal(scale=0.7, size=shape).astype(np.float32) for name, shape in shapes.items()}
    return {name: values + 1 if "LayerNorm.weight" in name else values for name, values in found.items()}


def bert_folder(folder: Path, *, seed: int = 0, prefix: str = "", **config: object) -> Path:
    """Write an encoder with safetensors."""
    folder.mkdir(parents=True, exist_ok=True)
    sizes = {
        "hidden_size": SIZE, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
        "max_position_embeddings": POSITIONS, "layer_norm_eps": EPSILON, "hidden_act": "gelu",
    }  # fmt: skip
    save_file({prefix + name: values for name, values in weights(seed).items()}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(sizes | config), encoding="utf-8")
    (folder / "tokenizer.json").write_text(tokenizer(), encoding="utf-8")
    return folder


def onnx_folder(folder: Path) -> Path:
    """Write an encoder with a graph of two layers: the embeddings, and the same times two; and what nothing needs."""
    folder.mkdir(parents=True)
    graph = GraphBuilder({name: ("int64", [1, "pieces"]) for name in ("input_ids", "attention_mask")})
    table = graph.constant("table", weights()["embeddings.word_embeddings.weight"])
    first = graph.add("Gather", [table, "input_ids"], name="/encoder/layer.0/output/Gather")
    two = graph.constant("two", np.array(2, np.float32))
    second = graph.add("Mul", [first, two], name="/encoder/layer.1/output/Mul")
    mean = graph.add("Mul", [second, graph.constant("unused", np.ones(SIZE, np.float32))], name="/pooler/Mul")
    (folder / "model.onnx").write_bytes(graph.model([mean]))
    (folder / "tokenizer.json").write_text(tokenizer(), encoding="utf-8")
    return folder
