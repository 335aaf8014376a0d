"""What holds for all learners: the same bits anywhere, tiny treebanks, refused settings and refused checkpoints.

`check_learner` (test_contract.py) asks for what learners of other packages keep, too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from math import inf, isfinite, nan
from typing import Any

import numpy as np
import pytest

from helpers.elsewhere import Elsewhere
from helpers.made_up import made_up_treebank
from helpers.training_helpers import Lines
from oracles.reference import tree_probability
from sapwood.errors import ModelError, UsageError
from sapwood.inference import Parser
from sapwood.inference.estep import base as observations
from sapwood.inference.estep.trees import TreeEStep
from sapwood.learn import PCFG
from sapwood.learn.lpcfg.lexical import LexicalSettings
from sapwood.learn.lpcfg.problem import LPCFGProblem
from sapwood.learn.registry import LEARNERS, make_learner
from sapwood.trees.corpus import Corpus
from sapwood.trees.tree import Tree

MADE_UP, SMALL = (Corpus.from_trees(made_up_treebank(count)) for count in (120, 30))
# Settings with which each method has hidden states and is quick.
QUICK: dict[str, dict[str, Any]] = {
    "em": {"states": 3, "iterations": 3, "rare_threshold": 2},
    "split-merge": {"cycles": 2, "iterations": 2, "smoothing_iterations": 1, "rare_threshold": 2},
    "spectral": {"states": 4, "min_support": 10},
    "cluster": {"states": 4, "min_support": 20, "iterations": 2},
    "pivot": {"states": 4, "min_support": 20, "iterations": 2},
    "pivot+em": {"states": 4, "min_support": 20, "iterations": 2},
}
every_method = pytest.mark.parametrize("method", QUICK)
every_unaries = pytest.mark.parametrize("unaries", ["explicit", "collapsed"])


def test_all_methods_are_here():
    assert set(QUICK) == set(LEARNERS) - {"pcfg"}


@every_unaries
@every_method
def test_the_same_bits(method, unaries, monkeypatch):
    monkeypatch.setattr(observations, "_SHARD_NODES", 200)
    assert TreeEStep(MADE_UP).n_shards > 5
    learner = make_learner(method, unaries=unaries, **QUICK[method])
    grammar = learner.fit(MADE_UP)
    for place in ({}, {"threads": 2}, {"threads": 5}, {"workers": Elsewhere(3)}):
        assert learner.replace(**place).fit(MADE_UP) == grammar, place
    assert learner.replace(random_state=1).fit(MADE_UP) != grammar


@every_method
def test_the_grammar_says_how_it_was_made(method):
    settings = {**QUICK[method], "random_state": 5, "lexical": LexicalSettings(rare=3)}
    if "states" in settings:
        settings["states"] = {"NP": 2}
    learner = make_learner(method, **settings)
    info = learner.fit(SMALL).info
    assert info["method"] == method
    assert info["settings"] == learner.settings()
    assert info["settings"]["random_state"] == 5
    assert info["settings"].get("states", {"NP": 2}) == {"NP": 2}
    assert info["lexical"]["rare"] == 3
    assert info["training"]["digest"] == SMALL.digest()
    assert json.loads(json.dumps(info)) == info


@every_unaries
@pytest.mark.parametrize(("method", "iterations"), [("cluster", 8), ("pivot", 6)])
def test_iterations_never_lower_the_likelihood(method, iterations, unaries):
    settings = {"states": 4, "min_support": 10, "iterations": iterations, "smoothing": 0, "lexical_smoothing": 0}
    log, learner = Lines(), make_learner(method, unaries=unaries, **settings)
    learner.fit(MADE_UP, log=log)
    values = log.likelihoods()
    assert len(values) == iterations
    assert (np.diff(values) >= -1e-6 * np.abs(values[1:])).all()
    assert values[-1] > values[0] + 10
    # A better start than one state: counted with the estimated states, the trees are more probable.
    trees = LPCFGProblem(MADE_UP, unaries=unaries, rare=10, lexical=LexicalSettings()).trees
    assert values[0] > trees.expectations(trees.one_state()).log_likelihood + 10


TINY = {
    "one word": ["(ROOT (N dog))"],
    "one step": ["(ROOT (NP (N dog)))"],
    "one tree": ["(ROOT (S (N dog) (V runs)))"],
    "one tree often": ["(ROOT (NP (N dog)))"] * 50,
    "no root": ["(N a)", "(N b)", "(V c)"] * 4,
    "words alone": ["(ROOT (N dog))", "(ROOT (NP (N cat)))"] * 20,
    "steps within": ["(S (S (N a)) (S (N b)))"] * 4,
    "one symbol and one word": ["(ROOT (X (X dog) (X (X dog) (X dog))))", "(ROOT (X dog))"] * 20,
    "two kinds": ["(ROOT (S (N dog) (V runs)))", "(ROOT (S (N cat) (V sits)))"] * 30,
}


@pytest.mark.parametrize("texts", list(TINY.values()), ids=list(TINY))
@every_unaries
@every_method
def test_tiny_treebanks(method, unaries, texts):
    trees = [Tree.parse(text) for text in texts]
    corpus = Corpus.from_trees(trees)
    grammar = make_learner(method, **{**QUICK[method], "min_support": 1, "unaries": unaries}).fit(corpus).validate(1e-3)
    parser = Parser(grammar)
    for number, tree in enumerate(trees[:3]):
        binary = corpus.tree(number)
        assert parser.parse_one(list(tree.words())).tree == corpus.transform.invert(binary)
        assert tree_probability(grammar, binary) > 0


# Methods, settings, values that they cannot have, and what is said of them.
STATES, FEATURES, REFINED = (
    "em spectral cluster pivot pivot+em",
    "spectral cluster pivot pivot+em",
    "cluster pivot pivot+em",
)
BELOW_ONE, NEGATIVE = "must be at least 1", "must be 0 or more"
FRACTION, BETWEEN = "must be at least 0 and below 1", "must lie between 0 and 1"
WRONG: list[tuple[str, str, list[Any], str]] = [
    (" ".join(QUICK), "threads min_support", [0, -1], BELOW_ONE),
    (" ".join(QUICK), "rare_threshold random_state", [-1], NEGATIVE),
    (" ".join(QUICK), "unaries", ["no"], "must be one of explicit, collapsed"),
    (STATES, "states", [0], BELOW_ONE),
    ("em split-merge pivot+em", "iterations", [0], BELOW_ONE),
    ("em " + REFINED, "eval_every patience", [0, -2], BELOW_ONE),
    ("em", "restarts", [0], BELOW_ONE),
    ("em", "stop", ["f2"], "must be one of iterations, f1, log-likelihood"),
    ("em", "prior", [-0.1, nan], "must be at least 0 and below 1e+09"),
    ("em split-merge", "noise", [1.0, -0.1, nan], FRACTION),
    ("split-merge", "cycles smoothing_iterations", [0], BELOW_ONE),
    ("split-merge", "merge", [1.0, -0.1], FRACTION),
    ("split-merge " + REFINED, "smoothing lexical_smoothing", [1.0, 1.5, -0.1, nan], FRACTION),
    (FEATURES, "tolerance", [0.0, 1.0, nan], BETWEEN),
    (FEATURES, "kappa", [-1, nan, inf], NEGATIVE),
    (FEATURES, "min_feature_count", [0], BELOW_ONE),
    ("spectral", "backoff", [-1], NEGATIVE),
    ("spectral", "nodes", ["two"], "must be one of all, one"),
    ("spectral", "states", ["many"], "must be a number or 'auto' or 'search'"),
    ("cluster pivot", "iterations", [-1, nan, inf], NEGATIVE),
    ("cluster", "dimensions", [1], "must be at least 2"),
    ("cluster", "noise", [-1.0, nan], NEGATIVE),
    ("pivot pivot+em", "columns", ["none"], "must be one of align, fit"),
    ("pivot pivot+em", "solver", ["simplex"], "must be one of active-set, frank-wolfe"),
    ("pivot pivot+em", "shrinkage rule_prior", [-1, nan, inf], NEGATIVE),
    ("pivot pivot+em", "alignment_iterations rule_iterations feature_triples", [0], BELOW_ONE),
]  # fmt: skip
# Those that are told in other words, some of them by the trees.
WRONG_OTHERWISE: list[tuple[str, dict[str, Any], str]] = [
    (STATES, {"states": {"NP": -1}}, "states of NP must be at least 1, not -1"),
    (FEATURES, {"states": {"QP": 2}}, "given for QP, but the trees have no such symbol"),
    (FEATURES, {"inside": "poor"}, "no set of features 'poor'; choose simple or rich"),
    (FEATURES, {"outside": ["word"]}, "no outside feature 'word'"),
    ("spectral", {"backoff": []}, "backoff must have at least one value"),
    ("spectral", {"backoff": [1.0, nan]}, "backoff must be a finite number"),
    ("em", {"stop": "f1"}, "stop='f1' needs held-out data to measure it on"),
]


def wrong_settings() -> Iterator[tuple[str, dict[str, Any], str]]:
    for methods, names, values, message in WRONG:
        for method in methods.split():
            for name in names.split():
                for value in values:
                    told = (
                        f"{message}, not {value!r}"
                        if isinstance(value, str) or isfinite(value)
                        else "must be a finite number"
                    )
                    yield method, {name: value}, f"{name} {told}"
    for methods, settings, message in WRONG_OTHERWISE:
        for method in methods.split():
            yield method, settings, message


@pytest.mark.parametrize(("method", "settings", "message"), list(wrong_settings()))
def test_settings_that_make_no_sense(method, settings, message):
    with pytest.raises(UsageError) as caught:
        make_learner(method, **settings).fit(SMALL)
    assert message in str(caught.value)


# Settings with which a run is another one.
OTHERS: dict[str, list[dict[str, Any]]] = {
    "em": [{"states": 2}, {"prior": 0.1}, {"restarts": 2}, {"init": PCFG().fit(SMALL)}],
    "split-merge": [
        {"cycles": 3}, {"smoothing_iterations": 2}, {"merge": 0.4}, {"smoothing": 0.02}, {"noise": 0.02},
        {"lexical_smoothing": 0.2},
    ],
    "cluster": [{"states": 3}, {"noise": 0.1}, {"dimensions": 5}, {"inside": ["word"]}],
    "pivot": [
        {"states": 3}, {"shrinkage": 1.0}, {"columns": "fit"}, {"inside": ["word"]}, {"feature_triples": 5},
        {"rule_prior": 0.0}, {"rule_iterations": 3}, {"alignment_iterations": 9}, {"kappa": 1.0},
        {"solver": "frank-wolfe"}, {"tolerance": 0.1}, {"min_feature_count": 3}, {"eval_every": 2}, {"patience": None},
    ],
}  # fmt: skip
OTHERS["pivot+em"] = [{"states": 3}, {"shrinkage": 1.0}]
ANY_OTHERS: list[dict[str, Any]] = [
    {"iterations": 4}, {"min_support": 9}, {"unaries": "collapsed"}, {"rare_threshold": 3}, {"random_state": 1},
    {"lexical": LexicalSettings(rare=3)},
]  # fmt: skip


@pytest.mark.parametrize("method", OTHERS)
def test_a_checkpoint_of_something_else_is_refused(method, tmp_path):
    path = tmp_path / "run.checkpoint"
    learner = make_learner(method, **QUICK[method])
    learner.fit(SMALL, checkpoint=path)
    before = path.read_bytes()
    for other in [*OTHERS[method], *ANY_OTHERS]:
        with pytest.raises(UsageError, match=r"run\.checkpoint: the checkpoint of .* other settings or trees; give"):
            learner.replace(**other).fit(SMALL, checkpoint=path)
    with pytest.raises(UsageError, match="other settings or trees"):
        learner.fit(MADE_UP, checkpoint=path)
    with pytest.raises(UsageError, match="other settings or trees"):
        learner.fit(SMALL, checkpoint=path, dev=lambda grammar: {"f1": 1.0})
    with pytest.raises(UsageError, match="other settings or trees"):
        make_learner("em" if method != "em" else "split-merge").fit(SMALL, checkpoint=path)
    # How many threads run it makes no difference.
    learner.replace(threads=2).fit(SMALL, checkpoint=path)
    assert path.read_bytes() == before
    PCFG().fit(SMALL).save(tmp_path / "model")
    with pytest.raises(ModelError, match="holds a model, not a checkpoint"):
        learner.fit(SMALL, checkpoint=tmp_path / "model")
