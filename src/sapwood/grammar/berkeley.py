"""Grammars of BerkeleyParser as models.

Rules become rules over chains of labels (`sapwood.grammar.chains`), and the trees of splits the levels that prune. What
the parser does at run time for words is done here once. With `c(x)` counts of tokens, it scores a word by

    p(w | t) = p(t | w) p(w) / p(t)     p(t | w) = (c(t, w) + 0.1 p(t | rare)) / (c(w) + 0.1)

if the word was seen at most 100 times, with `p(t | rare)` how the words seen at most 20 times are tagged; and an
unknown word by its signature. The dump has the scores of pairs that were seen, not the counts. But the grammar says how
frequent tags are, and so `p(w)`; and the rarest words of any treebank were seen once, so counts are known up to what
smoothing did to them. What the 0.1 gives to pairs that were not seen is then the back-off from a word to `UNK`
(`sapwood.grammar.emissions`), and `UNK` is a word that is tagged as the rare ones are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import numpy as np

from sapwood.errors import GrammarError, UsageError
from sapwood.grammar.berkeley_files import ROOT, BerkeleyDump, read_dump
from sapwood.grammar.chains import Chain, ChainGrammar, UnaryGrammar, single_steps
from sapwood.grammar.emissions import Emissions, offsets_of
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.run.progress import Progress, Silent
from sapwood.shapes import Array, Float64, Int32
from sapwood.trees.brackets import TOKENS
from sapwood.trees.lexicon import Lexicon, canonical
from sapwood.trees.signatures import BERKELEY_OTHER, UNKNOWN, BerkeleySignatures
from sapwood.trees.symbols import Symbol, SymbolTable, make_symbol
from sapwood.trees.transform import TreeTransform

# Words seen at most so often are smoothed, and say how unknown words are tagged.
_SMOOTHED = 100
_RARE = 20
_SMOOTHING = 0.1
# The part of all words that were seen but once, at least.
_ONCE = 0.1
# Of sums of probabilities: rules are in single precision.
_TOLERANCE = 1e-4

# Vectors by tag, of each word or signature.
_Rows: TypeAlias = dict[str, dict[str, np.ndarray]]


def import_berkeley(prefix: str | Path, *, least: float = 1e-6, progress: Progress | None = None) -> TensorGrammar:
    """Return the grammar that BerkeleyParser wrote as text.

    Parameters
    ----------
    prefix
        What the names of the files have in common: `PREFIX.grammar`, `PREFIX.lexicon` and, if it is there,
        `PREFIX.splits`; any of them can be compressed.
    least
        How often a rule over chains of labels must be expected in a tree.
    progress
        What is told of the work.
    """
    if not 0 < least < 1:
        raise UsageError(f"how often a rule must be expected in a tree is between 0 and 1, not {least}")
    progress = progress or Silent()
    dump = read_dump(prefix, progress=progress)
    unary = UnaryGrammar(dump.states, single_steps(dump.unary), dump.binary, dump.words.keys(), ROOT)
    folded = unary.fold(least=least, progress=progress)
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
            "least": least,
            "tokeniser": {"rewrite": True, "split_hyphens": False},
        },
    ).validate(_TOLERANCE)


def _symbol(chain: Chain) -> Symbol:
    """Return the symbol of a chain; what is behind a `^` in a label are ancestors."""
    if chain[-1].startswith("@") and len(chain[-1]) > 1:
        return make_symbol((chain[-1][1:],), intermediate=True)
    parts = [label.split("^") if label.strip("^") else [label] for label in chain]
    return make_symbol(tuple(labels[0] for labels in parts), tuple(parts[0][1:]))


def _levels(dump: BerkeleyDump, folded: ChainGrammar) -> tuple[Int32[Array, "all_states"], ...]:
    """Return the splits as levels, the coarsest first, without those that tell no states apart."""
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
    """Return lexical weights: those of the dump, and what it leaves to the parser."""
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
    """Return the vectors of a word that is tagged as those are that were seen but rarely."""
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
    """Return emissions of these vectors by terminal and tag, such that those of a state sum to 1."""
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
