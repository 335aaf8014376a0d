"""`sapwood split`."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from helpers.treebank_files import treebank
from sapwood import read_trees


def parts_of(folder: Path) -> dict[str, list[str]]:
    return {path.stem: [str(tree) for tree in read_trees(path)] for path in folder.glob("*.mrg")}


def test_layout_and_compression_make_no_difference(folder: Path, sapwood: Any) -> None:
    source = treebank("ours/train.mrg")
    trees = list(read_trees(source))
    Path("indented.mrg").write_text("\n\n".join(tree.pretty(width=30) for tree in trees) + "\n")
    with gzip.open("packed.mrg.gz", "wt") as stream:
        stream.write(source.read_text())
    Path("one.mrg").write_text("".join(f"{tree}\n" for tree in trees))
    found = []
    for name in ("indented.mrg", "packed.mrg.gz", "one.mrg"):
        outcome = sapwood(["split", name, "--dev", "10%", "--test", "20", "-o", f"of-{name}", "-q"])
        assert (outcome.code, outcome.err) == (0, "")
        found.append(parts_of(Path(f"of-{name}")))
    assert found[0] == found[1] == found[2]
    assert {part: len(some) for part, some in found[0].items()} == {
        "train": len(trees) - round(len(trees) / 10) - 20, "dev": round(len(trees) / 10), "test": 20,
    }  # fmt: skip
    assert sorted(line for some in found[0].values() for line in some) == sorted(map(str, trees))
    outcome = sapwood(["split", "-o", "piped", "--test", "20"], Path("one.mrg").read_bytes())
    assert outcome.code == 0
    assert parts_of(Path("piped")) == found[0]


def test_several_files_are_documents(folder: Path, sapwood: Any) -> None:
    for letter in "abcdefgh":
        Path(f"{letter}.psd").write_text("".join(f"(S (A {letter}{number}))\n" for number in range(10)))
    outcome = sapwood(["split", *(f"{letter}.psd" for letter in "abcdefgh"), "--json", "-o", "parts"])
    found = json.loads(outcome.out)
    assert {part: row["trees"] for part, row in found.items()} == {"train": 60, "dev": 10, "test": 10}
    letters = {part: {line[6] for line in lines} for part, lines in parts_of(Path("parts")).items()}
    assert [len(some) for some in letters.values()] == [len(found[part]["path"]) and found[part]["documents"]
                                                       for part in letters]  # fmt: skip
    assert set.union(*letters.values()) == set("abcdefgh")
    assert sum(map(len, letters.values())) == 8
    sapwood(["split", *(f"{letter}.psd" for letter in "abcdefgh"), "--by", "trees", "-o", "mixed"])
    mixed = parts_of(Path("mixed"))
    assert len({line[6] for line in mixed["dev"]}) > 1


def test_refusals(folder: Path, sapwood: Any) -> None:
    assert sapwood(["split", "trees.mrg", "--dev", "1", "--test", "0"]).code == 0
    outcome = sapwood(["split", "trees.mrg"])
    assert (outcome.code, outcome.err) == (
        2, "sapwood: train.mrg: exists already; remove it, or name another folder (-o)\n",
    )  # fmt: skip
    assert "neither a number of trees (500) nor a percentage (10%)" in sapwood(["split", "trees.mrg", "--dev", "x"]).err
    assert "nothing to split off" in sapwood(["split", "trees.mrg", "--dev", "0", "--test", "0"]).err
    Path("empty.mrg").write_text("")
    outcome = sapwood(["split", "empty.mrg", "-o", "none"])
    assert (outcome.code, outcome.err) == (3, "sapwood: empty.mrg: no trees in it\n")
    assert not Path("none").exists()


@pytest.mark.parametrize("name", ["icepahc/dev.mrg.gz", "wsj-sample/dev.mrg"])
def test_other_treebanks(name: str, tmp_path: Path, sapwood: Any) -> None:
    outcome = sapwood(["split", treebank(name), "-o", tmp_path, "-q"])
    assert outcome.code == 0
    everything = sorted(map(str, read_trees(treebank(name))))
    assert sorted(line for some in parts_of(tmp_path).values() for line in some) == everything
