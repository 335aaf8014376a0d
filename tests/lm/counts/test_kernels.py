from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.effort import examples
from helpers.lm_twins import write
from sapwood import kernels
from sapwood.errors import UsageError
from sapwood.lm.counts.external_sort import Grouping, Store, blocks, empty, group
from sapwood.lm.counts.text import read_pieces, tokenise
from sapwood.lm.counts.vocabulary import Vocabulary
from sapwood.lm.counts.word_table import NotText, WordTable


@given(st.integers(1, 3), st.integers(0, 300), st.integers(1, 64), st.booleans(), st.integers(0, 1000))
@examples(60)
def test_keys_are_sorted_and_counted(columns, n, bits, weighted, seed):
    rng = np.random.default_rng(seed)
    high = (
        rng.integers(0, 2**bits, (columns, n), np.uint64, endpoint=False)
        if bits < 64
        else rng.integers(0, 2**64 - 1, (columns, n), np.uint64)
    )
    keys = high & rng.integers(0, 2**64 - 1, dtype=np.uint64)
    weights = rng.integers(1, 5, n)
    expected, places = np.unique(keys, axis=1, return_inverse=True)
    totals = np.bincount(places.ravel(), weights if weighted else None, minlength=expected.shape[1])
    work = np.vstack([keys, weights.astype(np.uint64)[None]]) if weighted else keys.copy()
    scratch = np.empty_like(work)
    work = scratch if kernels.sort_keys(work, scratch, columns) else work
    counts = np.empty(n, np.int64)
    left = kernels.count_equal_keys(work, columns, counts)
    assert work[:columns, :left].tolist() == expected.tolist()
    assert counts[:left].tolist() == totals.tolist()


@pytest.mark.parametrize("size", [4, 300, 300_000, 3_000_000])
@pytest.mark.parametrize("order", [1, 2, 3, 5, 8])
def test_blocks_count_as_one_sequence(size, order):
    rng = np.random.default_rng(order)
    ids = (size * rng.random(5000) ** 4).astype(np.int32)
    for sentences in (False, True):
        grouping = Grouping(np.bincount(ids, minlength=size), order=order, sentences=sentences, threads=2, memory=0)
        for begin in range(0, len(ids), 700):
            grouping.add(ids[begin : begin + 700])
        for k, (ngrams, counts) in enumerate(grouping.tables(), 1):
            windows = np.lib.stride_tricks.sliding_window_view(ids, k)
            if sentences:
                windows = windows[~(windows[:, :-1] == 2).any(axis=1)]
            expected, numbers = np.unique(windows, axis=0, return_counts=True)
            assert np.array_equal(ngrams, expected)
            assert np.array_equal(counts, numbers)


def test_blocks_may_be_shorter_than_the_ngrams():
    ids = np.array([3, 4, 3, 4, 5, 3, 4], np.int32)
    grouping = Grouping(np.bincount(ids), order=4, sentences=False, threads=1, memory=1 << 20)
    for value in ids:
        grouping.add(np.array([value], np.int32))
    assert grouping.tables()[1][0].tolist() == [[3, 4], [4, 3], [4, 5], [5, 3]]


@given(st.lists(st.tuples(st.lists(st.integers(0, 6), min_size=3, max_size=3), st.integers(1, 4)), max_size=50))
def test_group_adds_up_what_is_equal(rows):
    ngrams = np.array([row for row, _ in rows], np.int32).reshape(-1, 3)
    counts = np.array([count for _, count in rows], np.int64)
    expected, places = np.unique(ngrams, axis=0, return_inverse=True)
    grouped, totals = group(ngrams, counts, 7)
    assert grouped.tolist() == expected.tolist()
    assert totals.tolist() == np.bincount(places.ravel(), counts, len(expected)).tolist()


def letters(text):
    return np.frombuffer(text, np.uint8)


