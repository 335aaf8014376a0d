"""Agreement of two annotators, compared with counts over all spans."""

from __future__ import annotations

import itertools
import json
from collections import Counter

import numpy as np
import pytest

from evaluate.test_variation import random_tree
from sapwood.errors import InputError
from sapwood.evaluate.agreement import agreed_part, compare_annotators, measure_agreement
from sapwood.inference.constraints import requirements
from sapwood.trees.normalise import Normaliser
from sapwood.trees.partial import UNKNOWN, PartialTree
from sapwood.trees.tree import Tree


def pairs(seed: int, count: int = 30) -> list[tuple[Tree, Tree, tuple[str, str]]]:
    rng = np.random.default_rng(seed)
    found = []
    for number in range(count):
        words = list(rng.choice(list("xyz"), size=rng.integers(1, 8)))
        a = random_tree(rng, words)
        b = a if rng.random() < 0.2 else random_tree(rng, words)
        found.append((a, b, (f"a:{number}", f"b:{number}")))
    return found


def chains(tree: Tree) -> dict[tuple[int, int], tuple[str, ...]]:
    found: dict[tuple[int, int], tuple[str, ...]] = {}
    for start, end, label in tree.spans():
        found[start, end] = (*found.get((start, end), ()), label)
    return found


def slow_kappa(rows: list[tuple[object, object]]) -> float:
    """Return Cohen's kappa of pairs of categories, unit by unit."""
    observed = np.mean([a == b for a, b in rows])
    categories = {one for row in rows for one in row}
    expected = sum(np.mean([a == one for a, _ in rows]) * np.mean([b == one for _, b in rows]) for one in categories)
    return 1.0 if expected == 1 else float((observed - expected) / (1 - expected))


def test_kappas_are_those_over_all_units():
    data = pairs(1)
    result = measure_agreement(data)
    spans, labels, tags = [], [], []
    for a, b, _ in data:
        ours, theirs = chains(a), chains(b)
        for span in itertools.combinations(range(len(a) + 1), 2):
            pair = ours.get(span, ()), theirs.get(span, ())
            if span[1] - span[0] > 1:
                spans.append(pair)
            if all(pair):
                labels.append(pair)
        tags += zip(a.tags(), b.tags(), strict=True)
    for found, rows in ((result.spans, spans), (result.labels, labels), (result.tags, tags)):
        assert found.units == len(rows)
        assert found.kappa == pytest.approx(slow_kappa(rows))


def test_f1_is_that_of_all_brackets_and_symmetric():
    data = pairs(2)
    result, other = measure_agreement(data), measure_agreement([(b, a, places) for a, b, places in data])
    ours, theirs = (
        Counter((number, *span) for number, pair in enumerate(data) for span in pair[side].spans()) for side in (0, 1)
    )
    both = (ours & theirs).total()
    assert result.f1 == pytest.approx(200 * both / (ours.total() + theirs.total()))
    assert result.unlabelled.f1 >= result.f1
    assert other.f1 == result.f1
    assert other.spans.kappa == pytest.approx(result.spans.kappa)


def test_the_root_label_is_not_annotated():
    a, b = Tree.parse("(ROOT (S (N x) (V y)))"), Tree.parse("(ROOT (X (N x) (V y)))")
    result = measure_agreement([(a, b, ("a", "b"))])
    assert (result.brackets.gold, result.brackets.matched) == (1, 0)
    assert result.unlabelled.f1 == 100


def test_disagreements_are_all_differences():
    for a, b, places in pairs(3):
        result = measure_agreement([(a, b, places)])
        assert result.equal == (a == b)
        if a == b:
            assert result.disputed == []
            continue
        (sentence,) = result.disputed
        assert (sentence.a, sentence.b, sentence.places) == (a, b, places)
        ours, theirs = chains(a), chains(b)
        for one in sentence.disagreements:
            if one.is_tag:
                assert (a.tags()[one.start], b.tags()[one.start]) == (*one.a, *one.b)
                ours[one.start, one.end, "tag"] = theirs[one.start, one.end, "tag"] = ()
            else:
                span = (one.start, one.end)
                assert (ours.pop(span, ()), theirs.pop(span, ())) == (one.a, one.b)
        # What is left is the same.
        assert ours == theirs
        tagged = [one.start for one in sentence.disagreements if one.is_tag]
        assert tagged == [place for place, pair in enumerate(zip(a.tags(), b.tags(), strict=True)) if len({*pair}) > 1]
        assert str(sentence.a) == sentence.to_dict()["a"]


