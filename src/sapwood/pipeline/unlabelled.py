"""Unlabelled text and partially bracketed sentences of a training run, and their use."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from sapwood.errors import UsageError
from sapwood.learn.semi_supervised.learner import PartialTrees, UnlabelledText
from sapwood.pipeline.recipe import Recipe, with_unlabelled
from sapwood.runtime.context import RunContext
from sapwood.storage.files import check_readable, is_regular
from sapwood.trees.formats.registry import read_tokens, refuse_trees
from sapwood.trees.partial import PartialTree
from sapwood.trees.tokenise.attached import TOKENISE, AttachedPunctuation

if TYPE_CHECKING:
    from sapwood.trees.lexicon.word_classes import WordClasses

# A file, files, or sentences.
Text: TypeAlias = str | Path | Sequence[str | Path] | Iterable[Sequence[str]] | UnlabelledText
TextUse = Literal["word-classes", "self-training", "em", "em-forests", "em-best"]
TEXT_USES: tuple[TextUse, ...] = get_args(TextUse)
# Semi-supervised EM, with the corresponding value of `SemiSupervised.unlabelled_as`.
EM_USES = {"em": "auto", "em-forests": "forests", "em-best": "best"}
# Number of sentences that show whether a text is tokenised.
_SENTENCES = 1000
# Settings of `SemiSupervised`, with the data that they require.
_REQUIRED = {
    "partial_weight": ("partial",),
    "text_weight": ("text",),
    "rounds": ("partial", "text"),
    "teacher_weight": ("partial", "text"),
}


@dataclass(frozen=True)
class TextSource:
    """Unlabelled text: paths of files with one sentence per line, or the sentences themselves."""

    paths: tuple[str | Path, ...] = ()
    unlabelled: UnlabelledText | None = None

    @classmethod
    def of(cls, text: Text) -> TextSource:
        """Return the text that an argument stands for."""
        if isinstance(text, str | Path):
            return cls((text,))
        if isinstance(text, UnlabelledText):
            return cls(unlabelled=text)
        given: list[Any] = list(text)
        if given and all(isinstance(one, str | Path) for one in given):
            return cls(tuple(given))
        return cls(unlabelled=UnlabelledText(given))

    def check(self) -> None:
        """Check that the files exist, and are not treebanks."""
        for path in self.paths:
            check_readable(path)
            refuse_trees(path)

    def why_not_sentences(self) -> str | None:
        """Return why no sentences can be sampled after word classes were learned; None if they can."""
        from sapwood.lm.io import kind_of

        for path in self.paths:
            if not is_regular(path):
                return f"{path}: the text is read twice and must be a regular file"
            if kind_of(path) is not None:
                return f"{path}: has no sentences"
        return None

    def sentences(self) -> Iterator[Sequence[str]]:
        """Yield the sentences."""
        if self.unlabelled is not None:
            yield from self.unlabelled.sentences
        for path in self.paths:
            yield from read_tokens(path)

    def remark_on_plain_text(self, vocabulary: Collection[str]) -> str:
        """Return a remark if the sentences look like text that is not tokenised, given the words of the trees."""
        if self.why_not_sentences() is not None:
            return ""
        finding = AttachedPunctuation(vocabulary.__contains__).finding(islice(self.sentences(), _SENTENCES))
        return f"{', '.join(map(str, self.paths)) or 'text'}: {finding}; {TOKENISE}" if finding else ""

    def read(self) -> UnlabelledText:
        """Return all sentences."""
        return self.unlabelled or UnlabelledText.read(*self.paths)

    def word_classes(self, seed: int, context: RunContext) -> WordClasses:
        """Learn word classes."""
        from sapwood.lm import word_classes

        with self._files() as paths:
            return word_classes(paths, random_state=seed, workers=context.executor, progress=context.progress)

    @contextlib.contextmanager
    def _files(self) -> Iterator[list[str | Path]]:
        """Yield the files; sentences are written to a temporary one."""
        if self.unlabelled is None:
            yield list(self.paths)
            return
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "text.txt")
            with path.open("w", encoding="utf-8", newline="\n") as stream:
                for sentence in self.unlabelled.sentences:
                    stream.write(" ".join(sentence) + "\n")
            yield [path]


@dataclass(frozen=True)
class UnlabelledData:
    """Training data other than trees, and how it is used.

    Parameters
    ----------
    partial
        Partially bracketed sentences.
    text
        Unlabelled text.
    use
        Use of the text; None: self-training for small treebanks, else word classes.
    settings
        Settings of `SemiSupervised`.
    """

    partial: PartialTrees | None = None
    text: TextSource | None = None
    use: TextUse | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        partial: Iterable[PartialTree] | PartialTrees | None,
        text: Text | None,
        use: TextUse | None,
        settings: Mapping[str, Any] | None,
    ) -> UnlabelledData:
        """Return the data that the arguments of `train` stand for."""
        brackets = partial if partial is None or isinstance(partial, PartialTrees) else PartialTrees(list(partial))
        return cls(brackets, None if text is None else TextSource.of(text), use, dict(settings or {}))

    @property
    def for_classes(self) -> bool:
        """True if word classes are learned from the text."""
        return self.text is not None and self.use not in EM_USES

    @property
    def for_em(self) -> bool:
        """True if some of the data is for semi-supervised EM."""
        return self.partial is not None or (self.text is not None and not self.for_classes)

    def check(self, *, sequences: bool = False, named: Callable[[str], str] = str) -> None:
        """Refuse combinations that have no meaning.

        Parameters
        ----------
        sequences
            True if the labelled data is tagged sequences.
        named
            Spelling of an argument in messages: `--text-use` for `text_use`.
        """
        check_use(
            self.use, self.settings, partial=self.partial is not None, text=self.text is not None, sequences=sequences,
            named=named,
        )  # fmt: skip
        if self.text is not None:
            self.text.check()
            if self.use == "self-training" and (problem := self.text.why_not_sentences()) is not None:
                raise UsageError(f"{problem}; use {named('text_use')} word-classes to learn word classes only")

    def should_self_train(self, by_default: bool) -> bool:
        """Return whether to self-train on the text, given whether the trees and the method call for it."""
        if self.text is None or self.use not in (None, "self-training"):
            return False
        return self.use == "self-training" or (by_default and self.text.why_not_sentences() is None)

    def read_text(self) -> UnlabelledText | None:
        """Return the sentences of the text, if it is used for semi-supervised EM."""
        return self.text.read() if self.text is not None and not self.for_classes else None

    def word_classes(self, seed: int, context: RunContext) -> WordClasses | None:
        """Learn word classes, if the text is used for them."""
        if self.text is None or not self.for_classes:
            return None
        return self.text.word_classes(seed, context)

    def add_to(self, recipe: Recipe) -> Recipe:
        """Return a recipe whose learners also use this data by semi-supervised EM."""
        if not self.for_em:
            return recipe
        use = {} if self.use is None or self.use not in EM_USES else {"unlabelled_as": EM_USES[self.use]}
        return with_unlabelled(recipe, self.partial, self.read_text(), **use, **self.settings)


def check_use(
    use: TextUse | None,
    settings: Mapping[str, Any],
    *,
    partial: bool,
    text: bool,
    sequences: bool = False,
    named: Callable[[str], str] = str,
) -> None:
    """Refuse a use of text, or settings of semi-supervised EM, that do not fit the data.

    >>> check_use(None, {"text_weight": 0.5}, partial=True, text=False)
    Traceback (most recent call last):
        ...
    sapwood.errors.UsageError: text_weight requires text
    """
    if use is not None and use not in TEXT_USES:
        raise UsageError(f"{named('text_use')} is one of {', '.join(TEXT_USES)}, not {use!r}")
    if use is not None and not (partial or text):
        raise UsageError(f"{named('text_use')} requires {named('text')} or {named('partial')}")
    if use == "self-training" and (partial or not text):
        raise UsageError(
            f"{named('text_use')} self-training requires {named('text')}, and cannot be used with {named('partial')}"
        )
    if use == "self-training" and sequences:
        raise UsageError(f"{named('text_use')} self-training is for trees, not for {named('sequences')}")
    there = {"partial": partial, "text": text and use in EM_USES}
    shown = {name: named(name) for name in there}
    if text and use not in EM_USES:
        shown["text"] += f" and {named('text_use')} em"
    for name in settings:
        required = _REQUIRED.get(name, ("partial", "text"))
        if not any(there[one] for one in required):
            raise UsageError(f"{named(name)} requires {' or '.join(shown[one] for one in required)}")
