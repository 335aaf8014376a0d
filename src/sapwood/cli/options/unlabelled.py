"""Options of `sapwood train` for unlabelled text and partially bracketed sentences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from sapwood.cli.options.common import was_given
from sapwood.cli.options.types import ABOVE_ZERO, POSITIVE, ChoiceParam
from sapwood.runtime.progress import Progress
from sapwood.trees.formats.registry import BadTrees

if TYPE_CHECKING:
    from sapwood.pipeline.unlabelled import UnlabelledData
    from sapwood.trees.partial import PartialTree

F = TypeVar("F", bound=Callable[..., Any])
HEADING = "Unlabelled and partially labelled data"
# The names in sapwood.pipeline.unlabelled, whose import takes seconds.
TEXT_USES = ("self-training", "word-classes", "em", "em-forests", "em-best")
# Options with the settings of `SemiSupervised` that they set.
_SETTINGS = {
    "partial-weight": "partial_weight",
    "text-weight": "text_weight",
    "teacher-rounds": "rounds",
    "teacher-weight": "teacher_weight",
}
_OPTIONS = {setting: f"--{option}" for option, setting in _SETTINGS.items()}
# Options that `--adapt` can be combined with; all others are settings of the model.
WITH_ADAPT = frozenset(
    {
        "treebank", "output", "dev", "adapt", "adapt_weight", "tokeniser", "seed", "resume", "log_path", "loggers",
        "save_config", "config", "threads", "cluster", "as_json", "quiet", "input_format", "gaps", "skip_bad",
    }
)  # fmt: skip
GROUP = ("partial", "text", "text-use", *_SETTINGS, "silver", "teacher", "gold-weight", "adapt", "adapt-weight")
FORMER_OPTIONS = {"trust": "teacher-weight", "rounds": "teacher-rounds"}
FORMER_USES = {
    "read": "self-training", "classes": "word-classes", "trees": "em", "forests": "em-forests", "best": "em-best",
}  # fmt: skip


def unlabelled_options(function: F) -> F:
    """Add the options of unlabelled and partially labelled data."""
    for option in (
        click.option(
            "--adapt-weight",
            type=ABOVE_ZERO,
            help="With --adapt: weight of a tree next to one that the model was trained on. "
            "[default: chosen on a quarter of the trees]",
        ),
        click.option("--adapt", help="Adapt this model to TREEBANK instead of training a new one."),
        click.option(
            "--gold-weight",
            type=POSITIVE,
            help="With --silver or --teacher: weight of a gold tree; a silver tree has weight 1. [default: 3]",
        ),
        click.option("--teacher", help="Distillation: model that predicts silver trees for the sentences of --text."),
        click.option(
            "--silver",
            multiple=True,
            help="Distillation: trees predicted by another parser, to train on as well. Repeatable.",
        ),
        click.option(
            "--teacher-weight",
            type=click.FloatRange(min=0),
            help="Exponent of the teacher's posteriors in the E-step; 0 ignores them. [default: 0]",
        ),
        click.option(
            "--teacher-rounds",
            type=POSITIVE,
            help="Rounds of parsing the sentences and retraining on them. [default: 2]",
        ),
        click.option(
            "--text-weight",
            type=ABOVE_ZERO,
            help="Weight of an unlabelled sentence; a tree has weight 1. [default: 0.3]",
        ),
        click.option(
            "--partial-weight",
            type=ABOVE_ZERO,
            help="Weight of a partially bracketed sentence; a tree has weight 1. [default: 1]",
        ),
        click.option(
            "--text-use",
            type=ChoiceParam(TEXT_USES),
            help="Use of --text: word classes; word classes and self-training; or semi-supervised EM of the grammar "
            "alone, on packed forests (split-merge, em) or on one-best trees; em chooses between these two. "
            "[default: self-training below 2,000 trees and without method settings, else word-classes]",
        ),
        click.option(
            "--text",
            multiple=True,
            help="Unlabelled text: one sentence per line, tokens separated by spaces. Repeatable.",
        ),
        click.option("--partial", multiple=True, help="Partially bracketed sentences. Repeatable."),
    ):
        function = option(function)
    return function


def take_semi_supervised(given: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of semi-supervised EM, and remove their options from `given`."""
    found = {setting: given.pop(option.replace("-", "_")) for option, setting in _SETTINGS.items()}
    return {name: value for name, value in found.items() if value is not None}


def as_option(name: str) -> str:
    """Return the option that sets an argument of `sapwood.train`.

    >>> as_option("text_use"), as_option("rounds")
    ('--text-use', '--teacher-rounds')
    """
    return _OPTIONS.get(name, f"--{name.replace('_', '-')}")


def check_adaptation(context: click.Context, model: str | None, weight: float | None) -> None:
    """Refuse options that cannot be combined with `--adapt`, before anything is read."""
    from sapwood.pipeline.adaptation import check_arguments

    if model is None and weight is None:
        return
    names = [str(option.name) for option in context.command.params]
    others = [name for name in names if name not in WITH_ADAPT and was_given(context, name)]
    check_arguments(model, weight, others, as_option)


def check_distillation(
    silver: Sequence[str], teacher: str | None, gold_weight: int | None, data: UnlabelledData, *, sequences: bool
) -> None:
    """Refuse combinations of the options of distillation that have no meaning, before anything is read."""
    from sapwood.pipeline.silver import SilverSource

    others = {"sequences": sequences, "partial": data.partial is not None}
    SilverSource(() if silver else None, teacher, gold_weight).check(
        text=data.text is not None, text_use=data.use, refused=[name for name, given in others.items() if given],
        named=as_option,
    )  # fmt: skip


def read_partial_files(paths: Sequence[str], skip_bad: bool, progress: Progress) -> list[PartialTree] | None:
    """Return the partially bracketed sentences of files, None without files."""
    from sapwood.trees.partial import read_partial

    trees: list[PartialTree] = []
    for path in paths:
        bad = BadTrees() if skip_bad else None
        trees += read_partial(path, on_bad=bad)
        if bad is not None and bad.count:
            progress.note(bad.report())
    return trees if paths else None
