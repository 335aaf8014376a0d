"""`--encoder`: training, parsing and evaluation with a pretrained encoder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.conftest import Sapwood
from helpers import tiny_encoder
from helpers.made_up import made_up_treebank
from sapwood.encoders.lookup import VARIABLE
from sapwood.model import ParserModel

pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
pytest.importorskip("tokenizers", reason="tokenizers is not installed")


def test_train_parse_and_evaluate(sapwood: Sapwood, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(VARIABLE, raising=False)
    trees = made_up_treebank(24)
    Path("train.mrg").write_text("".join(f"{tree}\n" for tree in trees))
    Path("text.txt").write_text(" ".join(trees[0].words()) + "\n")
    tiny_encoder.bert_folder(Path("tiny"))
    given = ["train", "train.mrg", "--method", "pcfg", "--encoder", "tiny", "-o", "m", "--log", "log.jsonl"]
    outcome = sapwood([*given, "--threads", "1"])
    assert outcome.code == 0, outcome.err
    assert "chosen on 6 trees" in outcome.err
    model = ParserModel.load("m")
    assert model.span_scorer is not None
    assert model.span_scorer.encoder is not None
    lines = [json.loads(line) for line in Path("log.jsonl").read_text().splitlines()]
    losses = {line["layer"]: line["loss"] for line in lines if line["event"] == "encoder-layer"}
    assert model.span_scorer.encoder.layer == min(losses, key=losses.__getitem__)
    assert len(losses) == 3

    found = sapwood(["eval", "train.mrg", "-m", "m", "--encoder", "tiny", "--json"])
    missing = sapwood(["eval", "train.mrg", "-m", "m", "--json"])
    assert "the encoder tiny" not in found.err
    assert "the encoder tiny" in missing.err
    assert "is missing" in missing.err
    assert json.loads(found.out) != json.loads(missing.out)
    parsed = sapwood(["parse", "text.txt", "-m", "m", "--encoder", "tiny"])
    assert parsed.code == 0
    assert parsed.out.startswith("(ROOT ")
    quiet = sapwood(["parse", "text.txt", "-m", "m", "-q"])
    assert quiet.code == 0
    assert not quiet.err
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    assert sapwood(["parse", "text.txt", "-m", "m"]).out == parsed.out

    tiny_encoder.bert_folder(Path("other"), seed=1)
    refused = sapwood(["parse", "text.txt", "-m", "m", "--encoder", "other"])
    assert refused.code == 2
    assert "not the encoder that the model was trained with" in refused.err
    nothing = sapwood(["train", "train.mrg", "--method", "pcfg", "--encoder", "nowhere", "-o", "n"])
    assert nothing.code == 3
    assert "no such folder" in nothing.err
