"""Ensemble induction: several induced models, averaged trees, and one parser distilled from these.

Parsers without trees make different errors: models of several kinds, with different numbers of word classes and from
different seeds, agree on a span more often if it is a phrase. The members' votes are averaged into one tree for each
sentence (`sapwood.induction.tree_averaging`), and an ordinary parser, split-merge with a span scorer, is trained on the
averaged trees (Shayegh et al. 2024, "Ensemble distillation for unsupervised constituency parsing"). It is as fast as
any other parser, gives probabilities, and needs none of the members.

Each member is a stage of the run, kept in a file next to the model until the run ends. A member may also be given: the
file of an induced model or of a parser, or a treebank of predicted trees, one for each sentence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from sapwood.errors import InputError, ModelError, UsageError
from sapwood.induction.evaluation import (
    Gold,
    assess_baselines,
    format_report,
    model_parser,
    score_induction,
    score_spans,
)
from sapwood.induction.induced_model import InducedModel
from sapwood.induction.learners import INDUCERS, Inducer, SimplePCFG, make_inducer
from sapwood.induction.parser import binary_tree
from sapwood.induction.run import InductionRun
from sapwood.induction.text import CLASSES, Sentence, Text, divided_tokens, make_text, tokens_of
from sapwood.induction.tree_averaging import Span, SpanVotes, tree_votes
from sapwood.model.parser_model import InducedText, ParserModel
from sapwood.pipeline.record import RunInputs, RunRecord
from sapwood.pipeline.train import train
from sapwood.runtime.checkpoint import RunFiles
from sapwood.runtime.executor import Threads
from sapwood.runtime.params import params_of
from sapwood.runtime.progress import Progress, Silent, WithoutNotes, track
from sapwood.storage.arrays import content_digest, read_header
from sapwood.storage.files import name_of, open_output
from sapwood.storage.shapes import Array, Float64
from sapwood.trees.formats.registry import read_trees
from sapwood.trees.heads.rules import HeadRules
from sapwood.trees.punctuation import Punctuation, Token, is_punctuation, put_back
from sapwood.trees.tree import Tree

# simple-pcfg from right-branching and from random starts, which are worse alone, but different. More epochs take long,
# and members need not be the best models.
_RIGHT: dict[str, Any] = {"epochs": 3, "across_begin": 0.2, "elsewhere": 1.0}
_RANDOM: dict[str, Any] = {
    "start": "random", "epochs": 3, "across_begin": 0.3, "across_end": 0.1, "elsewhere": 1.0, "learning_rate": 0.002,
}  # fmt: skip
# Members by default, the first ones if fewer are asked for: model, number of word classes, settings. With tags, those
# without a number. Chosen on dev of wsj-sample (docs/induction-results.md).
RECOMMENDED: tuple[tuple[str, int | None, dict[str, Any]], ...] = (
    ("simple-pcfg", None, _RIGHT),
    ("dmv", 48, {}),
    ("dmv+ccm", 48, {}),
    ("simple-pcfg", None, _RIGHT),
    ("dmv", 96, {}),
    ("simple-pcfg", None, _RANDOM),
    ("dmv", 32, {}),
    ("simple-pcfg", None, _RANDOM),
)
RECOMMENDED_FOR_TAGS: tuple[tuple[str, int | None, dict[str, Any]], ...] = (
    ("dmv", None, {}),
    ("dmv+ccm", None, {}),
    ("tensor-pcfg", None, {}),
    ("dmv", None, {"distance_power": 1.5}),
)
# Numbers of classes of the first, second ... member of the same model, if none is given.
_NUMBERS = (CLASSES, 96, 32, 128, 56, 24, 64, 192)
# Words that `simple-pcfg` learns from; it needs no classes.
_VOCABULARY = 10_000
_ROOT = "ROOT"
# The student: a grammar and a span scorer, without the CRF, which learns from gold trees how far to trust a grammar.
STUDENT: dict[str, Any] = {"method": "split-merge", "span_scorer": True}


@dataclass(frozen=True)
class Member:
    """Member of a committee.

    Attributes
    ----------
    name
        Its name in reports.
    inducer
        The inducer that learns it; None if it is given.
    classes
        Number of word classes to learn from; None for tags, and for a given member.
    vocabulary
        Number of words to learn from, instead of classes.
    path
        File of a given member: a model, or trees.
    """

    name: str
    inducer: Inducer | None = None
    classes: int | None = None
    vocabulary: int | None = None
    path: Path | None = None

    def settings(self) -> dict[str, Any]:
        """Return everything besides the text that determines its votes, as JSON values."""
        if self.inducer is None:
            assert self.path is not None
            return {"file": content_digest({"bytes": np.fromfile(self.path, np.uint8)}, {})}
        terminals = {"classes": self.classes, "vocabulary": self.vocabulary}
        return {"model": self.inducer.model, **terminals, **self.inducer.settings()}


Members: TypeAlias = int | Sequence[str | Path | Member]


def make_members(
    ensemble: Members | None = None, *, tags: bool = False, seed: int = 0, **settings: Any
) -> list[Member]:  # fmt: skip
    """Return the members of a committee.

    Parameters
    ----------
    ensemble
        Number of recommended members (default: all), or for each member a model (`dmv`), a model and its number of word
        classes (`dmv:96`), a file of a model or of trees, or a `Member`. Further members of the same model get other
        seeds and other numbers of classes.
    tags
        Whether models are learned from tags.
    seed
        Seed of the first member of each model.
    settings
        Settings of the models, for the members that have them.

    Examples
    --------
    >>> [member.name for member in make_members(["dmv", "dmv", "ccm:64"])]
    ['dmv:48', 'dmv:96', 'ccm:64']
    """
    recommended = RECOMMENDED_FOR_TAGS if tags else RECOMMENDED
    if ensemble is None or isinstance(ensemble, int):
        number = len(recommended) if ensemble is None else ensemble
        if not 1 <= number <= len(recommended):
            raise UsageError(f"ensemble must be 1 to {len(recommended)} members, or a list of them, not {number}")
        asked: list[Any] = list(recommended[:number])
    else:
        asked = [one if isinstance(one, Member) else _specification(str(one), tags) for one in ensemble]
    if not asked:
        raise UsageError("an ensemble needs at least one member")
    before: Counter[str] = Counter()
    found: list[Member] = []
    for one in asked:
        if isinstance(one, Member):
            found.append(one)
            continue
        model, classes, own = one
        given = {name: value for name, value in settings.items() if name in params_of(INDUCERS[model])}
        kind = f"{model} {sorted(own.items())}"
        inducer = make_inducer(model, **{**own, **given}, random_state=seed + before[kind])
        before[kind] += 1
        words = model == SimplePCFG.model and classes is None and not tags
        if classes is None and not tags and not words:
            classes = _NUMBERS[before[model] % len(_NUMBERS)]
        before[model] += 1
        name = model if classes is None else f"{model}:{classes}"
        member = Member(name, inducer, classes, _VOCABULARY if words else None)
        copies = sum(other.name.partition(" ")[0] == member.name for other in found)
        found.append(replace(member, name=f"{member.name} ({copies + 1})") if copies else member)
    models = [one[0] for one in asked if not isinstance(one, Member)]
    if unknown := sorted(
        name for name in settings if models and not any(name in params_of(INDUCERS[m]) for m in models)
    ):
        raise UsageError(f"no member of the ensemble has a setting {unknown[0]!r}")
    return found


def _specification(text: str, tags: bool) -> tuple[str, int | None, dict[str, Any]] | Member:
    """Return the model and the number of classes of `dmv:96`, or the member of a file."""
    if Path(text).is_file():
        return Member(Path(text).name, path=Path(text))
    model, colon, number = text.partition(":")
    if model not in INDUCERS:
        raise UsageError(f"ensemble: {text!r} is neither a file nor a model; the models are {', '.join(INDUCERS)}")
    if colon and (tags or not (number.isascii() and number.isdigit())):
        why = "with tags, members have no word classes" if tags else "write MODEL:CLASSES, such as dmv:96"
        raise UsageError(f"ensemble: {text!r}: {why}")
    return model, int(number) if colon else None, {}


@dataclass(frozen=True)
class Committee:
    """Averaged trees of a text, and those of each member.

    Attributes
    ----------
    tokens
        The sentences, without punctuation unless it is kept.
    members
        The binary trees of each member: the spans with the largest sum of votes.
    averaged
        The averaged trees.
    trees
        The same as trees over these tokens, with word classes or tags; None for a sentence without tokens.
    """

    tokens: list[list[Token]]
    members: dict[str, list[list[Span]]]
    averaged: list[list[Span]]
    trees: list[Tree | None]


@dataclass(frozen=True)
class EnsembleInduction:
    """Result of a run.

    Attributes
    ----------
    model
        The parser that was distilled from the committee.
    committee
        The averaged trees.
    """

    model: ParserModel
    committee: Committee = field(repr=False)


def induce_ensemble(
    sentences: Iterable[Sentence],
    *,
    ensemble: Members | None = None,
    tags: bool = False,
    classes: int | None = None,
    binary: bool = False,
    output: str | Path | None = None,
    trees: str | Path | None = None,
    resume: bool = False,
    **options: Any,
) -> EnsembleInduction:
    """Learn several models of a text without trees, average their trees, and train one parser on the averaged trees.

    Parameters
    ----------
    sentences, tags
        As for `sapwood.induction.run.induce`.
    ensemble
        The members: see `make_members`.
    classes
        Number of the word classes that are the tags of the averaged trees; members have their own.
    binary
        Whether averaged trees are binary. By default spans with few votes are left out.
    output
        File to write the parser to. Until then the members are kept next to it.
    trees
        File to write the averaged trees to.
    resume
        Whether to continue an interrupted run, to the same bytes.
    options
        `punctuation`, as for `sapwood.induction.run.induce`; `seed`, and settings of the members; `threads` and
        `progress`, as for `sapwood.runtime.context.RunContext`.

    Examples
    --------
    >>> sentences = [["dogs", "see", "cats"], ["cats", "sleep"], ["dogs", "sleep"]] * 5
    >>> induce_ensemble(sentences, ensemble=["dmv:2", "dmv+ccm:2"], classes=2, iterations=2).model
    <ParserModel: <TensorGrammar: ... symbols (... states), ... rules, 4 words>, CRF, span scorer>
    """
    progress, files = options.pop("progress", None) or Silent(), RunFiles(output, resume=resume)
    punctuation: Punctuation = options.pop("punctuation", "drop")
    seed, threads = options.pop("seed", 0), options.pop("threads", 1)
    if resume and output is None:
        raise UsageError("resume: requires output, next to which the state is kept")
    files.check()
    members = make_members(ensemble, tags=tags, seed=seed, threads=threads, **options)
    if tags and classes is not None:
        raise UsageError("classes: are found for words, and tags are learned from here; leave one of them out")
    rows = [tokens_of(sentence) for sentence in track(sentences, progress, "reading", None, "sentences")]
    source = _Source(rows, tags, punctuation, progress)
    for member in members:
        if member.path is not None and _model_kind(member.path) is None:
            _check_trees(list(read_trees(member.path)), member.path, source)
    number = CLASSES if classes is None else classes
    key = {
        "members": [member.settings() for member in members],
        "text": content_digest({}, {"rows": rows}),
        "settings": [tags, number, punctuation, binary, seed],
    }
    inputs: RunInputs = {"recipes": [], "trees": content_digest({}, key), "dev": "", "text": ""}
    with RunRecord.open(files, inputs) as record:
        committee = _average(members, source, number, binary, record, threads, progress)
        if trees is not None:
            with open_output(trees) as file:
                for tree, row in zip(committee.trees, rows, strict=True):
                    file.write(f"{put_back(tree, row, _ROOT) if punctuation == 'drop' else tree or ''}\n")
        model = _distil(committee, source, files, seed, threads, progress)
    if output is not None:
        model.save(output)
        files.clear()
    return EnsembleInduction(model, committee)


class _Source:
    """The sentences, and a text of their terminals for each number of word classes."""

    def __init__(self, rows: list[list[Token]], tags: bool, punctuation: Punctuation, progress: Progress) -> None:
        self.rows, self.tags, self.punctuation, self._progress = rows, tags, punctuation, progress
        self.kept = [
            [n for n, token in enumerate(row) if punctuation == "keep" or not is_punctuation(*token)] for row in rows
        ]
        self.tokens = [[row[n] for n in kept] for row, kept in zip(rows, self.kept, strict=True)]
        self.divided = [
            divided_tokens([word for word, _ in row], kept) for row, kept in zip(rows, self.kept, strict=True)
        ]
        if not any(self.tokens):
            raise InputError("the text has no words")
        self._texts: dict[tuple[int | None, int | None], Text] = {}

    def text(self, classes: int | None, vocabulary: int | None = None) -> Text:
        """Return the text of all sentences over word classes or words, or over tags."""
        key = classes, vocabulary
        if key not in self._texts:
            sentences: Any = self.rows
            tags = classes is None and vocabulary is None
            self._texts[key] = make_text(
                sentences, tags=tags, classes=classes, vocabulary=vocabulary, punctuation=self.punctuation,
                progress=self._progress,
            )  # fmt: skip
        return self._texts[key]


def _average(
    members: Sequence[Member], source: _Source, classes: int, binary: bool, record: RunRecord, threads: int,
    progress: Progress,
) -> Committee:  # fmt: skip
    """Return the averaged trees of the members."""
    lengths = np.array([len(row) for row in source.tokens], np.int64)
    votes, found = SpanVotes(lengths), {}
    for number, member in enumerate(members, 1):
        stage = f"member-{number}"
        progress.note(f"member {number} of {len(members)}: {member.name}")
        own = SpanVotes(lengths)
        own.add(list(_votes(member, record.files.stage(stage), source, record.files.resume, threads, progress)))
        if member.inducer is not None:
            record.finish(stage)
        name = member.name if member.name not in found else f"{member.name} ({number})"
        found[name] = own.binary_trees()
        votes.join(own)
    averaged = votes.binary_trees() if binary else votes.trees()
    progress.note(
        f"averaged the trees of {len(members)} members; mean vote for a phrase: {votes.support(averaged):.2f}"
    )
    text = source.text(None if source.tags else classes)
    return Committee(source.tokens, found, averaged, list(_trees(averaged, source, text)))


def _votes(
    member: Member, kept: Path | None, source: _Source, resume: bool, threads: int, progress: Progress
) -> Iterator[Float64[Array, "spans"]]:
    """Yield the votes of a member for the spans of each sentence: posteriors, or 1 for the spans of given trees."""
    if member.inducer is None:
        assert member.path is not None
        model = _given_model(member.path)
        if model is None:
            yield from _tree_votes(member.path, source)
            return
    elif kept is not None and kept.exists() and not RunFiles(kept).leftover():
        model = _given_model(kept)
    else:
        going_on = resume and kept is not None and bool(RunFiles(kept).leftover())
        run = InductionRun(member.inducer, output=kept, resume=going_on)
        text = source.text(member.classes, member.vocabulary)
        model = run(text, WithoutNotes(progress))  # without remarks on identifiability
    assert model is not None
    parser: Any = model_parser(model, workers=Threads(threads))
    rows: list[list[Token]] = source.tokens
    if not source.tags:
        rows = [[(word, None) for word, _ in row] for row in rows]
    found = parser.map(_posteriors, zip(rows, source.divided, strict=True))
    yield from track(found, progress, "voting", len(rows), "sentences")


def _posteriors(parser: Any, sentence: tuple[list[Token], list[bool]]) -> Float64[Array, "spans"]:
    posteriors: Float64[Array, "spans"] = parser.span_posteriors(*sentence)
    return posteriors


def _model_kind(path: Path) -> str | None:
    """Return the kind of model that a file holds; None if it holds none, but trees."""
    try:
        kind = str(read_header(path).get("kind"))
    except ModelError:
        return None
    if kind not in ("induced-model", "model", "bundle"):
        raise UsageError(f"ensemble: {path}: holds a {kind}, neither a model nor trees")
    return kind


def _given_model(path: Path) -> Any:
    """Return the model of a file; None if it holds none, but trees."""
    kind = _model_kind(path)
    if kind is None:
        return None
    if kind == "induced-model":
        return InducedModel.load(path)
    model = ParserModel.load(path)
    if model.preparation.induced is None:
        # Members see what all others see: words without punctuation.
        model = model.replace(preparation=replace(model.preparation, induced=InducedText("words", "keep")))
    return model


def _check_trees(trees: Sequence[Tree], path: Path, source: _Source) -> None:
    """Raise an `InputError` unless trees have the words of the sentences, or those without punctuation."""
    if len(trees) != len(source.rows):
        raise InputError(
            f"{name_of(path)}: has {len(trees):,} trees for the {len(source.rows):,} sentences of the text; predict "
            "trees for the same sentences, in the same order"
        )
    for number, (tree, row, kept) in enumerate(zip(trees, source.rows, source.kept, strict=True), 1):
        words = [word for word, _ in row]
        if tree.words() not in (words, [words[place] for place in kept]):
            raise InputError(
                f"{name_of(path)}: tree {number}: its words are not those of sentence {number} of the text: "
                f"{' '.join(words)!r}; predict trees for the same sentences, in the same order"
            )


def _tree_votes(path: Path, source: _Source) -> Iterator[Float64[Array, "spans"]]:
    """Yield the votes of trees in a file, over all tokens or over those without punctuation."""
    for tree, row, kept in zip(read_trees(path), source.rows, source.kept, strict=True):
        tokens = [row[place][0] for place in kept]
        # Number of kept words before each token.
        inside = np.ones(len(tokens), bool) if tree.words() == tokens else np.isin(np.arange(len(row)), kept)
        before = np.concatenate([[0], np.cumsum(inside)]).tolist()
        spans = {(before[start], before[end]) for start, end, _ in tree.spans()}
        yield tree_votes((span for span in spans if span[1] - span[0] > 1), len(tokens))


def _trees(averaged: Sequence[Sequence[Span]], source: _Source, text: Text) -> Iterator[Tree | None]:
    """Yield averaged trees, with terminals as tags."""
    for number, (spans, row) in enumerate(zip(averaged, source.tokens, strict=True)):
        tags = [text.terminals[terminal] for terminal in text.sentence(number).tolist()]
        leaves = [Tree(tag, word=word) for tag, (word, _) in zip(tags, row, strict=True)]
        yield Tree(_ROOT, [binary_tree(leaves, spans)]) if leaves else None


def _distil(
    committee: Committee, source: _Source, files: RunFiles, seed: int, threads: int, progress: Progress
) -> ParserModel:
    """Return a parser trained on the averaged trees."""
    progress.note("training a parser on the averaged trees")
    path = files.stage("parser")
    trees = [tree for tree in committee.trees if tree is not None]
    going_on = path is not None and bool(RunFiles(path).leftover())
    model = train(trees, seed=seed, threads=threads, output=path, resume=going_on, progress=progress, **STUDENT)
    induced = InducedText("tags" if source.tags else "classes", source.punctuation)
    return model.replace(preparation=replace(model.preparation, induced=induced))


def report_ensemble(
    found: EnsembleInduction,
    trees: Sequence[Tree],
    *,
    tags: bool = False,
    rules: HeadRules | None = None,
    progress: Progress | None = None,
) -> str:
    """Return tables of baselines, members, their averaged trees and the parser distilled from these.

    Parameters
    ----------
    found
        Result of a run on the sentences of `trees`.
    trees, tags, rules, progress
        As for `sapwood.induction.evaluation.report`.
    """
    rows = [(number, one) for number, tree in enumerate(trees) if (one := Gold.of_tree(tree, rules)) is not None]
    gold = [one for _, one in rows]
    scores = assess_baselines(gold, heads=False)
    committee = found.committee
    bracketings = {**committee.members, "averaged": committee.averaged}
    if all(len(committee.tokens[number]) == len(one.tokens) for number, one in rows):  # not if punctuation is kept
        for name, spans in bracketings.items():
            scores[name] = score_spans([spans[number] for number, _ in rows], gold)
    scores["distilled"] = score_induction(found.model, gold, tags=tags, progress=progress)
    return format_report(scores, max((len(one.tokens) for one in gold), default=0))
