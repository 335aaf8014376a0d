"""Helpers shared by the commands of `sapwood lm`: options, reading models, printing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import click

from sapwood.cli.options import common
from sapwood.cli.options.types import POSITIVE, ChoiceParam
from sapwood.errors import ModelError
from sapwood.lm.registry import Boundaries
from sapwood.runtime.progress import Progress

if TYPE_CHECKING:
    from sapwood.lm.base import Evaluation
    from sapwood.lm.io import AnyModel
    from sapwood.lm.latent.bigram import LatentBigram

F = TypeVar("F", bound=Callable[..., Any])

top_option = click.option("--top", type=POSITIVE, default=10, help="Number of items to show.")
vocabulary_option = click.option(
    "--vocabulary", "max_words", type=POSITIVE, help="Keep only the N most frequent words."
)
memory_option = click.option(
    "--memory",
    type=click.FloatRange(0.001, 1e6),
    default=4.0,
    help="Memory for counting in gigabytes, besides the vocabulary; the rest goes to temporary files.",
)


def boundaries_option(default: str) -> Callable[[F], F]:
    """Return --boundaries, with this description of its default."""
    return click.option(
        "--boundaries",
        type=ChoiceParam(get_args(Boundaries)),
        help=f"Treat each line as a sentence, or the text as one stream of words. [default: {default}]",
    )


def in_bytes(gigabytes: float) -> int:
    """Return `--memory` in bytes."""
    return int(gigabytes * 2**30)


def load_model(path: str) -> AnyModel:
    """Read a language model of any kind, including ARPA files."""
    from sapwood.lm.io import load_model as load

    return load(path)


def load_latent(path: str) -> LatentBigram:
    """Read a model with hidden states from a file."""
    return latent_part(load_model(path), path)


def latent_part(model: AnyModel, path: str) -> LatentBigram:
    """Return the part of a model with hidden states; raises an error that names the file if it has none."""
    from sapwood.lm import io as models

    try:
        return models.latent_part(model)
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from error


def print_json(value: object) -> None:
    """Print a JSON object, with null for non-finite numbers."""
    from sapwood.lm.base import finite

    common.print_json(finite(value))


def evaluation_report(found: Evaluation, progress: Progress) -> dict[str, Any]:
    """Return an evaluation as JSON values, and report why the perplexity is undefined or infinite, if it is."""
    if not found.tokens:
        progress.note("the perplexity is undefined: the model knows none of the words")
    elif found.log_probability == float("-inf"):
        progress.note("the perplexity is infinite: a known word has probability 0")
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
