"""Options of `sapwood train` for what is learned from beside trees: partly bracketed sentences and plain text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import click

from sapwood.cli._types import Choice
from sapwood.errors import UsageError
from sapwood.run.progress import Progress
from sapwood.trees.formats import BadTrees

if TYPE_CHECKING:
    from sapwood.learn.recipe import Recipe
    from sapwood.learn.teaching import PartialTrees, PlainText
    from sapwood.trees.partial import PartialTree

F = TypeVar("F", bound=Callable[..., Any])
HEADING = "More than trees"
# What text is for, with what `Taught` has for it.
_CLASSES, _READ = "classes", "read"
_USES = {_CLASSES: None, _READ: None, "trees": "auto", "forests": "forests", "best": "best"}
# Options, as they are written, with the settings of `Taught` that they give, and which of the files they go with.
_SETTINGS = {
    "partial-weight": ("partial_weight", ("partial",)),
    "text-weight": ("text_weight", ("text",)),
    "rounds": ("rounds", ("partial", "text")),
    "trust": ("trust", ("partial", "text")),
}
GROUP = ("partial", "text", "text-use", *_SETTINGS)


def teaching_options(function: F) -> F:
    """Add the options."""
    for option in (
        click.option(
            "--trust",
            type=click.FloatRange(min=0),
            help="How far the teacher's probabilities count beside those of the grammar that is learned. [default: 0]",
        ),
        click.option(
            "--rounds", type=click.IntRange(min=1), help="How often sentences are read and learned from. [default: 2]"
        ),
        click.option(
            "--text-weight",
            type=click.FloatRange(min=0, min_open=True),
            help="How much a plain sentence counts; a tree counts 1. [default: 0.3]",
        ),
        click.option(
            "--partial-weight",
            type=click.FloatRange(min=0, min_open=True),
            help="How much a partly bracketed sentence counts. [default: 1]",
        ),
        click.option(
            "--text-use",
            type=Choice(list(_USES)),
            help="What --text is for: classes of words; these, and sentences for a first model to read, from whose "
            "trees a second one learns; or trees by a grammar alone: all that a sentence may have, forests "
            "(split-merge, em), or the best. [default: read, if trees are fewer than 2,000 and neither methods nor "
            "their settings are named; else classes]",
        ),
        click.option("--text", multiple=True, help="Plain text to learn from: one sentence a line, words by blanks."),
        click.option("--partial", multiple=True, help="Partly bracketed sentences to learn from."),
    ):
        function = option(function)
    return function


@dataclass
class Lessons:
    """What there is to learn from beside trees.

    Attributes
    ----------
    partial, text
        Names of files.
    settings
        Those of `Taught`.
    classes
        Whether text is for classes of words.
    read_text
        Whether a model is to read it, too; None: if trees are few.
    """

    partial: Sequence[str]
    text: Sequence[str]
    settings: dict[str, Any]
    classes: bool
    read_text: bool | None
    _brackets: PartialTrees | None = field(default=None, init=False)
    _plain: PlainText | None = field(default=None, init=False)

    @property
    def wanted(self) -> bool:
        """Whether a teacher is needed."""
        return bool(self.partial) or (bool(self.text) and not self.classes)

    @property
    def counts(self) -> dict[str, int]:
        """How many sentences there are of each kind."""
        brackets, plain = self._brackets, self._plain
        return {
            "partial": 0 if brackets is None else len(brackets.trees),
            "text": 0 if plain is None else len(plain.sentences),
        }

    def read(self, skip_bad: bool, progress: Progress) -> None:
        """Read the files."""
        from sapwood.learn.teaching import PartialTrees, PlainText
        from sapwood.trees.partial import read_partial

        trees: list[PartialTree] = []
        for path in self.partial:
            bad = BadTrees() if skip_bad else None
            trees += read_partial(path, on_bad=bad)
            if bad is not None and bad.count:
                progress.note(bad.report())
        self._brackets = PartialTrees(trees) if self.partial else None
        self._plain = PlainText.read(*self.text) if self.text and not self.classes else None

    def unreadable(self) -> str | None:
        """Return why a model cannot read the text, if it cannot."""
        from sapwood.files import is_regular
        from sapwood.lm.models import kind_of

        for path in self.text:
            if not is_regular(path):
                return f"{path}: text that is read twice must be a file"
            if kind_of(path) is not None:
                return f"{path}: has no sentences"
        return None

    def sentences(self) -> Iterator[list[str]]:
        """Yield what there is to read."""
        from sapwood.trees.formats import read_tokens

        for path in self.text:
            yield from read_tokens(path)

    def added(self, recipe: Recipe) -> Recipe:
        """Return a recipe whose learners are given that as well."""
        from sapwood.learn.teaching import taught

        return taught(recipe, self._brackets, self._plain, **self.settings) if self.wanted else recipe


def take_lessons(given: dict[str, Any], partial: Sequence[str], text: Sequence[str]) -> Lessons:
    """Return what there is to learn from, and take its settings out of those that are given."""
    use = given.pop("text_use")
    if use is not None and not (partial or text):
        raise UsageError("--text-use goes with --text and --partial")
    classes = bool(text) and use in (None, _CLASSES, _READ)
    there = {"partial": bool(partial), "text": bool(text) and not classes}
    written = {"partial": "--partial", "text": "--text and --text-use trees" if text else "--text"}
    if use == _READ and (partial or not text):
        raise UsageError(f"--text-use {_READ} goes with --text, and not with --partial")
    found: dict[str, Any] = {} if _USES.get(use or _CLASSES) is None else {"text_use": _USES[use]}
    for option, (name, files) in _SETTINGS.items():
        value = given.pop(name)
        if value is None:
            continue
        if not any(there[file] for file in files):
            raise UsageError(f"--{option} goes with {' or '.join(written[file] for file in files)}")
        found[name] = value
    return Lessons(partial, text, found, classes, {None: None, _READ: True}.get(use, False) if text else False)
