"""Plain text into sentences and tokens, in the manner of the Penn Treebank.

Tokens are pieces of the text: nothing but white space is lost, and nothing is added. White space
means, here, also control characters, the zero width space and the byte order mark. The pieces are
then rewritten as the Penn Treebank writes them, and only in these ways:

- double quotes (straight, curly, low) become two backquotes when they open and `''` when they close;
- single quotes become a backquote when they open; the curly apostrophe becomes `'`;
- an em dash becomes `--`.

Brackets stay what they are. Full stops are split off, but not from abbreviations and initials in
the middle of a sentence; words with stops inside (`U.S.`, `p.m.`) keep their last one even at its
end. Words are cut only by the rules of English contractions; text in scripts without spaces
comes out as runs between punctuation marks.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import Final


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Abbreviations, without their last stop. Capitalised ones count only capitalised (`Sat.`, not `sat.`).
# Always followed by more of the sentence.
_LEADING: Final = _words("""
    Mr Mrs Ms Mx Messrs Mme Mlle Dr Drs Prof Rev Hon Sen Rep Reps Sens Gov Pres Gen Col Maj Capt Cmdr Lt Sgt
    Cpl Pvt Adm Supt Insp Amb Atty Msgr Mt Ft e.g i.e E.g I.e cf Cf v vs viz approx Approx ca esp
""")
# Followed by a number, or else ordinary words and letters (`no.`, `art.`).
_NUMBERED: Final = _words("""
    No no Nos nos p pp Fig Figs fig figs Vol vol Vols vols Ch ch Chap chap Sec sec Sect sect Art art Arts arts
    Eq eq Eqs eqs par para Op op c b d n l ver Nr nr Tab Tel tel
""")
# May also end a sentence.
_OTHER: Final = _words("""
    Inc Corp Co Cos Ltd Bros Jr Sr Esq etc al St Sts Ave Blvd Rd Hwy Dept dept Univ Assn assn eds
    Jan Feb Mar Apr Jun Jul Aug Sep Sept Oct Nov Dec Tue Tues Wed Thu Thur Thurs Fri Sat
    Ala Ariz Ark Calif Colo Conn Fla Ga Ill Ind Kan Ky La Mass Md Mich Minn Miss Mo Mont Neb Nev Okla Ore
    Pa Penn Tenn Tex Va Vt Wash Wis Wyo Ph.D Ph.Ds B.Sc M.Sc D.Phil
    incl excl resp est misc govt max avg min mins hr hrs yr yrs lb lbs oz ft sq
""")
# Words that, capitalised after an abbreviation, begin a new sentence.
_STARTERS: Final = _words("""
    A After All Also Although An And Another Are As At Because Before Both But By Can Did Do Does Each
    Even For From Had Has Have He Her Here His How However I If In Instead Is It Its Just Like Many
    Meanwhile Most My No Nobody Nor Not Nothing Now On Once One Only Or Other Others Our Perhaps She
    Since So Some Still Such That The Their Then There These They This Those Though Thus To Today Under
    Until Was We Were What When Where Whether Which While Who Why Will With Yet You Your
