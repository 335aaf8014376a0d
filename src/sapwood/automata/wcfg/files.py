r"""Weighted grammars as text, in two notations.

The plain notation has one rule a line, its weight first:

    # Comments go from a '#' to the end of the line.
    1.0   -> S             # the weight of S as a root; there can be several
    0.7 S -> NP VP
    0.3 S -> `NP SBJ` VP   # backquotes around names with spaces or special characters
    0.5 N -> 'dogs'        # words are always in quotes, single or double
    -1e-3 N -> 'dog\'s'

- A weight is any finite number as Python writes it.
- Within quotes and backquotes `\` comes before a quote, a backquote or another `\`, and `\n`, `\r`, `\t` and
  `\u0041` (four hexadecimal digits) are characters too.
- Names, `->` and the weight are surrounded by white space.
- Weights of the same rule are added. A rule with the weight 0 only declares its symbols; nonterminals and words are
  numbered in order of first occurrence, roots first.

`write_grammar` writes every grammar in this notation such that `read_grammar` reads the same one, to the last bit.

The other notation is that of NLTK's `PCFG.fromstring`:

    %start S
    S -> NP VP [0.7] | NP S [0.3]
    N -> 'dogs' [0.5] | "cats" [0.5]

- Without `%start` the first left-hand side is the root. A rule without a weight has the weight 1. Weights need not sum
  to one, and can be any finite numbers.
- Words have no escapes: one with both kinds of quotes cannot be written. Nonterminals can have all characters but
  white space, quotes, brackets, `|`, `#` and `->` (NLTK itself accepts letters, digits and `_/^<>-` only). A line that
  ends in `\` continues on the next one, and comments have lines of their own.
- If the root occurs on no right-hand side and has only rules with one nonterminal, these are read as weights of roots;
  grammars with several roots are written this way.

In both notations rules can have right-hand sides of any length but 0; they are brought into Chomsky normal form, see
`sapwood.automata.wcfg.wcfg`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from math import isfinite
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from sapwood.automata.wcfg.wcfg import Rule, Symbol, UniqueNames, WeightedGrammar
from sapwood.errors import GrammarError, InputError, UsageError, shortened
from sapwood.storage.files import name_of, open_output, read_lines

Format = Literal["plain", "nltk"]
FORMATS: tuple[str, ...] = get_args(Format)
_ARROW = "->"
_PLAIN_WEIGHT = "a line of the plain notation begins with the rule's weight, as in '0.7 S -> NP VP'"
_NLTK_WEIGHT = "brackets in NLTK's notation hold the rule's weight, as in 'S -> NP VP [0.7]'"
_PLAIN_TOKENS = (
    "names and '->' need spaces around them, quotes must be closed, and names with quotes in them are written in "
    "backquotes"
)
_NLTK_TOKENS = "quotes and brackets must be closed, and comments go on lines of their own"

# The plain notation: parts of a line, names that need no backquotes, and characters escaped within quotes.
_TOKEN = re.compile(
    r"""\s*(?:(?P<comment>\#.*)|(?P<bare>[^\s'"`\#]+)
    |'(?P<single>(?:[^'\\]|\\.)*)'|"(?P<double>(?:[^"\\]|\\.)*)"|`(?P<name>(?:[^`\\]|\\.)*)`)(?=\s|$)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\", "'": "'", '"': '"', "`": "`"}
_UNSAFE = "\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff"
_BARE = re.compile(rf"""[^\s'"`#\\{_UNSAFE}]+""")

# NLTK's notation: the same, and the nonterminals that NLTK can read.
_NLTK_TOKEN = re.compile(
    r"""\s*(?:(?P<arrow>->)|(?P<bar>\|)|\[(?P<weight>[^\[\]]*)\]|'(?P<single>[^']*)'|"(?P<double>[^"]*)"
    |(?P<name>(?:(?!->)[^\s'"|\[\]\#])+))""",
    re.VERBOSE,
)
_NLTK_NAME = re.compile(r"(?!.*->)[\w/][\w/^<>-]*")
_NLTK_UNWRITABLE = re.compile("[\n\r\0\ud800-\udfff]")

