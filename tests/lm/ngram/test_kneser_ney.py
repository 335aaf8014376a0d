from __future__ import annotations

import gzip
import math
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.effort import examples
from helpers.lm_twins import SlowKneserNey, count_slowly, write
from helpers.treebank_files import OURS, treebank
from sapwood.errors import ModelError, UsageError
from sapwood.lm import Counts, KneserNey, NgramModel, Vocabulary, count_text, encode_text, evaluate
from sapwood.lm.io import load_model
from sapwood.lm.ngram.kneser_ney import estimate_discounts
from sapwood.storage.arrays import write_arrays
from sapwood.trees.formats.registry import read_trees

HALF = (0.5, 0.5, 0.5)
TREES = ("train.mrg", "dev.mrg")
texts = st.lists(
    st.lists(st.sampled_from(["a", "b", "c", "rare", "<unk>"]), max_size=6).map(" ".join), min_size=1, max_size=8
).map("\n".join)


def fitted(folder, text, *, boundaries="sentence", min_count=1, **options):
    counts = count_text(write(folder, text), order=options["order"], boundaries=boundaries, min_count=min_count)
    return KneserNey(**options).fit(counts)


def chance(model, word, context):
    return model.distribution(model.vocabulary.encode(context))[model.vocabulary.index[word]]


def test_bigrams_by_hand(tmp_path):
    # Before a there was <s>, before b and c there was a, before </s> both b and c: 1, 1, 1, 2 of 5, and half of each
    # goes to the four words alike: 0.1 + 0.1, 0.1 + 0.1, 0.1 + 0.1, 0.3 + 0.1.
    model = fitted(tmp_path, "a b\na c\n", order=2, discounts=(HALF, HALF))
    for word, expected in (("a", 0.2), ("b", 0.2), ("c", 0.2), ("</s>", 0.4), ("<s>", 0.0), ("<unk>", 0.0)):
        assert chance(model, word, []) == pytest.approx(expected)
    # After a, b and c once each: 0.5 / 2 and half of the rest.
    for word, expected in (("b", 0.35), ("c", 0.35), ("</s>", 0.2), ("a", 0.1)):
        assert chance(model, word, ["a"]) == pytest.approx(expected)
    assert chance(model, "a", ["<s>"]) == pytest.approx(1.5 / 2 + 0.25 * 0.2)
    assert chance(model, "</s>", ["b"]) == pytest.approx(0.5 + 0.5 * 0.4)
    # Nothing is known to follow </s>.
    assert chance(model, "b", ["</s>"]) == pytest.approx(0.2)


def test_trigrams_by_hand(tmp_path):
    model = fitted(tmp_path, "a b\na c\n", order=3, discounts=(HALF, HALF, HALF))
    # The bigram <s> a has nothing before it and keeps its count of two.
    assert chance(model, "a", ["<s>"]) == pytest.approx(0.8)
    assert chance(model, "b", ["<s>", "a"]) == pytest.approx(0.5 / 2 + 0.5 * 0.35)
    assert chance(model, "</s>", ["a", "b"]) == pytest.approx(0.5 + 0.5 * 0.7)
    assert chance(model, "</s>", ["c", "b"]) == pytest.approx(0.7)
    ids = model.vocabulary.encode(["<s>", "a", "b", "</s>"])
    assert np.exp(model.log_probabilities(ids)) == pytest.approx([1.0, 0.8, 0.425, 0.85])


def test_discounts_by_hand():
    counts = np.repeat([0, 1, 2, 3, 4, 9], [7, 4, 2, 1, 1, 3])
    assert estimate_discounts(counts, modified=False) == (0.5, 0.5, 0.5)
    assert estimate_discounts(counts) == pytest.approx((1 - 2 * 0.5 * 2 / 4, 2 - 3 * 0.5 * 1 / 2, 3 - 4 * 0.5 * 1 / 1))
    # Where there are none counted once or twice, or the estimate is out of range, fixed ones stand in.
    assert estimate_discounts(np.array([3, 4])) == (0.5, 1.0, 1.5)
    assert estimate_discounts(np.array([1, 1]), modified=False) == (0.5, 0.5, 0.5)
    assert estimate_discounts(np.repeat([1, 2, 3, 4], [4, 2, 1, 9]))[2] == 1.5