""")


def _known(word: str, table: frozenset[str]) -> bool:
    """Whether the word stands in the table, as written there or in capitals."""
    return word in table or (len(word) > 1 and word.isupper() and word.capitalize() in table)


# Sentences

_TO_SPACE: Final = dict.fromkeys((*range(32), *range(127, 160), 0x200B, 0xFEFF), " ")
_TO_LINE: Final = dict.fromkeys((0x0A, 0x0C, 0x0D, 0x85, 0x2028), "\n") | {0x2029: "\n\n"}
_TO_SPACE_OR_LINE: Final = _TO_SPACE | _TO_LINE

_STOP = re.compile(
    r"""
    (?P<stop> (?<![.!?…])[.!?…]++ | [।॥؟۔።]++ | [。！？｡．]++ )
    (?P<close> ["'”’»›)\]}」』）】》〉]*+ )
    (?: (?=(?P<space>[ ])) | $ | (?<=[。！？｡．"'”’」』）】》〉]) )
    """,
    re.VERBOSE,
)
_OPENING = re.compile(r"[\"'“‘„«‹(\[{`「『（【《〈]*")
_LAST_WORD = re.compile(r"[^\s\"'“‘„«(\[{`]*$")
_LEAST_OF_SENTENCE = re.compile(r"[(\[]?(?:[0-9]{1,3}(?:\.[0-9]{1,3})*|[^\W\d_]|[ivxIVX]{1,4})")
_LETTERS_AND_STOPS = re.compile(r"(?:[^\W\d_]\.)+[^\W\d_]")
_WORD = re.compile(r"\w+")
_WIDE_STOPS = "。！？｡．"


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a text, white space in each reduced to single blanks.

    A sentence ends at a blank line, at the end of the text, at `。！？`, and at `.`, `!`, `?` or `...`
    with any closing quotes and brackets after it, when white space and something that can begin a
    sentence follows: not a small letter, nor for `...` a digit. A stop after an abbreviation, an initial
    or the number of a list item ends nothing, unless the abbreviation is one that may end a sentence
    and a word follows that usually begins one.

    Examples
    --------
    >>> split_sentences("Dr. Moss came at 3 p.m. She left at 4.30. (Why?) Nobody knows!")
    ['Dr. Moss came at 3 p.m.', 'She left at 4.30.', '(Why?)', 'Nobody knows!']
    """
    sentences: list[str] = []
    lines: list[str] = []
    for line in [*text.replace("\r\n", "\n").translate(_TO_SPACE_OR_LINE).split("\n"), ""]:
        if line.strip():
            lines.append(line)
        elif lines:
            _split_paragraph(" ".join(" ".join(lines).split()), sentences)
            lines = []
    return sentences


def _split_paragraph(text: str, sentences: list[str]) -> None:
    start = 0
    for match in _STOP.finditer(text):
        end = match.end()
        if end < len(text) and _ends_sentence(text, start, match):
            sentences.append(text[start:end])
            start = end + (match["space"] is not None)
    if start < len(text):
        sentences.append(text[start:])


def _ends_sentence(text: str, start: int, match: re.Match[str]) -> bool:
    stop, end = match["stop"], match.end()
    if match["space"] is None:
        # Only the stops of scripts without spaces end a sentence here, and not before a particle.
        return stop[-1] in _WIDE_STOPS and not (
            text[end] in "、，,；;"
            or (stop[-1] == "．" and text[end].isdigit())
            or (match["close"] and "\u3041" <= text[end] <= "\u309f")
        )
    begin = _OPENING.match(text, end + 1)
    at = begin.end() if begin else end + 1
    first = text[at : at + 1]
    if first in ",;:)]}%…-–—.!?" or first.islower():
        return False
    if not set(stop) - set(".…") and stop != ".":
        return first.isalpha()
    if stop != ".":
        return True
    before = text[max(start, match.start() - 40) : match.start()]
    if _LEAST_OF_SENTENCE.fullmatch(text, start, match.start()):
        return False
    found = _LAST_WORD.search(before)
    word = found[0] if found else ""
    if _known(word, _LEADING):
        return False
    if _known(word, _NUMBERED) and first.isdigit():
        return False
    if word == "I" and before[:-2].rsplit(" ", 1)[-1][:1].islower():
        return True
    initial = len(word) == 1 and word.isupper()
    if initial or _LETTERS_AND_STOPS.fullmatch(word) or _known(word, _OTHER):
        following = _WORD.match(text, at)
        if following is None:
            return True
        is_initial = following.end() - at == 1 and text[following.end() : following.end() + 1] == "."
        return following[0] in _STARTERS and not is_initial
    return True


# Tokens
#
# The patterns below do not run over the text but over its shape, one character for each: `a` letter,
# `0` digit, `m` mark or invisible character inside words, `j` joiner, `s` symbol, `r` half a flag,
# `$` currency, `p` other punctuation, and the punctuation that the patterns name as itself.

_AS_THEMSELVES = "“”„‘—–…«»‹›"
_JOINS_LETTERS = "·״׳"


@lru_cache(maxsize=8192)
def _shape(char: str) -> str:
    if char.isspace():
        return " "
    if char == "’":
        return "'"
    if char in "‐‑":
        return "-"
    if char in _AS_THEMSELVES:
        return char
    if char in _JOINS_LETTERS:
        return "&"
    if char == "\u200d":
        return "j"
    if "\U0001f3fb" <= char <= "\U0001f3ff":
        return "m"
    if "\U0001f1e6" <= char <= "\U0001f1ff":
        return "r"
    category = unicodedata.category(char)
    if category == "Nd":
        return "0"
    if char.isascii() and category[0] in "PS":
        return "a" if char == "_" else char
    if category[0] == "M" or category == "Cf":
        return "m"
    if category == "Sc":
        return "$"
    return {"S": "s", "P": "p"}.get(category[0], "a")


# Pieces that are kept whole whatever they hold, found in the text itself.
_URL_CHAR = r"[^\s()<>\"“”。！？，、「」（）]"
_WHOLE = re.compile(
    rf"""
    (?:(?:https?|ftp)://|(?<!\w)www\.)
        (?:{_URL_CHAR}|\({_URL_CHAR}*\))* (?:\({_URL_CHAR}*\)|(?![.,;:!?'’\]}}…]){_URL_CHAR})
    | (?<![\w.+%-])[\w.+%-]+@[\w-]+(?:\.[\w-]+)+
    | (?<![\w&])\#\w*[^\W\d_]\w*
    | (?<![\w.])@\w+
    | (?<!\S)[:;=]['’]?-?[()\[\]DPp3/\\|*]{{1,3}}(?!\S)
    """,
    re.VERBOSE | re.IGNORECASE,
)

_PIECE = re.compile(
    r"""
    (?P<word>
        (?: (?<![^ (\[{$]) [-+]\.?(?=0) | (?<![a0mj.)\]}']) \.(?=0) )?
        [a0mj]+
        (?: (?: (?: [.'&/@] | \.?- ) (?=[a0]) | (?<=0) [,:] (?=0) ) [a0mj]+ )*
        (?: -(?![-a0]) )?
    )
    | (?P<double> `` | '' | ‘‘ | ["“”„] )
    | (?P<single> ['‘] )
    | \.{2,} | --+ | —+ | [!?]+ | …+
    | rr?m* | sm*(?:jsm*)*
    | ([*=+~^|\\/\#<>])\4*
    | .
    """,
    re.VERBOSE,
)
_SINGLE_LETTERS = re.compile(r"am*(?:\.am*)+")
_FINAL = re.compile(r"[ )\]}>\"'”»›]*$")
_THEN_NUMBER = re.compile(r" ?[(\[]?0")

_CLITIC = re.compile(r"(?:n['’]t|['’](?:s|m|d|ll|re|ve))$", re.IGNORECASE)
_LONE_CLITIC = re.compile(r"['’](?:s|m|d|t|ll|re|ve)(?!\w)", re.IGNORECASE)
_APOSTROPHE_FIRST = re.compile(
    r"['’‘](?:n['’]|(?:tis|twas|em|cause|cuz|til|bout|n)(?!\w)|[0-9][0-9]s?(?![\w'’]))", re.IGNORECASE
)
_APOSTROPHE_LAST = re.compile(r"[a-z]{2,}in|[Oo]l?|[Tt]h|[Yy]|lil")
# Where to cut words that are two or more in one.
_FUSED: Final[dict[str, tuple[int, ...]]] = {
    "cannot": (3,),
    "gonna": (3,),
    "gotta": (3,),
    "wanna": (3,),
    "gimme": (3,),
    "lemme": (3,),
    "dunno": (2, 3),
    "'tis": (2,),
    "'twas": (2,),
    "y'all": (2,),
    "d'you": (2,),
    "d'ye": (2,),
    "d'ya": (2,),
}
_DOLLARS: Final = _words("US C A HK NZ S")
_PREFIXES: Final = _words("anti co cross de e ex extra intra inter mid mini multi non over post pre pro re semi sub")

_TO_PENN: Final = {ord("’"): "'", ord("‘"): "'", ord("—"): "--"}
_OPENS_BEFORE = " ([{<—–-/=“„`‘"
_CLOSES_AFTER = " )]}>.,;:!?…—–-'”/"


class _Tokeniser:
    """One sentence on its way to tokens; `spans` are the pieces and `written` what they become."""

    def __init__(self, sentence: str, split_hyphens: bool) -> None:
        self.text = sentence.translate(_TO_SPACE)
        self.shape = "".join(map(_shape, self.text))
        self.split_hyphens = split_hyphens
        self.spans: list[tuple[int, int]] = []
        self.written: list[str] = []
        self.open_double = 0
        self.open_single = 0
        self.low_quote = False

    def run(self) -> None:
        at = 0
        for whole in _WHOLE.finditer(self.text):
            if whole.start() >= at:
                self.scan(at, whole.start())
                self.emit(whole.start(), whole.end(), whole[0])
                at = whole.end()
        self.scan(at, len(self.text))

    def emit(self, start: int, end: int, written: str | None = None) -> None:
        self.spans.append((start, end))
        if written is None:
            written = self.text[start:end].translate(_TO_PENN)
        self.written.append(written)

    def scan(self, at: int, limit: int) -> None:
        while at < limit:
            if self.shape[at] == " ":
                at += 1
                continue
            match = _PIECE.match(self.shape, at, limit)
            assert match is not None
            end = match.end()
            if match["word"]:
                at = self.word(at, end, limit)
            elif match["double"]:
                self.emit(at, end, self.double_quote(at, end))
                at = end
            elif match["single"]:
                at = self.single_quote(at, limit)
            else:
                self.emit(at, end)
                at = end

    def word(self, start: int, end: int, limit: int) -> int:
        """Emit a word, cut into its parts, with the stop after it if that is its own."""
        text, shape = self.text, self.shape
        if (
            (end < limit and shape[end] == "." and shape[end + 1 : end + 2] != "." and self.keeps_stop(start, end))
            or (
                end < limit
                and shape[end] == "'"
                and not self.open_single
                and shape[end + 1 : end + 2] != "'"
                and _APOSTROPHE_LAST.fullmatch(text, start, end)
            )
            or (text[end : end + 1] == "$" and end < limit and text[start:end] in _DOLLARS)
        ):
            end += 1
        self.cut(start, end)
        return end

    def keeps_stop(self, start: int, end: int) -> bool:
        text, shape = self.text, self.shape
        start = max(start, shape.rfind("-", start, end) + 1)
        word = text[start:end]
        if _SINGLE_LETTERS.fullmatch(shape, start, end):
            return True
        listed = _known(word, _LEADING) or _known(word, _OTHER)
        if listed and "." in word:
            return True
        if _FINAL.match(shape, end + 1):
            return False
        if listed or (shape[end + 1] in ",;" and "0" not in shape[start:end]):
            return True
        if _known(word, _NUMBERED) and _THEN_NUMBER.match(shape, end + 1):
            return True
        if len(word) == 1 and word.isupper():
            return word != "I" or not self.written or self.written[-1][:1].isupper()
        return False

    def cut(self, start: int, end: int) -> None:
        """Emit a word in its parts: contractions and, if wanted, hyphens."""
        text = self.text
        ends = [end]
        while (clitic := _CLITIC.search(text, max(start, ends[-1] - 3), ends[-1])) and clitic.start() > start:
            ends.append(clitic.start())
        stem_end = ends[-1]
        stem = text[start:stem_end].translate(_TO_PENN).lower()
        inner = [start + offset for offset in _FUSED.get(stem, ())]
        if self.split_hyphens:
            inner += self.hyphens(start, stem_end)
        for cut in [*inner, *reversed(ends)]:
            self.emit(start, cut)
            start = cut

    def hyphens(self, start: int, end: int) -> list[int]:
        cuts: list[int] = []
        before = start
        for hyphen in (i for i in range(start + 1, end - 1) if self.shape[i] == "-"):
            if self.text[before:hyphen].lower() not in _PREFIXES:
                cuts += [hyphen, hyphen + 1]
            before = hyphen + 1
        return cuts

    def double_quote(self, start: int, end: int) -> str:
        char = self.text[start]
        if char == '"':
            before, after = self.around(start, end)
            if before != after:
                opens = before
            else:
                opens = self.open_double == 0
        elif char == "“":
            # In German and its neighbours this closes what a low quote opened.
            opens = not self.low_quote
        else:
            opens = char in "„`‘"
        self.low_quote = char == "„" or (self.low_quote and opens)
        self.open_double = self.open_double + 1 if opens else max(0, self.open_double - 1)
        return "``" if opens else "''"

    def single_quote(self, start: int, limit: int) -> int:
        """Emit a quote or an apostrophe, with what belongs to it; return where to go on."""
        text = self.text
        clitic = _LONE_CLITIC.match(text, start, limit) or _APOSTROPHE_FIRST.match(text, start, limit)
        if clitic:
            self.cut(start, clitic.end())
            return clitic.end()
        opens = text[start] == "‘" or (text[start] == "'" and self.around(start, start + 1) == (True, False))
        self.open_single = self.open_single + 1 if opens else max(0, self.open_single - 1)
        self.emit(start, start + 1, "`" if opens else "'")
        return start + 1

    def around(self, start: int, end: int) -> tuple[bool, bool]:
        """Return whether a quote can open by what is before it, and whether it can close by what is after."""
        before = self.shape[start - 1] if start else " "
        after = self.shape[end] if end < len(self.shape) else " "
        opens = before in _OPENS_BEFORE or (
            bool(self.spans) and self.spans[-1][1] == start and self.written[-1] in ("``", "`")
        )
        return opens, after in _CLOSES_AFTER


def tokenise(sentence: str, *, rewrite: bool = True, split_hyphens: bool = False) -> list[str]:
    """Return the tokens of a sentence.

    Parameters
    ----------
    sentence
        One sentence; of several, only abbreviations before the last stop keep theirs.
    rewrite
        Write quotes, apostrophes and dashes as the Penn Treebank does; if false, tokens are exact
        pieces of the text.
    split_hyphens
        Cut hyphenated words at their hyphens, except after prefixes such as `non-`, as the English
        treebanks since OntoNotes do.

    Examples
    --------
    >>> tokenise('"It can\\'t rain," said Mr. Moss.')
    ['``', 'It', 'ca', "n't", 'rain', ',', "''", 'said', 'Mr.', 'Moss', '.']
    """
    work = _Tokeniser(sentence, split_hyphens)
    work.run()
    return work.written if rewrite else [sentence[start:end] for start, end in work.spans]


def token_spans(sentence: str, *, split_hyphens: bool = False) -> list[tuple[int, int]]:
    """Return where in the sentence each token of `tokenise` starts and ends."""
    work = _Tokeniser(sentence, split_hyphens)
    work.run()
    return work.spans
