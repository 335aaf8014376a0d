"""Penn Treebank tokeniser for sentences; `sapwood.trees.tokenise.sentences` splits text into sentences.

Tokens are pieces of the text: nothing but white space is lost, and nothing is added. White space
includes control characters, the zero width space and the byte order mark. The pieces are then
rewritten in the conventions of the Penn Treebank, only in these ways:

- double quotes (straight, curly, low) become two backquotes when they open and `''` when they close;
- single quotes become a backquote when they open; the curly apostrophe becomes `'`;
- an em dash becomes `--`.

Brackets are not changed. Full stops are split off, but not from abbreviations and initials in
the middle of a sentence; words with stops inside (`U.S.`, `p.m.`) keep their last one even at its
end. Words are split only by the rules of English contractions; text in scripts without spaces
becomes one token between two punctuation marks.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import Final, NamedTuple


def words_of(text: str) -> frozenset[str]:
    """Return the words of a table."""
    return frozenset(text.split())


# Abbreviations, without their last stop. Capitalised ones match only capitalised (`Sat.`, not `sat.`).
# Never at the end of a sentence.
LEADING: Final = words_of("""
    Mr Mrs Ms Mx Messrs Mme Mlle Dr Drs Prof Rev Hon Sen Rep Reps Sens Gov Pres Gen Col Maj Capt Cmdr Lt Sgt
    Cpl Pvt Adm Supt Insp Amb Atty Msgr Mt Ft e.g i.e E.g I.e cf Cf v vs viz approx Approx ca esp
""")
# Abbreviations only before a number, else ordinary words and letters (`no.`, `art.`).
NUMBERED: Final = words_of("""
    No no Nos nos p pp Fig Figs fig figs Vol vol Vols vols Ch ch Chap chap Sec sec Sect sect Art art Arts arts
    Eq eq Eqs eqs par para Op op c b d n l ver Nr nr Tab Tel tel
""")
# May also end a sentence.
OTHER: Final = words_of("""
    Inc Corp Co Cos Ltd Bros Jr Sr Esq etc al St Sts Ave Blvd Rd Hwy Dept dept Univ Assn assn eds
    Jan Feb Mar Apr Jun Jul Aug Sep Sept Oct Nov Dec Tue Tues Wed Thu Thur Thurs Fri Sat
    Ala Ariz Ark Calif Colo Conn Fla Ga Ill Ind Kan Ky La Mass Md Mich Minn Miss Mo Mont Neb Nev Okla Ore
    Pa Penn Tenn Tex Va Vt Wash Wis Wyo Ph.D Ph.Ds B.Sc M.Sc D.Phil
    incl excl resp est misc govt max avg min mins hr hrs yr yrs lb lbs oz ft sq
""")


def known(word: str, table: frozenset[str]) -> bool:
    """Return whether the word is in the table, as written there or in capitals."""
    return word in table or (len(word) > 1 and word.isupper() and word.capitalize() in table)


_TO_SPACE: Final = dict.fromkeys((*range(32), *range(127, 160), 0x200B, 0xFEFF), " ")


def blanked(text: str) -> str:
    """Return the text with a space for every control character, zero width space and byte order mark."""
    return text.translate(_TO_SPACE)


# The patterns below match not the text but its shape, which has one character for each: `a` letter,
# `0` digit, `m` mark or invisible character inside words, `j` joiner, `s` symbol, `r` half a flag,
# `$` currency, `p` other punctuation; punctuation named in the patterns stands for itself.

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


# Pieces that are always kept whole, matched in the text itself.
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
# Where to split words that are several tokens.
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
_DOLLARS: Final = words_of("US C A HK NZ S")
_PREFIXES: Final = words_of("anti co cross de e ex extra intra inter mid mini multi non over post pre pro re semi sub")

_TO_PENN: Final = {ord("’"): "'", ord("‘"): "'", ord("—"): "--"}
_OPENS_BEFORE = " ([{<—–-/=“„`‘"
_CLOSES_AFTER = " )]}>.,;:!?…—–-'”/"


class _Tokeniser:
    """Tokenisation of one sentence; `spans` are the pieces and `written` their rewritten forms."""

    def __init__(self, sentence: str, split_hyphens: bool) -> None:
        self.text = blanked(sentence)
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
        """Emit a word, split into its parts, with the stop after it if it belongs to the word."""
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
        listed = known(word, LEADING) or known(word, OTHER)
        if listed and "." in word:
            return True
        if _FINAL.match(shape, end + 1):
            return False
        if listed or (shape[end + 1] in ",;" and "0" not in shape[start:end]):
            return True
        if known(word, NUMBERED) and _THEN_NUMBER.match(shape, end + 1):
            return True
        if len(word) == 1 and word.isupper():
            return word != "I" or not self.written or self.written[-1][:1].isupper()
        return False

    def cut(self, start: int, end: int) -> None:
        """Emit a word, split at contractions and, optionally, hyphens."""
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
            # In German and some other languages this closes a low quote.
            opens = not self.low_quote
        else:
            opens = char in "„`‘"
        self.low_quote = char == "„" or (self.low_quote and opens)
        self.open_double = self.open_double + 1 if opens else max(0, self.open_double - 1)
        return "``" if opens else "''"

    def single_quote(self, start: int, limit: int) -> int:
        """Emit a quote or an apostrophe, with the text that belongs to it; return where to continue."""
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
        """Return whether the text before allows an opening quote, and the text after a closing one."""
        before = self.shape[start - 1] if start else " "
        after = self.shape[end] if end < len(self.shape) else " "
        opens = before in _OPENS_BEFORE or (
            bool(self.spans) and self.spans[-1][1] == start and self.written[-1] in ("``", "`")
        )
        return opens, after in _CLOSES_AFTER


class Token(NamedTuple):
    """A word in treebank spelling and its offsets: characters `start .. end - 1` of the text."""

    start: int
    end: int
    word: str


def find_tokens(sentence: str, *, rewrite: bool = True, split_hyphens: bool = False) -> list[Token]:
    """Return the tokens of a sentence with their offsets; see `tokenise`.

    Tokens are in order, do not overlap, and cover everything but white space.

    Examples
    --------
    >>> [tuple(token) for token in find_tokens("“Can’t!”")]
    [(0, 1, '``'), (1, 3, 'Ca'), (3, 6, "n't"), (6, 7, '!'), (7, 8, "''")]
    """
    work = _Tokeniser(sentence, split_hyphens)
    work.run()
    words = work.written if rewrite else [sentence[start:end] for start, end in work.spans]
    return [Token(*span, word) for span, word in zip(work.spans, words, strict=True)]


def tokenise(sentence: str, *, rewrite: bool = True, split_hyphens: bool = False) -> list[str]:
    """Return the tokens of a sentence.

    Parameters
    ----------
    sentence
        One sentence. In a text of several, all stops but the last one are treated as inside a sentence.
    rewrite
        Write quotes, apostrophes and dashes as the Penn Treebank does; if false, tokens are exact
        pieces of the text.
    split_hyphens
        Split hyphenated words at their hyphens, except after prefixes such as `non-`, as English
        treebanks since OntoNotes do.

    Examples
    --------
    >>> tokenise('"It can\\'t rain," said Mr. Moss.')
    ['``', 'It', 'ca', "n't", 'rain', ',', "''", 'said', 'Mr.', 'Moss', '.']
    """
    return [token.word for token in find_tokens(sentence, rewrite=rewrite, split_hyphens=split_hyphens)]
