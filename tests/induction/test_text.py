"""Texts to learn from: what they are read from, and what is learned from."""

from __future__ import annotations

import numpy as np
import pytest

from sapwood.errors import InputError, UsageError
from sapwood.induction.text import make_text, read_sentences, tokens_of
from sapwood.trees.tree import Tree

TREE = "(ROOT (S (NP-SBJ (DT the) (NN dog)) (, ,) (VP (VBZ barks) (NP (-NONE- *T*-1))) (. .)))"
FORMATS = {
    "text": "the dog , barks .\n\nOh !\n",
    "tagged": "the/DT dog/NN ,/, barks/VBZ ./.\n\nOh/UH !/.\n",
    "brackets": f"{TREE}\n(ROOT (INTJ (UH Oh) (. !)))\n",
    "conllu": "1\tthe\t_\t_\tDT\t_\t_\t_\t_\t_\n2\tdog\t_\t_\tNN\t_\t_\t_\t_\t_\n\n1\tOh\t_\t_\tUH\t_\t_\t_\t_\t_\n",
}


@pytest.fixture(params=FORMATS)
def text_file(request, tmp_path):
    path = tmp_path / "a.txt"
    path.write_text(FORMATS[request.param])
    return request.param, path


def test_formats_are_told_by_their_first_lines(text_file):
    name, path = text_file
    found, again = list(read_sentences(path)), list(read_sentences(path, name))
    assert [tokens_of(each) for each in found] == [tokens_of(each) for each in again]
    words = [[word for word, _ in tokens_of(each)] for each in found]
    assert words[0][:2] == ["the", "dog"]
    assert words[-1][0] == "Oh"
    tags = [tag for each in found for _, tag in tokens_of(each)]
    assert (None in tags) == (name == "text")
    # A blank line is a sentence without words, so that what comes out lines up with what goes in.
    assert ([] in words) == (name in ("text", "tagged"))


def test_brackets_in_plain_text_are_no_trees(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("( AP ) Rain fell .\nIt/she left\n")
    assert list(read_sentences(path)) == [["(", "AP", ")", "Rain", "fell", "."], ["It/she", "left"]]
    path.write_text("")
    assert list(read_sentences(path)) == []
    with pytest.raises(UsageError, match="no format of text 'pdf'"):
        list(read_sentences(path, "pdf"))  # type: ignore[arg-type]


def test_trees_are_cleaned_and_their_punctuation_set_aside():
    text = make_text(read_of(TREE), tags=True)
    assert text.terminals == ("DT", "NN", "VBZ")
    assert text.words == ("the", "dog", "barks")
    assert text.start.tolist() == [0, 1, 2]
    kept = make_text(read_of(TREE), tags=True, punctuation="keep")
    assert [kept.terminals[number] for number in kept.terminal] == ["DT", "NN", ",", "VBZ", "."]


def read_of(*trees):
    from sapwood.trees.normalise import Normaliser

    return [Normaliser()(Tree.parse(tree)) for tree in trees]


def test_a_vocabulary_replaces_rare_words_by_signatures():
    rows = [["the", "cat", ",", "sleeps"], ["the", "dog", "sleeps"], ["Lee", "sleeps"], ["the", "1,200", "cat"]]
    text = make_text(rows, vocabulary=2)
    assert text.kind == "words"
    assert set(text.terminals) == {"the", "sleeps", "UNK-a", "UNK-Aa", "UNK-#"}
    assert text.divided.tolist() == [False, False, True, *[False] * (len(text.word) - 3)]
    assert text.part(np.array([3, 0])).divided.tolist() == [False] * 5 + [True]
    assert set(make_text(rows, vocabulary=9).terminals) == {"the", "sleeps", "cat", "UNK-a", "UNK-Aa", "UNK-#"}
    many = make_text([[f"w{number}ing" for number in range(30)], ["walk"]], vocabulary=5)
    assert set(many.terminals) == {"UNK-a#-ng", "UNK-a"}
    kept = make_text(rows, vocabulary=9, punctuation="keep")
    assert not kept.divided.any()
    with pytest.raises(UsageError, match="leave out tags and classes"):
        make_text(rows, vocabulary=2, classes=3)


def test_classes_and_words():
    rows = [["the", "dog", "sleeps", "."], ["a", "cat", "sleeps"], [], ["the", "cat", "runs"], ["a", "dog", "runs"]]
    text = make_text(rows, classes=4)
    assert text.kind == "classes"
    assert text.lengths.tolist() == [3, 3, 0, 3, 3]
    assert len(text.terminals) == 3  # the class of the full stop is gone with it
    words = make_text(rows, classes=0)
    assert words.terminals == words.words == ("the", "dog", "sleeps", "a", "cat", "runs")
    assert words.digest() != text.digest() == make_text(rows, classes=4).digest()


def test_parts_of_a_text():
    text = make_text([["a", "b"], ["c"], [], ["b", "a", "c"]], classes=0)
    part = text.up_to(2)
    assert part.lengths.tolist() == [2, 1]
    assert [part.terminals[number] for number in part.terminal] == ["a", "b", "c"]
    assert text.up_to(3, 2).lengths.tolist() == [2, 3]
    assert text.part(np.array([3, 0])).lengths.tolist() == [3, 2]
    assert repr(text) == "<Text: 4 sentences, 6 words, 3 different words>"


@pytest.mark.parametrize(
    ("sentences", "settings", "error", "message"),
    [
        ([["a"]], {"tags": True}, InputError, "sentence 1: 'a' has no tag"),
        ([["a"]], {"tags": True, "classes": 3}, UsageError, "leave one of them out"),
        ([["a"]], {"punctuation": "maybe"}, UsageError, "drop or keep, not 'maybe'"),
        (["a b"], {}, UsageError, "not a string"),
        ([[("a", "b", "c")]], {}, UsageError, "a token is a word or a"),
        ([[]], {}, InputError, "no words to sort"),
    ],
)
def test_what_is_wrong_is_said(sentences, settings, error, message):
    with pytest.raises(error, match=message):
        make_text(sentences, **settings)
