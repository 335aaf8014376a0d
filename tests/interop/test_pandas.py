"""Data frames of parses."""

from __future__ import annotations

import sys

import pytest

import sapwood
from sapwood.errors import UsageError

pandas = pytest.importorskip("pandas")


@pytest.fixture(scope="module")
def results():
    return list(sapwood.Parser(marginals=True).parse_text("She slept in the garden. It rained."))


def test_one_row_per_sentence(results):
    frame = sapwood.to_pandas(results)
    assert frame["tree"].tolist() == [str(result.tree) for result in results]
    assert frame["text"].tolist() == [" ".join(result.words) for result in results]
    assert frame["words"].tolist() == [6, 3]
    assert frame["log_probability"].tolist() == [result.log_probability for result in results]
    assert len(sapwood.to_pandas(results[0])) == 1
    empty = sapwood.to_pandas([])
    assert list(empty.columns) == ["sentence", "text", "words", "tree", "log_probability", "status"]


def test_one_row_per_phrase(results):
    frame = sapwood.to_pandas(iter(results), "phrases")
    expected = [(number, *one) for number, result in enumerate(results) for one in result.phrases()]
    assert frame[["sentence", "label", "start", "end", "head", "text"]].values.tolist() == [
        [row[0], row[1], row[2], row[3], row[5], row[4]] for row in expected
    ]
    nouns = sapwood.to_pandas(results, "phrases", labels="NP")
    assert set(nouns["label"]) == {"NP"}
    assert nouns["start_char"].tolist()[0] == 0
    assert 0 < frame["probability"].dropna().min() <= 1


def test_refusals(results, monkeypatch):
    with pytest.raises(UsageError, match="sentences, phrases"):
        sapwood.to_pandas(results, "words")
    with pytest.raises(UsageError, match="rows='phrases'"):
        sapwood.to_pandas(results, labels=["NP"])
    for given in (pandas.DataFrame({"text": ["She slept."]}), "She slept.", None, [None]):
        with pytest.raises(UsageError, match="parse a column with"):
            sapwood.to_pandas(given)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UsageError, match="pip install pandas"):
        sapwood.to_pandas(results)
