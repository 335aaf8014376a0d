"""Options of `sapwood train` for what is learned from beside trees: partly bracketed sentences and plain text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from sapwood.cli import _common as common
from sapwood.errors import UsageError
from sapwood.run.progress import Progress
from sapwood.trees.formats import BadTrees

if TYPE_CHECKING:
    from sapwood.learn.base import Learner
    from sapwood.learn.teaching import PartialTrees, PlainText
    from sapwood.trees.partial import PartialTree

F = TypeVar("F", bound=Callable[..., Any])
HEADING = "More than trees"
# Options, as they are written, with the settings of `Taught` that they give, and which of the files they go with.
_SETTINGS = {
    "partial-weight": ("partial_weight", ("partial",)),
    "text-weight": ("text_weight", ("text",)),
    "text-use": ("text_use", ("partial", "text")),
    "rounds": ("rounds", ("partial", "text")),
    "trust": ("trust", ("partial", "text")),
}
GROUP = ("partial", "text", *_SETTINGS)


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
            "--text-use",
            type=common.Choice(["auto", "forests", "best"]),
            help="Learn from all trees that a sentence may have (split-merge, em), or from the best. [default: auto]",
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
        click.option("--text", multiple=True, help="Plain sentences to learn from: tokens, one sentence a line."),
        click.option("--partial", multiple=True, help="Partly bracketed sentences to learn from."),
    ):
        function = option(function)
    return function


def take_settings(given: dict[str, Any], partial: Sequence[str], text: Sequence[str]) -> dict[str, Any]:
    """Return the settings of teaching, and take them out of those that are given."""
    found = {}
    for option, (name, files) in _SETTINGS.items():
        value = given.pop(name)
        if value is None:
            continue
        if not any({"partial": partial, "text": text}[file] for file in files):
            raise UsageError(f"--{option} goes with {' and '.join(f'--{file}' for file in files)}")
        found[name] = value
    return found


def read_partial_trees(paths: Sequence[str], skip_bad: bool, progress: Progress) -> PartialTrees | None:
    """Return the partly bracketed sentences of files; None if there are no files."""
    from sapwood.learn.teaching import PartialTrees
    from sapwood.trees.partial import read_partial

    trees: list[PartialTree] = []
    for path in paths:
        bad = BadTrees() if skip_bad else None
        trees += read_partial(path, on_bad=bad)
        if bad is not None and bad.count:
            progress.note(bad.report())
    return PartialTrees(trees) if paths else None


def read_text(paths: Sequence[str]) -> PlainText | None:
    """Return the plain sentences of files; None if there are no files."""
    from sapwood.learn.teaching import PlainText

    return PlainText.read(*paths) if paths else None


def teach(learner: Learner, partial: PartialTrees | None, text: PlainText | None, settings: dict[str, Any]) -> Learner:
    """Return a learner that is given more than trees, if there is more."""
    from sapwood.learn.teaching import Taught

    if partial is None and text is None:
        return learner
    return Taught.of(learner, partial=partial, text=text, **settings)
