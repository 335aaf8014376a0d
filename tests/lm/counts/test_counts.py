from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import sys
import tempfile
import types
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.effort import examples
from helpers.elsewhere import Elsewhere
from helpers.lm_twins import count_slowly, write
from sapwood.errors import InputError, ModelError, UsageError
from sapwood.lm import Counts, Vocabulary, count_text, encode_sentences, encode_text, train
from sapwood.lm.counts import remote as count_shards
from sapwood.lm.counts.external_sort import Store
from sapwood.lm.counts.text import read_pieces
from sapwood.lm.counts.word_table import WordTable
from sapwood.runtime.progress import Silent
from sapwood.storage import zstd
from sapwood.storage.arrays import read_arrays, write_arrays
from sapwood.storage.files import open_binary


def check(counts, texts, **options):
    """Compare counts with the slow twin's."""
    vocabulary, tables, _ = count_slowly(texts, **options)
    assert counts.vocabulary.words == vocabulary.words
    assert counts.vocabulary.counts.tolist() == vocabulary.counts.tolist()
    for k, table in enumerate(tables, 1):
        ngrams, numbers = counts.table(k)
        assert ngrams.dtype == np.int32
        assert numbers.dtype == np.int64
        assert ngrams.shape == (len(table), k)
        assert dict(zip(map(tuple, ngrams.tolist()), numbers.tolist(), strict=True)) == dict(table)
        assert ngrams.tolist() == sorted(ngrams.tolist())


words = st.sampled_from(
    ["a", "b", "ab", "house", "houseboats", "houseboat!", "é", "日本", "<unk>", "<s>", "</s>", "x" * 30]
)
gaps = st.sampled_from([" ", " ", "\n", "\n\n", "\t", "  ", "\r\n", " \n ", "\x0b", "\x1c"])
texts = st.lists(st.tuples(words, gaps), max_size=40).map(lambda pairs: "".join(word + gap for word, gap in pairs))


@given(
    st.lists(texts, min_size=1, max_size=3),
    st.integers(1, 5),
    st.integers(1, 3),
    st.sampled_from([None, 0, 2, 5]),
    st.sampled_from(["sentence", "stream"]),
    st.integers(1, 3),
)
@examples(60)
def test_counts_are_those_of_dictionaries(texts, order, min_count, max_words, boundaries, threads):
    options = {"order": order, "min_count": min_count, "max_words": max_words, "boundaries": boundaries}
    with tempfile.TemporaryDirectory() as folder:
        paths = write(Path(folder), *texts)
        counts = count_text(paths, threads=threads, **options)
        check(counts, texts, **options)
        _, _, ids = count_slowly(texts, **options)
        encoded = [x for piece in encode_text(paths, counts.vocabulary, boundaries) for x in piece.tolist()]
        assert encoded == [x for sequence in ids for x in sequence]
        assert counts.tokens == sum(x > 2 or x == 0 or boundaries == "stream" for x in encoded)


def random_text(seed, tokens, size):
    rng = np.random.default_rng(seed)
    drawn = (size * rng.random(tokens) ** 3).astype(int)
    return "".join(f"word{x}" + ("\n" if end else " ") for x, end in zip(drawn, rng.random(tokens) < 0.1, strict=True))


@pytest.mark.parametrize("boundaries", ["sentence", "stream"])
def test_what_does_not_fit_into_memory_goes_to_files(tmp_path, boundaries):
    texts = [random_text(0, 4000, 300), random_text(1, 500, 400)]
    paths = write(tmp_path, *texts)
    options = {"order": 3, "min_count": 2, "boundaries": boundaries}
    counts = count_text(paths, memory=0, threads=2, folder=tmp_path, **options)
    assert isinstance(counts.table(3)[0], np.memmap)
    check(counts, texts, **options)
    assert sorted(tmp_path.iterdir()) == paths


