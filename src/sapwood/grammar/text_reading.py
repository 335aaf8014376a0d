"""Reading grammars that `sapwood.grammar.text_files` wrote as text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

import numpy as np

from sapwood.errors import InputError, ModelError, shortened
from sapwood.files import open_binary, read_lines
from sapwood.grammar.berkeley_files import MOST_STATES, Rule, columns_of, number_of, read_rules, read_words
from sapwood.grammar.emissions import Emissions, offsets_of
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.grammar.text_files import FORMAT, VERSION, About, SymbolEntry, written_signature
from sapwood.run.progress import Progress, Silent
from sapwood.schema import check_json
from sapwood.shapes import Array, Float64
from sapwood.trees.brackets import TOKENS
from sapwood.trees.lexicon import Lexicon
from sapwood.trees.normalise import Normaliser
from sapwood.trees.signatures import BERKELEY, BerkeleySignatures, SignatureModel
from sapwood.trees.symbols import Parts, Symbol, SymbolTable
from sapwood.trees.transform import TreeTransform
from sapwood.trees.word_classes import WordClasses

# Of sums of probabilities, which can be in single or half precision.
_TOLERANCE = 1e-3
_ENDINGS = (".json", ".grammar", ".lexicon", ".words", ".counts")


def is_text_grammar(prefix: str | Path) -> bool:
    """Whether files of that name are those of `write_text`."""
    return Path(f"{prefix}.json").is_file()


def read_text(prefix: str | Path, *, progress: Progress | None = None) -> TensorGrammar:
    """Return the grammar that `write_text` wrote; what is malformed raises an error with its place."""
    parts = {ending: Path(f"{prefix}{ending}") for ending in _ENDINGS}
    about = _read_about(parts[".json"])
    signed = not about["probabilistic"]
    states = {entry["name"]: entry["states"] for entry in about["symbols"]}
    with (progress or Silent()).stage("reading", None, "lines") as stage:
        rules = read_rules(parts[".grammar"], stage.step, signed=signed, states={**states, about["start"]: 1})
        # A signature's weights are of all its words together, and can be above 1.
        vectors = read_words(parts[".lexicon"], states, stage.step, signed=True)
        leaning = _read_backoff(parts[".words"])
    leaves = [entry["name"] for entry in about["symbols"] if entry["leaf"]]
    inner = len(states) - len(leaves)
    number = {name: place for place, name in enumerate(states)}
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
        except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
            raise InputError(f"{path}: no JSON: {error}") from error
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
        raise InputError(f"{path}: a symbol is there twice")
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
            raise InputError(f"{path}:{number}: the word {shortened(word)!r} is there twice")
        found[word] = signature, number_of(backoff, f"{path}:{number}", True)
    return found


def _read_counts(
    path: Path, states: Mapping[str, int], rules: Sequence[Rule]
) -> tuple[Float64[Array, "all_states"], Float64[Array, "rules"]]:
    """Return how often states and rules are expected."""
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
    """What the files say of words and signatures, and the emissions that they are."""

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
            raise InputError(f"{source}: a signature is there twice, or there is none")
        if unknown := {signature for signature, _ in leaning.values()} - self.signatures.keys():
            raise InputError(f"{source}: no signature is {min(unknown)}")
        for one in about["signatures"]:
            if one["parent"] >= len(self.names):
                raise InputError(f"{source}: the signature {one['name']} has no parent {one['parent']}")

    def emissions(self, vectors: Mapping[str, Mapping[str, np.ndarray]]) -> Emissions:
        """Return the emissions whose full weights are these."""
        found = []
        for name, whole in vectors.items():
            if name not in self.leaves or self.leaves[name]["words"] != name:
                raise InputError(f"{self.source}: {name} has no words of its own")
            found += [(*place, part) for place, part in self._own(name, whole)]
        found.sort(key=lambda entry: entry[:2])
        tags = SymbolTable(tuple(map(_symbol, self.leaves.values()))).tags
        kinds = sorted(set(tags))
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
            tag_of=np.array([kinds.index(tag) for tag in tags], np.int32),
            share=np.zeros(int(states.sum())),
            tag_offsets=np.zeros(n_terminals + 1, np.int64),
            tag=np.zeros(0, np.int32),
            tag_values=np.zeros(0),
            emitter=np.array([self.numbers[entry["words"]] for entry in self.leaves.values()], np.int32),
        )

    def _own(self, name: str, whole: Mapping[str, np.ndarray]) -> Iterator[tuple[tuple[int, int], np.ndarray]]:
        """Yield the weights of a preterminal less what they take of coarser ones."""
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
        learned = SignatureModel(frozenset(self.about["endings"]), frozenset(self.about["beginnings"]), classes)
        return Lexicon(
            words=[TOKENS.read(word) for word in self.leaning],
            signatures=[entry["name"] for entry in self.about["signatures"]],
            parent=np.array([entry["parent"] for entry in self.about["signatures"]], np.int32),
            word_signature=np.array([self.places[on] - len(self.leaning) for on, _ in self.leaning.values()], np.int32),
            model=BerkeleySignatures() if self.about["scheme"] == BERKELEY else learned,
        )
