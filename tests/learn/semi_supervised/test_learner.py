"""Learning from brackets and plain text: teachers, what they are told of, and what an interruption leaves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sapwood
from helpers.elsewhere import Elsewhere
from helpers.made_up import made_up_treebank
from helpers.training_helpers import Interrupted, Lines
from sapwood.errors import UsageError
from sapwood.evaluate.dev_set import evaluate_parser
from sapwood.inference.parser import Parser
from sapwood.learn import EM, PCFG, PivotEM, Spectral, SplitMerge
from sapwood.learn.semi_supervised.data import corpus_as_is
from sapwood.learn.semi_supervised.learner import PartialTrees, SemiSupervised, UnlabelledText
from sapwood.pipeline.recipe import Recipe
from sapwood.pipeline.run import run_recipe
from sapwood.pipeline.train import train
from sapwood.runtime.checkpoint import RunFiles
from sapwood.runtime.executor import Threads
from sapwood.runtime.log import read_log
from sapwood.runtime.progress import Silent
from sapwood.testing import check_learner
from sapwood.trees.corpus import Corpus
from sapwood.trees.partial import PartialTree, parse_partial
from sapwood.trees.tree import Tree

TREES = made_up_treebank(160)
FEW, MORE = TREES[:25], TREES[25:65]
CORPUS = SplitMerge.prepare(FEW)
TEXT = UnlabelledText([tree.words() for tree in MORE])
QUICK = SplitMerge(cycles=1, iterations=3, smoothing_iterations=2, min_support=2, rare_threshold=2)


class Notes(Silent):
    """A progress that keeps what is said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def note(self, message: str) -> None:
        self.said.append(message)


def partial_of(text: str) -> PartialTrees:
    return PartialTrees(list(parse_partial(text, source="some.mrg")))


def test_it_keeps_the_contract_of_learners():
    check_learner(SemiSupervised.of(QUICK, text=TEXT, rounds=1))


def test_what_it_is():
    taught = SemiSupervised.of(SplitMerge(cycles=3, random_state=7, threads=2), text=TEXT, text_weight=0.5)
    assert (taught.method, taught.random_state, taught.teacher_seed, taught.threads) == ("split-merge", 7, 7, 2)
    settings = taught.settings()
    assert settings["cycles"] == 3
    assert settings["teaching"]["text"] == TEXT.digest()
    assert settings["teaching"]["text_weight"] == 0.5
    other = taught.replace(random_state=8)
    assert (other.base.random_state, other.teacher_seed) == (8, 7)
    assert repr(TEXT).startswith("<UnlabelledText: 40 sentences")
    assert UnlabelledText([["a", "b"], [], ["c"]]).sentences == (("a", "b"), ("c",))


def test_what_looks_like_an_empty_word_is_none():
    """Trees that a teacher makes are clean; the grammar still says how trees are made clean."""
    trees = [Tree.parse("(ROOT (S (NP (-NONE- *)) (VP (V barks))))")]
    found = corpus_as_is(trees, CORPUS)
    assert found.n_words == 2
    assert CORPUS.joined(found).normaliser == CORPUS.normaliser
    assert Corpus.from_trees(trees, normaliser=CORPUS.normaliser, transform=CORPUS.transform).n_words == 1


def test_what_is_taught_has_a_fingerprint():
    """A checkpoint and a model know by it what they are of."""
    texts = [
        UnlabelledText([["a", "b"], ["c"]]),
        UnlabelledText([["a", "b"], [], ["c"]]),
        UnlabelledText([["a"], ["b", "c"]]),
    ]
    texts += [UnlabelledText(TEXT.sentences[:-1]), TEXT, UnlabelledText([["a b"], ["c"]])]
    assert len({text.digest() for text in texts}) == 5
    assert texts[0].digest() == texts[1].digest()
    partial = [partial_of(text) for text in ("(S (NP a) b)", "(S  (NP a) b)", "(S a (NP b))", "(S (NP a) (VP b))")]
    assert len({trees.digest() for trees in partial}) == 3
    assert partial[0].digest() == partial[1].digest()


def test_text_makes_a_better_parser():
    """Words that the trees do not have get their tags from the company they keep."""
    alone = SplitMerge(cycles=2).fit(CORPUS)
    grammar = SemiSupervised.of(SplitMerge(cycles=2), text=TEXT).fit(CORPUS)
    assert set(grammar.lexicon.words) > set(alone.lexicon.words)
    test = TREES[65:]
    before, after = (evaluate_parser(Parser(one), test) for one in (alone, grammar))
    assert after.f1 > before.f1
    assert after.tag_accuracy >= before.tag_accuracy
    assert len(MORE) - 5 < grammar.info["training"]["text"] <= len(MORE)
    assert grammar.info["training"]["digest"] == CORPUS.digest()


