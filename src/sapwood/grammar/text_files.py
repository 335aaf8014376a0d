r"""A grammar as text that people and other programs can read, and back.

Four files in the form of BerkeleyParser's (`sapwood.grammar.berkeley_files`), and one of what it has no place for:

- `.grammar`: `A_0 -> B_1 C_0 0.25`, each weight of a rule that is not zero, and `ROOT_0 -> A_0 0.9`, those of roots.
- `.lexicon`: `TAG word [0.1, 0.2]`, what each state of a preterminal gives a word. Signatures of unknown words are in
  angle brackets. Preterminals that emit words alike (`NN`, `NP|NN`) stand there once. Of a word that leans on its
  signature, these are the weights with that.
- `.words`: `word <signature> 0.01`, how much of its signature's weights a word takes for preterminals that it was not
  seen with.
- `.counts`: `A_0 12.5` and `A -> B C 3.0`, how often states and rules are expected in the training trees.
- `.json`: symbols and what they stand for, signatures, levels, how trees were prepared.

There are no unary rules but those of roots, for symbols stand for chains of labels. White space in a name or a word is
written as a code (`sapwood.trees.codes`). `read_text` in `sapwood.grammar.text_reading` gives the same weights back,
those of words up to rounding. A layer or a network is not written.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, Literal, TypedDict

import numpy as np

from sapwood.files import open_output
from sapwood.grammar.emissions import Emissions
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.run.progress import Progress, Silent
from sapwood.trees.brackets import TOKENS
from sapwood.trees.codes import Codes, code
from sapwood.trees.signatures import SignatureModel

FORMAT = "sapwood grammar"
VERSION = 1
_NAMES = Codes(r"\s")


class SymbolEntry(TypedDict):
    """A symbol: how it is written and named, what it stands for, and under which symbol its words are."""

    name: str
    symbol: str
    labels: list[str]
    ancestors: list[str]
    siblings: list[list[str]]
    intermediate: bool
    leaf: bool
    states: int
    words: str


class SignatureEntry(TypedDict):
    """A signature of unknown words, and how much it takes of a coarser one."""

    name: str
    parent: int
    climb: float
    backoff: float


class About(TypedDict):
    """What the `.json` file says."""

    format: str
    version: int
    start: str
    probabilistic: bool
    dtype: Literal["float32", "float64"]
    symbols: list[SymbolEntry]
    # Of each level, the numbers of the states' groups from 1; 0 for those left out.
    levels: list[list[int]]
    signatures: list[SignatureEntry]
    scheme: Literal["learned", "berkeley"]
    endings: list[str]
    beginnings: list[str]
    classes: dict[str, list[int]]
    normaliser: dict[str, Any]
    transform: dict[str, Any]
    info: dict[str, Any]


def write_text(grammar: TensorGrammar, prefix: str | Path, *, progress: Progress | None = None) -> list[Path]:
    """Write a grammar as text: files whose names begin with `prefix`, each whole or not at all; returns them."""
    names, start = _written_names(grammar)
    about = _about(grammar, names, start)
    kinds: dict[str, Callable[[], Iterator[str]]] = {
        ".grammar": lambda: _rule_lines(grammar, names, start),
        ".lexicon": lambda: _word_lines(grammar.emissions, names[grammar.n_interminals :]),
        ".words": lambda: _backoff_lines(grammar.emissions),
        ".counts": lambda: _count_lines(grammar, names),
        ".json": lambda: iter(json.dumps(about, ensure_ascii=False, indent=1).split("\n")),
    }
    with (progress or Silent()).stage("writing", None, "lines") as stage:
        for ending, lines in kinds.items():
            with open_output(f"{prefix}{ending}") as stream:
                for line in lines():
                    stream.write(line + "\n")
                    stage.step()
    return [Path(f"{prefix}{ending}") for ending in kinds]


def _written_names(grammar: TensorGrammar) -> tuple[list[str], str]:
    """Return how each symbol is written, no two alike, and what stands for the start of a tree."""
    taken: set[str] = set()
    names = []
    for symbol in grammar.symbols:
        name = _NAMES.write(symbol)
        while name in taken:  # a phrase's label that is a tag, too
            name += "'"
        taken.add(name)
        names.append(name)
    return names, next(start for number in count() if (start := "ROOT" + "'" * number) not in taken)


def _about(grammar: TensorGrammar, names: Sequence[str], start: str) -> About:
    emissions, inner = grammar.emissions, grammar.n_interminals
    shown = _shown(emissions, names[inner:])
    symbols = []
    for number, (symbol, name) in enumerate(zip(grammar.symbols, names, strict=True)):
        labels, ancestors, siblings, intermediate = symbol.parts
        words = "" if number < inner else names[inner + shown[number - inner]]
        symbols.append(
            SymbolEntry(
                name=name,
                symbol=str(symbol),
                labels=list(labels),
                ancestors=list(ancestors),
                siblings=[list(chain) for chain in siblings],
                intermediate=intermediate,
                leaf=number >= inner,
                states=int(grammar.states[number]),
                words=words,
            )
        )
    lexicon, model = grammar.lexicon, grammar.lexicon.model
    learned = isinstance(model, SignatureModel)
    signatures = [
        SignatureEntry(name=name, parent=parent, climb=climb, backoff=backoff)
        for name, parent, climb, backoff in zip(
            lexicon.signatures,
            lexicon.parent.tolist(),
            emissions.climb.tolist(),
            emissions.backoff[lexicon.n_words :].tolist(),
            strict=True,
        )
    ]
    return {
        "format": FORMAT,
        "version": VERSION,
        "start": start,
        "probabilistic": grammar.probabilistic,
        "dtype": "float32" if grammar.tensors.dtype == np.float32 else "float64",
        "symbols": symbols,
        "levels": [(level + 1).tolist() for level in grammar.levels],
        "signatures": signatures,
        "scheme": "learned" if learned else "berkeley",
        "endings": sorted(model.endings) if isinstance(model, SignatureModel) else [],
        "beginnings": sorted(model.beginnings) if isinstance(model, SignatureModel) else [],
        "classes": {} if lexicon.classes is None else lexicon.classes.to_dict(),
        "normaliser": grammar.normaliser.to_dict(),
        "transform": grammar.transform.to_dict(),
        "info": dict(grammar.info),
    }


def _shown(emissions: Emissions, names: Sequence[str]) -> list[int]:
    """Return, for each preterminal, the one with the same words that has the shortest name: `NN` for `NP|NN`."""
    emitter = range(len(names)) if emissions.emitter is None else emissions.emitter.tolist()
    best: dict[int, int] = {}
    for number, owner in enumerate(emitter):
        if owner not in best or len(names[number]) < len(names[best[owner]]):
            best[owner] = number
    return [best[owner] for owner in emitter]


def _rule_lines(grammar: TensorGrammar, names: Sequence[str], start: str) -> Iterator[str]:
    states = [[f"{name}_{state}" for state in range(size)] for name, size in zip(names, grammar.states, strict=True)]
    every = [state for symbol in states for state in symbol]
    for place in np.flatnonzero(grammar.root).tolist():
        yield f"{start}_0 -> {every[place]} {grammar.root[place]!s}"
    for rule, (a, b, c) in enumerate(grammar.rules.tolist()):
        tensor = grammar.tensor(rule)
        places = np.nonzero(tensor)
        values = tensor[places].astype(str).tolist()
        for i, j, k, value in zip(*(axis.tolist() for axis in places), values, strict=True):
            yield f"{states[a][i]} -> {states[b][j]} {states[c][k]} {value}"
        if not values:  # it is there, if only to be nothing
            yield f"{states[a][0]} -> {states[b][0]} {states[c][0]} 0.0"


def _word_lines(emissions: Emissions, names: Sequence[str]) -> Iterator[str]:
    lexicon = emissions.lexicon
    n_words = lexicon.n_words
    # A signature is itself here, whatever part of it an unknown word takes.
    plain = np.concatenate([emissions.backoff[:n_words], np.ones(len(lexicon.signatures))])
    emissions = replace(emissions, backoff=plain)
    written = [_written_word(word) for word in lexicon.words]
    written += [written_signature(signature) for signature in lexicon.signatures]
    terminal = np.repeat(np.arange(lexicon.n_terminals), np.diff(emissions.offsets))
    tag_terminal = np.repeat(np.arange(lexicon.n_terminals), np.diff(emissions.tag_offsets))
    shown = _shown(emissions, names)
    for number in sorted(set(shown)):
        owner = number if emissions.emitter is None else int(emissions.emitter[number])
        seen = np.zeros(lexicon.n_terminals, bool)
        seen[terminal[emissions.symbol == owner]] = True
        if emissions.share[emissions.state_offsets[owner] : emissions.state_offsets[owner + 1]].any():
            seen[tag_terminal[emissions.tag == emissions.tag_of[owner]]] = True
        vectors = emissions.column(owner)
        seen[n_words:] |= vectors[n_words:].any(axis=1)
        for place in np.flatnonzero(seen).tolist():
            yield f"{names[number]} {written[place]} [{', '.join(map(repr, vectors[place].tolist()))}]"


def _written_word(word: str) -> str:
    """Return a word as it stands in a column; one that begins like a signature with a code."""
    return code(word[0]) + TOKENS.write(word[1:]) if word.startswith("<") and len(word) > 1 else TOKENS.write(word)


def written_signature(signature: str) -> str:
    """Return a signature as it stands in a column."""
    return f"<{TOKENS.write(signature)}>"


def _backoff_lines(emissions: Emissions) -> Iterator[str]:
    lexicon = emissions.lexicon
    signatures = [written_signature(signature) for signature in lexicon.signatures]
    rows = zip(lexicon.words, lexicon.word_signature.tolist(), emissions.backoff.tolist(), strict=False)
    for word, signature, backoff in rows:
        yield f"{_written_word(word)} {signatures[signature]} {backoff!r}"


def _count_lines(grammar: TensorGrammar, names: Sequence[str]) -> Iterator[str]:
    every = [f"{name}_{state}" for name, size in zip(names, grammar.states, strict=True) for state in range(size)]
    for name, often in zip(every, grammar.occupancy.tolist(), strict=True):
        yield f"{name} {often!r}"
    for (a, b, c), often in zip(grammar.rules.tolist(), grammar.rule_counts.tolist(), strict=True):
        yield f"{names[a]} -> {names[b]} {names[c]} {often!r}"
