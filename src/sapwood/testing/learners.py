"""`check_learner`: contract test for learners, of this package and others."""

from __future__ import annotations

import copy
import dataclasses
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sapwood.errors import SapwoodError
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.inference.parser import Parser
from sapwood.learn.base import Learner
from sapwood.runtime.log import NoLog
from sapwood.runtime.params import params_of
from sapwood.testing.grammars import random_bases
from sapwood.trees.corpus import Corpus
from sapwood.trees.tree import Tree


class ContractError(AssertionError):
    """A requirement that a learner violates."""


def check_learner(learner: Learner, trees: Sequence[Tree] | None = None, *, dev: Sequence[Tree] | None = None) -> None:
    """Raise `ContractError` if a learner violates the contract that commands and other code rely on.

    The learner is fitted several times, so use few states and iterations.

    Parameters
    ----------
    learner
        A learner with any settings.
    trees, dev
        Training and development trees; by default sixty and ten sentences of a small language.

    Examples
    --------
    >>> import sapwood
    >>> check_learner(sapwood.PCFG())
    """
    trees = small_treebank(60, seed=0) if trees is None else trees
    dev = small_treebank(10, seed=1) if dev is None else dev
    try:
        _check_all(learner, trees, dev)
    except ContractError as error:
        name = type(learner).__name__
        raise ContractError(f"{name} violates the contract of learners: it is not true that {error}") from None


def _check_all(learner: Learner, trees: Sequence[Tree], dev: Sequence[Tree]) -> None:
    _check_settings(learner)
    corpus = learner.prepare(trees)
    before = learner.settings()
    grammar = learner.fit(corpus)
    _require(isinstance(grammar, TensorGrammar), f"fit returns a TensorGrammar, not {type(grammar).__name__}")
    _require(learner.settings() == before, "fit leaves the learner's settings as they were")
    _check_grammar(learner, grammar, corpus)
    _check_same_bytes(learner, corpus, grammar)
    _check_dev(learner, corpus, dev)
    _check_resuming(learner, corpus, dev)
    _check_one_tree(learner, trees[0])


def small_treebank(count: int, seed: int) -> list[Tree]:
    """Return trees of a small language with unary chains, recursion and words of all frequencies."""
    rng = np.random.default_rng(seed)
    nouns = [f"{stem}{ending}" for stem in ("bal", "den", "fil", "gom", "kur") for ending in ("ora", "oras", "ent")]
    verbs = [f"{stem}ild" for stem in ("lask", "ment", "pur", "ril", "tom")]

    def pick(words: Sequence[str]) -> str:
        return words[min(int(rng.pareto(0.8)), len(words) - 1)]

    def noun_phrase(depth: int) -> Tree:
        noun = Tree("N", word=pick(nouns))
        if rng.random() < 0.25:
            return Tree("NP", [noun])
        phrase = Tree("NP", [Tree("D", word="the" if rng.random() < 0.7 else "a"), noun])
        if depth > 1 or rng.random() < 0.7:
            return phrase
        return Tree("NP", [phrase, Tree("PP", [Tree("P", word=pick(["of", "in"])), noun_phrase(depth + 1)])])

    def sentence() -> Tree:
        verb = Tree("V", word=pick(verbs))
        phrase = Tree("VP", [verb] if rng.random() < 0.3 else [verb, noun_phrase(0)])
        return Tree("ROOT", [Tree("S", [noun_phrase(0), phrase, Tree(".", word=".")])])

    return [sentence() for _ in range(count)]


def _require(condition: bool, rule: str) -> None:
    if not condition:
        raise ContractError(rule)


def _check_settings(learner: Learner) -> None:
    _require(isinstance(learner, Learner), "a learner is an instance of a subclass of sapwood.learn.Learner")
    _require(bool(getattr(type(learner), "method", "")), "the class has a method: the name it is known by")
    _require(bool(learner.__dataclass_params__.frozen), "the class is a frozen dataclass")  # type: ignore[attr-defined]
    undeclared = [one.name for one in dataclasses.fields(learner) if one.name not in params_of(learner)]
    _require(not undeclared, f"every field is declared with sapwood.runtime.params: {', '.join(undeclared)} is not")
    settings = learner.settings()
    _require(json.loads(json.dumps(settings, allow_nan=False)) == settings, "settings() gives plain JSON values")
    _require(learner.replace() == learner and copy.copy(learner) == learner, "copies equal their original")
    _require("threads" not in settings, "results, and so settings(), do not depend on threads")
    _require(repr(learner).startswith(f"{type(learner).__name__}("), "repr shows the class and its settings")
    _require(type(learner)() == type(learner)(), "every setting has a default")
    try:
        learner.replace(no_such_setting=1)
    except SapwoodError:
        return
    raise ContractError("replace refuses unknown settings")


