"""What is fuzzed: input that is made to harm, of the kinds in `corpus/`, and packages of forged models."""

from __future__ import annotations

import contextlib
import io
import json
import sys
import tempfile
import unittest.mock
import zipfile
from collections.abc import Callable
from email.parser import BytesParser
from functools import partial
from pathlib import Path

from fuzz.mutations import stored
from fuzz.tree_targets import Target, written
from sapwood.cli.options.common import format_json
from sapwood.cli.options.params import read_pairs
from sapwood.errors import SapwoodError
from sapwood.interop.packages import _CODE, write_package
from sapwood.model import ParserModel
from sapwood.model.forest_crf import FeatureVocabulary
from sapwood.model.installed import installed_models
from sapwood.model.span_scorer import word_features
from sapwood.runtime.config import read_config
from sapwood.storage.files import read_lines
from sapwood.trees.corpus import Corpus
from sapwood.trees.formats.registry import OUTPUT_FORMATS, format_as, read_trees
from sapwood.trees.lexicon.signatures import SignatureModel
from sapwood.trees.tokenise.registry import find_tokeniser
from sapwood.trees.tree import Tree

CORPUS = Path(__file__).with_name("corpus")
_COMPRESSED = ("gz", "bz2", "xz", "zst")
# Formats whose size is not that of the tree are left out: they have limits of their own.
_FORMATS = [name for name in OUTPUT_FORMATS if name not in ("draw", "svg")]
_HEADERS = [
    "Metadata-Version", "Name", "Version", "Summary", "License-Expression", "License-File", "Requires-Python",
    "Description-Content-Type",
]  # fmt: skip


def _originals(name: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted((CORPUS / name).iterdir())]


def _use_package(path: Path) -> None:
    """Package a forged model: only the model, the card and their digests may depend on it."""
    format_json(ParserModel.load(path).info).encode("utf-8", "backslashreplace")
    with tempfile.TemporaryDirectory() as folder:
        wheel = write_package(
            path, folder, name="qq", language="Toy", licence="CC0-1.0", attribution="Nobody.", figures={}
        )
        with zipfile.ZipFile(wheel) as archive:
            assert archive.read("sapwood_model_qq/__init__.py") == _CODE
            told = BytesParser().parsebytes(archive.read("sapwood_model_qq-1.0.0.dist-info/METADATA"))
            assert told.keys() == _HEADERS
            json.loads(archive.read("sapwood_model_qq/figures.json"))
            assert all(
                name.startswith(("sapwood_model_qq/", "sapwood_model_qq-1.0.0.dist-info/"))
                for name in archive.namelist()
            )


_MODULE = "sapwood_model_fuzzed"


def _wheels() -> list[bytes]:
    """Return wheels with made-up content in place of a model."""
    found = []
    for content in (b"", bytes(100_000)):
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
            for name in (f"{_MODULE}/__init__.py", f"{_MODULE}/model.sapwood", "../x"):
                archive.writestr(zipfile.ZipInfo(name), content)
        found.append(stream.getvalue())
    return found


def _use_wheel(path: Path) -> None:
    """Take a wheel for a model and for a treebank; neither opens it."""
    for use in (ParserModel.load, lambda given: list(read_trees(given))):
        with contextlib.suppress(SapwoodError):
            use(path)


_METADATA = b"Metadata-Version: 2.4\nName: x\nVersion: 1.0\nSummary: y\nLicense-Expression: MIT\n\n# Card\n"
_ENTRY_POINTS = b"[sapwood.models]\nx = " + _MODULE.encode() + b":MODEL\ny = a.b:c\n"


def _use_installed(path: Path) -> None:
    """List models of a package with forged metadata, next to those of an honest one."""
    with tempfile.TemporaryDirectory() as site:
        forged = path.read_bytes().split(_APART)
        for folder, (metadata, *entries) in (
            ("a-1.dist-info", forged),
            ("b-1.dist-info", [_METADATA, _ENTRY_POINTS.replace(b"x", b"honest")]),
        ):
            (Path(site) / folder).mkdir()
            (Path(site) / folder / "METADATA").write_bytes(metadata)
            (Path(site) / folder / "entry_points.txt").write_bytes(b"".join(entries))
        with unittest.mock.patch.object(sys, "path", [site]):
            models = installed_models()
    assert models[0].name == "en"
    assert "honest" in [model.name for model in models]
    assert all(text and text.isprintable() and len(text) <= 300 for model in models for text in model)


