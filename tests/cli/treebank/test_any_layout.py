"""The commands of docs/howto-linguist.md on treebanks of other languages, however their files are laid out."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import cycle, islice
from pathlib import Path

import pytest

from cli.conftest import Sapwood
from helpers.treebank_files import treebank
from sapwood.trees.formats.registry import read_trees
from sapwood.trees.tree import Tree

_COUNT = 20


def spanish() -> list[str]:
    """Return made-up trees in the style of AnCora, with subjects that are not pronounced."""
    nouns, verbs, names = cycle(["casa", "perra", "plaza"]), cycle(["ve", "busca", "cuida"]), cycle(["Ana", "Luz"])

    def sentences() -> Iterator[str]:
        while True:
            noun = f"(sn (espec.fs (da la)) (grup.nom.fs (nc {next(nouns)})))"
            name = f"(sn-SUJ (grup.nom.fs (np {next(names)})))"
            empty = "(sn.e-SUJ (-NONE- *0*))"
            yield f"(S {name} (grup.verb (vm {next(verbs)})) {noun} (f .))"
            yield f"(S {empty} (grup.verb (vm {next(verbs)})) {noun} (f .))"
            yield f"(S (f ¿) {empty} (grup.verb (vm {next(verbs)})) {noun} (f ?))"

    return list(islice(sentences(), _COUNT))


@lru_cache(1)
def icelandic() -> list[str]:
    """Return short clauses of IcePaHC, without its headings and without the unlabelled root."""
    trees = (tree.children[0] for tree in read_trees(treebank("icepahc/dev.mrg.gz")) if 3 <= len(tree) <= 12)
    return [str(tree) for tree in islice((tree for tree in trees if tree.label.startswith("IP")), _COUNT)]


def one_line(trees: list[str]) -> bytes:
    return "".join(f"{tree}\n" for tree in trees).encode()


def indented(trees: list[str]) -> bytes:
    """Return trees in unlabelled brackets, over several lines each, apart by blank lines."""
    return "".join(f"( {tree.replace(' (', chr(10) + '  (')} )\n\n" for tree in trees).encode()


LAYOUTS: dict[str, tuple[str, Callable[[list[str]], bytes]]] = {
    "one line": ("mine.mrg", one_line),
    "indented": ("mine.mrg", indented),
    "one line, gz": ("mine.mrg.gz", one_line),
    "indented, gz": ("mine.mrg.gz", indented),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("language", "label", "kept"),
    [(spanish, "sn-SUJ", "-SUJ"), (icelandic, "NP-SBJ", "-SBJ")],
    ids=["spanish", "icelandic"],
)
def test_commands_of_the_page(
    language: Callable[[], list[str]], label: str, kept: str, layout: str,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sapwood: Sapwood,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    trees, (file, write) = language(), LAYOUTS[layout]
    content = write(trees)
    Path(file).write_bytes(gzip.compress(content) if file.endswith(".gz") else content)

    def run(*arguments: object, stdin: bytes = b"") -> str:
        outcome = sapwood(list(arguments), stdin)
        assert outcome.code == 0, (arguments, outcome.err)
        return outcome.out

    report = json.loads(run("inspect", file, "--json"))
    assert report["trees"] == len(trees)
    assert not report["empty_elements"]["unknown"]
    assert f"in {sum(f'({label} ' in tree for tree in trees)} of {len(trees)} trees" in run(
        "search", label, file, "--count"
    )
    normal = run("convert", file, "--normalise", f"--keep-tag={kept}").splitlines()
    assert len(normal) == len(trees)
    assert any(f"({label} " in tree for tree in normal)
    words = [" ".join(Tree.parse(tree).words()) for tree in normal]
    assert not any(word.startswith("*") for line in words for word in line.split())
    assert run("convert", file, "--normalise", "--to", "tokens").splitlines() == words

    parts = run("split", file, "--dev", "20%", "--test", "0").splitlines()
    train, dev = (line.split()[-1] for line in parts)
    assert len(list(read_trees(train))) + len(list(read_trees(dev))) == len(trees)
    run("train", train, f"--keep-tag={kept}", "--method", "pcfg", "-o", "parser.sapwood", "-q")
    assert "F1" in run("eval", dev, "-m", "parser.sapwood")
    text = "".join(f"{line}\n" for line in words).encode()
    parsed = run("parse", "-m", "parser.sapwood", stdin=text).splitlines()
    assert [" ".join(Tree.parse(tree).words()) for tree in parsed] == words
    assert run("parse", "-m", "parser.sapwood", "--to", "conllu", stdin=text).count("\troot\t") == len(trees)
    assert "rules" in run("inspect", "parser.sapwood", "--top", 2)
