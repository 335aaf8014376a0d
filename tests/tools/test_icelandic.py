"""The Icelandic package is made by its script, here from a few trees with the labels of IcePaHC."""

from __future__ import annotations

import json
import zipfile

import icelandic
import sapwood

TREES = (
    "( (IP-MAT-SPE (NP-SBJ (PRO-N Ég)) (MDPI má) (VB lesa) (NP-OB1 (N-A bók)) (. .)))\n"
    "( (IP-MAT (NP-SBJ (PRO-N Hún)) (VBDI sagði) (CP-THT (C að) (IP-SUB (NP-SBJ (PRO-N ég)) "
    "(MDPI má) (VB lesa))) (. .)))\n"
)


def test_from_trees_to_a_package(tmp_path, capsys, monkeypatch):
    (tmp_path / "train.mrg").write_text(TREES * 60, "utf-8")
    (tmp_path / "dev.mrg").write_text(TREES, "utf-8")
    icelandic.main([str(tmp_path), "-o", str(tmp_path / "dist"), "--cycles", "1"])
    told = json.loads(capsys.readouterr().out)
    assert told["f1"] == 100
    with zipfile.ZipFile(told["wheel"]) as archive:
        archive.extractall(tmp_path / "site")
        card = archive.read("sapwood_model_is/README.md").decode()
    assert "| icepahc/dev | 100.00 | " in card
    assert "Anton Karl Ingason" in card
    assert "| trained on | 70 trees" in card  # 50 of the first hundred, and the last 20
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    tree = sapwood.Parser("is").parse_one(["Ég", "má", "lesa", "bók", "."]).tree
    assert str(tree) == "(ROOT (IP-MAT (NP (PRO-N Ég)) (MDPI má) (VB lesa) (NP (N-A bók)) (. .)))"
