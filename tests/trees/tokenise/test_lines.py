"""Line ends of plain text."""

from __future__ import annotations

import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood import Parser, Tree, split_sentences, tokenise_text, train
from sapwood.errors import UsageError
from sapwood.trees.tokenise.lines import LINES, text_blocks, tokenise_lines
from sapwood.trees.tokenise.registry import find_tokeniser

SENTENCES = [
    "The committee, which met on Tuesday, did not say when it would publish its report.",
    "Nobody was surprised.",
    "It has been asked for the same figures in each of the last four years, and has never found them.",
    "Its members are paid by the day.",
]
TITLES = ["Rain in the north, and more of it to come on Friday and Saturday", "Ministers at odds", "Dogs bark"]


def sentences(text, **options) -> list[str]:
    return [" ".join(token.word for token in tokens) for tokens in tokenise_text(text, **options)]


def test_titles_are_sentences():
    assert sentences("Breaking news today\nIt rained\n") == ["Breaking news today", "It rained"]
    assert split_sentences("Breaking news today\nIt rained\n") == ["Breaking news today", "It rained"]
    assert sentences("\n".join(TITLES)) == [title.replace(",", " ,") for title in TITLES]
    # The first is the longest, and the second a sentence of its own.
    assert len(sentences("\n".join(TITLES[:2]))) == 2


def test_one_sentence_per_line():
    assert split_sentences("\n".join(SENTENCES)) == SENTENCES
    assert split_sentences("\r\n".join(SENTENCES)) == SENTENCES
    assert split_sentences("\n".join(sentence.lower() for sentence in SENTENCES)) == [s.lower() for s in SENTENCES]


@pytest.mark.parametrize("width", [45, 60, 72, 100])
def test_wrapped_lines_are_joined(width):
    text = textwrap.fill(" ".join(SENTENCES), width)
    assert text.count("\n") > 1
    assert split_sentences(text) == SENTENCES
    assert split_sentences(f"A title\n\n{text}\n\n{text}") == ["A title", *SENTENCES, *SENTENCES]


def test_wrapped_text_in_a_script_without_spaces_and_case():
    text = (
        "委员会星期二开会但是没有说明什么时候公布报告大家都觉得很奇怪因为每年都有人要求看这些数字而他们从来没有找到过。"
    )
    wrapped = "\n".join(textwrap.wrap(text, 42))
    assert "\n" in wrapped
    assert len(split_sentences(wrapped)) == 1
    assert len(split_sentences("大家好。\n我走了")) == 2


def test_blocks_are_decided_one_by_one():
    wrapped = textwrap.fill(" ".join(SENTENCES), 60)
    mixed = "\n\n".join([wrapped, "\n".join(TITLES), wrapped])
    assert split_sentences(mixed) == [*SENTENCES, *TITLES, *SENTENCES]


def test_a_long_block_is_read_as_it_arrives():
    for text in ("\n".join(["It rained again."] * 500), textwrap.fill(" ".join(SENTENCES * 200), 60)):
        read = 0

        def pieces(text=text):
            nonlocal read
            for read, line in enumerate(text.splitlines(keepends=True), 1):  # noqa: B007
                yield line

        first = next(text_blocks(pieces()))
        assert first.begin == 0
        assert read <= 70


def test_explicit_choices():
    text = "It rained. Dogs\nbark.\n\nWhy?\n"
    assert sentences(text, lines="sentences") == ["It rained . Dogs", "bark .", "", "Why ?"]
    assert split_sentences(text, lines="sentences") == ["It rained. Dogs", "bark.", "", "Why?"]
    assert sentences(text, lines="paragraphs") == ["It rained .", "Dogs", "bark .", "Why ?"]
    assert sentences(text, lines="free") == ["It rained .", "Dogs bark .", "Why ?"]
    assert sentences("", lines="sentences") == []
    assert sentences("a\n\nb", lines="sentences") == ["a", "", "b"]
    with pytest.raises(UsageError, match="lines must be one of auto, sentences, paragraphs, free, not 'all'"):
        sentences(text, lines="all")


@given(st.text(alphabet="abC .\n\r\u2028。", max_size=60), st.integers(0, 60), st.sampled_from(LINES))
def test_text_in_pieces_is_the_same_and_offsets_are_those_of_the_words(text, cut, lines):
    for name in ("blanks", "characters", "penn"):
        tokeniser = find_tokeniser(name)
        whole = list(tokenise_lines(tokeniser, text, lines))
        assert list(tokenise_lines(tokeniser, [text[:cut], text[cut:]], lines)) == whole
        assert list(tokenise_lines(tokeniser, list(text), lines)) == whole
        assert all(text[token.start : token.end] == token.word for sentence in whole for token in sentence)
        assert "".join(token.word for sentence in whole for token in sentence) == "".join(text.split())


@given(st.lists(st.text(alphabet="abC .?", max_size=20), max_size=8))
def test_one_line_in_one_line_out(lines):
    text = "".join(f"{line}\n" for line in lines)
    for name in ("blanks", "characters", "penn"):
        found = list(tokenise_lines(find_tokeniser(name), text, "sentences"))
        assert ["".join(token.word for token in tokens) for tokens in found] == ["".join(s.split()) for s in lines]


def test_the_parser_and_its_tokenisers():
    model = train([Tree.parse("(ROOT (S (NP (N dogs)) (VP (V sleep)) (. .)))")] * 9, method="pcfg")
    text = "dogs sleep\n\ndogs sleep. dogs"
    parser = Parser(model)
    assert [len(result.words) for result in parser.parse_text(text)] == [2, 4]
    assert [len(result.words) for result in parser.parse_text("dogs\nsleep", lines="free")] == [2]
    results = list(parser.parse_text(text, lines="sentences"))
    assert [len(result.words) for result in results] == [2, 0, 4]
    assert results[1].status == "empty"
    assert [text[start:end] for start, end in results[2].offsets] == ["dogs", "sleep", ".", "dogs"]
    # A function gets all of the text.
    whole = Parser(model, tokeniser=lambda text: [text.split()])
    assert [len(tokens) for tokens in whole.tokenise("dogs\nsleep")] == [2]
    assert [len(tokens) for tokens in whole.tokenise("dogs\nsleep", lines="sentences")] == [1, 1]
