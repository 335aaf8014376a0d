"""`sapwood identify`."""

from __future__ import annotations

import time

import click

from sapwood.cli import _common as common
from sapwood.cli._types import Choice
from sapwood.errors import UsageError, shortened
from sapwood.files import whole_number

# The names in sapwood.induction, without the time that importing it costs.
_MODELS = ("pcfg", "pcfg-i", "pcfg-ie", "dep-i", "dep-ie", "dep-ies", "pcfg-ies")
_MOMENTS = ("1", "12", "**", "123", "123eta", "***", "***eta", "all")


@click.command("identify", short_help="Tell whether a model can be learned from sentences at all.")
@click.option("--model", "name", type=Choice(_MODELS), required=True, help="The kind of model.")
@click.option("--words", type=click.IntRange(min=1), required=True, help="Different words.")
@click.option("--states", type=click.IntRange(min=1), help="Hidden states, for the models that have any.")
@click.option(
    "--length",
    "lengths",
    type=click.IntRange(min=1),
    required=True,
    multiple=True,
    help="Words in a sentence; give it several times to observe sentences of several lengths.",
)
@click.option(
    "--moments",
    type=Choice(_MOMENTS),
    default=("all",),
    show_default=True,
    multiple=True,
    help="What is observed of the sentences; give it several times to observe all of these.",
)
@click.option(
    "--eta",
    default="1",
    show_default=True,
    help="Of the moments that have one: the number of a word, whose unit vector it is, or 'random'.",
)
@click.option("--trials", type=click.IntRange(min=1, max=8), default=2, show_default=True, help="Primes to try.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of the random points.")
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
    """Tell whether the parameters of a parsing model are determined by moments of sentences without trees.

    Models: pcfg (any rules), pcfg-i (children independent), pcfg-ie (and alike), dep-i (arguments by side), dep-ie
    (sides alike), dep-ies (and the root's word stationary), and pcfg-ies (pcfg-ie in which states decide to stop).

    Moments: 1, 12, 123 (the distribution of the first words), 123eta (of the first two, weighted by the third), **,
    ***, ***eta (the same for any words of the sentence), all (of whole sentences).

    The answer is for almost all parameters, and local: finitely many others, as those with states renamed, may have
    the same moments. "Yes" is proved, "no" is certain but for a tiny probability that is printed.

    \b
    Examples:
      sapwood identify --model pcfg-ie --words 4 --states 3 --length 3 --moments 123
      sapwood identify --model pcfg-ie --words 5 --states 4 --length 3 --moments "**" --moments "***eta"
      sapwood identify --model dep-ie --words 5 --length 2 --json
    """
    names = list(dict.fromkeys(moments))
    weighted = any(each.endswith("eta") for each in names)
    if not weighted:
        common.refuse_given(context, ["eta"], f"goes with moments that have one, not with {' and '.join(names)}")
    number = whole_number(eta)
    if eta != "random" and number is None:
        raise UsageError(f"--eta is the number of a word, or 'random', not {shortened(eta)!r}")
    began = time.perf_counter()
    from sapwood.induction import ModelMoments, check_identifiability, make_model
    from sapwood.induction.identify import check_size

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