@pytest.mark.parametrize(
    "student", [PCFG(), Spectral(states=2, min_support=5), PivotEM(states=2, min_support=5, iterations=1)]
)
def test_other_learners_get_the_best_trees(student):
    corpus = student.prepare(FEW)
    grammar = SemiSupervised.of(student, text=TEXT, rounds=1).fit(corpus)
    # That is: what the teacher parses is learned from like any tree.
    teacher = Parser(student.fit(corpus))
    best = [result.tree for result in teacher.parse(TEXT.sentences) if not result.failed]
    assert len(best) > len(MORE) - 5
    by_hand = student.fit(student.prepare([*FEW, *best]))
    assert len(by_hand.rules) == len(grammar.rules)
    assert sorted(grammar.lexicon.words) == sorted(by_hand.lexicon.words)


def test_the_best_trees_for_a_learner_that_could_have_forests():
    grammar = SemiSupervised.of(QUICK, text=TEXT, unlabelled_as="best", rounds=1).fit(CORPUS)
    forests = SemiSupervised.of(QUICK, text=TEXT, rounds=1).fit(CORPUS)
    assert grammar != forests
    assert grammar.info["settings"]["teaching"]["unlabelled_as"] == "best"


def test_brackets_are_learned_from():
    """A tag that only some brackets say is learned."""
    partial = partial_of("(S (NP (DT the) (N newora)) (VP (V killdild)) (. .))\n(S (NP the newora) killdild .)\n")
    grammar = SemiSupervised.of(EM(states=1, iterations=5, rare_threshold=0), partial=partial).fit(CORPUS)
    assert "newora" in grammar.lexicon.words
    assert grammar.info["training"]["whole"] == 1
    assert grammar.info["training"]["partial"] == 1


def test_whole_trees_among_the_brackets_are_trees():
    new = "(S (NEW (DT the) (N bailora)) (VP (V killdild)) (. .))"
    grammar = SemiSupervised.of(QUICK, partial=partial_of(f"{new}\n" * 8)).fit(CORPUS)
    assert "NEW" in grammar.symbols
    result = Parser(grammar).parse_one(["the", "bailora", "killdild", "."], phrases=[(0, 2, "NEW")])
    assert str(result.tree) == f"(ROOT {new})"
    wanted = QUICK.fit(SplitMerge.prepare([*FEW, *[Tree.parse(new)] * 8]))
    assert len(grammar.rules) == len(wanted.rules)


def test_what_no_tree_fits_is_told_with_its_place():
    notes = Notes()
    text = (
        "(S (NP the bailora) killdild .)\n"
        "(S (NP the bailora) (XX killdild .))\n"
        "(S (QQ the) killdild .)\n"
        "\n  (S (NP the bailora killdild\n     .))\n"
        "(S (NP the) killdild .)\n"
        "(S (NP (NP (DT the)) (N bailora)) killdild .)\n"
    )
    SemiSupervised.of(QUICK, partial=partial_of(text), rounds=1).fit(CORPUS, progress=notes)
    (told,) = [note for note in notes.said if note.startswith("skipped")]
    lines = told.split("\n")
    assert "sentence(s) that no tree of the grammar fits" in lines[0]
    assert "  some.mrg:2:21: the trees have no phrase 'XX': 'killdild .'" in lines
    assert "  some.mrg:3:4: the trees have no tag 'QQ': 'the'" in lines
    assert (
        "  some.mrg:7:4: the trees have no tag 'NP'; a phrase over a word without a tag is (NP (_ the)): 'the'" in lines
    )
    assert "  some.mrg:8:4: no tree of the grammar has this 'NP' here: 'the bailora'" in lines


def test_what_is_left_out_of_text_is_counted():
    notes = Notes()
    text = UnlabelledText([*TEXT.sentences, ["the"] * 30])
    SemiSupervised.of(QUICK, text=text, max_words=20, rounds=1).fit(CORPUS, progress=notes)
    long = sum(len(sentence) > 20 for sentence in text.sentences)
    assert f"skipped {long} unlabelled sentence(s) of more than 20 words" in notes.said