@given(texts, st.integers(1, 5), st.booleans(), st.sampled_from(["sentence", "stream"]), st.integers(1, 2))
@examples(50)
def test_probabilities_are_those_of_the_formula(text, order, modified, boundaries, min_count):
    vocabulary, tables, ids = count_slowly([text], order=order, min_count=min_count, boundaries=boundaries)
    with tempfile.TemporaryDirectory() as folder:
        counts = count_text(write(Path(folder), text), order=order, min_count=min_count, boundaries=boundaries)
        if not counts.tokens:
            with pytest.raises(UsageError, match="no words"):
                KneserNey(order=order).fit(counts)
            return
        model = KneserNey(order=order, modified=modified).fit(counts)
    slow = SlowKneserNey(vocabulary, tables, boundaries, [(0.0,) * 3] * order)
    slow.discounts = [estimate_discounts(np.array(list(slow.adjusted[k].values())), modified) for k in range(order)]
    rng = np.random.default_rng(len(text))
    unseen = [0, *rng.integers(3 if len(vocabulary) > 3 else 0, len(vocabulary), 30).tolist(), 0]
    for sequence in [*ids, [1, *unseen, 2] if boundaries == "sentence" else unseen]:
        expected = [
            1.0 if boundaries == "sentence" and word == 1 else slow.probability(word, sequence[:x])
            for x, word in enumerate(sequence)
        ]
        assert np.exp(model.log_probabilities(np.array(sequence, np.int32))) == pytest.approx(expected)
    for context in ([], [0], [2], [3, 3], [1, 3], [3, 1, 3], [3, 0, 3, 4, 3]):
        context = [x for x in context if x < len(vocabulary)]
        distribution = model.distribution(context)
        after = (
            context[max(i for i, x in enumerate(context) if x == 1) :]
            if 1 in context and boundaries == "sentence"
            else context
        )
        assert distribution == pytest.approx([slow.probability(x, after) for x in range(len(vocabulary))])
        assert distribution.sum() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("boundaries", ["sentence", "stream"])
@pytest.mark.parametrize("modified", [False, True])
@pytest.mark.parametrize("order", [1, 2, 3, 4, 5])
def test_probabilities_after_every_context_sum_to_one(tmp_path, order, modified, boundaries):
    rng = np.random.default_rng(order)
    lines = [" ".join(f"w{x}" for x in (30 * rng.random(rng.integers(1, 12)) ** 2).astype(int)) for _ in range(300)]
    path = write(tmp_path, "\n".join(lines))
    counts = count_text(path, order=5, min_count=5, boundaries=boundaries)
    model = KneserNey(order=order, modified=modified).fit(counts)
    ids = np.concatenate(list(encode_text(path, model.vocabulary, boundaries)))
    for x in range(200):
        distribution = model.distribution(ids[max(0, x - order) : x])
        assert distribution.sum() == pytest.approx(1.0, abs=1e-12)
        if boundaries == "stream" or ids[x] != 1:
            assert model.log_probabilities(ids[: x + 1])[-1] == pytest.approx(math.log(distribution[ids[x]]))


def test_every_s_begins_anew(tmp_path):
    model = fitted(tmp_path, "a b a\nb a a b\na a\n", order=4)
    parts = [model.vocabulary.encode(["<s>", *words]) for words in (["a", "b"], ["b"], ["a", "a", "b", "</s>"])]
    together = model.log_probabilities(np.concatenate(parts))
    assert together.tolist() == np.concatenate([model.log_probabilities(part) for part in parts]).tolist()


def test_a_model_of_a_lower_order_takes_no_notice_of_longer_ngrams(tmp_path):
    path = write(tmp_path, "a b a\nb a b b\n")
    short, long = (KneserNey(order=2).fit(count_text(path, order=k)) for k in (2, 4))
    assert short.values.tolist() == long.values.tolist()


def test_evaluation_leaves_out_what_is_unknown_but_keeps_it_as_context(tmp_path):
    model = fitted(tmp_path, "a b a\nc b a\nd b b\n", order=2, min_count=2)
    assert model.vocabulary.words == ["<unk>", "<s>", "</s>", "b", "a"]
    ids = model.vocabulary.encode(["<s>", "new", "b", "</s>"])
    chances = [chance(model, "b", ["<unk>"]), chance(model, "</s>", ["b"])]
    result = model.evaluate(ids)
    assert (result.tokens, result.unknown) == (2, 1)
    assert result.log_probability == pytest.approx(np.log(chances).sum())
    assert result.perplexity == pytest.approx(math.exp(-np.log(chances).mean()))
    assert model.perplexity(ids, ends=False) == pytest.approx(1 / chances[0])
    assert math.isnan(model.evaluate(ids[:2]).perplexity)


