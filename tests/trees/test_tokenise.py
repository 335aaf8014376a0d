import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood.trees.tokenise import split_sentences, token_spans, tokenise


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        # Contractions
        ("I don't know.", "I do n't know ."),
        ("She can't, won't and ain't.", "She ca n't , wo n't and ai n't ."),
        ("It's theirs; we'll see.", "It 's theirs ; we 'll see ."),
        ("I'm sure they're there.", "I 'm sure they 're there ."),
        ("I'd've said you'd gone", "I 'd 've said you 'd gone"),
        ("WE CAN'T, IT'S LATE", "WE CA N'T , IT 'S LATE"),
        ("You cannot. Cannot!", "You can not . Can not !"),
        ("gonna wanna gotta gimme lemme", "gon na wan na got ta gim me lem me"),
        ("dunno, 'tis so and 'twas", "du n no , 't is so and 't was"),
        ("the boys' toys", "the boys ' toys"),
        ("Moss's boat", "Moss 's boat"),
        ("O'Hara at five o'clock, ma'am", "O'Hara at five o'clock , ma'am"),
        ("goin' with 'em in the '90s", "goin' with 'em in the '90s"),
        ("salt 'n' pepper", "salt 'n' pepper"),
        # Full stops
        ("Mr. Moss left.", "Mr. Moss left ."),
        ("Dr. A. B. Moss of the U.S. left.", "Dr. A. B. Moss of the U.S. left ."),
        ("It is in the U.S.", "It is in the U.S."),
        ("They work at Moss Inc.", "They work at Moss Inc ."),
        ("They left Moss Inc. in May.", "They left Moss Inc. in May ."),
        ("nuts, e.g. almonds, i.e. seeds", "nuts , e.g. almonds , i.e. seeds"),
        ("No. 5 said no. Then", "No. 5 said no . Then"),
        ("He sat. We met on Sat. at one", "He sat . We met on Sat. at one"),
        ("So did I. Mary I. Moss came", "So did I . Mary I. Moss came"),
        ("MR. MOSS", "MR. MOSS"),
        ("a non-U.S. and U.S.-based firm", "a non-U.S. and U.S.-based firm"),
        ("Wait... what...and…", "Wait ... what ... and …"),
        ('He said "go." (Really.)', "He said `` go . '' ( Really . )"),
        # Numbers and money
        ("1,000 at 3:30, or 2.5, no: 7", "1,000 at 3:30 , or 2.5 , no : 7"),
        ("$5 and 5€ or £3.20 and US$7", "$ 5 and 5 € or £ 3.20 and US$ 7"),
        ("5% of .5 is -3", "5 % of .5 is -3"),
        ("1/2 km/h and/or", "1/2 km/h and/or"),
        # Punctuation
        ("(a) [b] {c}", "( a ) [ b ] { c }"),
        ("What?! No!!", "What ?! No !!"),
        ("one--two -- three-four", "one -- two -- three-four"),
        ("two- and three-part", "two- and three-part"),
        ("one—two – three", "one -- two – three"),
        ("R&D, a & b", "R&D , a & b"),
        # Quotes
        ('"Go," he said, "now."', "`` Go , '' he said , `` now . ''"),
        ('say:"go"!', "say : `` go '' !"),
        ("“Go,” he said. It’s ‘fine’.", "`` Go , '' he said . It 's ` fine ' ."),
        ("I don’t, you’re", "I do n't , you 're"),
        ("„Ja“ «oui»", "`` Ja '' « oui »"),
        ("'quoted' \"'both'\"", "` quoted ' `` ` both ' ''"),
        ('a " b " c', "a `` b '' c"),
        # Whole
        (
            "See https://example.org/a_(b)?c=1, or www.example.org.",
            "See https://example.org/a_(b)?c=1 , or www.example.org .",
        ),
        ("(http://example.org/x.)", "( http://example.org/x . )"),
        ("Ask a.b-c@example.org.", "Ask a.b-c@example.org ."),
        ("#leaf @moss #1 :-)", "#leaf @moss # 1 :-)"),
        # Other scripts
        ("我们走。你好！", "我们走 。 你好 ！"),
        ("में है।", "में है ।"),
        ("Это дом.", "Это дом ."),
        ("👍🏽👨\u200d👩\u200d👧🇩🇪🇫🇷ok", "👍🏽 👨\u200d👩\u200d👧 🇩🇪 🇫🇷 ok"),
        ("cafe\u0301s, naïve", "cafe\u0301s , naïve"),
        ("a\u200bb\x00c\ufeffd", "a b c d"),
    ],
)
def test_tokens(sentence: str, expected: str):
    assert " ".join(tokenise(sentence)) == expected


@pytest.mark.parametrize("sentence", ["", " ", "\t\n\r\x0b", "\u00a0\u3000\u2003", "\x00\u200b\ufeff"])
def test_nothing_but_space(sentence: str):
    assert tokenise(sentence) == []
    assert split_sentences(sentence) == []


def test_without_rewriting_tokens_are_pieces_of_the_text():
    assert " ".join(tokenise("“It’s—” 'x' \"y\"", rewrite=False)) == "“ It ’s — ” ' x ' \" y \""


