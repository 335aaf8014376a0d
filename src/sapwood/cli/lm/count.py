"""`sapwood lm count` and `sapwood lm show`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import click

from sapwood.cli.lm import common as shared
from sapwood.cli.options import common
from sapwood.cli.options.types import POSITIVE
from sapwood.errors import UsageError
from sapwood.lm.registry import LONGEST_ORDER
from sapwood.storage.files import STANDARD_STREAM


@click.command("count", short_help="Count the n-grams of texts, or merge counts.")
@click.argument("text", nargs=-1, required=True)
@click.option("-o", "--output", required=True, help="Write the counts to this file.")
@click.option(
    "--order",
    type=click.IntRange(1, LONGEST_ORDER),
    help="Maximum length of n-grams. [default: 2, or as in the counts files]",
)
@click.option(
    "--min-count", type=POSITIVE, default=1, help="Replace words seen fewer than N times in all files by <unk>."
)
@shared.vocabulary_option
@shared.boundaries_option("sentence, or as in the counts files")
@shared.memory_option
@common.threads_option
@common.cluster_option
@common.json_option
@common.quiet_option
@click.pass_context
def count_command(
    context: click.Context,
    /,
    text: tuple[str, ...],
    output: str,
    memory: float,
    threads: int | None,
    cluster: str | None,
    as_json: bool,
    quiet: bool,
    **settings: Any,
) -> None:
    """Count the words and n-grams of TEXT files and write the counts to a file.

    Words are separated by spaces. Files in .gz, .bz2, .xz and .zst are decompressed, and - is standard input. Counts
    files are accepted as well, and counts of all files are added: give two counts files to merge them. Count the parts
    of a large text without --min-count and apply it when merging, since a word that is rare in one part may be frequent
    overall.

    \b
    Examples:
      sapwood lm count train.txt -o train.counts
      zcat news*.gz | sapwood lm count - --order 3 --min-count 2 -o news.counts
      sapwood lm count monday.counts tuesday.counts --min-count 2 -o both.counts
    """
    if output == STANDARD_STREAM:
        raise UsageError("counts cannot be written to standard output; name a file")
    common.check_inputs(*text)
    common.refuse_replacing({"-o": output}, text)
    progress = common.make_progress(quiet)
    workers = common.open_workers(context, cluster, threads)
    began = time.perf_counter()
    from sapwood.lm.counts.load import read_counts

    counts = read_counts(
        text,
        threads=workers.threads,
        workers=workers,
        memory=shared.in_bytes(memory),
        progress=progress,
        **settings,
    )
    counts.save(output)
    seconds = time.perf_counter() - began
    found = counts.describe()
    distinct = " and ".join(f"{row['distinct']:,} {_NAMES[row['order'] - 1]}" for row in found["ngrams"][1:])
    progress.note(
        f"{output}: {found['tokens']:,} tokens, {found['words']:,} words{', ' * bool(distinct)}{distinct} "
        f"in {seconds:.1f} s"
    )
    if as_json:
        shared.print_json({"counts": output, **found, "seconds": round(seconds, 3)})


_NAMES = ("words", "bigrams", "trigrams", *(f"{k}-grams" for k in range(4, LONGEST_ORDER + 1)))


@click.command("show", short_help="Describe a counts file or a model.")
@click.argument("file")
@shared.top_option
@common.json_option
@common.silent_option
def show_command(file: str, top: int, as_json: bool) -> None:
    """Describe a FILE of counts, a language model or an ARPA file, and how it was made.

    \b
    Examples:
      sapwood lm show train.counts --top 20
      sapwood lm show model.sapwood --json
    """
    from sapwood.lm.counts.counts import Counts
    from sapwood.lm.io import kind_of

    common.check_inputs(file)
    if kind_of(file) == "counts":
        counts = Counts.load(file)
        most = [
            {"order": k, "ngrams": [{"ngram": ngram, "count": n} for ngram, n in counts.most_frequent(k, top)]}
            for k in range(1, counts.order + 1)
        ]
        figures = {name: value for name, value in counts.describe().items() if value is not None}
        found = {"kind": "counts", **figures, "top": most}
    else:
        found = shared.load_model(file).describe()
    if as_json:
        shared.print_json({"file": file, **found})
        return
    click.echo("\n".join(_format(found)))


def _format(found: dict[str, Any]) -> Iterator[str]:
    """Yield a readable description of the file, line by line."""
    for name, value in found.items():
        if name == "ngrams" and found["kind"] == "counts":
            yield "order" + "".join(f"{title:>14}" for title in ("distinct", "in all", "once", "twice", "3 times"))
            for row in value:
                figures = (row["distinct"], row["total"], *row["seen"][:3])
                yield f"{row['order']:<5}" + "".join(f"{figure:>14,}" for figure in figures)
        elif name == "top":
            for row in value:
                yield f"\nthe most frequent {_NAMES[row['order'] - 1]}"
                yield from (f"{item['count']:>14,} {item['ngram']}" for item in row["ngrams"])
        elif name == "members":
            yield "members"
            for member in value:
                parts = ", ".join(f"{name} {_shown(part)}" for name, part in member.items() if name in _TOLD)
                yield f"  {100 * member['weight']:4.1f}% {member['kind']}: {parts}"
        elif name == "info":
            told = {**value.get("settings", {}), **value}
            yield from (f"{name.replace('_', ' '):18} {_shown(told[name])}" for name in _LEARNED if name in told)
        else:
            yield f"{name:18} {_shown(value)}"


# Reported properties of members of a mixture, and of training.
_TOLD = ("states", "lags", "order", "ngrams")
_LEARNED = ("method", "iterations", "pivot_iterations", "joint_iterations", "prior", "word_prior", "random_state")


def _shown(value: object) -> str:
    if isinstance(value, list):
        return " + ".join(_shown(part) for part in value)
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