# A token: its kind (bare, word or name; arrow, bar or weight) and its text.
_Token = tuple[str, str]


def read_grammar(path: str | Path, *, format: Format | None = None) -> WeightedGrammar:
    """Read a weighted grammar from a file (`-` is standard input, `.gz` allowed).

    Without `format` the first line decides: in the plain notation it begins with a number.
    """
    return _parse(read_lines(path), name_of(path), format)


def parse_grammar(text: str, name: str = "<text>", *, format: Format | None = None) -> WeightedGrammar:
    r"""Read a weighted grammar from a text; messages refer to it as `name`.

    Examples
    --------
    >>> grammar = parse_grammar("1.0 -> S\n 0.5 S -> S S\n -2.0 S -> 'ha'")
    >>> grammar.weight(["ha", "ha", "ha"])
    -4.0
    >>> parse_grammar("S -> S S [0.5] | 'ha' [-2.0]") == grammar
    True
    """
    return _parse(enumerate(text.removeprefix("\ufeff").split("\n"), 1), name, format)


def write_grammar(grammar: WeightedGrammar, path: str | Path, *, format: Format = "plain") -> None:
    """Write a weighted grammar to a file (`-` is standard output, `.gz` allowed), atomically.

    In NLTK's notation nonterminals that NLTK could not read are renamed, with `_` for invalid characters. NLTK reads
    the file if all weights are probabilities. A word that cannot be written raises `GrammarError`.
    """
    _check_format(format)
    with open_output(path) as stream:
        stream.writelines(f"{line}\n" for line in _lines(grammar, format))


def format_grammar(grammar: WeightedGrammar, *, format: Format = "plain") -> str:
    """Return the text that `write_grammar` writes."""
    _check_format(format)
    return "".join(f"{line}\n" for line in _lines(grammar, format))


def _check_format(format: str) -> None:
    if format not in FORMATS:
        raise UsageError(f"a notation of grammars is {' or '.join(FORMATS)}, not {format!r}")


def _lines(grammar: WeightedGrammar, format: Format) -> Iterator[str]:
    return _plain_lines(grammar) if format == "plain" else _nltk_lines(grammar)


def _parse(lines: Iterable[tuple[int, str]], source: str, format: Format | None) -> WeightedGrammar:
    if format is not None:
        _check_format(format)
    places = ((f"{source}:{number}", text.strip()) for number, text in lines)
    filled = ((place, text) for place, text in places if text and not text.startswith("#"))
    first = next(filled, None)
    if first is None:
        raise InputError(f"{source}: no rules; a grammar has lines like '0.7 S -> NP VP' or 'S -> NP VP [0.7]'")
    if format is None:
        format = "plain" if _number(first[1].split(maxsplit=1)[0]) is not None else "nltk"
    rules = (_parse_plain if format == "plain" else _parse_nltk)(chain([first], filled))
    try:
        return WeightedGrammar.from_rules(rules)
    except GrammarError as error:
        # Errors of a single rule already name its line.
        raise GrammarError(str(error) if str(error).startswith(f"{source}:") else f"{source}: {error}") from None


def _number(text: str) -> float | None:
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None


def _weight(text: str, place: str, remedy: str) -> float:
    weight = _number(text)
    if weight is None or not isfinite(weight):
        raise InputError(f"{place}: {_short(text)} is not a finite number; {remedy}")
    return weight


def _short(text: str) -> str:
    return repr(shortened(text))


def _parse_plain(lines: Iterable[tuple[str, str]]) -> Iterator[Rule]:
    # Texts without white space that are known to be whole tokens, None for arrows: most lines consist of these.
    known: dict[str, Symbol | None] = {}
    for place, text in lines:
        first, *parts = text.split()
        try:
            sides = [known[part] for part in parts]
        except KeyError:
            _, *tokens = _tokens(_TOKEN, text, place, _PLAIN_TOKENS)
            sides = [None if token == ("bare", _ARROW) else _symbol(token, place) for token in tokens]
            if len(parts) == len(sides):
                known.update(zip(parts, sides, strict=True))
        weight = _weight(first, place, _PLAIN_WEIGHT)
        if None not in sides[:2]:
            raise InputError(f"{place}: a line is 'weight parent -> children' or 'weight -> root', not {_short(text)}")
        at = sides.index(None)
        parent = sides[0] if at else None
        if parent is not None and parent.is_word:
            raise InputError(f"{place}: the word {_short(parent.name)} where a nonterminal belongs, without quotes")
        children = tuple(side for side in sides[at + 1 :] if side is not None)
        if len(children) < len(sides) - at - 1:
            raise InputError(f"{place}: a second '->'; put backquotes around it if it is a name")
        yield Rule(None if parent is None else parent.name, children, weight, place)


