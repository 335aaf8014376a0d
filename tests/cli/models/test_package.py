"""`sapwood package` and `sapwood models`."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

CALL = ["--name", "qq", "--language", "Made-up", "--licence", "CC-BY-4.0", "--attribution", "sources.md"]


def test_from_a_model_to_parsing_by_name(folder: Path, sapwood: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("sources.md").write_text("Six trees by the testers.\n", "utf-8")
    Path("dev.json").write_text(sapwood(["eval", "trees.mrg", "-m", "m", "--json", "-q"]).out, "utf-8")
    outcome = sapwood(["package", "m", *CALL, "--figures", "dev.json", "-o", "dist"])
    wheel = Path("dist", "sapwood_model_qq-1.0.0-py3-none-any.whl")
    assert (outcome.code, outcome.out) == (0, "")
    assert outcome.err.startswith(f"{wheel}: {wheel.stat().st_size:,} bytes; install it with")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall("site")
        assert "| dev | 1" in archive.read("sapwood_model_qq/README.md").decode()  # 100.00
    wanted = sapwood(["parse", "-m", "m", "sentences.txt"])
    unknown = sapwood(["parse", "--model", "qq", "sentences.txt"])
    assert (unknown.code, unknown.out) == (3, "")
    assert unknown.err.startswith("sapwood: qq: no such file or directory, nor an installed model; installed are: en; ")
    monkeypatch.syspath_prepend(str(folder / "site"))
    assert sapwood(["parse", "--model", "qq", "sentences.txt"]) == wanted
    assert sapwood(["eval", "trees.mrg", "-m", "qq", "-q"]).out == sapwood(["eval", "trees.mrg", "-m", "m", "-q"]).out
    assert "pcfg" in sapwood(["inspect", "qq"]).out
    lines = sapwood(["models"]).out.splitlines()
    assert lines[0].startswith("en  English, ")
    assert lines[1] == "qq  Made-up: a model for sapwood (pcfg) (sapwood-model-qq 1.0.0, CC-BY-4.0)"
    assert [model["name"] for model in json.loads(sapwood(["models", "--json"]).out)["models"]] == ["en", "qq"]


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        (["nothing", *CALL], 3, "nothing: no such file or directory, nor an installed model"),
        (["trees.mrg", *CALL], 4, "trees.mrg: not a sapwood file"),
        (["m", *CALL[:-1], "none.md"], 3, "none.md: no such file"),
        (["m", *CALL[:-1], "m"], 3, "m: not UTF-8 at byte"),
        (["m", *CALL, "--figures", "trees.mrg"], 3, "trees.mrg: not what `sapwood eval --json` prints"),
        (["m", *CALL, "--name", "en"], 2, "'en' is the name of the included model"),
        (["m", *CALL, "-o", "trees.mrg"], 3, "trees.mrg: cannot write it"),
        (["m", "--name", "qq"], 2, "Missing option '--language'"),
    ],
)
def test_what_goes_wrong(arguments: list[str], code: int, problem: str, folder: Path, sapwood: Any) -> None:
    Path("sources.md").write_text("Six trees.\n", "utf-8")
    outcome = sapwood(["package", *arguments])
    assert (outcome.code, outcome.out) == (code, "")
    assert problem in outcome.err
    assert not list(folder.glob("**/*.whl"))