@pytest.mark.parametrize("boundaries", ["sentence", "stream"])
@pytest.mark.parametrize(("order", "min_count", "max_words"), [(1, 1, None), (2, 2, None), (4, 1, 5), (5, 3, None)])
def test_shards_counted_elsewhere_give_the_same_file(tmp_path, monkeypatch, boundaries, order, min_count, max_words):
    rng = np.random.default_rng(order)
    texts = [
        "\ufeffa b\n\ufeffa b c\n"
        + "".join(f"w{rng.geometric(0.1)} <s> x{' ' * (n % 3)}\n" * (n % 4) for n in range(60)),
        "",
        "one\n",
        "last line without end",
    ]
    paths = write(tmp_path, *texts)
    paths.append(tmp_path / "t.gz")
    paths[-1].write_bytes(gzip.compress(b"packed a b\n" * 7))
    options = {"order": order, "min_count": min_count, "max_words": max_words, "boundaries": boundaries}
    count_text(paths, **options).save(tmp_path / "here")
    # Shards, spans of buckets and buckets of some sizes.
    for size, span, bucket in ((10, 1, 1 << 16), (100, 1 << 28, 1), (1 << 26, 1, 20)):
        monkeypatch.setattr(count_shards.cut_shards, "__defaults__", (size,))
        monkeypatch.setattr(count_shards, "_SPAN", span)
        monkeypatch.setattr("sapwood.lm.counts.external_sort._IN_CACHE", bucket)
        count_text(paths, workers=Elsewhere(), **options).save(tmp_path / "there")
        assert (tmp_path / "there").read_bytes() == (tmp_path / "here").read_bytes(), size


def test_training_counts_elsewhere_if_told_to(tmp_path):
    paths = write(tmp_path, random_text(3, 300, 20))
    workers = Elsewhere()
    there = train(paths, method="mkn", workers=workers)
    assert workers.calls > 0
    there.save(tmp_path / "there")
    train(paths, method="mkn").save(tmp_path / "here")
    assert (tmp_path / "there").read_bytes() == (tmp_path / "here").read_bytes()


def test_shards_are_whole_lines(tmp_path):
    text = b"a b\nlonger than others\n\nc\nno end"
    (tmp_path / "t").write_bytes(text)
    for size in range(1, 40):
        parts = [b"".join(shard.chunks()) for shard in count_shards.cut_shards(tmp_path / "t", size)]
        assert b"".join(parts) == text
        assert all(part.endswith(b"\n") for part in parts[:-1])
    with pytest.raises(UsageError, match=r"<stdin>: workers elsewhere cannot read it"):
        count_shards.cut_shards("-")


def test_what_is_no_text_is_named_by_line_from_elsewhere(tmp_path, monkeypatch):
    monkeypatch.setattr(count_shards.cut_shards, "__defaults__", (20,))
    (tmp_path / "t").write_bytes(b"good line\n" * 10 + b"bad \xff\n" + b"good\n")
    with pytest.raises(InputError, match=r"t:11:5: not valid UTF-8"):
        count_text(tmp_path / "t", workers=Elsewhere())


def test_text_that_changes_while_it_is_counted_is_refused(tmp_path):
    (tmp_path / "t").write_text("a b\n")
    shard = count_shards.TextShard(str(tmp_path / "t"))
    found = count_shards.find_words(shard, True)
    plan = count_shards.CountPlan(
        Vocabulary(["<unk>", "<s>", "</s>", "a", "b"], np.ones(5, np.int64)), "sentence", 2, [(0, 1)]
    )
    assert len(count_shards.count_shard(shard, found.digest, np.zeros(0, np.int32), plan)) == 1
    (tmp_path / "t").write_text("a c\n")
    with pytest.raises(InputError, match="has changed"):
        count_shards.count_shard(shard, found.digest, np.zeros(0, np.int32), plan)


def test_every_number_of_threads_and_amount_of_memory_gives_the_same_file(tmp_path):
    paths = write(tmp_path, *(random_text(x, 3000, 1000) for x in range(3)))
    contents = set()
    for threads, memory in ((1, 1 << 30), (2, 1 << 30), (3, 20_000)):
        count_text(paths, order=4, threads=threads, memory=memory).save(tmp_path / "counts")
        contents.add((tmp_path / "counts").read_bytes())
    assert len(contents) == 1


def test_many_words_make_the_table_grow(tmp_path):
    words = [f"{x:05d}-{'y' * (x % 20)}" for x in range(40_000)]
    text = " ".join(words) + "\n" + " ".join(words[::-1]) + "\n"
    counts = count_text(write(tmp_path, text), order=1, threads=2)
    assert counts.vocabulary.words[3:] == sorted(words)
    assert set(counts.vocabulary.counts[1:].tolist()) == {2}


def test_bigrams_are_a_matrix(tmp_path):
    counts = count_text(write(tmp_path, "b a b\na b\n"))
    assert counts.vocabulary.words == ["<unk>", "<s>", "</s>", "b", "a"]
    matrix = counts.bigrams()
    assert matrix.dtype == np.int64
    expected = np.zeros((5, 5), int)
    expected[1, 3] = expected[1, 4] = expected[3, 4] = 1
    expected[4, 3] = expected[3, 2] = 2
    assert matrix.toarray().tolist() == expected.tolist()