def _tokens(pattern: re.Pattern[str], text: str, place: str, remedy: str) -> list[_Token]:
    """Return the tokens of a line, without comments."""
    tokens: list[_Token] = []
    end = 0
    while end < len(text):
        match = pattern.match(text, end)
        if match is None:
            raise InputError(f"{place}: cannot read {_short(text[end:].strip())}; {remedy}")
        end = match.end()
        kind = str(match.lastgroup)
        if kind != "comment":
            tokens.append(("word" if kind in ("single", "double") else kind, match[kind]))
    return tokens


def _symbol(token: _Token, place: str) -> Symbol:
    kind, text = token
    if kind == "bare":
        if _ARROW in text:
            raise InputError(f"{place}: put spaces around the arrow in {_short(text)}, or backquotes around a name")
        return Symbol(text)

    def unescaped(match: re.Match[str]) -> str:
        if match[1]:
            return chr(int(match[1], 16))
        if match[2] not in _ESCAPED:
            raise InputError(f"{place}: \\{match[2]} means nothing in {_short(text)}; write a backslash as \\\\")
        return _ESCAPED[match[2]]

    return Symbol(_ESCAPE.sub(unescaped, text) if "\\" in text else text, is_word=kind == "word")


def _plain_lines(grammar: WeightedGrammar) -> Iterator[str]:
    names = [
        name if _BARE.fullmatch(name) and _ARROW not in name else _quoted(name, "`") for name in grammar.nonterminals
    ]
    yield "# A weighted grammar: weight -> root, weight parent -> left right, weight parent -> 'word'"
    for name, weight in zip(names, grammar.root.tolist(), strict=True):
        yield f"{weight!r} -> {name}"
    for (a, b, c), weight in zip(grammar.binary.places.tolist(), grammar.binary.values.tolist(), strict=True):
        yield f"{weight!r} {names[a]} -> {names[b]} {names[c]}"
    lexical = grammar.lexical.tocsc()
    parents, weights, begins = lexical.indices.tolist(), lexical.data.tolist(), lexical.indptr.tolist()
    for number, word in enumerate(grammar.words):
        quoted = _quoted(word, "'")
        for at in range(begins[number], begins[number + 1]):
            yield f"{weights[at]!r} {names[parents[at]]} -> {quoted}"
        if begins[number] == begins[number + 1]:
            yield f"0.0 {names[0]} -> {quoted}"


def _quoted(text: str, quote: str) -> str:
    def escaped(match: re.Match[str]) -> str:
        return f"\\{match[0]}" if match[0] in ("\\", quote) else f"\\u{ord(match[0]):04x}"

    return quote + re.sub(rf"[\\{quote}{_UNSAFE}]", escaped, text) + quote


def _parse_nltk(lines: Iterable[tuple[str, str]]) -> list[Rule]:
    rules: list[Rule] = []
    start, place = "", ""
    for place, text in _joined(lines):
        tokens = _tokens(_NLTK_TOKEN, text, place, _NLTK_TOKENS)
        if text.startswith("%"):
            if start or len(tokens) != 2 or tokens[0][1] != "%start" or tokens[1][0] != "name":
                remedy = "the only line that begins with % is '%start S', once"
                raise InputError(f"{place}: cannot read {_short(text)}; {remedy}")
            start = tokens[1][1]
            continue
        if len(tokens) < 2 or tokens[0][0] != "name" or tokens[1][0] != "arrow":
            raise InputError(f"{place}: a rule begins with a nonterminal and '->', as in 'S -> NP VP [0.7]'")
        rules += _alternatives(tokens[0][1], tokens[2:], place)
    if not rules:
        raise InputError(f"{place}: no rules; add some like 'S -> NP VP [0.7]'")
    start = start or str(rules[0].parent)
    if not any(rule.parent == start for rule in rules):
        raise InputError(f"{place}: there are no rules for {_short(start)}, the start")
    return _with_roots(rules, start)