def test_confusions_say_who_has_what():
    a = Tree.parse("(S (A (N x) (N y)) (B (N z) (N w)))")
    b = Tree.parse("(S (C (N x) (N y)) (N z) (D (V w)))")
    result = measure_agreement([(a, b, ("a", "b"))])
    assert {tuple(one): count for one, count in result.confusions.items()} == {
        ("phrase", "A", "C"): 1, ("missing", "B", None): 1, ("spurious", None, "D"): 1, ("tag", "N", "V"): 1,
    }  # fmt: skip
    text = result.format(1)
    for row in ("label       A  C       1", "only A      B  -       1", "words 1-2  A  C  x y"):
        assert row in text
    assert json.loads(json.dumps(result.to_dict()))["disputed"]["number"] == 1


def fits(tree: Tree, words, phrases) -> bool:
    """Return whether a tree has what `requirements` demands of a parse."""
    if any(tag not in (None, found) for (_, tag), found in zip(words, tree.tags(), strict=True)):
        return False
    spans = tree.spans()
    for one in phrases:
        if hasattr(one, "tree"):
            inside = [(one.start + start, one.start + end, label) for start, end, label in one.tree.spans()]
            end = one.start + len(one.tree)
            own = [span for span in spans if one.start <= span[0] and span[1] <= end]
            # Unary labels may be above it.
            if own[len(own) - len(inside) :] != inside:
                return False
            if any(span[:2] != (one.start, end) for span in own[: len(own) - len(inside)]):
                return False
        elif not any(span[:2] == (one.start, one.end) and one.label in (None, span[2]) for span in spans):
            return False
    return True


def test_what_is_agreed_fits_both_trees():
    for a, b, _ in pairs(4, 80):
        partial = agreed_part(a, b)
        assert partial.tree.words() == a.words()
        assert partial.is_whole == (a == b)
        if a == b:
            assert partial.tree == a
            continue
        words, phrases = requirements(partial.tree, "")
        assert fits(a, words, phrases)
        assert fits(b, words, phrases)
        # All phrases and tags that both have are in it, but tags that mark phrases as incomplete.
        shared = Counter(a.spans()) & Counter(b.spans())
        kept = Counter(span for span in partial.tree.spans() if span[2] != UNKNOWN)
        assert not kept - shared
        assert {span[:2] for span in shared} == {span[:2] for span in kept}


def test_agreed_trees_of_chains():
    a, b = Tree.parse("(S (A (B (N x) (N y))) (N z))"), Tree.parse("(S (A (C (B (N x) (N y)))) (N z))")
    assert str(agreed_part(a, b)) == "(S (A (B x (N y))) (N z))"
    deep = Tree.parse("(S " + "(A (B " * 30 + "(N x)" + "))" * 30 + ")")
    other = Tree.parse("(S " + "(B (A " * 30 + "(N x)" + "))" * 30 + ")")
    assert str(agreed_part(deep, other)) == "(S (_ x))"


def written(folder, name, *lines):
    path = folder / name
    path.write_text("".join(f"{line}\n" for line in lines))
    return str(path)


def test_files_are_normalised_and_named(tmp_path):
    a = written(tmp_path, "a.mrg", "(S (NP-SBJ (N x)) (V y))", "(S (-NONE- *))", "(S (N z))")
    b = written(tmp_path, "b.mrg", "(S (NP (N x)) (V y))", "(S (-NONE- *))", "(S (V z))")
    result = compare_annotators(a, b, normaliser=Normaliser(), agreed=True)
    assert (result.sentences, result.equal) == (2, 1)
    assert [str(one) for one in result.agreed] == [
        str(PartialTree.parse("(ROOT (S (NP (N x)) (V y)))")),
        "(ROOT (S (_ z)))",
    ]
    assert result.disputed[0].places == (f"{a}:3", f"{b}:3")
    assert compare_annotators(a, b).equal == 1
    assert compare_annotators(a, b).agreed == []


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (["(S (N x))"], "has 2 trees, .*the first tree without a partner ends on .*a.mrg:2"),
        (["(S (N x))", "(S (N z))"], "a.mrg:2: word 1 is 'y', and 'z' in .*b.mrg:2; both need the same sentences"),
        (["(S (N x))", "(S (N y) (N y))"], "a.mrg:2: the sentence has 1 words, and 2 in .*b.mrg:2"),
        (["(S (N x))", "(S (-NONE- y))"], "b.mrg:2: the tree has no words"),
    ],
)
def test_files_that_do_not_fit(tmp_path, lines, problem):
    a, b = written(tmp_path, "a.mrg", "(S (N x))", "(S (N y))"), written(tmp_path, "b.mrg", *lines)
    with pytest.raises(InputError, match=problem):
        compare_annotators(a, b, normaliser=Normaliser())


def test_files_without_trees(tmp_path):
    a, b = written(tmp_path, "a.mrg"), written(tmp_path, "b.mrg")
    with pytest.raises(InputError, match="no trees to compare"):
        compare_annotators(a, b)