def test_lines_mean_nothing_in_a_stream(tmp_path):
    paths = write(tmp_path, "a b\nc", "d\n")
    counts = count_text(paths, boundaries="stream")
    spelled = [" ".join(counts.vocabulary.decode(ngram)) for ngram in counts.table(2)[0]]
    assert sorted(spelled) == ["a b", "b c", "c d"]
    assert counts.vocabulary.counts[1:3].tolist() == [0, 0]


def test_the_end_of_a_file_ends_a_sentence(tmp_path):
    counts = count_text(write(tmp_path, "a", "b"))
    spelled = [" ".join(counts.vocabulary.decode(ngram)) for ngram in counts.table(2)[0]]
    assert sorted(spelled) == ["<s> a", "<s> b", "a </s>", "b </s>"]


def test_ties_are_by_code_point_and_white_space_beyond_ascii_belongs_to_words(tmp_path):
    counts = count_text(write(tmp_path, "\ufeff\U0001f600 z\u00a0z \uffee a\n"))
    assert counts.vocabulary.words[3:] == ["a", "z\u00a0z", "\uffee", "\U0001f600"]


def test_a_file_without_words_has_no_counts(tmp_path):
    for text in ("", "\n\n", " \t\r\n"):
        for boundaries in ("sentence", "stream"):
            counts = count_text(write(tmp_path, text), order=3, boundaries=boundaries)
            assert counts.tokens == 0
            assert len(counts.vocabulary) == 3
            assert [len(counts.table(k)[1]) for k in (1, 2, 3)] == [0, 0, 0]
            assert counts.bigrams().nnz == 0


def test_compressed_files_and_standard_input(tmp_path, monkeypatch):
    text = random_text(2, 300, 50)
    (tmp_path / "text.gz").write_bytes(gzip.compress(text.encode()))
    check(count_text(tmp_path / "text.gz"), [text], order=2)

    class Input:
        buffer = io.BytesIO(text.encode())

    monkeypatch.setattr(sys, "stdin", Input)
    check(count_text("-"), [text], order=2)
    (tmp_path / "bad.gz").write_bytes(gzip.compress(text.encode())[:-20])
    with pytest.raises(InputError, match=r"bad\.gz: damaged or truncated gzip"):
        count_text(tmp_path / "bad.gz")


def test_zstd_files_need_a_library(tmp_path, monkeypatch):
    (tmp_path / "text.zst").write_bytes(b"")
    monkeypatch.setitem(sys.modules, zstd.LIBRARY, None)
    with pytest.raises(InputError, match=r"text\.zst: .*pip install backports\.zstd"):
        count_text(tmp_path / "text.zst")


def test_zstd_files_are_read_where_there_is_one(tmp_path):
    compress = pytest.importorskip(zstd.LIBRARY).compress
    text = random_text(2, 60_000, 5000)
    cut = text.index("\n", 1000) + 1
    path = tmp_path / "text.zst"
    path.write_bytes(compress(text[:cut].encode()) + compress(text[cut:].encode()))  # two frames
    check(count_text(path), [text], order=2)
    for bad in (b"this is not compressed", compress(text.encode())[:-50]):
        path.write_bytes(bad)
        with pytest.raises(InputError, match=r"text\.zst: (damaged|cannot read)"):
            count_text(path)


@pytest.mark.parametrize(
    ("content", "place", "problem"),
    [
        (b"fine\nnot \xff fine\n", ":2:5: ", "not valid UTF-8 .byte 0xff"),
        (b"one\n\ntwo\n\xc3", ":4:1: ", "not valid UTF-8 .byte 0xc3"),
        (b"surrogate \xed\xa0\x80", ":1:11: ", "not valid UTF-8"),
        (b"fine\nzero \x00 byte\n", ":2:6: ", "a zero byte"),
        ("UTF-16".encode("utf-16"), ":1:", "zero byte|UTF-8"),
        (b"short\n" + b"x" * 1_100_000 + b" short\n", ":2:1: ", "a word of more than 1,048,576 bytes"),
        (b"short\n" + b"x" * 9_000_000, ":2", "a word of more than 1,048,576 bytes"),
    ],
)
def test_what_is_not_text_is_an_error_that_names_the_line(tmp_path, content, place, problem):
    path = tmp_path / "bad.txt"
    path.write_bytes(content)
    good = write(tmp_path, "line\nline\n")
    vocabulary = Vocabulary(["<unk>", "<s>", "</s>", "fine"])
    for call in (lambda: count_text([*good, path], threads=2), lambda: list(encode_text([*good, path], vocabulary))):
        with pytest.raises(InputError, match=problem) as caught:
            call()
        assert str(caught.value).startswith(f"{path}{place}")


