"""Semi-supervised data: unlabelled and partially bracketed sentences, parsed anew each round, with checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial as partial_call
from pathlib import Path
from typing import Any, TypeVar

from sapwood.errors import TreeFormatError
from sapwood.grammar.tensor_grammar import GRAMMAR, GrammarMetadata, TensorGrammar
from sapwood.inference.constraints import Subtree, requirements
from sapwood.inference.forest.packed import Forests, ParseRequest, first_contradiction, parse_best, parse_forests
from sapwood.inference.parser import Parser
from sapwood.learn.semi_supervised.forests import WeightedForests
from sapwood.runtime.checkpoint import Checkpoint, Content
from sapwood.runtime.executor import Executor
from sapwood.runtime.progress import Progress, track
from sapwood.storage.arrays import Arrays
from sapwood.trees.corpus import Corpus
from sapwood.trees.normalise import Normaliser
from sapwood.trees.partial import PartialTree
from sapwood.trees.tree import Tree

# Number of mismatched sentences that are reported in full.
_TOLD = 5
T = TypeVar("T")


class _TeacherMetadata(GrammarMetadata):
    key: str
    rounds: int


CHECKPOINT = replace(
    GRAMMAR, kind="teacher-checkpoint", version=1, title="checkpoint", remedy="copy it again", metadata=_TeacherMetadata
)


@dataclass(frozen=True)
class TextSettings:
    """Use of sentences without complete trees.

    Attributes
    ----------
    weights
        Weights of partially bracketed and unlabelled sentences; None for best trees.
    teacher_weight, min_posterior, max_words
        As for `SemiSupervised`.
    """

    weights: tuple[float, float] | None
    teacher_weight: float
    min_posterior: float
    max_words: int


class SemiSupervisedData:
    """Trees, plus forests of other sentences or, for learners without support for those, their best trees.

    Parameters
    ----------
    corpus
        The trees.
    partial, text
        Partially bracketed and unlabelled sentences.
    settings
        How they are used.
    workers, progress
        Executor that parses the sentences; receives progress reports.

    Attributes
    ----------
    counts
        Number of sentences of each kind used in the last round.
    """

    def __init__(
        self,
        corpus: Corpus,
        partial: Sequence[PartialTree],
        text: Sequence[Sequence[str]],
        settings: TextSettings,
        *,
        workers: Executor,
        progress: Progress,
    ) -> None:
        self.weights, self.settings = settings.weights, settings
        self.workers, self.progress = workers, progress
        self.counts: dict[str, int] = {}
        self._reported = False
        clean = [one for one in (tree.normalised(corpus.normaliser) for tree in partial) if one is not None]
        self.partial = [one for one in clean if not one.is_whole]
        self.text = [sentence for sentence in text if len(sentence) <= settings.max_words]
        if left_out := len(text) - len(self.text):
            progress.note(f"skipped {left_out:,} unlabelled sentence(s) of more than {settings.max_words} words")
        self.trees = corpus
        self.whole: Corpus | None = None
        if whole := [one.tree for one in clean if one.is_whole]:
            self.counts["whole"] = len(whole)
            # Their symbols and rules are those of the trees from now on.
            self.trees = corpus.joined(corpus_as_is(whole, corpus))
            if self.weights is not None:
                both, size = self.trees, corpus.n_trees
                self.trees, self.whole = both.between(0, size), both.between(size, both.n_trees)

    def labelled(self) -> tuple[Corpus, list[WeightedForests]]:
        """Return the data that needs no teacher: all complete trees."""
        if self.whole is None or self.weights is None:
            return self.trees, []
        return self.trees, [WeightedForests(Forests.from_trees(self.whole), self.weights[0])]

    def with_teacher(self, teacher: TensorGrammar) -> tuple[Corpus, list[WeightedForests]]:
        """Return the same, plus the teacher's parses of the other sentences."""
        parser = Parser(teacher, workers=self.workers)
        trees, also = self.labelled()
        partial = [ParseRequest(*requirements(one.tree, teacher.transform.root)) for one in self.partial]
        text = [ParseRequest(sentence) for sentence in self.text]
        if self.weights is None:
            read = partial_call(parse_best, parser)
            best = [*self._parse_all(read, parser, partial, "partial"), *self._parse_all(read, parser, text, "text")]
            self._reported = True
            return (trees.joined(corpus_as_is(best, trees)) if best else trees), also
        make = partial_call(parse_forests, parser, min_posterior=self.settings.min_posterior)
        for name, readings, weight in zip(("partial", "text"), (partial, text), self.weights, strict=True):
            if forests := self._parse_all(make, parser, readings, name):
                also.append(WeightedForests(Forests.join(forests), weight, self.settings.teacher_weight))
        self._reported = True  # reported once only
        return trees, also

    def _parse_all(
        self,
        parse: Callable[[Iterator[ParseRequest]], Iterator[T | None]],
        parser: Parser,
        requests: list[ParseRequest],
        name: str,
    ) -> list[T]:
        """Parse the sentences, and report those without a parse."""
        known = set(parser.grammar.emissions.tags)
        usable = [_unknown_tag(request, known) is None for request in requests]
        found = parse(request for request, fits in zip(requests, usable, strict=True) if fits)
        shown = track(found, self.progress, f"reading {name}", sum(usable), "sentences")
        results = [next(shown) if fits else None for fits in usable]
        lost = [place for place, result in enumerate(results) if result is None]
        if lost and not self._reported:
            self._report_skipped(parser, requests, lost, name)
        self.counts[name] = len(results) - len(lost)
        return [result for result in results if result is not None]

    def _report_skipped(self, parser: Parser, requests: list[ParseRequest], skipped: list[int], name: str) -> None:
        """Report the number of skipped sentences and, for bracketed ones, the reason."""
        if name == "text":
            self.progress.note(f"skipped {len(skipped):,} unlabelled sentence(s) that the grammar has no tree for")
            return
        told = [str(self._problem(parser, requests[place], place)) for place in skipped[:_TOLD]]
        more = [f"... and {len(skipped) - len(told):,} more"] if len(skipped) > len(told) else []
        lines = "".join(f"\n  {line}" for line in (*told, *more))
        self.progress.note(f"skipped {len(skipped):,} sentence(s) that no tree of the grammar fits:{lines}")

    def _problem(self, parser: Parser, request: ParseRequest, place: int) -> TreeFormatError:
        """Return the error in a partially bracketed sentence, with its position."""
        tree = self.partial[place]
        if (word := _unknown_tag(request, set(parser.grammar.emissions.tags))) is not None:
            tag = request.sentence[word][1]
            remedy = f"; a phrase over a word without a tag is ({tag} (_ {request.sentence[word][0]}))"
            is_phrase = any(tag in chain for chain in parser.grammar.symbols.chain)
            return tree.error(f"the trees have no tag {tag!r}{remedy if is_phrase else ''}", word, word + 1)
        wanted = first_contradiction(parser, request)
        if wanted is None:
            return tree.error("the grammar has no parse of this sentence", 0, len(request.sentence))
        if isinstance(wanted, int):
            tag = request.sentence[wanted][1]
            return tree.error(f"no tree of the grammar has the tag {tag!r} here", wanted, wanted + 1)
        if isinstance(wanted, Subtree):
            end, label = wanted.start + len(wanted.tree), wanted.tree.label
            return tree.error(f"no tree of the grammar has this {label!r} here", wanted.start, end, label)
        what = "phrase" if wanted.label is None else repr(wanted.label)
        problem = f"no tree of the grammar has a {what} here"
        if wanted.label is not None and not any(wanted.label in chain for chain in parser.grammar.symbols.chain):
            problem = f"the trees have no phrase {what}"
        return tree.error(problem, wanted.start, wanted.end, wanted.label)