def test_hyphens():
    assert tokenise("a well-known non-local 5-year-old's x- --", split_hyphens=True) == [
        "a", "well", "-", "known", "non-local", "5", "-", "year", "-", "old", "'s", "x-", "--",
    ]  # fmt: skip


def test_tokenising_tokens_changes_nothing():
    text = "\"I can't\", said Mr. Moss (of the U.S.), 'tis $1,000.50--or 3%... 'No,' they'd cannot. -- Ok!"
    tokens = tokenise(text)
    assert tokenise(" ".join(tokens)) == tokens


def plain(text: str) -> str:
    """Return the text without white space and without what the rewriting of quotes and dashes changes."""
    space = "\u200b\ufeff"
    text = "".join(c for c in text if not c.isspace() and c not in space and unicodedata.category(c) != "Cc")
    for old, new in {"—": "--", "“": "''", "”": "''", "„": "''", '"': "''"}.items():
        text = text.replace(old, new)
    return text.replace("‘", "'").replace("’", "'").replace("`", "'")


fragments = st.sampled_from(
    [*"aZ09 \n.,:;!?'\"`()-–—…’‘“”„«%$€#@&/+*=_。！「」\u0301\u200d\u200b👍🇩।", "n't", "'s", "U.S.", "Mr",
     "cannot", "http://", "www.", "x@y.z", "...", "--", "''", "``", " I ", "'tis", "No. ", "etc", "1,0",
     "ı", "İ"]
)  # fmt: skip
texts = st.lists(fragments, max_size=25).map("".join) | st.text(max_size=40)


@given(texts, st.booleans())
def test_nothing_is_lost_but_space(text: str, split_hyphens: bool):
    tokens = tokenise(text, split_hyphens=split_hyphens)
    assert plain("".join(tokens)) == plain(text)
    assert all(token and plain(token) and not any(c.isspace() for c in token) for token in tokens)


@given(texts)
def test_spans_are_in_order_and_hold_the_tokens(text: str):
    spans = token_spans(text)
    assert [text[start:end] for start, end in spans] == tokenise(text, rewrite=False)
    edges = [edge for span in spans for edge in span]
    assert edges == sorted(edges)
    assert all(start < end for start, end in spans)


@given(texts)
def test_sentences_lose_nothing_but_space(text: str):
    sentences = split_sentences(text)
    assert plain("".join(sentences)) == plain(text)
    assert all(sentence == sentence.strip() != "" for sentence in sentences)
    assert not any("\n" in sentence for sentence in sentences)


@pytest.mark.parametrize(
    "expected",
    [
        ["One came.", "Two left!", "Did three?", "Yes."],
        ["Mr. Moss and Dr. A. B. Fern met Prof. Reed.", "They spoke."],
        ["It is 3.14 or 2.5.", "No. 5 is next.", "He said no.", "Then he left."],
        ["We met at 5 p.m. Monday.", "She came at 6 p.m.", "The rest did not."],
        ["Moss Inc. Chairman Fern spoke.", "He left Moss Inc.", "The firm closed."],
        ["W. A. Moss wrote it.", "We met W. A. Moss.", "So did I.", "Then we slept."],
        ["Try nuts, e.g. Brazil nuts, vs. seeds, etc. and so on.", "Good."],
        ['He said "Go."', "Then he left.", "(It was late.)", "“Was it?”", "‘Yes.’", "Ok."],
        ['"Stop!" he said.', "We stopped."],
        ["What?!", "No way!!", "Well... maybe.", "Hm...", "Never mind."],
        ["Wait…", "What?", "It was… fine."],
        ["1. Open the box.", "2. Close it."],
        ["He sat.", "Mary stood.", "It is on Sat. morning."],
        ["See example.org.", "Then x.y is z."],
        ["“Go.”", "“Why?”"],
        ["$5 was lost!", "5 people saw it.", "«Oui.»", "«Non.»"],
        ["Это дом.", "Он мой."],
        ["में है।", "और है।"],
    ],
)
def test_sentences(expected: list[str]):
    assert split_sentences(" ".join(expected)) == expected
    assert split_sentences("\n".join(expected)) == expected


def test_sentences_without_spaces_between():
    expected = ["我们走。", "你好！", "“是吗？”", "「行く。」と言った。", "3．5だ。"]
    assert split_sentences("".join(expected)) == expected


def test_blank_lines_end_sentences_and_line_ends_do_not():
    assert split_sentences("A title\n\nMr.\n\nmoss came\nhome\r\n \t \r\nlate\u2029and later") == [
        "A title", "Mr.", "moss came home", "late", "and later",
    ]  # fmt: skip


@pytest.mark.parametrize("piece", [".", "a", "'", '"', "a.", "-", "(", "a@", "#", ". ", "\n ", "1,", "s'", "http://("])
def test_long_runs(piece: str):
    # Each of these takes minutes, not seconds, when a pattern goes back over what it has read.
    text = piece * 30_000 + "x"
    assert plain("".join(tokenise(text))) == plain(text)
    assert plain("".join(split_sentences(text))) == plain(text)
