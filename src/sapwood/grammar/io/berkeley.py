"""BerkeleyParser grammars: import of its text files (`WriteGrammarToTextFile`) as `TensorGrammar`.

- `.grammar`: `A_i -> B_j C_k p` and `A_i -> B_j p`, one rule per line. The number after the last `_` is the state; the
  start symbol is `ROOT`. The unary rules are closed: the identity, one step, or the best path of two.
- `.lexicon`: `TAG word [p0, p1, ...]`, the probability of a word in each state of a tag. Signatures of unknown words
  are among the words, as `UNK` and `UNK-...`.
- `.splits`: `SYMBOL<TAB>(0 (0 0 1) (1 2))`, the tree of splits: leaves are states.

Nothing is repaired: any other line is an `InputError` with its location.

Rules become rules over chains of labels (`sapwood.grammar.io.unary_chains`), and the split trees become the levels used
for pruning. The parser's run-time treatment of words is done here once. With `c(x)` counts of tokens, it scores a word
by

    p(w | t) = p(t | w) p(w) / p(t)     p(t | w) = (c(t, w) + 0.1 p(t | rare)) / (c(w) + 0.1)

if the word was seen at most 100 times, with `p(t | rare)` the tag distribution of words seen at most 20 times; and an
unknown word by its signature. The dump has the scores of seen pairs, not the counts. But the grammar determines the
frequency of tags, and so `p(w)`; and the rarest words of any treebank were seen once, so counts are known up to the
effect of smoothing. The mass that the 0.1 gives to unseen pairs is then the back-off from a word to `UNK`
(`sapwood.grammar.emissions`), and `UNK` is a word with the tag distribution of rare words.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np

from sapwood.errors import GrammarError, InputError, UsageError, shortened
from sapwood.grammar.emissions import Emissions, offsets_of
from sapwood.grammar.io.unary_chains import Chain, ChainGrammar, UnaryGrammar, single_steps
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.runtime.progress import Progress, Silent
from sapwood.storage.files import COMPRESSED, name_of, read_lines
from sapwood.storage.shapes import Array, Float64, Int32, Int64
from sapwood.trees.formats.brackets import TOKENS
from sapwood.trees.lexicon.lexicon import Lexicon, canonical
from sapwood.trees.lexicon.signatures import BERKELEY_OTHER, UNKNOWN, BerkeleySignatures
from sapwood.trees.symbols import Symbol, SymbolTable, make_symbol
from sapwood.trees.transform import TreeTransform

# Words seen at most N times are smoothed, and determine the tags of unknown words.
_SMOOTHED = 100
_RARE = 20
_SMOOTHING = 0.1
# Minimum share of words that were seen once.
_ONCE = 0.1
# Tolerance of sums of probabilities: rules are in single precision.
_TOLERANCE = 1e-4

# Vectors by tag, for each word or signature.
_Rows: TypeAlias = dict[str, dict[str, np.ndarray]]
ROOT = "ROOT"
# Maximum number of states of a symbol, beyond any trained grammar; and maximum size of dense rule tables, per line of
# the file and in any case.
MOST_STATES = 4096
_DENSITY = 4000
_SMALL = 1 << 24
_STATE = re.compile(r"(.+)_([0-9]{1,6})")
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]{1,4})?")
_COLUMN = re.compile(r"\S+", re.ASCII)
_BLANKS = " \t\r\n\f\v"
_SPLIT_TOKEN = re.compile(r"[()]|[0-9]{1,6}|(?P<bad>\S)")
# Rounding can make sums slightly larger than 1.
_CERTAIN = 1 + 1e-6
# Maximum depth of the tree of splits.
_DEEPEST = 64
Rule = tuple[str, ...]


def import_berkeley(
    prefix: str | Path, *, min_expected_count: float = 1e-6, progress: Progress | None = None
) -> TensorGrammar:
    """Import a grammar that BerkeleyParser wrote as text.

    Parameters
    ----------
    prefix
        Common prefix of the file names: `PREFIX.grammar`, `PREFIX.lexicon` and, if present, `PREFIX.splits`; any of
        them can be compressed.
    min_expected_count
        Minimum expected count per tree of a rule over chains of labels.
    progress
        Progress reporter.
    """
    if not 0 < min_expected_count < 1:
        raise UsageError(f"how often a rule must be expected in a tree is between 0 and 1, not {min_expected_count}")
    progress = progress or Silent()
    dump = read_dump(prefix, progress=progress)
    unary = UnaryGrammar(dump.states, single_steps(dump.unary), dump.binary, dump.words.keys(), ROOT)
    folded = unary.fold(min_expected_count=min_expected_count, progress=progress)
    expected, _ = unary.expected()
    frequency = {tag: unary.part(expected, tag) for tag in dump.words}
    return TensorGrammar(
        symbols=SymbolTable(tuple(map(_symbol, folded.chains))),
        n_interminals=folded.n_interminals,
        states=folded.states,
        rules=folded.rules,
        tensors=folded.tensors,
        root=folded.root,
        emissions=_emissions(dump.words, frequency, folded),
        probabilistic=True,
        occupancy=folded.occupancy,
        rule_counts=folded.rule_counts,
        levels=_levels(dump, folded),
        transform=TreeTransform(direction="left"),
        info={
            "method": "imported from BerkeleyParser",
            "least": min_expected_count,
            "tokeniser": {"rewrite": True, "split_hyphens": False},
        },
    ).validate(_TOLERANCE)


def _symbol(chain: Chain) -> Symbol:
    """Return the symbol of a chain; labels after a `^` are ancestors."""
    if chain[-1].startswith("@") and len(chain[-1]) > 1:
        return make_symbol((chain[-1][1:],), intermediate=True)
    parts = [label.split("^") if label.strip("^") else [label] for label in chain]
    return make_symbol(tuple(labels[0] for labels in parts), tuple(parts[0][1:]))


def _levels(dump: BerkeleyDump, folded: ChainGrammar) -> tuple[Int32[Array, "all_states"], ...]:
    """Return the splits as levels, the coarsest first, skipping levels that distinguish no states."""
    depth = max((len(levels) for levels in dump.levels.values()), default=0)
    found = []
    for number in range(depth):
        parts = [np.zeros(0, np.int64)]
        for chain in folded.chains:
            levels = dump.levels.get(chain[-1])
            alike = np.zeros(dump.states[chain[-1]], np.int64)
            parts.append(alike if levels is None else levels[min(number, len(levels) - 1)])
        found.append(np.concatenate(parts).astype(np.int32))
    return tuple(level for level in found if level.any())


def _emissions(
    words: Mapping[str, Mapping[str, Float64[Array, "m_a"]]],
    frequency: Mapping[str, Float64[Array, "m_a"]],
    folded: ChainGrammar,
) -> Emissions:
    """Return lexical weights: those of the dump, and those that the parser computes at run time."""
    known, signatures = _by_terminal(words)
    often = {tag: vector / sum(part.sum() for part in frequency.values()) for tag, vector in frequency.items()}
    shares = {word: sum(vector @ often[tag] for tag, vector in rows.items()) for word, rows in known.items()}
    once = float(np.quantile(list(shares.values()), _ONCE)) if shares else 0.0
    if not once > 0:
        raise GrammarError("the words of the lexicon have no probability")
    counts = {word: share / once for word, share in sorted(shares.items(), key=lambda item: -item[1])}
    unknown = _unknown(known, counts, words)
    taken = {
        word: _SMOOTHING * count / (count + _SMOOTHING) if count <= _SMOOTHED else 0.0 for word, count in counts.items()
    }
    for word, rows in known.items():
        for tag, vector in rows.items():
            rows[tag] = np.maximum(vector - taken[word] * unknown.get(tag, 0.0), 0.0)
    names = [*sorted(signatures), UNKNOWN]
    lexicon = Lexicon(
        words=list(counts),
        signatures=names,
        parent=np.full(len(names), len(names) - 1, np.int32),
        word_signature=np.full(len(counts), len(names) - 1, np.int32),
        model=BerkeleySignatures(),
    )
    rows_of = [known[word] for word in counts] + [signatures[name] for name in names[:-1]] + [unknown]
    return _arranged(rows_of, np.array([*taken.values(), *[1.0] * len(names)]), lexicon, folded)


def _by_terminal(words: Mapping[str, Mapping[str, np.ndarray]]) -> tuple[_Rows, _Rows]:
    """Return the vectors of known words, and of signatures, by tag."""
    known: _Rows = defaultdict(dict)
    signatures: _Rows = defaultdict(dict)
    for tag in sorted(words):
        for word, vector in words[tag].items():
            if word == UNKNOWN or word.startswith(f"{UNKNOWN}-"):
                signatures[BERKELEY_OTHER if word == UNKNOWN else word][tag] = vector
            else:
                rows = known[canonical(TOKENS.read(word))]
                rows[tag] = rows.get(tag, 0.0) + vector
    return known, signatures


def _unknown(known: _Rows, counts: Mapping[str, float], tags: Iterable[str]) -> dict[str, np.ndarray]:
    """Return the vectors of a word with the tag distribution of rare words."""
    rare = [word for word, count in counts.items() if count <= _RARE]
    total = sum(counts[word] for word in rare)
    found = {}
    for tag in tags:
        vectors = [known[word][tag] for word in rare if tag in known[word]]
        if vectors:
            found[tag] = np.sum(vectors, axis=0) / total
    return found


def _arranged(
    rows: Sequence[Mapping[str, np.ndarray]],
    backoff: Float64[Array, "terminals"],
    lexicon: Lexicon,
    folded: ChainGrammar,
) -> Emissions:
    """Return emissions with these vectors by terminal and tag, normalised for each state."""
    chains = folded.chains[folded.n_interminals :]
    owner: dict[str, int] = {}
    for place, chain in enumerate(chains):
        owner.setdefault(chain[-1], place)
    tags = sorted(owner)
    number = {tag: place for place, tag in enumerate(tags)}
    states = folded.states[folded.n_interminals :]
    entries = [[(owner[tag], row[tag]) for tag in tags if tag in row] for row in rows]
    emissions = Emissions(
        lexicon=lexicon,
        states=states,
        offsets=offsets_of(np.array([len(found) for found in entries])),
        symbol=np.array([symbol for found in entries for symbol, _ in found], np.int32),
        values=np.concatenate([np.zeros(0), *(vector for found in entries for _, vector in found)]),
        backoff=backoff,
        climb=np.zeros(len(lexicon.signatures)),
        tags=tags,
        tag_of=np.array([number[chain[-1]] for chain in chains], np.int32),
        share=np.zeros(int(states.sum())),
        tag_offsets=np.zeros(lexicon.n_terminals + 1, np.int64),
        tag=np.zeros(0, np.int32),
        tag_values=np.zeros(0),
        emitter=np.array([owner[chain[-1]] for chain in chains], np.int32),
    )
    totals = emissions.totals()
    if not (totals > 0).all():
        tag = chains[int(emissions.symbol_of_state[int(np.argmin(totals > 0))])][-1]
        raise GrammarError(f"a state of the tag {tag} has no words")
    sizes = states[emissions.symbol]
    begins = np.repeat(emissions.state_offsets[emissions.symbol] - emissions.value_offsets[:-1], sizes)
    return replace(emissions, values=emissions.values / totals[begins + np.arange(len(begins))])


@dataclass(frozen=True, eq=False)
class BerkeleyDump:
    """Contents of the files, by symbol name.

    Attributes
    ----------
    states
        Number of states of each symbol.
    unary, binary
        Probabilities of `(A, B)` and `(A, B, C)` by their states. Identities are skipped.
    words
        For each tag, the vectors of its words and signatures.
    levels
        For each symbol, by depth from the top, the group of each state: non-decreasing integers.
    """

    states: Mapping[str, int]
    unary: Mapping[tuple[str, str], Float64[Array, "m_a m_b"]]
    binary: Mapping[tuple[str, str, str], Float64[Array, "m_a m_b m_c"]]
    words: Mapping[str, Mapping[str, Float64[Array, "m_a"]]]
    levels: Mapping[str, Int64[Array, "depths m_a"]]


def find_parts(prefix: str | Path) -> dict[str, Path]:
    """Return the files of a grammar by extension; `.splits` is optional.

    `prefix` is the common prefix of their names, or the name of one of them.
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
            raise InputError(f"{source}: {rule[0]} -> {' '.join(rule[1:])}: the start symbol {ROOT} cannot be a child")
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
    """Return the columns of a line, separated by ASCII white space: a no-break space is part of a word."""
    return _COLUMN.findall(line)


