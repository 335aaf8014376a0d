"""Ways to cut plain text up, by name and by function."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood import Corpus, Parser, Tree, train
from sapwood.errors import InputError, UsageError
from sapwood.learn import PCFG
from sapwood.trees.tokenise.penn import Token
from sapwood.trees.tokenise.registry import find_tokeniser, from_function
from sapwood.trees.tokenise.sentences import tokenise_text

TREES = [Tree.parse("(ROOT (S (NP (N dogs)) (VP (V sleep)) (. .)))")] * 9


def words(sentences) -> list[list[str]]:
    return [[token.word for token in sentence] for sentence in sentences]


def test_penn_is_what_it_always_was():
    text = 'It\'s "late".  Go-kart!'
    assert list(find_tokeniser("penn")(text)) == list(tokenise_text(text))
    style = {"rewrite": False, "split_hyphens": True}
    assert list(find_tokeniser("penn", style)(text)) == list(tokenise_text(text, **style))


def test_blanks():
    assert words(find_tokeniser("blanks")("It 's  late .\n\n \r\nGo\u00a0x !")) == [
        ["It", "'s", "late", "."],
        ["Go", "x", "!"],
    ]


def test_characters():
    text = "他来了。 我 走了！"
    found = list(find_tokeniser("characters")(text))
    assert words(found) == [["他", "来", "了", "。"], ["我", "走", "了", "！"]]
    assert all(text[token.start : token.end] == token.word for sentence in found for token in sentence)


@given(st.text(alphabet="ab .\n\r\u2028。", max_size=30), st.integers(0, 30))
def test_text_in_pieces_is_the_same_and_places_are_those_of_the_words(text, cut):
    for name in ("blanks", "characters", "penn"):
        tokeniser = find_tokeniser(name)
        whole = list(tokeniser(text))
        assert list(tokeniser([text[:cut], text[cut:]])) == whole
        assert all(text[token.start : token.end] == token.word for sentence in whole for token in sentence)
        # Nothing but white space is left out.
        assert "".join(word for sentence in words(whole) for word in sentence) == "".join(text.split())


def test_functions_return_words_or_tokens():
    cut = from_function(lambda text: [part.split() for part in text.split("|")])
    assert list(cut("a a|b  a")) == [[Token(0, 1, "a"), Token(2, 3, "a")], [Token(4, 5, "b"), Token(7, 8, "a")]]
    assert list(cut(["a ", "a|b  a"])) == list(cut("a a|b  a"))
    own = from_function(lambda text: [[Token(0, 3, "cannot")]])
    assert list(own("can't")) == [[Token(0, 3, "cannot")]]
    for bad in (lambda text: [["b"]], lambda text: [["a", "a"]], lambda text: [[""]], lambda text: [[1]]):
        with pytest.raises(InputError, match="is not in the text"):
            list(from_function(bad)("a"))


def test_unknown_names():
    with pytest.raises(UsageError, match="no tokeniser 'mine'; choose from penn, blanks, characters, spacy"):
        find_tokeniser("mine")
    with pytest.raises(UsageError, match="takes nothing behind a colon"):
        find_tokeniser("blanks:de")


def test_those_of_spacy():
    pytest.importorskip("spacy")
    text = "Er kam z.B. heute.  Gut!"
    found = list(find_tokeniser("spacy:de")(text))
    assert words(found) == [["Er", "kam", "z.B.", "heute", "."], ["Gut", "!"]]
    assert all(text[token.start : token.end] == token.word for sentence in found for token in sentence)
    assert list(find_tokeniser("spacy:de")([text[:5], text[5:]])) == found
    # A model file may say anything.
    for name in ("spacy:", "spacy:de.x", "spacy:../x", "spacy:os", "spacy:DE"):
        with pytest.raises(UsageError, match="spaCy"):
            find_tokeniser(name)


def test_spacy_may_be_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(UsageError, match="pip install spacy"):
        find_tokeniser("spacy:de")


def test_plugins(install_plugin):
    code = "def make(argument):\n    return lambda text: iter([[argument]])\n"
    install_plugin("cutters", code, "sapwood.tokenisers", halves="cutters:make")
    assert list(find_tokeniser("halves:x")("text")) == [["x"]]


def test_a_parser_takes_a_name_or_a_function_and_a_model_remembers_a_name(tmp_path):
    grammar = PCFG().fit(Corpus.from_trees(TREES))
    text = "dogs sleep. Dogs sleep ."
    assert [len(result.words) for result in Parser(grammar).parse_text(text)] == [3, 3]
    assert [result.words for result in Parser(grammar, tokeniser="blanks").parse_text(text)] == [text.split()]
    halves = Parser(grammar, tokeniser=lambda whole: [whole.split()[:2], whole.split()[2:]])
    assert [result.words for result in halves.parse_text(text)] == [["dogs", "sleep."], ["Dogs", "sleep", "."]]
    assert [result.offsets for result in halves.parse_text(text)][1] == [(12, 16), (17, 22), (23, 24)]
    trained = train(TREES, method="pcfg", tokeniser="blanks", output=tmp_path / "m.sapwood")
    assert trained.preparation.tokeniser.name == "blanks"
    again = Parser(tmp_path / "m.sapwood")
    assert [result.words for result in again.parse_text(text)] == [text.split()]
    assert [len(result.words) for result in again.with_options(tokeniser="penn").parse_text(text)] == [3, 3]
    assert again.fingerprint()["tokeniser"] is None
    assert "lambda" in halves.fingerprint()["tokeniser"]
    with pytest.raises(UsageError, match="no tokeniser"):
        train(TREES, method="pcfg", tokeniser="mine")
    odd = grammar.with_info(tokeniser={"name": "mine"})
    with pytest.raises(UsageError, match="no tokeniser 'mine'"):
        list(Parser(odd).parse_text(text))