@pytest.mark.parametrize("boundaries", ["sentence", "stream"])
def test_a_text_in_pieces_has_the_same_perplexity(tmp_path, boundaries):
    text = "a b c a b\nb b a c\nc c a b\n" * 3
    model = fitted(tmp_path, text, order=4, boundaries=boundaries)
    ids = np.concatenate(list(encode_text(write(tmp_path, text), model.vocabulary, boundaries)))
    cuts = np.flatnonzero(ids == 1) if boundaries == "sentence" else [1, 2, 5, 11, 20]
    whole, pieces = evaluate(model, ids), evaluate(model, np.split(ids, cuts))
    assert pieces.tokens == whole.tokens
    assert pieces.log_probability == pytest.approx(whole.log_probability, rel=1e-12)
    later = evaluate(model, ids[9:], context=ids[:9]) if boundaries == "stream" else whole
    assert later.log_probability == pytest.approx(
        whole.log_probability - (model.log_probabilities(ids[:9]).sum() if boundaries == "stream" else 0)
    )
    assert model.evaluate(ids[9:], context=ids[:9]) == evaluate(model, ids[9:], context=ids[:9])


def test_next_words(tmp_path):
    model = fitted(tmp_path, "a cat sleeps\na dog barks\na cat purrs\n", order=3, discounts=(HALF,) * 3)
    assert [word for word, _ in model.next_words([], 1)] == ["a"]
    assert [word for word, _ in model.next_words(["a"], 2)] == ["cat", "dog"]
    best = model.next_words(["a", "cat"], 100)
    assert {word for word, _ in best[:2]} == {"sleeps", "purrs"}
    assert sum(p for _, p in best) == pytest.approx(1.0)
    assert [p for _, p in best] == sorted((p for _, p in best), reverse=True)
    assert model.next_words(["a", "cow"], 3) == model.next_words(["the", "cow"], 3)
    assert model.next_words("cat", 3) == model.next_words(["cat"], 3) != model.next_words(["c", "a", "t"], 3)
    for k in (0, -1):
        with pytest.raises(UsageError, match=f"k must be at least 1, not {k}"):
            model.next_words(["a"], k)


def test_in_a_stream_s_is_a_word_like_any_other(tmp_path):
    model = fitted(tmp_path, "<s> a <s> b <s> c\n", order=2, boundaries="stream", discounts=(HALF, HALF))
    assert [word for word, _ in model.next_words(["a"], 1)] == ["<s>"]
    assert "<s>" in model.sample(1)[0]


def test_there_is_nothing_to_draw_from_a_model_without_words(tmp_path):
    model = fitted(tmp_path, "a b c\n", order=1, min_count=2, boundaries="stream")
    assert model.sample(1, max_words=2, unknown=True) == [["<unk>", "<unk>"]]
    with pytest.raises(UsageError, match="knows only <unk>; there is nothing to draw"):
        model.sample(1)


@pytest.mark.slow
def test_samples_follow_the_model(tmp_path):
    model = fitted(tmp_path, "a b\na c\nrare c\n", order=2, min_count=2, discounts=(HALF, HALF))
    drawn = model.sample(1500, random_state=1, unknown=True)
    assert drawn == model.sample(1500, random_state=1, unknown=True)
    assert drawn != model.sample(1500, random_state=2, unknown=True)
    first = [sentence[0] if sentence else "</s>" for sentence in drawn]
    for word in ("a", "c", "<unk>", "</s>"):
        expected = chance(model, word, ["<s>"])
        assert first.count(word) / 1500 == pytest.approx(expected, abs=4 * math.sqrt(expected / 1500))
    assert not any("<unk>" in sentence for sentence in model.sample(50))
    assert max(map(len, model.sample(50, max_words=2))) == 2
    stream = fitted(tmp_path, "a b a c\n", order=2, boundaries="stream")
    assert [len(words) for words in stream.sample(3, max_words=7)] == [7, 7, 7]


def test_models_come_back_from_files(tmp_path):
    model = fitted(tmp_path, "a b c\nb c a\n", order=3)
    model.save(tmp_path / "model")
    ids = model.vocabulary.encode(["<s>", "b", "c", "x", "a", "b", "</s>"])
    loaded = NgramModel.load(tmp_path / "model")
    assert loaded.log_probabilities(ids).tolist() == model.log_probabilities(ids).tolist()
    assert loaded.vocabulary == model.vocabulary
    assert loaded.describe() == model.describe()
    assert model.describe() == {
        "kind": "n-gram model",
        "order": 3,
        "boundaries": "sentence",
        "words": 6,
        "ngrams": [6, 7, 6],
    }
    count_text(write(tmp_path, "a\n")).save(tmp_path / "counts")
    with pytest.raises(ModelError, match="holds a counts"):
        NgramModel.load(tmp_path / "counts")


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("last_words", lambda x: x.astype(np.int64)),
        ("last_words", lambda x: np.where(x == 3, 7, x)),
        ("last_words", lambda x: np.where(x == 3, -1, x)),
        ("last_words", lambda x: x[:-1]),
        ("last_words", lambda x: x[:, None]),
        ("starts", lambda x: x.astype(np.int32)),
        ("starts", lambda x: x[:-1]),
        ("starts", lambda x: np.where(x == x.max(), 10**12, x)),
        ("starts", lambda x: x + 1),
        ("starts", lambda x: x[::-1]),
        ("offsets", lambda x: x[:1]),
        ("offsets", lambda x: x + 1),
        ("offsets", lambda x: np.concatenate([x[:2], [2**62, -(2**62) - 1], x[2:]])),
        ("log_probabilities", lambda x: x[:-1]),
        ("log_backoffs", lambda x: x[:-1]),
    ],
)
def test_files_whose_arrays_are_no_tree(tmp_path, name, change):
    model = KneserNey(order=3).fit(count_text(write(tmp_path, "a b a c\nb a\n"), order=3))
    arrays, metadata = model.parts()
    path = tmp_path / "model"
    write_arrays(path, {**arrays, name: change(arrays[name])}, metadata, kind="ngram-model", version=1)
    with pytest.raises(ModelError, match="not a complete n-gram model"):
        load_model(path)


