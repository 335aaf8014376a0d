"""Nothing but what people read depends on `meta` and on the `info` of grammars."""

from __future__ import annotations

import ast
from pathlib import Path

from helpers.made_up import made_up_treebank
from helpers.notes import rewrite_notes
from sapwood import Parser, train
from sapwood.learn.components.forest_crf import ForestCRFTrainer
from sapwood.learn.components.span_scorer import SpanScorerTrainer
from sapwood.model.parser_model import ParserModel

SOURCE = Path(__file__).resolve().parents[2] / "src" / "sapwood"
# Modules that read notes, and what for.
READERS = {
    "files hold notes": (
        "grammar/io/text.py", "grammar/tensor_grammar.py", "induction/induced_model.py",
        "learn/semi_supervised/data.py", "lm/base.py", "lm/latent/bigram.py", "lm/latent/mixed_order.py",
        "lm/mixture.py", "model/file.py",
    ),
    "former formats have settings there, as has what a learner returns": (
        "grammar/validate.py", "model/parser_model.py",
    ),
    "notes are added to others": (
        "learn/semi_supervised/learner.py", "pipeline/adaptation.py", "pipeline/compress.py", "testing/grammars.py",
    ),
    "settings of smoothing are nowhere else, and have defaults": ("learn/lpcfg/adaptation.py",),
    "people read them": (
        "cli/models/inspect.py", "cli/options/induction.py", "cli/train.py", "cli/unsupervised/induce.py",
        "grammar/describe.py", "grammar/state_profiles.py", "interop/packages.py", "web/api/states.py",
        "web/service.py",
    ),
    "the contract of learners requires them": ("testing/learners.py",),
}  # fmt: skip
# Of other packages.
OTHERS = {"LOG.info", "ctx.meta", "context.meta"}


def reads(source: str) -> list[str]:
    """Return the expressions that read `meta` or `info`."""
    found = [
        ast.unparse(node)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Attribute) and node.attr in ("meta", "info") and isinstance(node.ctx, ast.Load)
    ]
    return [text for text in found if text not in OTHERS]


def test_few_modules_read_notes() -> None:
    readers = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if reads(path.read_text(encoding="utf-8"))
    }  # fmt: skip
    assert readers == {name for names in READERS.values() for name in names}


def test_reads_are_found() -> None:
    assert reads("x = grammar.info['a']\ny = model.meta.get('b')\ng.info = {}\nLOG.info('c')") == [
        "grammar.info", "model.meta",
    ]  # fmt: skip


def test_parses_do_not_depend_on_notes(tmp_path: Path) -> None:
    trees, path = made_up_treebank(60), tmp_path / "m"
    train(
        trees, method="em", states=2, min_support=5, iterations=2, ensemble=2,
        crf=ForestCRFTrainer(folds=2, epochs=1, bits=12),
        span_scorer=SpanScorerTrainer(embedding=8, hidden=8, layers=1, span_hidden=8, epochs=1), output=path,
    )  # fmt: skip
    model, sentences = ParserModel.load(path), [tree.words() for tree in trees[:20]]
    assert rewrite_notes(path) > 5
    other = ParserModel.load(path)
    assert other.meta != model.meta
    assert all(ours.info != theirs.info for ours, theirs in zip(other.grammars, model.grammars, strict=True))
    assert other == model
    assert other.digest() == model.digest()
    assert list(Parser(other).parse(sentences)) == list(Parser(model).parse(sentences))
