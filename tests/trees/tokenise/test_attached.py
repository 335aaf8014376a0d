"""Detection of plain text among tokens."""

from __future__ import annotations

import warnings

import pytest

from sapwood import Parser
from sapwood.trees.tokenise.attached import AttachedPunctuation, PlainTextWarning
from sapwood.trees.tokenise.penn import tokenise

PLAIN = [
    "It rained, and we left.",
    "The committee met on Tuesday; nobody was surprised.",
    "Mr. Moss came at 3 p.m. and left at four, as he always does.",
]


@pytest.fixture(scope="module")
def parser():
    return Parser()


def finding(parser, sentences) -> str:
    return parser.attached_punctuation().finding(sentences)


def test_plain_text_is_found_and_tokens_are_not(parser):
    assert "'rained,', 'left.'" in finding(parser, [text.split() for text in PLAIN])
    assert finding(parser, [tokenise(text) for text in PLAIN]) == ""
    assert finding(parser, [PLAIN[0].split()])
    assert finding(parser, []) == ""
    for tokens in ("Go home", "He left at 5 p.m.", "Smith & Co.", "the U.S.", ". . .", "She saw Dr. Moss"):
        assert finding(parser, [tokens.split()]) == "", tokens


def test_one_slip_among_tokens_is_not_plain_text(parser):
    tokens = [tokenise(text) for text in PLAIN]
    assert finding(parser, [*tokens, PLAIN[0].split()]) == ""
    assert finding(parser, [*tokens, *[text.split() for text in PLAIN * 9]])


def test_a_vocabulary_with_attached_punctuation():
    known = {"It", "rained,", "left.", "and", "we"}
    assert AttachedPunctuation(known.__contains__).finding([PLAIN[0].split()]) == ""
    # A treebank without punctuation: tokenising would not help.
    assert AttachedPunctuation({"It", "rained", "left"}.__contains__).finding([PLAIN[0].split()]) == ""


def test_the_library_warns_once(parser):
    for parse in (lambda p: list(p.parse([text.split() for text in PLAIN])), lambda p: p.parse_one(PLAIN[0].split())):
        other = Parser(parser.model)
        with pytest.warns(PlainTextWarning, match="'rained,'.*use `parse_text`") as told:
            parse(other)
        assert len(told) == 1
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            parse(other)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        other = Parser(parser.model)
        list(other.parse([text.split() for text in PLAIN], check_tokens=False))
        list(other.parse_text(" ".join(PLAIN)))
        list(other.parse([tokenise(text) for text in PLAIN]))


def test_a_stream_is_warned_of_while_it_is_read(parser):
    found = []
    stream = parser.attached_punctuation().watched((text.split() for text in PLAIN * 100), found.append)
    for _ in range(3):
        next(stream)
    assert len(found) == 1


def test_tables():
    from sapwood.interop.arrow import ColumnParser

    parse = ColumnParser(Parser(), "text")
    with pytest.warns(PlainTextWarning, match="column 'text': punctuation is attached.*raw=True"):
        parse({"text": PLAIN})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parse({"text": PLAIN})
        ColumnParser(Parser(), "text", raw=True)({"text": PLAIN})


def test_spacy():
    spacy = pytest.importorskip("spacy", reason="spaCy is not installed")
    from spacy.tokens import Doc

    nlp = spacy.blank("en")
    component = nlp.add_pipe("sapwood")
    with pytest.warns(PlainTextWarning, match="'rained,'.*nlp\\(text\\)"):
        component(Doc(nlp.vocab, PLAIN[0].split()))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nlp.add_pipe("sapwood", name="other")(nlp.make_doc(PLAIN[0]))
