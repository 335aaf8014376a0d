"""What the commands of `sapwood lm` share: options, reading models, printing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import click

from sapwood.cli import _common as common
from sapwood.cli._types import Choice
from sapwood.errors import ModelError
from sapwood.lm.methods import Boundaries
from sapwood.run.progress import Progress

if TYPE_CHECKING:
    from sapwood.lm.evaluation import Evaluation
    from sapwood.lm.latent_model import LatentBigram
    from sapwood.lm.models import AnyModel

F = TypeVar("F", bound=Callable[..., Any])

threads_option = click.option(
    "--threads", type=click.IntRange(min=1, max=1024), help="Threads to work with. [default: all cores]"
)
top_option = click.option("--top", type=click.IntRange(min=1), default=10, show_default=True, help="How many to show.")
seed_option = click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of every random choice."
)
vocabulary_option = click.option(
    "--vocabulary", "max_words", type=click.IntRange(min=1), help="Keep only so many words, the most frequent ones."
)
memory_option = click.option(
    "--memory",
    type=click.FloatRange(0.001, 1e6),
    default=4.0,
    show_default=True,
    help="Gigabytes to count in, besides the vocabulary; what needs more goes to temporary files.",
)


def boundaries_option(default: str) -> Callable[[F], F]:
    """Return the option that says whether lines are sentences, with what its help says of the default."""
    return click.option(
        "--boundaries",
        type=Choice(get_args(Boundaries)),
        help=f"Each line is a sentence, or line ends mean nothing. [default: {default}]",
    )


def in_bytes(gigabytes: float) -> int:
    """Return how many bytes `--memory` allows."""
    return int(gigabytes * 2**30)


def load_model(path: str) -> AnyModel:
    """Read a language model of any kind, ARPA files too."""
    from sapwood.lm.models import load_model as load

    return load(path)


def load_latent(path: str) -> LatentBigram:
    """Read the model with hidden states that is in a file."""
    return latent_part(load_model(path), path)


def latent_part(model: AnyModel, path: str) -> LatentBigram:
    """Return the part of a model that has hidden states, or name the file that has none."""
    from sapwood.lm import models

    try:
        return models.latent_part(model)
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from error


def print_json(value: object) -> None:
    """Print a JSON object, with null in place of numbers that are not finite."""
    from sapwood.lm.base import finite

    common.print_json(finite(value))


def evaluation_report(found: Evaluation, progress: Progress) -> dict[str, Any]:
    """Return an evaluation as JSON values, and say why there is no perplexity, if there is none."""
    if not found.tokens:
        progress.note("there is no perplexity: the model knows none of the words")
    elif found.log_probability == float("-inf"):
        progress.note("the perplexity is infinite: a word that the model knows has the probability 0")
    return {
        "perplexity": found.perplexity,
        "tokens": found.tokens,
        "unknown": found.unknown,
        "log_probability": found.log_probability,
    }


def format_evaluation(found: Evaluation) -> str:
    """Return an evaluation as text."""
    perplexity = f"{found.perplexity:.2f}" if found.tokens else "none"
    return f"perplexity  {perplexity}\ntokens      {found.tokens:,}\nunknown     {found.unknown:,}"
