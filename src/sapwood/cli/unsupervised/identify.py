"""`sapwood identify`."""

from __future__ import annotations

import time

import click

from sapwood.cli.options import common
from sapwood.cli.options.types import POSITIVE, ChoiceParam
from sapwood.errors import UsageError, shortened
from sapwood.storage.files import whole_number

# The names in sapwood.induction, whose import takes time.
_MODELS = ("pcfg", "pcfg-i", "pcfg-ie", "dep-i", "dep-ie", "dep-ies", "pcfg-ies")
_MOMENTS = ("1", "12", "**", "123", "123eta", "***", "***eta", "all")


@click.command("identify", short_help="Check whether a model is identifiable from sentences.")
@click.option("--model", "name", type=ChoiceParam(_MODELS), required=True, help="Model family.")
@click.option("--words", type=POSITIVE, required=True, help="Size of the vocabulary.")
@click.option("--states", type=POSITIVE, help="Number of hidden states, for models that have them.")
@click.option(
    "--length", "lengths", type=POSITIVE, required=True, multiple=True, help="Sentence length in words. Repeatable."
)
@click.option(
    "--moments",
    type=ChoiceParam(_MOMENTS),
    default=("all",),
    multiple=True,
    help="Observed moments of the sentences. Repeatable.",
)
@click.option(
    "--eta", default="1", help="Weight vector of the moments with eta: the unit vector of word N, or 'random'."
)
@click.option(
    "--trials",
    type=click.IntRange(min=1, max=8),
    default=2,
    help="Number of random primes modulo which the rank is computed.",
)
@common.seed_option
@common.json_option
@click.pass_context
def command(
    context: click.Context,
    name: str,
    words: int,
    states: int | None,
    lengths: tuple[int, ...],
    moments: tuple[str, ...],
    eta: str,
    trials: int,
    seed: int,
    as_json: bool,
) -> None:
    """Check whether the parameters of a parsing model are identifiable from moments of sentences without trees.

    Models: pcfg (any rules), pcfg-i (independent children), pcfg-ie (independent and identically distributed children),
    dep-i (arguments by side), dep-ie (the same for both sides), dep-ies (dep-ie with a stationary root word), and
    pcfg-ies (pcfg-ie whose states decide when to stop).

    Moments: 1, 12, 123 (the distribution of the first words), 123eta (of the first two, weighted by the third), **,
    ***, ***eta (the same for any words of the sentence), all (of whole sentences).

    The answer is generic and local: it holds for almost all parameters, and finitely many others, such as those with
    permuted states, may have the same moments. "Yes" is proved; "no" is wrong only with the tiny probability that is
    printed.

    \b
    Examples:
      sapwood identify --model pcfg-ie --words 4 --states 3 --length 3 --moments 123
      sapwood identify --model pcfg-ie --words 5 --states 4 --length 3 --moments "**" --moments "***eta"
      sapwood identify --model dep-ie --words 5 --length 2 --json
    """
    names = list(dict.fromkeys(moments))
    weighted = any(each.endswith("eta") for each in names)
    if not weighted:
        common.refuse_given(context, ["eta"], f"requires moments with eta, not {' and '.join(names)}")
    number = whole_number(eta)
    if eta != "random" and number is None:
        raise UsageError(f"--eta is the number of a word, or 'random', not {shortened(eta)!r}")
    began = time.perf_counter()
    from sapwood.identifiability import ModelMoments, check_identifiability, make_model
    from sapwood.identifiability.identify import check_size

    model = make_model(name, words, states)
    check_size(model, max(lengths))
    asked = ModelMoments(model, names, sorted(set(lengths)), "random" if number is None else number)
    found = check_identifiability(asked, trials=trials, random_state=seed)
    if not as_json:
        click.echo(asked.describe())
        click.echo(found.describe())
        return
    given = {"length": lengths[0], **({"lengths": sorted(set(lengths))} if len(lengths) > 1 else {})}
    given |= {"moments": names[0] if len(names) == 1 else names, **({"eta": eta} if weighted else {})}
    seconds = round(time.perf_counter() - began, 3)
    common.print_json({"model": name, "words": words, "states": states, **given, **found.to_dict(), "seconds": seconds})