def _joined(lines: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    r"""Yield lines, joining those that end in `\` with the next."""
    begun: tuple[str, str] | None = None
    for place, text in lines:
        if begun is not None:
            place, text = begun[0], f"{begun[1]} {text}"
        begun = (place, text[:-1]) if text.endswith("\\") else None
        if begun is None:
            yield place, text
    if begun is not None:
        yield begun


def _alternatives(parent: str, tokens: list[_Token], place: str) -> list[Rule]:
    """Return the rules of one line, from what follows its arrow."""
    rules: list[Rule] = []
    children: list[Symbol] = []
    weight: float | None = None
    for kind, text in [*tokens, ("bar", "|")]:
        if kind == "bar":
            rules.append(Rule(parent, tuple(children), 1.0 if weight is None else weight, place))
            children, weight = [], None
        elif kind == "arrow" or weight is not None:
            raise InputError(f"{place}: {_short(text)} after the weight or instead of it; put '|' between rules")
        elif kind == "weight":
            weight = _weight(text, place, _NLTK_WEIGHT)
        else:
            children.append(Symbol(text, is_word=kind == "word"))
    return rules


def _with_roots(rules: list[Rule], start: str) -> list[Rule]:
    """Return the rules and those of roots: a root for each rule of `start`, if it has no other use."""
    ours = [rule for rule in rules if rule.parent == start]
    if any(len(rule.children) != 1 or rule.children[0].is_word for rule in ours) or any(
        child == Symbol(start) for rule in rules for child in rule.children
    ):
        return [Rule(None, (Symbol(start),), 1.0), *rules]
    return [*(rule._replace(parent=None) for rule in ours), *(rule for rule in rules if rule.parent != start)]


def _nltk_lines(grammar: WeightedGrammar) -> Iterator[str]:
    words = [_nltk_word(word) for word in grammar.words]
    known = UniqueNames([name for name in grammar.nonterminals if _NLTK_NAME.fullmatch(name)])
    names = [name if _NLTK_NAME.fullmatch(name) else known.new(_nltk_name(name)) for name in grammar.nonterminals]
    roots = np.flatnonzero(grammar.root)
    lexical, begins = grammar.lexical, grammar.binary.rows
    has_rules = (np.diff(begins) > 0) | (np.diff(lexical.indptr) > 0)
    if len(roots) == 1 and grammar.root[roots[0]] == 1.0 and has_rules[roots[0]]:
        yield f"%start {names[roots[0]]}"
    else:
        start = known.new("ROOT")
        yield f"%start {start}"
        for at in roots if len(roots) else [0]:
            yield f"{start} -> {names[at]} [{_decimal(grammar.root[at])}]"
    for a, name in enumerate(names):
        for at in range(begins[a], begins[a + 1]):
            _, b, c = grammar.binary.places[at]
            yield f"{name} -> {names[b]} {names[c]} [{_decimal(grammar.binary.values[at])}]"
        for at in range(lexical.indptr[a], lexical.indptr[a + 1]):
            yield f"{name} -> {words[lexical.indices[at]]} [{_decimal(lexical.data[at])}]"


def _nltk_name(name: str) -> str:
    changed = re.sub(r"[^\w/^<>-]", "_", name).replace(_ARROW, "__")
    return changed if _NLTK_NAME.fullmatch(changed) else f"_{changed}"


def _nltk_word(word: str) -> str:
    if _NLTK_UNWRITABLE.search(word) or ("'" in word and '"' in word):
        raise GrammarError(
            f"the word {_short(word)} cannot be written in NLTK's notation, which has no escapes; "
            "write the grammar in the plain one"
        )
    return f'"{word}"' if "'" in word else f"'{word}'"


def _decimal(weight: float) -> str:
    """Return a number without exponent, which NLTK's notation lacks, exact to the last bit."""
    return np.format_float_positional(weight, trim="0")
