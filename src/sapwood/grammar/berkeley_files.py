"""Reading the text that BerkeleyParser writes of a grammar (`WriteGrammarToTextFile`): three files.

- `.grammar`: `A_i -> B_j C_k p` and `A_i -> B_j p`, a rule a line. The number behind the last `_` is the state, and the
  start symbol is `ROOT`. The unary rules are closed: the identity, one step, or the best path of two.
- `.lexicon`: `TAG word [p0, p1, ...]`, the probability of a word in each state of a tag. Signatures of unknown words
  are among the words, as `UNK` and `UNK-...`.
- `.splits`: `SYMBOL<TAB>(0 (0 0 1) (1 2))`, which states come from which: leaves are states.

Nothing is repaired: a line that is not like that is an `InputError` with its place.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sapwood.errors import InputError, shortened
from sapwood.files import COMPRESSED, name_of, read_lines
from sapwood.run.progress import Progress, Silent
from sapwood.shapes import Array, Float64, Int64

ROOT = "ROOT"
# More states than this have no symbol of any grammar that was ever trained; and dense tables of rules may have no more
# than so many weights for each line of the file, and so many in any case.
MOST_STATES = 4096
_DENSITY = 4000
_SMALL = 1 << 24
_STATE = re.compile(r"(.+)_([0-9]{1,6})")
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]{1,4})?")
_COLUMN = re.compile(r"\S+", re.ASCII)
_BLANKS = " \t\r\n\f\v"
_SPLIT_TOKEN = re.compile(r"[()]|[0-9]{1,6}|(?P<bad>\S)")
# Rounding in sums may lead a little beyond 1.
_CERTAIN = 1 + 1e-6
# How far the tree of splits may go down.
_DEEPEST = 64

Rule = tuple[str, ...]


@dataclass(frozen=True, eq=False)
class BerkeleyDump:
    """What the files say, by the names of symbols.

    Attributes
    ----------
    states
        How many states each symbol has.
    unary, binary
        Probabilities of `(A, B)` and `(A, B, C)` by their states. Identities are left out.
    words
        For each tag, the vectors of its words and signatures.
    levels
        For each symbol, by depth from the top, the group of each state: whole numbers that do not fall.
    """

    states: Mapping[str, int]
    unary: Mapping[tuple[str, str], Float64[Array, "m_a m_b"]]
    binary: Mapping[tuple[str, str, str], Float64[Array, "m_a m_b m_c"]]
    words: Mapping[str, Mapping[str, Float64[Array, "m_a"]]]
    levels: Mapping[str, Int64[Array, "depths m_a"]]


def find_parts(prefix: str | Path) -> dict[str, Path]:
    """Return the files of a grammar by their endings; `.splits` need not be there.

    `prefix` is what their names have in common, or the name of one of them.
    """
    stem = str(prefix)
    for packed in COMPRESSED:
        stem = stem.removesuffix(packed)
    for ending in (".grammar", ".lexicon", ".splits"):
        stem = stem.removesuffix(ending)
    found = {}
    for ending in (".grammar", ".lexicon", ".splits"):
        names = [Path(stem + ending + packed) for packed in ("", *COMPRESSED)]
        there = [name for name in names if name.is_file()]
        if there:
            found[ending] = there[0]
        elif ending != ".splits":
            raise InputError(f"{names[0]}: no such file (nor {', '.join(packed for packed in COMPRESSED)} of it)")
    return found


def read_dump(prefix: str | Path, *, progress: Progress | None = None) -> BerkeleyDump:
    """Read the files of a grammar; see `find_parts` for `prefix`."""
    parts = find_parts(prefix)
    progress = progress or Silent()
    with progress.stage("reading", None, "lines") as stage:
        rules = read_rules(parts[".grammar"], stage.step)
        words = read_words(parts[".lexicon"], rules.states, stage.step)
    source = name_of(parts[".grammar"])
    if ROOT not in rules.states:
        raise InputError(f"{source}: no rule of the start symbol, {ROOT}_0")
    if rules.states[ROOT] != 1:
        raise InputError(f"{source}: the start symbol {ROOT} has {rules.states[ROOT]} states, not one")
    for rule in rules.found:
        if ROOT in rule[1:]:
            raise InputError(f"{source}: {rule[0]} -> {' '.join(rule[1:])}: the start symbol {ROOT} is no child")
        if len(rule) == 2 and any(symbol.startswith("@") for symbol in rule):
            raise InputError(f"{source}: {rule[0]} -> {rule[1]}: an intermediate symbol, @..., has no unary rule")
    for tag in words:
        if any(rule[0] == tag for rule in rules.found):
            raise InputError(f"{source}: {tag} has both rules and words; a symbol is either a phrase's or a tag")
    levels = read_splits(parts[".splits"], rules.states) if ".splits" in parts else {}
    return BerkeleyDump(
        states=rules.states,
        unary={(a, b): array for (a, b), array in rules.tables(2)},
        binary={(a, b, c): array for (a, b, c), array in rules.tables(3)},
        words=words,
        levels=levels,
    )


def columns_of(line: str) -> list[str]:
    """Return the columns of a line, which stand apart by ASCII white space: a no-break space is part of a word."""
    return _COLUMN.findall(line)


class Rules:
    """Rules as they are read: for each, its states and probabilities."""

    def __init__(self) -> None:
        self.states: dict[str, int] = {}
        self.found: dict[Rule, tuple[list[tuple[int, ...]], list[float]]] = {}

    def tables(self, symbols: int) -> Iterator[tuple[Rule, Float64[Array, "..."]]]:
        """Yield the dense tables of rules with so many symbols."""
        for rule, (places, values) in self.found.items():
            if len(rule) == symbols:
                table = np.zeros([self.states[symbol] for symbol in rule])
                table[tuple(np.array(places).T)] = values
                yield rule, table


def read_rules(
    path: Path, step: Callable[[], None], *, signed: bool = False, states: Mapping[str, int] | None = None
) -> Rules:
    """Read a `.grammar` file; its numbers are probabilities, or with `signed` any.

    How many states symbols have follows from the rules, or is given by `states`.
    """
    source = name_of(path)
    rules = Rules()
    rules.states.update(states or {})
    known: dict[str, tuple[str, int]] = {}

    def state(text: str, place: str) -> tuple[str, int]:
        match = _STATE.fullmatch(text)
        if match is None:
            raise InputError(f"{place}: {shortened(text)!r} is no state, as NP_3 is one")
        symbol, number = match[1], int(match[2])
        most = MOST_STATES if states is None else states.get(symbol, 0)
        if number >= most:
            raise InputError(f"{place}: state {number} of {symbol}, which has at most {most} states")
        rules.states[symbol] = max(rules.states.get(symbol, 1), number + 1)
        return known.setdefault(text, (symbol, number))

    lines = 0
    for number, line in read_lines(path):
        columns = columns_of(line)
        if not columns:
            continue
        place = f"{source}:{number}"
        if len(columns) not in (4, 5) or columns[1] != "->":
            raise InputError(
                f"{place}: a line is 'A_0 -> B_0 C_0 p' or 'A_0 -> B_0 p', not {shortened(line.strip())!r}"
            )
        sides = [known.get(name) or state(name, place) for name in (columns[0], *columns[2:-1])]
        probability = number_of(columns[-1], place, signed)
        lines += 1
        step()
        if len(sides) == 2 and sides[0] == sides[1]:
            continue
        places, values = rules.found.setdefault(tuple(symbol for symbol, _ in sides), ([], []))
        places.append(tuple(number for _, number in sides))
        values.append(probability)
    if not rules.found and states is None:
        raise InputError(f"{source}: no rules in it")
    weights = sum(math.prod(rules.states[symbol] for symbol in rule) for rule in rules.found)
    if weights > max(_SMALL, _DENSITY * lines):
        raise InputError(f"{source}: its states have room for {weights:.3g} weights, and there are {lines} lines")
    for rule, (places, _) in rules.found.items():
        if len(set(places)) < len(places):
            twice = next(at for index, at in enumerate(places) if at in places[:index])
            parent, *children = (f"{symbol}_{number}" for symbol, number in zip(rule, twice, strict=True))
            raise InputError(f"{source}: the rule {parent} -> {' '.join(children)} is there twice")
    return rules


def number_of(text: str, place: str, signed: bool) -> float:
    """Return a probability, or with `signed` any number, that stands at this place of a file."""
    value = float(text) if _NUMBER.fullmatch(text) else math.nan
    if not math.isfinite(value) or not (signed or 0 <= value <= _CERTAIN):
        raise InputError(f"{place}: {shortened(text)!r} is no {'finite number' if signed else 'probability'}")
    return value


def read_words(
    path: Path, states: Mapping[str, int], step: Callable[[], None], *, signed: bool = False
) -> dict[str, dict[str, Float64[Array, "m_a"]]]:
    """Read a `.lexicon` file, given how many states its tags have; for `signed` see `read_rules`."""
    source = name_of(path)
    found: dict[str, dict[str, np.ndarray]] = {}
    for number, line in read_lines(path):
        if not _COLUMN.search(line):
            continue
        place = f"{source}:{number}"
        before, bracket, after = line.rstrip(_BLANKS).rpartition("[")
        columns = columns_of(before)
        if len(columns) != 2 or not bracket or not after.endswith("]"):
            raise InputError(f"{place}: a line is 'TAG word [p0, p1, ...]', not {shortened(line.strip())!r}")
        tag, word = columns
        values = [number_of(value.strip(_BLANKS), place, signed) for value in after[:-1].split(",")]
        if tag not in states:
            raise InputError(f"{place}: no rule of the grammar has the tag {tag}")
        if len(values) != states[tag]:
            raise InputError(f"{place}: {len(values)} probabilities, and the grammar has {states[tag]} states of {tag}")
        if word in found.setdefault(tag, {}):
            raise InputError(f"{place}: the word {shortened(word)!r} of {tag} is there twice")
        found[tag][word] = np.array(values)
        step()
    if not found:
        raise InputError(f"{source}: no words in it")
    return found


def read_splits(path: Path, states: Mapping[str, int]) -> dict[str, Int64[Array, "depths m_a"]]:
    """Read a `.splits` file: for each symbol, by depth from the top, the group of each state."""
    source = name_of(path)
    found: dict[str, np.ndarray] = {}
    for number, line in read_lines(path):
        if not line.strip():
            continue
        symbol, tab, text = line.rstrip().partition("\t")
        place = f"{source}:{number}"
        if not tab:
            raise InputError(f"{place}: a line is 'SYMBOL<TAB>(0 (0 0 1) (1 2))', not {shortened(line.strip())!r}")
        leaves = _split_leaves(text, place)
        if symbol not in states:
            continue  # a symbol that no rule has
        if [leaf for leaf, _ in leaves] != list(range(states[symbol])):
            raise InputError(
                f"{place}: the leaves are not the states 0 to {states[symbol] - 1} of {symbol} in the grammar, in order"
            )
        depth = max(len(way) for _, way in leaves)
        # States that were not split so often stay together at the depths below.
        ways = [(*way, *[way[-1]] * (depth - len(way))) for _, way in leaves]
        found[symbol] = np.array([np.cumsum([0, *(np.diff(column) != 0)]) for column in zip(*ways, strict=True)])
    return found


def _split_leaves(text: str, place: str) -> list[tuple[int, tuple[int, ...]]]:
    """Return the leaves of a tree of splits, each with the numbers of the nodes that it is below."""
    leaves: list[tuple[int, tuple[int, ...]]] = []
    # Each node gets a number of its own: labels repeat.
    above: list[int] = []
    opened, label_next, is_over = 0, False, False
    for match in _SPLIT_TOKEN.finditer(text):
        token = match[0]
        wrong = match["bad"] is not None or is_over or (label_next and not token.isdigit())
        if wrong or (token == ")" and not above) or len(above) > _DEEPEST:
            raise InputError(
                f"{place}: a tree of splits is like (0 (0 0 1) (1 2)); not so from {text[match.start() :][:40]!r}"
            )
        if token == "(":
            above.append(opened)
            opened += 1
            label_next = True
        elif token == ")":
            above.pop()
            is_over = not above
        elif label_next:
            label_next = False
        else:
            leaves.append((int(token), tuple(above)))
    if not is_over or not leaves:
        raise InputError(f"{place}: a tree of splits that does not end, or has no leaves: {shortened(text.strip())!r}")
    return leaves