def test_the_same_bits_wherever_work_is_done():
    taught = SemiSupervised.of(QUICK, text=TEXT, partial=partial_of("(S (NP the bailora) killdild .)"), rounds=1)
    wanted = taught.fit(CORPUS)
    for workers in (Threads(2), Elsewhere(2)):
        assert taught.replace(workers=workers).fit(CORPUS) == wanted


class _Stop(Silent):
    """A progress that fails at its n-th step."""

    def __init__(self, at: int) -> None:
        self.at = at

    def stage(self, *arguments: Any, **named: Any) -> Any:
        outer = self

        class Stage:
            def __enter__(self) -> Stage:
                return self

            def __exit__(self, *_: object) -> None:
                return None

            def step(self, amount: float = 1, **figures: object) -> None:
                outer.at -= 1
                if outer.at < 0:
                    raise Interrupted

        return Stage()


@pytest.mark.parametrize("at", [3, 20, 60, 75, 110])
def test_interrupted_anywhere_it_goes_on_to_the_same_bytes(tmp_path, at):
    """In the first teacher, while it reads, in the second one, and in the last grammar."""
    settings: dict[str, Any] = {"method": QUICK, "text": TEXT, "text_use": "em", "semi_supervised": {"rounds": 2}}
    train(FEW, **settings, output=tmp_path / "whole")
    with pytest.raises(Interrupted):
        train(FEW, **settings, output=tmp_path / "m", progress=_Stop(at))
    left = sorted(path.name for path in tmp_path.iterdir() if path.name.startswith("m."))
    assert left or at <= len(FEW)  # while trees are read
    if left:
        with pytest.raises(UsageError, match="interrupted"):
            train(FEW, **settings, output=tmp_path / "m")
        with pytest.raises(UsageError, match="other settings or trees"):
            train(FEW[1:], **settings, output=tmp_path / "m", resume=True)
    train(FEW, **settings, output=tmp_path / "m", resume=True)
    assert (tmp_path / "m").read_bytes() == (tmp_path / "whole").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m", "whole"]


def test_an_ensemble_has_one_teacher_and_parses_together(tmp_path):
    trained = train(
        FEW, method=QUICK, text=TEXT, text_use="em", ensemble=2, semi_supervised={"rounds": 1}, output=tmp_path / "m"
    )
    one, two = trained.grammars
    assert not np.array_equal(one.tensors, two.tensors)
    assert Parser(tmp_path / "m").parse_one(MORE[0].words()).tree is not None


def test_logs_have_the_last_round(tmp_path):
    log = Lines()
    SemiSupervised.of(QUICK, text=TEXT).fit(CORPUS, log=log)
    assert [line["step"] for line in log.of("iteration")] == list(range(1, 6))
    files = RunFiles(tmp_path / "m", log=tmp_path / "log")
    run_recipe(Recipe((SemiSupervised.of(QUICK, text=TEXT),)), CORPUS, files=files)
    steps = [line["step"] for line in read_log(tmp_path / "log")]
    assert steps == [0, *range(1, 6), 5]
    assert [path.name for path in files.leftover()] == ["m.checkpoint"]


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"text_weight": 0}, "text_weight"),
        ({"rounds": 0}, "rounds"),
        ({"unlabelled_as": "some"}, "unlabelled_as"),
        ({"min_posterior": 1.0}, "min_posterior"),
    ],
)
def test_settings_are_checked(settings, problem):
    with pytest.raises(UsageError, match=problem):
        SemiSupervised.of(QUICK, text=TEXT, **settings)


def test_what_does_not_go_together():
    with pytest.raises(UsageError, match="spectral cannot take forests"):
        SemiSupervised.of(Spectral(), text=TEXT, unlabelled_as="forests")
    with pytest.raises(UsageError, match="text_weight: requires forests"):
        SemiSupervised.of(Spectral(), text=TEXT, text_weight=0.5)
    with pytest.raises(UsageError, match="sentences of words"):
        UnlabelledText(["dogs sleep"])


def test_the_library_function(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("".join(" ".join(sentence) + "\n" for sentence in TEXT.sentences))
    assert UnlabelledText.read(path).digest() == TEXT.digest()
    wanted = SemiSupervised.of(QUICK, text=TEXT, text_weight=0.5).fit(CORPUS)
    found = sapwood.train(
        FEW, method=QUICK, text=list(TEXT.sentences), text_use="em", semi_supervised={"text_weight": 0.5}
    ).grammar
    assert found == wanted.with_info(seed=0)
    assert Path(path).exists()
    assert sapwood.train(FEW, method=QUICK, partial=[PartialTree.parse("(_ the bailora killdild .)")]).grammar