@given(st.lists(st.text("ab\u00e9\u4e00", min_size=1, max_size=20), max_size=60))
def test_words_are_numbered_as_they_are_met(words):
    table = WordTable(words=4, letters=64)
    expected = {"<unk>": 1, "<s>": 2, "</s>": 3}
    text = b"".join(word.encode() + b"\n" for word in words)
    numbers, lines = table.tokenise(letters(text + b"\n"), True)
    assert lines == len(words) + 1
    for word in words:
        expected.setdefault(word, len(expected) + 1)
    assert [x for x in numbers.tolist() if x] == [expected[word] for word in words]
    assert table.words(np.arange(1, len(table))) == list(expected)
    other = WordTable(words=4, letters=64)
    other.add_all(list(reversed(list(expected)[3:])))
    mapped = other.add_table(table)
    assert other.words(mapped[1:]) == list(expected)
    assert other.counts[mapped].tolist() == table.counts[: len(table)].tolist()


def is_utf8(text):
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


@given(st.lists(st.binary(min_size=0, max_size=24), max_size=12), st.booleans())
@examples(200)
def test_any_bytes_are_words_or_no_text(parts, lines):
    # A buffer that ends with its last separator: nothing behind it may be read.
    text = b"".join(part + b"\n" for part in parts)
    words = re.split(rb"[\x01-\x20]", text)
    table = WordTable(words=4, letters=64)
    if b"\0" in text or not is_utf8(text):
        with pytest.raises(NotText) as caught:
            table.tokenise(letters(text), lines)
        if "zero byte" in caught.value.problem:
            assert text.split(b"\n")[caught.value.lines][caught.value.column - 1] == 0
        else:
            assert "not valid UTF-8" in caught.value.problem
        return
    numbers, line_ends = table.tokenise(letters(text), lines)
    assert line_ends == text.count(b"\n")
    assert numbers.tolist().count(0) == (line_ends if lines else 0)
    assert table.words(numbers[numbers > 0]) == [word.decode() for word in words if word]


def test_long_words_with_the_same_hash_stay_apart():
    # Words of nine bytes or more are told apart by their bytes: look for another one under the key of the first.
    table = WordTable()
    table.tokenise(letters(b"dictionary "), False)
    slot = next(place for place in range(1 << 16) if table._words.slot(place)[1] == len(table) - 1)
    key = table._words.slot(slot)[0]

    def find(word):
        return table._words.find(letters(word), key)

    assert find(b"dictionary") == slot
    assert find(b"dictionarx") != slot
    assert find(b"xictionary") != slot
    assert find(b"dictionaryx") != slot


def colliding(count: int) -> list[bytes]:
    """Return words of eight bytes whose products with a well-known number all begin alike."""
    inverse = pow(0x9E3779B97F4A7C15, -1, 1 << 64)
    keys = ((0x123456 << 40) + low for low in range(1 << 20))
    words = ((key * inverse % (1 << 64)).to_bytes(8, "little") for key in keys)
    return list(itertools.islice((word for word in words if min(word) > 32), count))


def test_words_cannot_be_made_to_collide():
    table = WordTable(seed=0xDA942042E4DD58B5)
    table._words.tokenise(letters(b" ".join(colliding(2000)) + b"\n"), False)
    taken = [table._words.slot(place)[0] > 0 for place in range(1 << 16)]
    assert sum(taken) == len(table) - 1 == 2003
    assert max(len(list(run)) for full, run in itertools.groupby(taken) if full) < 20


def test_numbers_do_not_depend_on_the_seed():
    text = letters(" ".join(f"{'long' * (number % 5)}{number % 700}" for number in range(3000)).encode() + b"\n")
    first, second = WordTable(seed=1), WordTable()
    assert first.tokenise(text, True)[0].tolist() == second.tokenise(text, True)[0].tolist()
    assert first.add_table(second).tolist() == list(range(len(first)))