def test_wrong_options_are_errors(tmp_path):
    counts = count_text(write(tmp_path, "a b\n"))
    with pytest.raises(UsageError, match="needs counts of it"):
        KneserNey(order=3).fit(counts)
    for options in (
        {"order": 0},
        {"order": 1.5},
        {"modified": 3},
        {"order": 1, "discounts": (HALF, HALF)},
        {"order": 1, "discounts": ((2, 1, 1),)},
    ):
        with pytest.raises(UsageError):
            KneserNey(**options)
    model = KneserNey(order=2).fit(counts)
    with pytest.raises(UsageError, match="ids are from 0 to 4"):
        model.log_probabilities(np.array([5]))
    with pytest.raises(UsageError, match="ids are from 0 to 4"):
        model.log_probabilities(np.array([-1]))
    with pytest.raises(UsageError, match="ids are from 0 to 4"):
        model.distribution([5])


def test_words_of_the_vocabulary_that_were_never_seen_share_what_is_left():
    vocabulary = Vocabulary(["<unk>", "<s>", "</s>", "a", "b"], np.array([0, 0, 0, 2, 0]))
    tables = [(np.array([[3]], np.int32), np.array([2]))]
    model = KneserNey(order=1, discounts=(HALF,)).fit(Counts(1, vocabulary, "stream", 2, tables))
    assert model.distribution() == pytest.approx([0, 0, 0, 1.5 / 2 + 0.125, 0.125])


def test_perplexities_of_a_treebank_are_those_of_the_formula(tmp_path):
    texts = [" ".join(word for tree in read_trees(OURS / name) for word in tree.words()) for name in TREES]
    train, dev = write(tmp_path, *texts)
    for min_count in (2, 1):
        counts = count_text([train], order=3, min_count=min_count, boundaries="stream")
        vocabulary, tables, _ = count_slowly(texts[:1], order=3, min_count=min_count, boundaries="stream")
        for order in (2, 3):
            model = KneserNey(order=order, modified=False).fit(counts)
            slow = SlowKneserNey(vocabulary, tables[:order], "stream", [])
            slow.discounts = [estimate_discounts(np.array(list(table.values())), False) for table in slow.adjusted]
            ids = vocabulary.encode(texts[1].split()).tolist()
            # Words that are not in the vocabulary do not count.
            logs = [math.log(slow.probability(word, ids[:x])) for x, word in enumerate(ids) if word > 0]
            assert len(logs) > 350
            found = model.perplexity(encode_text([dev], counts.vocabulary, "stream"))
            assert found == pytest.approx(math.exp(-np.mean(logs)), rel=1e-6)


@pytest.mark.slow
def test_brown_as_split_by_bengio_et_al(tmp_path):
    # Cohen and Collins (2014), table 2, have 415 and 394, with a corpus of some more tokens. Models of all words come
    # near; with words seen once as <unk>, as for the other rows of the table, the same method does much better.
    path = treebank("brown/brown.txt.gz")
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        words = stream.read().split()
    train, _, test = write(tmp_path, *(" ".join(words[a:b]) for a, b in ((0, 800_000), (0, 0), (1_000_000, None))))
    for min_count, size, bigrams, expected in ((2, 24_540, 310_593, (336.9, 323.9)), (1, 46_190, None, (399.6, 380.9))):
        counts = count_text(train, order=3, min_count=min_count, boundaries="stream")
        assert len(counts.vocabulary) == size
        assert bigrams in (None, len(counts.table(2)[1]))
        for order, perplexity in zip((2, 3), expected, strict=True):
            model = KneserNey(order=order, modified=False).fit(counts)
            found = model.perplexity(encode_text(test, counts.vocabulary, "stream"))
            assert found == pytest.approx(perplexity, abs=0.1)
