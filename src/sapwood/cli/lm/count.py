"""`sapwood lm count`, `sapwood lm merge` and `sapwood lm show`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from sapwood.cli.lm import common as shared
from sapwood.cli.options import common
from sapwood.cli.options.types import POSITIVE
from sapwood.errors import UsageError
from sapwood.lm.registry import LONGEST_ORDER
from sapwood.runtime.progress import Progress
from sapwood.runtime.shards import Shard
from sapwood.storage.files import STANDARD_STREAM

if TYPE_CHECKING:
    from sapwood.lm.counts.counts import Counts


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
@common.shard_option
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
    shard: Shard | None,
    as_json: bool,
    quiet: bool,
    **settings: Any,
) -> None:
    """Count the words and n-grams of TEXT files and write the counts to a file.

    Words are separated by spaces. Files in .gz, .bz2, .xz and .zst are decompressed, and - is standard input. Counts
    files are accepted as well, and counts of all files are added: give two counts files to merge them. Count the parts
    of a large text without --min-count and apply it when merging, since a word that is rare in one part may be frequent
    overall.

    With --shard, each process counts one part of the texts, and `sapwood lm merge` adds the parts: the file is the same
    as that of one run. A shard that has been counted is skipped when the command is repeated.

    \b
    Examples:
      sapwood lm count train.txt -o train.counts
      zcat news*.gz | sapwood lm count - --order 3 --min-count 2 -o news.counts
      sapwood lm count news*.txt --order 3 --shard 2/8 -o part2.counts
    """
    _check_files(output, text)
    common.refuse_trees_as_text(*text)
    progress = common.make_progress(quiet)
    if shard is not None:
        common.refuse_given(
            context,
            ["cluster"],
            "cannot be used with --shard, which needs no scheduler; start a process for each shard",
        )
        common.refuse_given(context, ["min_count", "max_words"], "is for `sapwood lm merge`, which sees all shards")
        from sapwood.lm.counts.load import counted_before

        given = {name: settings[name] for name in ("order", "boundaries") if settings[name] is not None}
        if counted_before(output, text, shard, **given):
            progress.note(f"{output}: shard {shard} was counted before")
            return
    workers = common.open_workers(context, cluster, threads)
    began = time.perf_counter()
    from sapwood.lm.counts.load import read_counts

    counts = read_counts(
        text,
        threads=workers.threads,
        workers=workers,
        memory=shared.in_bytes(memory),
        progress=progress,
        shard=shard,
        **settings,
    )
    _save(counts, output, began, progress, as_json)


@click.command("merge", short_help="Merge counts, or the shards of a count.")
@click.argument("counts", nargs=-1, required=True)
@click.option("-o", "--output", required=True, help="Write the merged counts to this file.")
@click.option("--min-count", type=POSITIVE, default=1, help="Replace words seen fewer than N times in total by <unk>.")
@shared.vocabulary_option
@shared.memory_option
@common.json_option
@common.quiet_option
def merge_command(
    counts: tuple[str, ...],
    output: str,
    min_count: int,
    max_words: int | None,
    memory: float,
    as_json: bool,
    quiet: bool,
) -> None:
    """Merge COUNTS files: counts of several texts, or of all shards of one (`sapwood lm count --shard`).

    Merged shards have the same bytes as the counts of one run. Shards that are missing or given twice are an error.

    \b
    Examples:
      sapwood lm merge part*.counts -o news.counts
      sapwood lm merge monday.counts tuesday.counts --min-count 2 -o both.counts
    """
    _check_files(output, counts)
    progress = common.make_progress(quiet)
    began = time.perf_counter()
    from sapwood.lm.counts.load import merge_files

    merged = merge_files(
        counts, min_count=min_count, max_words=max_words, memory=shared.in_bytes(memory), progress=progress
    )
    _save(merged, output, began, progress, as_json)


def _check_files(output: str, inputs: Sequence[str]) -> None:
    if output == STANDARD_STREAM:
        raise UsageError("counts cannot be written to standard output; name a file")
    common.check_inputs(*inputs)
    common.refuse_replacing({"-o": output}, inputs)


def _save(counts: Counts, output: str, began: float, progress: Progress, as_json: bool) -> None:
    """Save counts and report their figures."""
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