def test_a_forgotten_word_is_new_again():
    table = WordTable()
    table.tokenise(letters(b"kept "), False)
    known = len(table)
    assert table.tokenise(letters(b"one kept two "), False)[0].tolist() == [known, known - 1, known + 1]
    table.forget(known)
    assert table.tokenise(letters(b"two kept "), False)[0].tolist() == [known, known - 1]


@pytest.mark.parametrize("size", [1, 2, 7, 64, 10_000])
def test_pieces_are_cut_between_words(tmp_path, size):
    text = "some words here\n\nand others\tthere \u00e9\u00e9\n" * 5 + "end"
    paths = write(tmp_path, text, text)
    pieces = list(read_pieces(paths, size))
    joined = [b"".join(p.text.tobytes() for p in pieces if p.source == str(path)) for path in paths]
    assert [text.encode() + b"\n"] * 2 == joined
    assert sum(piece.last for piece in pieces) == 2
    for piece, following in itertools.pairwise(pieces):
        line = piece.text.tobytes().rpartition(b"\n")
        expected = 0 if piece.last else len(line[2]) + (0 if line[1] else piece.column)
        assert following.column == expected
    table, whole = WordTable(), WordTable()
    numbers = [x for _, part in tokenise(pieces, [table], True) for x in part.tolist()]
    assert numbers == 2 * whole.tokenise(letters(text.encode() + b"\n"), True)[0].tolist()


def test_places_of_what_is_not_text():
    for text, lines, column in ((b"a\nbc \x00", 1, 4), (b"\xff", 0, 1), (b"a b\n\nc\xc3 ", 2, 2)):
        with pytest.raises(NotText) as caught:
            WordTable().tokenise(letters(text + b" "), False)
        assert (caught.value.lines, caught.value.column) == (lines, column)


def test_a_store_keeps_arrays_in_memory_then_in_a_file(tmp_path):
    store = Store(100, tmp_path)
    arrays = [np.arange(10), np.arange(40, dtype=np.int32).reshape(4, 10), np.arange(2), np.zeros((3, 0))]
    numbers = [store.append(array) for array in arrays]
    assert store.spilled
    assert not list(tmp_path.iterdir())
    for number, array in zip(numbers, arrays, strict=True):
        found = store.get(number)
        assert found.dtype == array.dtype
        assert found.tolist() == array.tolist()
    assert store.get(0) is arrays[0]
    assert store.get(0, drop=True) is arrays[0]
    assert len(store.get(0)) == 0
    store.close()
    assert isinstance(empty((3, 2), np.int32, True, tmp_path), np.memmap)
    assert empty((0, 2), np.int32, True, tmp_path).shape == (0, 2)


def test_vocabularies_know_their_words():
    vocabulary = Vocabulary.from_counts({"b": 2, "a": 2, "c": 5, "d": 1, "<unk>": 3}, min_count=2, sentences=4)
    assert vocabulary.words == ["<unk>", "<s>", "</s>", "c", "a", "b"]
    assert vocabulary.counts.tolist() == [4, 4, 4, 5, 2, 2]
    assert vocabulary.encode(["a", "d", "</s>", "<unk>"]).tolist() == [4, 0, 2, 0]
    assert vocabulary.encode([]).dtype == np.int32
    assert vocabulary.decode([3, 0]) == ["c", "<unk>"]
    assert "a" in vocabulary
    assert "d" not in vocabulary
    with pytest.raises(UsageError, match="begins with"):
        Vocabulary(["a", "b", "c"])
    with pytest.raises(UsageError, match="counts"):
        Vocabulary(["<unk>", "<s>", "</s>"], np.zeros(2))


def test_blocks_have_at_least_the_size_that_is_asked_for():
    pieces = np.split(np.arange(105, dtype=np.int32), [7, 7, 30, 31, 80, 100])
    found = list(blocks(iter(pieces), 20))
    assert [len(block) for block in found] == [30, 50, 20, 5]
    assert np.concatenate(found).tolist() == list(range(105))
    assert list(blocks(iter(pieces[1:2]), 20)) == []
