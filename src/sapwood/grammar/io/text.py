r"""Text grammars: a grammar in files that people and other programs can read.

Four files in the format of BerkeleyParser (`sapwood.grammar.io.berkeley`), and one for everything else:

- `.grammar`: `A_0 -> B_1 C_0 0.25`, each non-zero weight of a rule, and `ROOT_0 -> A_0 0.9`, those of roots.
- `.lexicon`: `TAG word [0.1, 0.2]`, the weight of a word for each state of a preterminal. Signatures of unknown words
  are in angle brackets. Preterminals with the same emissions (`NN`, `NP|NN`) are written once. The weights of a word
  include back-off to its signature.
- `.words`: `word <signature> 0.01`, the back-off weight of a word to its signature, for preterminals that it was not
  seen with.
- `.counts`: `A_0 12.5` and `A -> B C 3.0`, expected counts of states and rules in the training trees.
- `.json`: symbols and their labels, signatures, levels, preprocessing of trees.

There are no unary rules but those of roots, as symbols stand for chains of labels. White space in a name or a word is
escaped (`sapwood.trees.formats.escapes`). `read_text` restores the same weights, those of words up to rounding. CRF and
span scorer are not written.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, Literal, TypedDict, cast

import numpy as np

from sapwood.errors import InputError, ModelError, shortened
from sapwood.grammar.emissions import Emissions, offsets_of
from sapwood.grammar.io.berkeley import MOST_STATES, Rule, columns_of, number_of, read_rules, read_words
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.runtime.progress import Progress, Silent
from sapwood.storage.files import open_binary, open_output, read_lines
from sapwood.storage.json_values import with_finite_numbers
from sapwood.storage.schema import Notes, check_json
from sapwood.storage.shapes import Array, Float64
from sapwood.trees.formats.brackets import TOKENS
from sapwood.trees.formats.escapes import Codes, code
from sapwood.trees.lexicon.lexicon import Lexicon
from sapwood.trees.lexicon.signatures import Scheme, SignatureModel, make_signatures
from sapwood.trees.lexicon.word_classes import WordClasses
from sapwood.trees.normalise import Normaliser
from sapwood.trees.symbols import Parts, Symbol, SymbolTable
from sapwood.trees.transform import TreeTransform

FORMAT = "sapwood grammar"
VERSION = 1
_NAMES = Codes(r"\s")
# Tolerance of sums of probabilities, which can be in single or half precision.
_TOLERANCE = 1e-3
_ENDINGS = (".json", ".grammar", ".lexicon", ".words", ".counts")


class SymbolEntry(TypedDict):
    """Symbol: its written form and name, its labels, and the symbol whose words it shares."""

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
    """Signature of unknown words, and its back-off weight to a coarser one."""

    name: str
    parent: int
    climb: float
    backoff: float


class About(TypedDict):
    """Contents of the `.json` file."""

    format: str
    version: int
    start: str
    probabilistic: bool
    dtype: Literal["float32", "float64"]
    symbols: list[SymbolEntry]
    # For each level, the group of each state counted from 1; 0 for dropped states.
    levels: list[list[int]]
    signatures: list[SignatureEntry]
    scheme: Scheme
    endings: list[str]
    beginnings: list[str]
    classes: dict[str, list[int]]
    normaliser: dict[str, Any]
    transform: dict[str, Any]
    info: Notes


def write_text(grammar: TensorGrammar, prefix: str | Path, *, progress: Progress | None = None) -> list[Path]:
    """Write a grammar as text files whose names begin with `prefix`, each atomically; return their paths."""
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
    """Return the written form of each symbol, all distinct, and that of the start symbol."""
    taken: set[str] = set()
    names = []
    for symbol in grammar.symbols:
        name = _NAMES.write(symbol)
        while name in taken:  # a phrase label that is also a tag
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
        "scheme": model.scheme,
        "endings": sorted(model.endings) if isinstance(model, SignatureModel) else [],
        "beginnings": sorted(model.beginnings) if isinstance(model, SignatureModel) else [],
        "classes": {} if lexicon.classes is None else lexicon.classes.to_dict(),
        "normaliser": grammar.normaliser.to_dict(),
        "transform": grammar.transform.to_dict(),
        "info": Notes(with_finite_numbers(grammar.info)),
    }


def _shown(emissions: Emissions, names: Sequence[str]) -> list[int]:
    """Return, for each preterminal, the one with the same emissions and the shortest name: `NN` for `NP|NN`."""
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
        if not values:  # write the rule even if all its weights are zero
            yield f"{states[a][0]} -> {states[b][0]} {states[c][0]} 0.0"


def _word_lines(emissions: Emissions, names: Sequence[str]) -> Iterator[str]:
    lexicon = emissions.lexicon
    n_words = lexicon.n_words
    # A signature is written with its own weights, whatever share an unknown word takes.
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
    """Return the escaped form of a word; one that begins like a signature is escaped as well."""
    return code(word[0]) + TOKENS.write(word[1:]) if word.startswith("<") and len(word) > 1 else TOKENS.write(word)


def written_signature(signature: str) -> str:
    """Return the escaped form of a signature."""
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


def is_text_grammar(prefix: str | Path) -> bool:
    """True if files with that prefix were written by `write_text`."""
    return Path(f"{prefix}.json").is_file()


def read_text(prefix: str | Path, *, progress: Progress | None = None) -> TensorGrammar:
    """Read a grammar written by `write_text`; malformed input raises an error with its location."""
    parts = {ending: Path(f"{prefix}{ending}") for ending in _ENDINGS}
    about = _read_about(parts[".json"])
    signed = not about["probabilistic"]
    states = {entry["name"]: entry["states"] for entry in about["symbols"]}
    with (progress or Silent()).stage("reading", None, "lines") as stage:
        rules = read_rules(parts[".grammar"], stage.step, signed=signed, states={**states, about["start"]: 1})
        # Weights of a signature are those of all its words together, and can be above 1.
        vectors = read_words(parts[".lexicon"], states, stage.step, signed=True)
        leaning = _read_backoff(parts[".words"])
    leaves = [entry["name"] for entry in about["symbols"] if entry["leaf"]]
    inner = len(states) - len(leaves)
    number = {name: place for place, name in enumerate(states)}
    for rule in rules.found:
        if about["start"] in (rule[1:] if len(rule) == 2 else rule):
            raise InputError(
                f"{parts['.grammar']}: {rule[0]} -> {' '.join(rule[1:])}: {about['start']} is the start symbol, which "
                "only has rules of one child"
            )
    emissions = _Words(about, leaning, str(parts[".lexicon"])).emissions(vectors)
    order = sorted((tuple(number[name] for name in rule), rule) for rule in rules.found if len(rule) == 3)
    tables = dict(rules.tables(3))
    root = np.zeros(sum(states.values()))
    begin = offsets_of(np.array(list(states.values())))
    for (start, name), vector in rules.tables(2):
        if start != about["start"]:
            raise InputError(f"{parts['.grammar']}: {start} -> {name}: a rule of one child, and no root")
        root[begin[number[name]] : begin[number[name] + 1]] = vector[0]
    occupancy, often = _read_counts(parts[".counts"], states, [rule for _, rule in order])
    grammar = TensorGrammar(
        symbols=SymbolTable(tuple(_symbol(entry) for entry in about["symbols"])),
        n_interminals=inner,
        states=np.array(list(states.values()), np.int32),
        rules=np.array([numbers for numbers, _ in order], np.int32).reshape(-1, 3),
        tensors=np.concatenate([np.zeros(0), *(tables[rule].ravel() for _, rule in order)]).astype(about["dtype"]),
        root=root,
        emissions=emissions,
        probabilistic=about["probabilistic"],
        occupancy=occupancy,
        rule_counts=often,
        levels=tuple(np.array(level, np.int32) - 1 for level in about["levels"]),
        normaliser=Normaliser.from_dict(about["normaliser"]),
        transform=TreeTransform.from_dict(about["transform"]),
        info=about["info"],
    )
    return grammar.validate(_TOLERANCE)


def _read_about(path: Path) -> About:
    with open_binary(path) as stream:
        try:
            about = json.loads(stream.read().decode("utf-8"))
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}: not JSON: {error}") from error
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise InputError(f"{path}: does not belong to a grammar that sapwood wrote as text")
    if about.get("version") != VERSION:
        raise InputError(f"{path}: version {about.get('version')!r} of the format; this sapwood reads {VERSION}")
    try:
        check_json(about, About)
        check_json(about["normaliser"], Normaliser)
        check_json(about["transform"], TreeTransform)
    except ModelError as error:
        raise InputError(f"{path}: {error}") from error
    symbols = about["symbols"]
    names = [entry["name"] for entry in symbols]
    if len(set(names)) < len(names) or about["start"] in names:
        raise InputError(f"{path}: a symbol occurs twice")
    if [entry["leaf"] for entry in symbols] != sorted(entry["leaf"] for entry in symbols):
        raise InputError(f"{path}: preterminals come behind all other symbols")
    for entry in symbols:
        if not 1 <= entry["states"] <= MOST_STATES:
            raise InputError(f"{path}: {entry['name']} has {entry['states']} states, not 1 to {MOST_STATES}")
    return cast(About, about)


def _symbol(entry: SymbolEntry) -> Symbol:
    siblings = tuple(map(tuple, entry["siblings"]))
    parts = Parts(tuple(entry["labels"]), tuple(entry["ancestors"]), siblings, entry["intermediate"])
    return Symbol(entry["symbol"], parts)


def _read_backoff(path: Path) -> dict[str, tuple[str, float]]:
    found: dict[str, tuple[str, float]] = {}
    for number, line in read_lines(path):
        columns = columns_of(line)
        if not columns:
            continue
        if len(columns) != 3:
            raise InputError(f"{path}:{number}: a line is 'word <signature> 0.01', not {shortened(line.strip())!r}")
        word, signature, backoff = columns
        if word in found:
            raise InputError(f"{path}:{number}: the word {shortened(word)!r} occurs twice")
        found[word] = signature, number_of(backoff, f"{path}:{number}", True)
    return found


def _read_counts(
    path: Path, states: Mapping[str, int], rules: Sequence[Rule]
) -> tuple[Float64[Array, "all_states"], Float64[Array, "rules"]]:
    """Return the expected counts of states and rules."""
    every = {f"{name}_{state}": np.nan for name, size in states.items() for state in range(size)}
    often = dict.fromkeys(rules, np.nan)
    for number, line in read_lines(path):
        columns, place = columns_of(line), f"{path}:{number}"
        if not columns:
            continue
        if len(columns) == 2 and columns[0] in every:
            every[columns[0]] = number_of(columns[1], place, True)
        elif len(columns) == 5 and columns[1] == "->" and (columns[0], columns[2], columns[3]) in often:
            often[columns[0], columns[2], columns[3]] = number_of(columns[4], place, True)
        else:
            raise InputError(f"{place}: not of a state or a rule of the grammar: {shortened(line.strip())!r}")
    for name, value in [*every.items(), *((" ".join(rule), value) for rule, value in often.items())]:
        if np.isnan(value):
            raise InputError(f"{path}: nothing of {name}")
    return np.array(list(every.values())), np.array(list(often.values()))


class _Words:
    """Words and signatures of the files, and the emissions built from them."""

    def __init__(self, about: About, leaning: Mapping[str, tuple[str, float]], source: str) -> None:
        self.about, self.leaning, self.source = about, leaning, source
        self.leaves = {entry["name"]: entry for entry in about["symbols"] if entry["leaf"]}
        self.numbers = {name: number for number, name in enumerate(self.leaves)}
        for name, entry in self.leaves.items():
            owner = self.leaves.get(entry["words"])
            if owner is None or owner["states"] != entry["states"] or owner["words"] != owner["name"]:
                raise InputError(f"{source}: {name} cannot have the words of {entry['words']!r}")
        self.signatures = {written_signature(entry["name"]): entry for entry in about["signatures"]}
        self.names = list(self.signatures)
        terminals = [*leaning, *self.names]
        self.places = {terminal: number for number, terminal in enumerate(terminals)}
        if len(self.places) < len(terminals) or len(self.names) < len(about["signatures"]) or not self.names:
            raise InputError(f"{source}: a signature occurs twice, or there is none")
        if unknown := {signature for signature, _ in leaning.values()} - self.signatures.keys():
            raise InputError(f"{source}: no signature is {min(unknown)}")
        for one in about["signatures"]:
            if one["parent"] >= len(self.names):
                raise InputError(f"{source}: the signature {one['name']} has no parent {one['parent']}")

    def emissions(self, vectors: Mapping[str, Mapping[str, np.ndarray]]) -> Emissions:
        """Return the emissions with these total weights."""
        found = []
        for name, whole in vectors.items():
            if name not in self.leaves or self.leaves[name]["words"] != name:
                raise InputError(f"{self.source}: {name} has no words of its own")
            found += [(*place, part) for place, part in self._own(name, whole)]
        found.sort(key=lambda entry: entry[:2])
        tags = SymbolTable(tuple(map(_symbol, self.leaves.values()))).tags
        kinds = sorted(set(tags))
        place = {tag: number for number, tag in enumerate(kinds)}
        states = np.array([entry["states"] for entry in self.leaves.values()], np.int32)
        n_terminals = len(self.places)
        lean = [part for _, part in self.leaning.values()] + [entry["backoff"] for entry in self.signatures.values()]
        return Emissions(
            lexicon=self._lexicon(),
            states=states,
            offsets=offsets_of(np.bincount([at for at, _, _ in found], minlength=n_terminals)),
            symbol=np.array([symbol for _, symbol, _ in found], np.int32),
            values=np.concatenate([np.zeros(0), *(vector for _, _, vector in found)]),
            backoff=np.array(lean, float),
            climb=np.array([entry["climb"] for entry in self.signatures.values()], float),
            tags=kinds,
            tag_of=np.array([place[tag] for tag in tags], np.int32),
            share=np.zeros(int(states.sum())),
            tag_offsets=np.zeros(n_terminals + 1, np.int64),
            tag=np.zeros(0, np.int32),
            tag_values=np.zeros(0),
            emitter=np.array([self.numbers[entry["words"]] for entry in self.leaves.values()], np.int32),
        )

    def _own(self, name: str, whole: Mapping[str, np.ndarray]) -> Iterator[tuple[tuple[int, int], np.ndarray]]:
        """Yield the weights of a preterminal without the back-off part."""
        for terminal, vector in whole.items():
            if terminal not in self.places:
                raise InputError(f"{self.source}: {name} {shortened(terminal)}: neither a word nor a signature")
            if terminal in self.signatures:
                entry = self.signatures[terminal]
                on, part = self.names[entry["parent"]], entry["climb"]
            else:
                on, part = self.leaning[terminal]
            if part and on != terminal and on in whole:
                vector = vector - part * whole[on]
            yield (
                (self.places[terminal], self.numbers[name]),
                np.maximum(vector, 0.0) if self.about["probabilistic"] else vector,
            )

    def _lexicon(self) -> Lexicon:
        classes = WordClasses.from_dict(self.about["classes"]) if self.about["classes"] else None
        return Lexicon(
            words=[TOKENS.read(word) for word in self.leaning],
            signatures=[entry["name"] for entry in self.about["signatures"]],
            parent=np.array([entry["parent"] for entry in self.about["signatures"]], np.int32),
            word_signature=np.array([self.places[on] - len(self.leaning) for on, _ in self.leaning.values()], np.int32),
            model=make_signatures(self.about["scheme"], self.about["endings"], self.about["beginnings"], classes),
        )