def test_bad_bytes_are_found_far_into_a_file(tmp_path):
    path = tmp_path / "bad.txt"
    path.write_bytes(b"some words\n" * 1_000_000 + b"bad \xff\n" + b"some words\n" * 10)
    with pytest.raises(InputError, match=r":1000001:5: not valid UTF-8"):
        count_text(path, threads=2, order=1)


def test_long_lines_are_no_problem(tmp_path):
    text = "ab cd " * 2_000_000
    counts = count_text(write(tmp_path, text), threads=2)
    assert counts.tokens == 4_000_000
    assert counts.table(2)[1].tolist() == [1, 2_000_000, 1, 1_999_999]
    pieces = list(encode_text(write(tmp_path, text), counts.vocabulary))
    assert [len(piece) for piece in pieces] == [4_000_002]


@pytest.mark.parametrize("boundaries", ["sentence", "stream"])
def test_no_piece_is_empty(tmp_path, boundaries):
    vocabulary = Vocabulary(["<unk>", "<s>", "</s>", "a"])
    assert list(encode_text(write(tmp_path, "", " \n\n"), vocabulary, boundaries)) == []


def test_unknown_words_do_not_pile_up(tmp_path, monkeypatch):
    sizes = []
    monkeypatch.setattr("sapwood.lm.counts.text._UNKNOWN_WORDS", 100)
    monkeypatch.setattr("sapwood.lm.counts.text.read_pieces", lambda sources: read_pieces(sources, 1000))
    forget = WordTable.forget

    def forget_and_tell(table, words):
        sizes.append(len(table))
        forget(table, words)

    monkeypatch.setattr(WordTable, "forget", forget_and_tell)
    text = random_text(7, 5000, 4000)
    vocabulary, _, ids = count_slowly([text], order=1, min_count=3)
    encoded = np.concatenate(list(encode_text(write(tmp_path, text), vocabulary)))
    assert encoded.tolist() == [x for sentence in ids for x in sentence]
    assert len(sizes) > 3
    assert max(sizes) < len(vocabulary) + 400


def test_files_that_cannot_be_read_are_named(tmp_path):
    with pytest.raises(InputError, match="nothing: no such file"):
        count_text(tmp_path / "nothing")
    with pytest.raises(InputError, match="is a directory"):
        count_text(tmp_path)


@pytest.mark.parametrize(
    "options",
    [{"order": 0}, {"order": 9}, {"min_count": 0}, {"max_words": -1}, {"boundaries": "lines"}, {"threads": 0}],
)
def test_wrong_options_are_errors(tmp_path, options):
    with pytest.raises(UsageError):
        count_text(write(tmp_path, "a\n"), **options)


def test_counts_come_back_from_a_file(tmp_path):
    text = random_text(3, 200, 50)
    counts = count_text(write(tmp_path, text), order=3)
    counts.save(tmp_path / "counts")
    loaded = Counts.load(tmp_path / "counts")
    check(loaded, [text], order=3)
    assert (loaded.order, loaded.boundaries, loaded.tokens) == (3, "sentence", 200)
    content = bytearray((tmp_path / "counts").read_bytes())
    content[-1] ^= 1
    (tmp_path / "counts").write_bytes(content)
    with pytest.raises(ModelError, match="damaged"):
        Counts.load(tmp_path / "counts")
    with pytest.raises(UsageError, match="orders 1 to 3"):
        counts.table(4)


@pytest.mark.parametrize(
    "change",
    [
        {"ngrams_2": np.zeros((2, 3), np.int32)},
        {"counts_2": np.ones(1, np.int64)},
        {"counts_1": np.ones((4, 1), np.int64)},
        {"ngrams_1": np.array([[0], [1], [2], [9]], np.int32)},
        {"ngrams_1": np.array([[-1], [1], [2], [3]], np.int32)},
        {"ngrams_1": np.array([[3], [2], [1], [0]], np.int32)},
        {"ngrams_1": np.array([[0], [1], [2], [3]], np.int64)},
        {"counts_1": np.ones(4)},
    ],
)
def test_files_whose_arrays_are_no_counts(tmp_path, change):
    counts = count_text(write(tmp_path, "a b a <unk>\n"), order=2)
    counts.save(tmp_path / "counts")
    arrays, metadata = read_arrays(tmp_path / "counts", kind="counts", version=1)
    write_arrays(tmp_path / "counts", {**arrays, **change}, metadata, kind="counts", version=1)
    with pytest.raises(
        ModelError, match=r"counts: not a complete file of counts: (ngrams|counts)_[12]: .*; count again"
    ):
        Counts.load(tmp_path / "counts")


