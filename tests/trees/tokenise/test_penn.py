import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood.trees.tokenise import sentences as sentences_module
from sapwood.trees.tokenise.penn import Token, find_tokens, tokenise
from sapwood.trees.tokenise.sentences import split_sentences, tokenise_text


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
     "ı", "İ", "\r\n", "\n\n", "\u2029", "\x85"]
)  # fmt: skip
texts = st.lists(fragments, max_size=25).map("".join) | st.text(max_size=40)


@given(texts, st.booleans())
def test_nothing_is_lost_but_space(text: str, split_hyphens: bool):
    tokens = tokenise(text, split_hyphens=split_hyphens)
    assert plain("".join(tokens)) == plain(text)
    assert all(token and plain(token) and not any(c.isspace() for c in token) for token in tokens)


def check_places(text: str, tokens: list[Token], rewrite: bool) -> None:
    """Tokens are in order, do not overlap, and cover everything but white space."""
    edges = [edge for token in tokens for edge in token[:2]]
    assert edges == sorted(edges)
    assert all(token.start < token.end for token in tokens)
    covered = {place for token in tokens for place in range(token.start, token.end)}
    assert covered == {place for place, char in enumerate(text) if plain(char)}
    for token in tokens:
        surface = text[token.start : token.end]
        assert plain(surface) == plain(token.word) if rewrite else surface == token.word


@given(texts, st.booleans(), st.booleans())
def test_places_of_tokens_in_a_sentence(text: str, rewrite: bool, split_hyphens: bool):
    tokens = find_tokens(text, rewrite=rewrite, split_hyphens=split_hyphens)
    check_places(text, tokens, rewrite)
    assert [token.word for token in tokens] == tokenise(text, rewrite=rewrite, split_hyphens=split_hyphens)


@given(texts, st.booleans(), st.booleans())
def test_places_of_tokens_in_a_text(text: str, rewrite: bool, split_hyphens: bool):
    found = list(tokenise_text(text, rewrite=rewrite, split_hyphens=split_hyphens))
    check_places(text, [token for sentence in found for token in sentence], rewrite)
    words = [[token.word for token in sentence] for sentence in found]
    assert words == [tokenise(s, rewrite=rewrite, split_hyphens=split_hyphens) for s in split_sentences(text)]


@given(texts)
def test_paragraphs_by_lines(text: str):
    """Sentences are those of the paragraphs, which are found the slow way: line by line."""
    lines = text.replace("\r\n", "\n").replace("\u2029", "\n\n")
    for end in "\r\f\x85\u2028":
        lines = lines.replace(end, "\n")
    paragraphs = [""]
    for line in lines.split("\n"):
        words = "".join(char if plain(char) else " " for char in line).split()
        paragraphs[-1] = " ".join([*paragraphs[-1].split(), *words])
        if not words:
            paragraphs.append("")
    assert split_sentences(text, lines="free") == [
        sentence for part in paragraphs for sentence in split_sentences(part)
    ]


@given(st.lists(fragments | st.sampled_from(["One. ", "Two!\n", "\r", "Mr. "]), max_size=40), st.integers(0, 9))
def test_pieces_of_a_text_are_as_the_whole(pieces: list[str], much: int):
    with pytest.MonkeyPatch.context() as patch:
        whole = list(tokenise_text("".join(pieces)))
        patch.setattr(sentences_module, "_MUCH", much)
        assert list(tokenise_text(pieces)) == whole


def test_sentences_come_as_soon_as_they_are_over():
    taken = []

    def lines():
        for line in ("It rains.\n", "Go\n", "\n", "Stay.\n"):
            taken.append(line)
            yield line

    found = tokenise_text(lines())
    assert [[token.word for token in next(found)] for _ in range(2)] == [["It", "rains", "."], ["Go"]]
    assert len(taken) == 3
    assert [tuple(token) for token in next(found)] == [(14, 18, "Stay"), (18, 19, ".")]


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


def test_blank_lines_end_sentences_and_free_line_ends_do_not():
    assert split_sentences("A title\n\nMr.\n\nmoss came\nhome\r\n \t \r\nlate\u2029and later", lines="free") == [
        "A title", "Mr.", "moss came home", "late", "and later",
    ]  # fmt: skip


@pytest.mark.parametrize("piece", [".", "a", "'", '"', "a.", "-", "(", "a@", "#", ". ", "\n ", "1,", "s'", "http://("])
def test_long_runs(piece: str):
    # Each of these takes minutes, not seconds, when a pattern goes back over what it has read.
    text = piece * 30_000 + "x"
    assert plain("".join(tokenise(text))) == plain(text)
    assert plain("".join(split_sentences(text))) == plain(text)