class Rules:
    """Rules as they are read, with their states and probabilities."""

    def __init__(self) -> None:
        self.states: dict[str, int] = {}
        self.found: dict[Rule, tuple[list[tuple[int, ...]], list[float]]] = {}

    def tables(self, symbols: int) -> Iterator[tuple[Rule, Float64[Array, "..."]]]:
        """Yield the dense tables of rules with the given number of symbols."""
        for rule, (places, values) in self.found.items():
            if len(rule) == symbols:
                table = np.zeros([self.states[symbol] for symbol in rule])
                table[tuple(np.array(places).T)] = values
                yield rule, table


def read_rules(
    path: Path, step: Callable[[], None], *, signed: bool = False, states: Mapping[str, int] | None = None
) -> Rules:
    """Read a `.grammar` file; its numbers are probabilities, or with `signed` any numbers.

    The number of states of each symbol follows from the rules, or is given by `states`.
    """
    source = name_of(path)
    rules = Rules()
    rules.states.update(states or {})
    known: dict[str, tuple[str, int]] = {}

    def state(text: str, place: str) -> tuple[str, int]:
        match = _STATE.fullmatch(text)
        if match is None:
            raise InputError(f"{place}: {shortened(text)!r} is not a state such as NP_3")
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
            twice = next(at for at, count in Counter(places).items() if count > 1)
            parent, *children = (f"{symbol}_{number}" for symbol, number in zip(rule, twice, strict=True))
            raise InputError(f"{source}: the rule {parent} -> {' '.join(children)} occurs twice")
    return rules