def _check_grammar(learner: Learner, grammar: TensorGrammar, corpus: Corpus) -> None:
    grammar.validate(tolerance=1e-3)
    info = grammar.info
    _require(info.get("method") == learner.method, "info['method'] is the learner's method")
    _require(info.get("settings") == learner.settings(), "info['settings'] are the learner's settings")
    _require(info["training"]["digest"] == corpus.digest(), "info['training'] describes the training data")
    _require("tokeniser" in info, "info['tokeniser'] names the tokeniser for raw text")
    _require(json.loads(json.dumps(info, allow_nan=False)) == info, "info has plain JSON values")
    sentences = [corpus.sentence(number) for number in range(min(corpus.n_trees, 5))]
    parser = Parser(grammar)
    results = list(parser.parse([*sentences, ["the", "never-seen", "."]]))
    _require(all(result.tree is not None for result in results), "every sentence gets a tree")
    _require(all(result.status == "parsed" for result in results[:-1]), "training sentences have parses")
    if grammar.probabilistic:
        _require(len(grammar.sample(3, random_state=0)) == 3, "a probabilistic grammar can be sampled from")
    turned = grammar.conjugate(random_bases(np.random.default_rng(0), grammar))
    tree = corpus.transform.invert(corpus.tree(0))
    same = np.isclose(
        parser.tree_log_probability(tree), Parser(turned).tree_log_probability(tree), rtol=1e-3, equal_nan=True
    )
    _require(bool(same), "a change of basis does not change probabilities (Theorem 1)")


def _check_same_bytes(learner: Learner, corpus: Corpus, grammar: TensorGrammar) -> None:
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, name) for name in ("first", "again", "threads", "loaded")]
        grammar.save(paths[0])
        learner.fit(corpus).save(paths[1])
        learner.replace(threads=2).fit(corpus).save(paths[2])
        TensorGrammar.load(paths[0]).save(paths[3])
        first, *others = [path.read_bytes() for path in paths]
    rules = (
        "the same settings give the same bytes",
        "threads do not change the bytes",
        "saved grammars load unchanged",
    )
    for found, rule in zip(others, rules, strict=True):
        _require(found == first, rule)


def _check_dev(learner: Learner, corpus: Corpus, dev: Sequence[Tree]) -> None:
    with_trees = learner.fit(corpus, dev=dev, log=NoLog())
    _require(isinstance(with_trees, TensorGrammar), "dev can be trees")
    measured: list[TensorGrammar] = []

    def evaluate(grammar: TensorGrammar) -> dict[str, float]:
        measured.append(grammar)
        return {"f1": float(-len(measured)), "log_likelihood": float(-len(measured))}

    best = learner.fit(corpus, dev=evaluate)
    _require(not measured or best in measured, "the returned grammar was evaluated by dev")


class _Interruption(Exception):
    """A stand-in for Ctrl-C."""


class _Interrupting(NoLog):
    """A log that interrupts training after N lines."""

    def __init__(self, lines: int) -> None:
        self.left = lines

    def write(self, *_: object, **__: object) -> None:
        """Count lines."""
        self.left -= 1
        if self.left < 0:
            raise _Interruption


def _check_resuming(learner: Learner, corpus: Corpus, dev: Sequence[Tree]) -> None:
    whole = learner.fit(corpus, dev=dev)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "checkpoint")
        for lines in (1, 2):
            try:
                learner.fit(corpus, dev=dev, log=_Interrupting(lines), checkpoint=path)
            except _Interruption:
                continue
        resumed = learner.fit(corpus, dev=dev, checkpoint=path)
        if path.exists():
            _check_refused(learner, corpus.part(np.arange(corpus.n_trees - 1)), dev, path)
    same = resumed == whole and resumed.info == whole.info
    _require(same, "resuming from a checkpoint gives the same grammar")


def _check_refused(learner: Learner, other: Corpus, dev: Sequence[Tree], path: Path) -> None:
    before = path.read_bytes()
    try:
        learner.fit(other, dev=dev, checkpoint=path)
    except SapwoodError:
        _require(path.read_bytes() == before, "a checkpoint that is refused stays as it was")
        return
    raise ContractError("the checkpoint of a run on other trees is refused")


def _check_one_tree(learner: Learner, tree: Tree) -> None:
    grammar = learner.fit(learner.prepare([tree])).validate(tolerance=1e-3)
    _require(Parser(grammar).parse_one(list(tree.words())).tree is not None, "one tree is enough to learn from")
