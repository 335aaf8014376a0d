"""Each expected number is worked out by hand in the comment beside it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sapwood.errors import InputError, SapwoodError
from sapwood.evaluate import EvalbParameters, Scorer, SentenceScore, get_parameters, score_tree
from sapwood.trees.tree import Tree

DEFAULT = get_parameters("default")
COLLINS = get_parameters("collins")


def score(gold: str, predicted: str | None, parameters: EvalbParameters = DEFAULT) -> SentenceScore:
    return score_tree(Tree.parse(gold), None if predicted is None else Tree.parse(predicted), parameters)


def counts(found: SentenceScore) -> tuple[int, int, int]:
    assert found.status == "ok"
    return found.matched, found.gold, found.predicted


def test_a_tree_against_itself() -> None:
    tree = "(TOP (S (NP (DT the) (NN cat)) (VP (VBZ sleeps)) (. .)))"
    found = score(tree, tree)
    assert counts(found) == (3, 3, 3)  # S, NP, VP; the tags are no brackets
    assert (found.precision, found.recall, found.f1) == (100.0, 100.0, 100.0)
    assert (found.words, found.correct_tags, found.length, found.crossing) == (4, 4, 4, 0)
    assert found.exact


def test_a_wrong_attachment() -> None:
    # gold:      S(0,5) NP(0,1) VP(1,5) NP(2,3) PP(3,5) NP(4,5)
    # predicted: S(0,5) NP(0,1) VP(1,5) NP(2,5) NP(2,3) PP(3,5) NP(4,5): all six and NP(2,5) too many
    gold = "(S (NP (PRP I)) (VP (VBD saw) (NP (NN it)) (PP (IN in) (NP (NN town)))))"
    predicted = "(S (NP (PRP I)) (VP (VBD saw) (NP (NP (NN it)) (PP (IN in) (NP (NN town))))))"
    found = score(gold, predicted)
    assert counts(found) == (6, 6, 7)
    assert found.recall == 100.0
    assert found.precision == pytest.approx(100 * 6 / 7)
    assert found.f1 == pytest.approx(2 * 100 * (600 / 7) / (100 + 600 / 7))
    assert not found.exact
    assert found.crossing == 0


@pytest.mark.parametrize("root", ["ROOT", "TOP", "S1", "VROOT", ""])
def test_root_labels_do_not_count(root: str) -> None:
    # S, NP, VP on either side; the root is not among them, whichever label it has or whether it is there
    gold = f"({root} (S (NP (NN rain)) (VP (VBZ falls))))"
    assert counts(score(gold, "(S (NP (NN rain)) (VP (VBZ falls)))")) == (3, 3, 3)


def test_function_tags_are_compared() -> None:
    # NP-SBJ is not NP: S and VP match
    found = score("(S (NP-SBJ (NN rain)) (VP (VBZ falls)))", "(S (NP (NN rain)) (VP (VBZ falls)))")
    assert counts(found) == (2, 3, 3)
    assert found.unlabelled_matched == 3


def test_empty_elements_vanish_with_all_above_them() -> None:
    # Left of gold: S(0,2) NP(0,1) VP(1,2); SBAR, S and NP over traces alone are gone
    gold = "(S (NP (NN rain)) (VP (VBZ falls) (SBAR (-NONE- 0) (S (NP (-NONE- *T*))))))"
    found = score(gold, "(S (NP (NN rain)) (VP (VBZ falls)))")
    assert counts(found) == (3, 3, 3)
    assert (found.words, found.length) == (2, 2)


def test_punctuation_shifts_spans() -> None:
    # With punctuation: gold S(0,5) NP(0,2) VP(3,4); predicted S(0,5) NP(0,3) VP(3,5): S matches.
    gold = "(S (NP (DT the) (NN sun)) (, ,) (VP (VBZ rises)) (. .))"
    predicted = "(S (NP (DT the) (NN sun) (, ,)) (VP (VBZ rises) (. .)))"
    found = score(gold, predicted, DEFAULT)
    assert counts(found) == (1, 3, 3)
    assert (found.words, found.length) == (5, 5)
    # Without: both have S(0,3) NP(0,2) VP(2,3). The length still counts punctuation.
    found = score(gold, predicted, COLLINS)
    assert counts(found) == (3, 3, 3)
    assert (found.words, found.correct_tags, found.length) == (3, 3, 5)


def test_a_deleted_tag_that_only_one_tree_has() -> None:
    # The comma is deleted from gold (2 words left) but not from the prediction, where it is an NN (3 words).
    found = score("(S (NN a) (, ,) (NN b))", "(S (NN a) (NN ,) (NN b))", COLLINS)
    assert found.status == "error"
    assert found.message == "length mismatch: 2 gold words, 3 predicted, after deletion"
    assert (found.gold, found.predicted, found.matched, found.words) == (0, 0, 0, 0)
    assert found.length == 3


def test_equal_labels() -> None:
    # ADVP against PRT: a match in collins, not in default, and a different label in the table
    gold = "(VP (VBD gave) (PRT (RP up)))"
    predicted = "(VP (VBD gave) (ADVP (RP up)))"
    assert counts(score(gold, predicted, COLLINS)) == (2, 2, 2)
    assert counts(score(gold, predicted, DEFAULT)) == (1, 2, 2)
    assert score(gold, predicted, COLLINS).labels == {"VP": (1, 1, 1), "ADVP": (1, 1, 1)}
    assert score(gold, predicted, DEFAULT).labels == {"VP": (1, 1, 1), "PRT": (1, 0, 0), "ADVP": (0, 1, 0)}


def test_equal_labels_hold_for_tags() -> None:
    # a is tagged NN and NNS, which are equal here; b is tagged VB and NN, which are not: 1 of 2
    parameters = replace(DEFAULT, equal_labels=(("NN", "NNS"),))
    gold, predicted = "(S (NN a) (VB b))", "(S (NNS a) (NN b))"
    assert score(gold, predicted, parameters).correct_tags == 1
    assert score(gold, predicted).correct_tags == 0


def test_labels_equal_to_a_deleted_label_are_deleted_as_brackets_but_not_as_tags() -> None:
    # X is equal to TOP, so the bracket X goes (NP is left); the word tagged X stays, as in EVALB
    parameters = EvalbParameters(delete_labels=frozenset({"TOP"}), equal_labels=(("TOP", "X"),))
    found = score("(X (NP (X a) (NN b)))", "(NP (X a) (NN b))", parameters)
    assert counts(found) == (1, 1, 1)
    assert found.words == 2


def test_equal_words() -> None:
    gold, predicted = "(NP (JJ grey) (NN sky))", "(NP (JJ gray) (NN sky))"
    found = score(gold, predicted)
    assert found.status == "error"
    assert found.message == "words mismatch: word 1 after deletion is 'grey' in gold, 'gray' in the prediction"
    assert counts(score(gold, predicted, replace(DEFAULT, equal_words=(("gray", "grey"),)))) == (1, 1, 1)


def test_words_mismatch_counts_after_deletion() -> None:
    # without the comma the second word is where they differ
    found = score("(S (NN a) (, ,) (NN b))", "(S (NN a) (, ,) (NN c))", COLLINS)
    assert found.message == "words mismatch: word 2 after deletion is 'b' in gold, 'c' in the prediction"


def test_length_mismatch() -> None:
    found = score("(NP (DT the) (NN dog))", "(NP (NN dog))")
    assert found.status == "error"
    assert found.message == "length mismatch: 2 gold words, 1 predicted, after deletion"


def test_duplicate_brackets_match_one_to_one() -> None:
    # NP(0,2) twice in gold, once or three times in the prediction
    gold = "(NP (NP (DT the) (NN man)))"
    assert counts(score(gold, "(NP (DT the) (NN man))")) == (1, 2, 1)
    assert counts(score(gold, gold)) == (2, 2, 2)
    assert counts(score(gold, "(NP (NP (NP (DT the) (NN man))))")) == (2, 2, 3)


def test_unary_chain_order_does_not_matter() -> None:
    # S over VP against VP over S: the same two brackets
    assert counts(score("(S (VP (VB go)))", "(VP (S (VB go)))")) == (2, 2, 2)


def test_unlabelled_counts() -> None:
    # S(0,3) NP(0,2) VP(2,3) against S(0,3) X(0,2) X(0,2): labeled S; unlabelled S and one of the two X
    gold = "(S (NP (DT a) (NN b)) (VP (VB c)))"
    predicted = "(S (X (X (DT a) (NN b))) (VB c))"
    found = score(gold, predicted)
    assert counts(found) == (1, 3, 3)
    assert found.unlabelled_matched == 2


def test_labeled_off() -> None:
    # the same trees: now all that counts is the span
    gold = "(S (NP (DT a) (NN b)) (VP (VB c)))"
    predicted = "(S (X (X (DT a) (NN b))) (VB c))"
    found = score(gold, predicted, replace(DEFAULT, labeled=False))
    assert counts(found) == (2, 3, 3)
    assert found.unlabelled_matched == 2
    assert found.labels == {"*": (3, 3, 2)}


def test_crossing_counts_predicted_brackets() -> None:
    # gold (0,4) (0,2) (2,4). Predicted X(1,3) crosses both (0,2) and (2,4) but counts once, and W(1,3) over
    # the same span once more; Y(1,4) crosses (0,2); Z(1,2) is inside. 3 crossings.
    gold = "(S (A (NN a) (NN b)) (B (NN c) (NN d)))"
    predicted = "(S (NN a) (Y (X (W (Z (NN b)) (NN c))) (NN d)))"
    assert score(gold, predicted).crossing == 3
    # the other way round A(0,2) crosses (1,3) and (1,4), B(2,4) crosses (1,3): 2 crossings
    assert score(predicted, gold).crossing == 2


def test_deleted_brackets_do_not_cross() -> None:
    gold = "(S (TOP (NN a) (NN b)) (NN c))"
    predicted = "(S (NN a) (X (NN b) (NN c)))"
    assert score(gold, predicted).crossing == 0
    assert score(gold.replace("TOP", "A"), predicted).crossing == 1


def test_a_word_alone() -> None:
    # a tag under a deleted root, or alone: no brackets at all, which is an exact match as in EVALB
    for gold, predicted in [("(ROOT (UH Yes))", "(ROOT (UH Yes))"), ("(UH Yes)", "(ROOT (NN Yes))")]:
        found = score(gold, predicted)
        assert counts(found) == (0, 0, 0)
        assert found.exact
        assert (found.precision, found.recall, found.f1) == (0.0, 0.0, 0.0)
        assert found.words == 1
    assert not score("(UH Yes)", "(INTJ (UH Yes))").exact


def test_nothing_left_of_the_prediction_is_skipped() -> None:
    found = score("(S (. !))", "(S (. !))", COLLINS)
    assert found.status == "skipped"
    assert (found.gold, found.words, found.length, found.exact) == (0, 0, 1, False)
    # as in EVALB, even if words of gold are left
    assert score("(S (UH Yes))", "(S (. Yes))", COLLINS).status == "skipped"
    # but nothing left of gold alone is a mismatch
    assert score("(S (. Yes))", "(S (UH Yes))", COLLINS).status == "error"


def test_a_failed_sentence() -> None:
    # gold has S, NP, VP and 3 words; no prediction
    found = score("(S (NP (DT the) (NN sun)) (VP (VBZ rises)))", None)
    assert found.status == "failed"
    assert (found.matched, found.gold, found.predicted, found.words, found.correct_tags) == (0, 3, 0, 3, 0)
    assert not found.exact
    assert not score("(UH Yes)", None).exact


QUOTES = EvalbParameters(delete_labels=frozenset({"TOP", "''", "``", "."}), quote_labels=frozenset({"''", "``", "POS"}))


def test_a_quote_that_only_the_prediction_deletes_is_put_back() -> None:
    # gold: NP(0,4) NP(0,3); the prediction has NP(0,3) NP(0,2) without the ' and NP(0,4) NP(0,3) with it.
    # One of the four tags is wrong.
    gold = "(NP (NP (DT the) (NNS dogs) (POS ')) (NN bowl))"
    predicted = "(NP (NP (DT the) (NNS dogs) ('' ')) (NN bowl))"
    found = score(gold, predicted, QUOTES)
    assert counts(found) == (2, 2, 2)
    assert (found.words, found.correct_tags) == (4, 3)
    without = score(gold, predicted, replace(QUOTES, quote_labels=frozenset()))
    assert without.status == "error"


def test_a_quote_that_only_gold_deletes_is_put_back() -> None:
    # gold: NP(0,4) and X(2,3), which would be over nothing without the '; predicted NP(0,4) NP(0,3)
    gold = "(NP (DT the) (NNS dogs) (X ('' ')) (NN bowl))"
    predicted = "(NP (NP (DT the) (NNS dogs) (POS ')) (NN bowl))"
    found = score(gold, predicted, QUOTES)
    assert counts(found) == (1, 2, 2)
    assert found.labels["X"] == (1, 0, 0)


def test_quotes_on_both_sides_and_in_a_row() -> None:
    # Put back: in gold the first two ', in the prediction the last one. All 5 words are then there.
    gold = "(S (NN a) ('' ') ('' ') (NN b) (POS '))"
    predicted = "(S (NN a) (POS ') (POS ') (NN b) ('' '))"
    found = score(gold, predicted, QUOTES)
    assert counts(found) == (1, 1, 1)
    assert (found.words, found.correct_tags) == (5, 2)
    # The other way round: in the prediction the first two, which moves its last one two places on
    gold = "(S (POS ') (NN a) (POS ') (NN b) ('' '))"
    predicted = "(S ('' ') (NN a) ('' ') (NN b) (POS '))"
    found = score(gold, predicted, QUOTES)
    assert counts(found) == (1, 1, 1)
    assert (found.words, found.correct_tags) == (5, 2)


def test_only_quotes_at_the_same_place_are_put_back() -> None:
    # The mark at place 1 of gold stands at place 2 of the prediction: 2 words against 3 remain
    found = score("(S (NN a) ('' ') (NN b))", "(S (NN a) (NN b) (POS '))", QUOTES)
    assert found.status == "error"
    # and a word that is no quotation mark is never put back
    assert score("(S (NN a) ('' x))", "(S (NN a) (POS x))", QUOTES).status == "error"
    # nor is one whose tag is not a quote label
    assert score("(S (NN a) ('' '))", "(S (NN a) (NN '))", QUOTES).status == "error"


# -- adding up ------------------------------------------------------------------------------------------


def add(scorer: Scorer, gold: str, predicted: str | None) -> None:
    scorer.add(Tree.parse(gold), None if predicted is None else Tree.parse(predicted))


def test_the_sums() -> None:
    scorer = Scorer(replace(COLLINS, cutoff_len=3))
    # 1: 3 of 3 and 3; 3 words, 3 tags; length 4 with the full stop; exact
    add(scorer, "(S (NP (DT a) (NN b)) (VP (VB c)) (. .))", "(S (NP (DT a) (NN b)) (VP (VB c)) (. .))")
    # 2: S matches of S NP VP and S VP(1,3), which crosses NP(0,2); 3 words, 2 tags; length 3
    add(scorer, "(S (NP (DT a) (NN b)) (VP (VB c)))", "(S (DT a) (VP (VB b) (VB c)))")
    # 3: failed: 2 gold brackets, 2 words; length 2
    add(scorer, "(S (NP (PRP I)) (VB go))", None)
    # 4: in error; 5: skipped
    add(scorer, "(S (NN a))", "(S (NN b))")
    add(scorer, "(S (. !))", "(S (. !))")
    result = scorer.result()
    assert (result.sentences, result.scored, result.parsed) == (5, 3, 2)
    assert (result.errors, result.skipped, result.failed) == (1, 1, 1)
    assert (result.gold, result.predicted, result.matched) == (8, 5, 4)
    assert result.precision == pytest.approx(80.0)
    assert result.recall == pytest.approx(50.0)
    assert result.f1 == pytest.approx(2 * 80 * 50 / 130)
    assert result.unlabelled_f1 == result.f1
    assert result.exact == pytest.approx(100 / 3)
    assert result.tag_accuracy == pytest.approx(100 * 5 / 8)
    # crossing is over the two parsed sentences
    assert (result.average_crossing, result.no_crossing, result.two_or_less_crossing) == (0.5, 50.0, 100.0)
    assert result.messages == (
        "sentence 4: words mismatch: word 1 after deletion is 'a' in gold, 'b' in the prediction",
    )
    # up to length 3: all but the first sentence
    cutoff = result.cutoff
    assert (cutoff.sentences, cutoff.errors, cutoff.skipped, cutoff.failed) == (4, 1, 1, 1)
    assert (cutoff.gold, cutoff.predicted, cutoff.matched, cutoff.exact) == (5, 2, 1, 0.0)
    assert (cutoff.precision, cutoff.recall) == (50.0, 20.0)
    # the labels: S in 3 gold and 2 predicted trees, NP and VP as above
    found = {label: (part.gold, part.predicted, part.matched) for label, part in result.labels.items()}
    assert found == {"S": (3, 2, 2), "NP": (3, 1, 1), "VP": (2, 2, 1)}
    assert list(result.labels) == ["S", "NP", "VP"]
    assert result.labels["NP"].precision == 100.0
    assert result.labels["NP"].recall == pytest.approx(100 / 3)
    assert result.labels["NP"].f1 == pytest.approx(50.0)


def test_two_or_less_crossing() -> None:
    # gold A(0,2) B(2,4); 3 predicted brackets over (1,3) cross, or 2, or none
    gold = "(S (A (NN a) (NN b)) (B (NN c) (NN d)))"
    scorer = Scorer()
    add(scorer, gold, "(S (NN a) (X (X (X (NN b) (NN c)))) (NN d))")
    add(scorer, gold, "(S (NN a) (X (X (NN b) (NN c))) (NN d))")
    add(scorer, gold, gold)
    add(scorer, gold, gold)
    result = scorer.result()
    assert [part.crossing for part in scorer.scores] == [3, 2, 0, 0]
    assert (result.average_crossing, result.no_crossing, result.two_or_less_crossing) == (1.25, 50.0, 75.0)


def flat(length: int) -> str:
    return "(S " + " ".join(["(NN a)"] * length) + ")"


def test_length_buckets_and_cutoff() -> None:
    scorer = Scorer()
    lengths = [1, 10, 11, 20, 21, 30, 31, 40, 41, 60, 61, 500]
    for length in lengths:
        # sentences of even length are right, the others have the label wrong
        add(scorer, flat(length), flat(length) if length % 2 == 0 else flat(length).replace("S", "X"))
    result = scorer.result()
    assert list(result.lengths) == ["1-10", "11-20", "21-30", "31-40", "41-60", "61+"]
    for part in result.lengths.values():
        assert part.sentences == 2
        assert (part.precision, part.recall, part.f1, part.exact) == (50.0, 50.0, 50.0, 50.0)
    assert result.cutoff.sentences == 8
    assert result.sentences == 12


def test_length_is_of_gold_without_empty_elements() -> None:
    scorer = Scorer(replace(DEFAULT, cutoff_len=2))
    add(scorer, "(S (NN a) (-NONE- *) (NN b))", "(S (NN a) (NN b))")
    assert scorer.scores[0].length == 2
    assert scorer.result().cutoff.sentences == 1


def test_nothing_scored_is_zero() -> None:
    for pairs in [[], [("(NN a)", "(NN b)")], [("(NN a)", "(NN a)")], [("(NN a)", None)]]:
        scorer = Scorer()
        for gold, predicted in pairs:
            add(scorer, gold, predicted)
        result = scorer.result()
        assert (result.precision, result.recall, result.f1, result.unlabelled_f1) == (0.0, 0.0, 0.0, 0.0)
        assert result.average_crossing == 0.0
        assert result.labels == {}
        assert "F1" in result.format()
    empty = Scorer().result()
    assert (empty.exact, empty.tag_accuracy, empty.no_crossing) == (0.0, 0.0, 0.0)


def test_max_error() -> None:
    scorer = Scorer(replace(DEFAULT, max_error=2, name="mine"))
    add(scorer, "(NN a)", "(NN b)")
    add(scorer, "(NN a)", "(NN a)")
    add(scorer, "(NN a)", "(NN b)")
    with pytest.raises(InputError) as caught:
        add(scorer, "(NN a)", "(NN c)")
    assert isinstance(caught.value, SapwoodError)
    assert "sentence 4: words mismatch" in str(caught.value)
    assert "the 2 that MAX_ERROR of the parameters 'mine' allows" in str(caught.value)


def test_errors_are_unlimited_unless_asked() -> None:
    scorer = Scorer()
    for _ in range(50):
        add(scorer, "(NN a)", "(NN b)")
    assert scorer.result().errors == 50
    strict = Scorer(replace(DEFAULT, max_error=0))
    with pytest.raises(InputError):
        add(strict, "(NN a)", "(NN b)")


def test_deep_trees() -> None:
    left = right = Tree("NN", word="a")
    for _ in range(5000):
        left, right = Tree("X", [left, Tree("NN", word="a")]), Tree("X", [Tree("NN", word="a"), right])
    assert score_tree(left, left).f1 == 100.0
    # X(0,i) against X(j,5001): the whole matches, each other prediction crosses some gold bracket
    found = score_tree(left, right)
    assert (found.matched, found.gold, found.predicted, found.crossing) == (1, 5000, 5000, 4999)