@given(texts, texts, st.integers(1, 4))
@examples(30)
def test_merged_counts_are_those_of_both_texts(first, second, order):
    with tempfile.TemporaryDirectory() as folder:
        paths = write(Path(folder), first, second)
        merged = count_text(paths[0], order=order).merge(count_text(paths[1], order=order))
        check(merged, [first, second], order=order)
        assert merged.tokens == count_text(paths).tokens


def test_merging_maps_words_and_adds_what_was_unknown(tmp_path):
    paths = write(tmp_path, "a a b\n", "b b c a\n")
    merged = count_text(paths[0], min_count=2).merge(count_text(paths[1], min_count=2))
    assert dict(zip(merged.vocabulary.words, merged.vocabulary.counts.tolist(), strict=True)) == {
        "<unk>": 3, "<s>": 2, "</s>": 2, "a": 2, "b": 2,
    }  # fmt: skip
    with pytest.raises(UsageError, match="merged"):
        merged.merge(count_text(paths[0], order=3))


def test_counts_describe_themselves(tmp_path):
    counts = count_text(write(tmp_path, "a a b\n\nc a\n"), min_count=2)
    assert counts.describe() == {
        "boundaries": "sentence",
        "tokens": 5,
        "unknown": 2,
        "sentences": 2,
        "words": 4,
        "ngrams": [
            {"order": 1, "distinct": 4, "total": 9, "seen": [0, 3, 1, 0]},
            {"order": 2, "distinct": 7, "total": 7, "seen": [7, 0, 0, 0]},
        ],
    }


def test_progress_adds_up(tmp_path):
    text = random_text(5, 5000, 100)
    steps = {}

    class Recorder(Silent):
        @contextlib.contextmanager
        def stage(self, name, total=None, unit="it"):
            steps[name] = [total, 0]

            class Stage:
                def step(self, amount=1, **figures):
                    steps[name][1] += amount

            yield Stage()

    counts = count_text(write(tmp_path, text), progress=Recorder(), memory=0)
    assert steps["reading"][0] == len(text)
    assert abs(steps["reading"][1] - len(text)) < 100
    assert steps["counting"][1] == counts.vocabulary.counts.sum()
    assert abs(steps["counting"][0] - steps["counting"][1]) < 5


def test_a_vocabulary_with_a_word_twice_or_an_empty_word_encodes_nothing(tmp_path):
    path = write(tmp_path, "a\n")
    for words in (["a", "a"], ["", "a"]):
        with pytest.raises(UsageError, match="a vocabulary has"):
            list(encode_text(path, Vocabulary(["<unk>", "<s>", "</s>", *words])))


def test_frames_are_read_one_behind_the_other(tmp_path, monkeypatch):
    # Frames of bz2 stand in for those of zstd, for which there may be no library.
    library = types.SimpleNamespace(ZstdDecompressor=bz2.BZ2Decompressor, ZstdError=OSError)
    monkeypatch.setattr(zstd, "_library", lambda path: library)
    monkeypatch.setattr(zstd, "_STEP", 7)
    text = random_text(4, 300, 40).encode()
    content = bz2.compress(text[:500]) + bz2.compress(b"") + bz2.compress(text[500:])
    (tmp_path / "text.zst").write_bytes(content)
    with open_binary(tmp_path / "text.zst") as stream:
        assert stream.read(3) == text[:3]
        assert stream.readline() == text[3:].splitlines(keepends=True)[0]
        assert stream.read() == text[3:].split(b"\n", 1)[1]
        assert stream.read(5) == b""
    counts = count_text(tmp_path / "text.zst", order=2)
    check(counts, [text.decode()], order=2)
    for cut in (20, len(content) - 5):
        (tmp_path / "text.zst").write_bytes(content[:cut])
        with pytest.raises(InputError, match=r"text\.zst: damaged or truncated zstd file \(it ends too early\)"):
            count_text(tmp_path / "text.zst")


def test_sentences_in_memory_are_encoded_as_those_of_a_file(tmp_path):
    text = random_text(5, 100, 20)
    path = write(tmp_path, text)
    vocabulary = count_text(path, min_count=3).vocabulary
    sentences = [line.split() for line in text.splitlines() if line.split()]
    wanted = np.concatenate(list(encode_text(path, vocabulary)))
    np.testing.assert_array_equal(encode_sentences(sentences, vocabulary), wanted)
    assert encode_sentences([], vocabulary).tolist() == []


def test_a_full_disk_is_said_where_it_is(tmp_path, monkeypatch):
    def full(**_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    with pytest.raises(InputError, match=rf"{tmp_path.name}: cannot write to it: No space left"):
        Store(0, tmp_path).append(np.ones(3))