_APART = b"%%%%\n"


def _use_compressed(path: Path) -> None:
    for _ in read_lines(path):
        pass


def _use_settings(path: Path) -> None:
    read_config(path, ["states", "smoothing", "names"])


def _use_pairs(path: Path) -> None:
    read_pairs(path.read_text("utf-8", "replace").splitlines())


def _use_doctype(path: Path) -> None:
    # A word can be empty if it is written so, never because an entity was dropped.
    is_plain = b'""' not in path.read_bytes() and b"''" not in path.read_bytes()
    for tree in read_trees(path, format="tiger"):
        assert all(tree.words()) or not is_plain


def _described(path: Path) -> tuple[int, str]:
    """Return a size of at most 20,000, and a kind, from a file."""
    size, _, kind = path.read_text("utf-8", "replace").partition(" ")
    return min(int(size), 20_000) if size.isascii() and size.isdigit() and len(size) < 10 else 1, kind.strip()


def _use_deep_tree(path: Path) -> None:
    size, kind = _described(path)
    tree = Tree(kind or "A", word="a")
    for number in range(size):
        beside = [] if kind == "chain" else [Tree("B", word=kind or "b")]
        tree = Tree("AB"[number % 2], [*beside, tree] if kind == "right" else [tree, *beside])
    for form in _FORMATS:
        format_as(tree, form)
    assert Tree.parse(str(tree)) == tree
    Corpus.from_trees([tree])


# Linear work on so many characters takes about a second.
_LONGEST = 300_000


def _use_long_word(path: Path) -> None:
    size, kind = _described(path)
    word = (kind * size)[:_LONGEST]
    SignatureModel(frozenset({word}), frozenset({word[:1]})).chain(word, True)
    FeatureVocabulary.count([[word] * 20]).row(word, False)
    word_features(word)
    for name in ("penn", "blanks", "characters"):
        for _ in find_tokeniser(name)(word):
            pass


_NUMBERS = "0 -1 1e999 nan inf 99999999999999999999 0x10 1_000"
_Use = Callable[[Path], object]


def _text(name: str, tokens: str, use: _Use, ending: str = "", share: float = 1.0) -> Target:
    made = written(tokens, *_originals(name), ending=ending, use=use)
    return Target(made.originals, made.change, use, ending, share)


def hostile(models: Callable[[], list]) -> dict[str, Target]:
    """Return the targets, given contents of models."""
    return {
        "package": Target(lambda: models()[:1], partial(stored), _use_package, share=0.3),
        "wheel": written("PK ../ /etc/passwd .sapwood .py", *_wheels(), ending=".whl", use=_use_wheel),
        "installed": written(
            "[ ] = : . Name: [sapwood.models] en default honest ../x import",
            _METADATA + _APART + _ENTRY_POINTS,
            use=_use_installed,
            share=0.5,
        ),
        "doctype": _text(
            "doctype",
            '<!DOCTYPE <!ENTITY <!ATTLIST <!ELEMENT SYSTEM PUBLIC "x.dtd" [ ]> %x; &x; &amp; CDATA',
            _use_doctype,
        ),
        "settings": _text("settings", f"= [ ] {_NUMBERS}", _use_settings, ".toml"),
        "pairs": _text("settings", f"= [ ] {{ }} {_NUMBERS}", _use_pairs),
        "deep-tree": _text("deep-tree", "chain left right flat 9 99 -LRB-", _use_deep_tree, share=0.05),
        "long-word": _text("long-word", "9 99 ab . ' \" - n't http:// @ A 1,", _use_long_word, share=0.02),
        **{f"compressed-{end}": _text(f"compressed-{end}", "a", _use_compressed, f".{end}") for end in _COMPRESSED},
    }