def _unknown_tag(request: ParseRequest, tags: set[str]) -> int | None:
    """Return the position of the first word with an unknown tag."""
    given = (token[1] if not isinstance(token, str) else None for token in request.sentence)
    return next((place for place, tag in enumerate(given) if tag is not None and tag not in tags), None)


def corpus_as_is(trees: Sequence[Tree], like: Corpus) -> Corpus:
    """Return clean trees as a corpus that can be joined to another.

    No token counts as empty, and labels are final: normalised again they would change.
    """
    as_they_are = Normaliser(
        function_tags="none", empties=False, repeated_unaries=False, drop=(), root=like.normaliser.root
    )  # fmt: skip
    return Corpus.from_trees(trees, normaliser=as_they_are, transform=like.transform)


@dataclass(frozen=True)
class Teacher:
    """The grammar of a finished round, from which the next one starts.

    Attributes
    ----------
    rounds
        Number of finished rounds.
    grammar
        The grammar of the last of them; None before the first.
    """

    rounds: int = 0
    grammar: TensorGrammar | None = None

    def to_arrays(self) -> Content:
        """Return the content of a checkpoint."""
        assert self.grammar is not None
        arrays, metadata = self.grammar._content()
        return arrays, {"rounds": self.rounds, **metadata, "info": dict(self.grammar.info)}

    @classmethod
    def from_arrays(cls, arrays: Arrays, metadata: dict[str, Any]) -> Teacher:
        """Return the teacher in a checkpoint."""
        return cls(metadata.pop("rounds"), TensorGrammar._from_content(arrays, metadata))

    @classmethod
    def checkpoint(cls, path: str | Path | None, key: Mapping[str, Any]) -> Checkpoint[Teacher]:
        """Return the checkpoint of teachers; `key` is everything that determines the result."""
        return Checkpoint(path, key, CHECKPOINT, data="trees", to_arrays=cls.to_arrays, from_arrays=cls.from_arrays)
