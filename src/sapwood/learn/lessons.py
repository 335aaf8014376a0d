"""What a learner is given beside trees, round by round, and what is kept of it when training is interrupted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial as partial_call
from pathlib import Path
from typing import Any, TypeVar

from sapwood.errors import TreeFormatError, UsageError
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.inference.constraints import Subtree, requirements
from sapwood.inference.forests import Forests, Reading, first_contradiction, read_best, read_forests
from sapwood.inference.parser import Parser
from sapwood.learn.sources import Source
from sapwood.run.progress import Progress, track
from sapwood.run.workers import Workers
from sapwood.storage import content_digest
from sapwood.trees.corpus import Corpus
from sapwood.trees.normalise import Normaliser
from sapwood.trees.partial import PartialTree
from sapwood.trees.tree import Tree

# How many sentences that do not fit are told of in full.
_TOLD = 5
T = TypeVar("T")


class Lessons:
    """Trees, and forests of other sentences or, for learners that cannot take those, their best trees.

    Parameters
    ----------
    corpus
        The trees.
    partial, text
        Partly bracketed and plain sentences.
    weights
        How much they count; None if their best trees are wanted.
    trust, least, longest
        As for `Taught`.
    workers, progress
        Where sentences are read, and what to report to.

    Attributes
    ----------
    counts
        How many sentences of each kind were learned from in the last round.
    """

    def __init__(
        self,
        corpus: Corpus,
        partial: Sequence[PartialTree],
        text: Sequence[Sequence[str]],
        *,
        weights: tuple[float, float] | None,
        trust: float,
        least: float,
        longest: int,
        workers: Workers,
        progress: Progress,
    ) -> None:
        self.weights, self.trust, self.least = weights, trust, least
        self.workers, self.progress = workers, progress
        self.counts: dict[str, int] = {}
        self._told = False
        clean = [one for one in (tree.normalised(corpus.normaliser) for tree in partial) if one is not None]
        self.partial = [one for one in clean if not one.is_whole]
        self.text = [sentence for sentence in text if len(sentence) <= longest]
        if left_out := len(text) - len(self.text):
            progress.note(f"left out {left_out:,} plain sentence(s) of more than {longest} words")
        self.trees = corpus
        self.whole: Corpus | None = None
        if whole := [one.tree for one in clean if one.is_whole]:
            self.counts["whole"] = len(whole)
            # Their symbols and rules are those of the trees from now on.
            self.trees = corpus.joined(clean_corpus(whole, corpus))
            if weights is not None:
                both, size = self.trees, corpus.n_trees
                self.trees, self.whole = both.between(0, size), both.between(size, both.n_trees)

    def given(self) -> tuple[Corpus, list[Source]]:
        """Return what can be learned from without a teacher: all trees that are known."""
        if self.whole is None or self.weights is None:
            return self.trees, []
        return self.trees, [Source(Forests.from_trees(self.whole), self.weights[0])]

    def taught(self, teacher: TensorGrammar) -> tuple[Corpus, list[Source]]:
        """Return that, and what a teacher makes of the other sentences."""
        parser = Parser(teacher, workers=self.workers)
        trees, also = self.given()
        partial = [Reading(*requirements(one.tree, teacher.transform.root)) for one in self.partial]
        text = [Reading(sentence) for sentence in self.text]
        if self.weights is None:
            read = partial_call(read_best, parser)
            best = [*self._made(read, parser, partial, "partial"), *self._made(read, parser, text, "text")]
            self._told = True
            return (trees.joined(clean_corpus(best, trees)) if best else trees), also
        make = partial_call(read_forests, parser, least=self.least)
        for name, readings, weight in zip(("partial", "text"), (partial, text), self.weights, strict=True):
            if forests := self._made(make, parser, readings, name):
                also.append(Source(Forests.join(forests), weight, self.trust))
        self._told = True  # the next round need not say it again
        return trees, also

    def _made(
        self,
        read: Callable[[Iterator[Reading]], Iterator[T | None]],
        parser: Parser,
        readings: list[Reading],
        name: str,
    ) -> list[T]:
        """Return what is made of sentences, and tell of those that nothing can be made of."""
        known = set(parser.grammar.emissions.tags)
        usable = [_unknown_tag(reading, known) is None for reading in readings]
        found = read(reading for reading, fits in zip(readings, usable, strict=True) if fits)
        shown = track(found, self.progress, f"reading {name}", sum(usable), "sentences")
        results = [next(shown) if fits else None for fits in usable]
        lost = [place for place, result in enumerate(results) if result is None]
        if lost and not self._told:
            self._tell(parser, readings, lost, name)
        self.counts[name] = len(results) - len(lost)
        return [result for result in results if result is not None]

    def _tell(self, parser: Parser, readings: list[Reading], lost: list[int], name: str) -> None:
        """Say how many sentences are left out and, of those with brackets, why."""
        if name == "text":
            self.progress.note(f"left out {len(lost):,} plain sentence(s) that the grammar has no tree for")
            return
        told = [str(self._problem(parser, readings[place], place)) for place in lost[:_TOLD]]
        more = [f"... and {len(lost) - len(told):,} more"] if len(lost) > len(told) else []
        lines = "".join(f"\n  {line}" for line in (*told, *more))
        self.progress.note(f"left out {len(lost):,} sentence(s) that no tree of the grammar fits:{lines}")

    def _problem(self, parser: Parser, reading: Reading, place: int) -> TreeFormatError:
        """Return what is wrong with a partly bracketed sentence, and where."""
        tree = self.partial[place]
        if (word := _unknown_tag(reading, set(parser.grammar.emissions.tags))) is not None:
            tag = reading.sentence[word][1]
            remedy = f"; a phrase over a word without a tag is ({tag} (_ {reading.sentence[word][0]}))"
            is_phrase = any(tag in chain for chain in parser.grammar.symbols.chain)
            return tree.error(f"the trees have no tag {tag!r}{remedy if is_phrase else ''}", word, word + 1)
        wanted = first_contradiction(parser, reading)
        if wanted is None:
            return tree.error("the grammar has no parse of this sentence", 0, len(reading.sentence))
        if isinstance(wanted, int):
            tag = reading.sentence[wanted][1]
            return tree.error(f"no tree of the grammar has the tag {tag!r} here", wanted, wanted + 1)
        if isinstance(wanted, Subtree):
            end, label = wanted.start + len(wanted.tree), wanted.tree.label
            return tree.error(f"no tree of the grammar has this {label!r} here", wanted.start, end, label)
        what = "phrase" if wanted.label is None else repr(wanted.label)
        problem = f"no tree of the grammar has a {what} here"
        if wanted.label is not None and not any(wanted.label in chain for chain in parser.grammar.symbols.chain):
            problem = f"the trees have no phrase {what}"
        return tree.error(problem, wanted.start, wanted.end, wanted.label)


def _unknown_tag(reading: Reading, tags: set[str]) -> int | None:
    """Return the place of the first word whose tag is none that is known."""
    given = (token[1] if not isinstance(token, str) else None for token in reading.sentence)
    return next((place for place, tag in enumerate(given) if tag is not None and tag not in tags), None)


def clean_corpus(trees: Sequence[Tree], like: Corpus) -> Corpus:
    """Return clean trees as a corpus to be joined to another one.

    What looks like an empty word is none, and labels are those that are wanted: mapped or cut again they would change.
    """
    as_they_are = Normaliser(
        function_tags="none", empties=False, repeated_unaries=False, drop=(), root=like.normaliser.root
    )  # fmt: skip
    return Corpus.from_trees(trees, normaliser=as_they_are, transform=like.transform)


class KeptTeacher:
    """The last teacher of an interrupted training, in a file beside its checkpoint.

    Parameters
    ----------
    checkpoint
        Where the state of the last round is kept; None if nothing is.
    key
        What the result depends on.

    Attributes
    ----------
    run
        Where the state of the round of a teacher is kept.
    """

    def __init__(self, checkpoint: str | Path | None, key: Mapping[str, Any]) -> None:
        self._key = content_digest({}, key)
        self._path = None if checkpoint is None else Path(f"{checkpoint}.teacher")
        self.run = None if checkpoint is None else f"{checkpoint}.teacher-run"

    def load(self) -> tuple[int, TensorGrammar | None]:
        """Return how many rounds are done, and the grammar of the last of them."""
        if self._path is None or not self._path.exists():
            return 0, None
        teacher = TensorGrammar.load(self._path)
        done, key = teacher.info.get("rounds"), teacher.info.get("key")
        if key != self._key or not isinstance(done, int):
            raise UsageError(
                f"{self._path}: of a training run with other settings or trees; give the same ones again, or remove it "
                "to start anew"
            )
        return done, teacher

    def save(self, done: int, teacher: TensorGrammar) -> None:
        """Keep the grammar of a round."""
        if self._path is not None and self.run is not None:
            teacher.with_info(rounds=done, key=self._key).save(self._path)
            Path(self.run).unlink(missing_ok=True)

    def clear(self) -> None:
        """Remove what was kept."""
        for path in (self._path, self.run):
            if path is not None:
                Path(path).unlink(missing_ok=True)
