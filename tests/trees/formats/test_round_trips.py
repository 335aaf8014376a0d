"""Every tree of every treebank: written and read again, transformed and turned back."""

from __future__ import annotations

import shutil
import subprocess
import sys
from itertools import cycle, islice

import pytest

from helpers.effort import slow
from helpers.treebank_files import OURS, treebank
from sapwood.storage.files import read_lines
from sapwood.trees.formats.brackets import format_tree
from sapwood.trees.formats.export import format_export, parse_export, read_export
from sapwood.trees.formats.registry import read_trees
from sapwood.trees.normalise import Normaliser
from sapwood.trees.transform import TreeTransform
from sapwood.trees.tree import Tree

TRANSFORMS = [
    TreeTransform(),
    TreeTransform(vertical=2, horizontal=2, direction="head"),
    TreeTransform(vertical=3, horizontal=0, direction="left", annotate_tags=True),
]
# Name, number of trees, number of them of which nothing is left when they are clean.
TREEBANKS = [
    ("ours/train.mrg", 160, 0), ("ours/dev.mrg", 40, 0), ("ours/odd.mrg", 12, 1),
    slow("gum/train.mrg", 10224, 0), slow("gum/dev.mrg", 1575, 0), slow("gum/test.mrg", 1464, 0),
    slow("gum-open/train.mrg", 3707, 0), ("gum-open/dev.mrg", 438, 0), ("gum-open/test.mrg", 491, 0),
    slow("wsj-sample/train.mrg", 3396, 0), ("wsj-sample/dev.mrg", 273, 0), ("wsj-sample/test.mrg", 245, 0),
    slow("icepahc/train.mrg.gz", 65700, 482), slow("icepahc/dev.mrg.gz", 3650, 25),
]  # fmt: skip


@pytest.mark.parametrize(("name", "trees", "empty"), TREEBANKS)
def test_every_tree(name, trees, empty):
    path = treebank(name)
    normaliser = Normaliser()
    settings = cycle(TRANSFORMS)
    each = 1 if trees > 20_000 else len(TRANSFORMS)
    seen = dropped = 0
    # These files have one tree a line.
    for tree, (number, line) in zip(read_trees(path), read_lines(path), strict=True):
        seen += 1
        text = format_tree(tree)
        # A tree that is written as it stands in the file has been read from that text already.
        assert text == line.strip() or Tree.parse(text) == tree, f"line {number}"
        clean = normaliser(tree)
        if clean is None:
            dropped += 1
            continue
        assert clean.label == "ROOT"
        for transform in islice(settings, each):
            skeleton = transform(clean)
            assert transform.invert(skeleton) == clean, f"line {number}"
        assert len(skeleton) == len(clean)
        if seen % 10 == 0:
            assert normaliser(clean) == clean, f"line {number}"
            assert Tree.parse(str(clean)) == Tree.parse(clean.pretty()) == clean, f"line {number}"
            assert all(len(node.children) in (0, 2) for node in skeleton.nodes()), f"line {number}"
    assert (seen, dropped) == (trees, empty)


@pytest.mark.parametrize("name", ["train", "dev", "odd"])
def test_export_and_brackets_are_the_same_trees(name):
    trees = [Tree("ROOT", tree.children) for tree in read_trees(OURS / f"{name}.mrg")]
    assert list(read_export(OURS / f"{name}.export", functions=True)) == trees
    written = "".join(format_export(tree, number) for number, tree in enumerate(trees, 1))
    assert list(parse_export(written, source=name)) == trees


def test_our_treebank_is_what_its_script_writes(tmp_path):
    script = shutil.copy(OURS / "make_treebank.py", tmp_path)
    subprocess.run([sys.executable, script], check=True)
    written = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert {
        path.name: path.read_bytes() for path in OURS.iterdir() if path.suffix in (".mrg", ".export", ".py")
    } == written
