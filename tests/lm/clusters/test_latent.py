"""Classes of words learned from text."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from helpers.made_up import made_up_treebank
from sapwood.errors import InputError, UsageError
from sapwood.lm import word_classes


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("text") / "raw.txt"
    path.write_text("".join(" ".join(tree.words()) + "\n" for tree in made_up_treebank(600)))
    return path


def test_words_of_one_tag_are_alike(text):
    """In the made-up language tags are what words have in common: two words of one class are mostly of one tag."""
    tag_of = {word: tag for tree in made_up_treebank(600) for word, tag in zip(tree.words(), tree.tags(), strict=True)}
    classes = word_classes(text, classes=(6, 12), states=12)
    assert classes.levels == 2
    words = [word for word in classes.words if not word.isdigit()]
    for level, wanted in ((0, 0.75), (1, 0.8)):
        by_class: dict[int, list[str]] = {}
        for word in words:
            by_class.setdefault(classes.of(word)[level], []).append(tag_of[word])
        purity = sum(max(map(tags.count, set(tags))) for tags in by_class.values()) / len(words)
        assert purity > wanted
        assert 1 < len(by_class) <= (6, 12)[level]
    # Not by chance: the largest tag alone has far fewer of the words.
    tags = [tag_of[word] for word in words]
    assert max(map(tags.count, set(tags))) / len(tags) < 0.6


def test_the_same_classes_whatever_the_threads(text):
    ways = [word_classes(text, classes=(4,), states=4, iterations=5, threads=threads) for threads in (1, 3)]
    assert ways[0] == ways[1]
    other = word_classes(text, classes=(4,), states=4, iterations=5, random_state=1)
    assert not np.array_equal(other.numbers, ways[0].numbers)


def test_rare_words_have_no_class(text):
    often = Counter(text.read_text().split())
    quick = {"classes": (4,), "states": 2, "iterations": 1}
    for least in (1, 2, 5):
        found = word_classes(text, min_count=least, **quick)
        assert {*found.words} == {word for word, count in often.items() if count >= least}
    assert {*word_classes(text, max_words=3, **quick).words} == {word for word, _ in often.most_common(3)}


def test_too_little_text_is_refused(tmp_path):
    (tmp_path / "raw.txt").write_text("a few words only\n" * 3)
    with pytest.raises(InputError, match="12 words of text are too few"):
        word_classes(tmp_path / "raw.txt")


@pytest.mark.parametrize("classes", [(), (0,), (2, 3, 4, 5, 6), (1 << 16,)])
def test_numbers_of_classes_have_limits(text, classes):
    with pytest.raises(UsageError, match="classes are 1 to 4 numbers"):
        word_classes(text, classes=classes)