def number_of(text: str, place: str, signed: bool) -> float:
    """Parse a probability, or with `signed` any number; `place` is its location in the file."""
    value = float(text) if _NUMBER.fullmatch(text) else math.nan
    if not math.isfinite(value) or not (signed or 0 <= value <= _CERTAIN):
        raise InputError(f"{place}: {shortened(text)!r} is not a {'finite number' if signed else 'probability'}")
    return value


def read_words(
    path: Path, states: Mapping[str, int], step: Callable[[], None], *, signed: bool = False
) -> dict[str, dict[str, Float64[Array, "m_a"]]]:
    """Read a `.lexicon` file, given the number of states of its tags; for `signed` see `read_rules`."""
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
            raise InputError(f"{place}: the word {shortened(word)!r} of {tag} occurs twice")
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
            continue  # a symbol without rules
        if [leaf for leaf, _ in leaves] != list(range(states[symbol])):
            raise InputError(
                f"{place}: the leaves are not the states 0 to {states[symbol] - 1} of {symbol} in the grammar, in order"
            )
        depth = max(len(way) for _, way in leaves)
        # States that were split less often stay together at greater depths.
        ways = [(*way, *[way[-1]] * (depth - len(way))) for _, way in leaves]
        found[symbol] = np.array([np.cumsum([0, *(np.diff(column) != 0)]) for column in zip(*ways, strict=True)])
    return found


def _split_leaves(text: str, place: str) -> list[tuple[int, tuple[int, ...]]]:
    """Return the leaves of a tree of splits, each with the indices of its ancestors."""
    leaves: list[tuple[int, tuple[int, ...]]] = []
    # Each node gets its own index: labels repeat.
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
