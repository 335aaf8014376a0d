"""`sapwood corpus`."""

from __future__ import annotations

from collections.abc import Iterator

import click

from sapwood.cli.options import common
from sapwood.cli.options.types import BETWEEN_0_AND_1, POSITIVE, ChoiceParam
from sapwood.cli.treebank.reading import read_files
from sapwood.cli.treebank.tables import check_table_output, write_table
from sapwood.runtime.progress import Progress
from sapwood.storage.files import STANDARD_STREAM, name_of
from sapwood.treebank.statistics import STATISTICS, VERBS, count_corpus, productivity, summarise
from sapwood.trees.formats.registry import InputFormat
from sapwood.trees.search.patterns import parse_pattern
from sapwood.trees.search.table import TreeTable

_UNCOMPARED = ("summary", "productivity")


@click.command("corpus", short_help="Frequencies and statistics of treebanks, and comparisons.")
@click.argument("statistic", type=ChoiceParam(STATISTICS))
@click.argument("treebank", nargs=-1)
@click.option("--against", multiple=True, help="Treebank to compare with. Repeatable.")
@click.option("--confidence", type=BETWEEN_0_AND_1, default=0.95, help="Confidence level of the intervals.")
@click.option("--verbs", help=f"Pattern for the verbs of frames. [default: {VERBS}]")
@click.option("--limit", type=POSITIVE, help="Print at most N rows. [default: no limit]")
@click.option("-o", "--output", help="Output file: text, .csv, .tsv, .parquet, .svg, .png or .pdf.")
@common.format_option
@common.skip_bad_option
@common.json_option
@common.quiet_option
@click.pass_context
def command(
    context: click.Context,
    statistic: str,
    treebank: tuple[str, ...],
    against: tuple[str, ...],
    confidence: float,
    verbs: str | None,
    limit: int | None,
    output: str | None,
    input_format: InputFormat,
    skip_bad: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Print a STATISTIC of TREEBANK files (default: standard input).

    summary: numbers of trees, words and labels; lengths and depths. words, tags, labels, rules, lengths, depths:
    frequencies. frames: verbs with their sisters. productivity: types, tokens and hapax legomena of the rules of each
    label.

    --against compares frequencies with those of other treebanks: log-likelihood ratio, and logarithm of the frequency
    ratio with its confidence interval.

    \b
    Examples:
      sapwood corpus summary train.mrg
      sapwood corpus rules train.mrg --against other.mrg --limit 20
      sapwood corpus frames train.mrg -o frames.csv
    """
    if statistic != "frames":
        common.refuse_given(context, ["verbs"], "requires the statistic frames")
    if statistic in _UNCOMPARED:
        common.refuse_given(context, ["against"], f"cannot be used with {statistic}")
    if not against:
        common.refuse_given(context, ["confidence"], "requires --against")
    paths = list(treebank) or [STANDARD_STREAM]
    common.check_inputs(*paths, *against)
    common.refuse_replacing({"-o": output}, [*paths, *against])
    check_table_output(output, as_json)
    pattern = VERBS if verbs is None else parse_pattern(verbs).text
    progress = common.make_progress(quiet)

    def read(some: list[str]) -> Iterator[tuple[str, TreeTable]]:
        return _named(some, input_format, skip_bad, progress)

    if statistic == "summary":
        table = summarise(read(paths))
    elif statistic == "productivity":
        table = productivity(count_corpus("rules", read(paths)))
    else:
        counts = count_corpus(statistic, read(paths), verbs=pattern)
        if against:
            other = count_corpus(statistic, read(list(against)), verbs=pattern)
            table = counts.against(other, confidence=confidence, most=limit)
        else:
            table = counts.table(limit)
    table = table._replace(rows=table.rows[:limit])
    write_table(table, output, as_json=as_json, title=f"{statistic} of {', '.join(map(name_of, paths))}")


def _named(
    paths: list[str], input_format: InputFormat, skip_bad: bool, progress: Progress
) -> Iterator[tuple[str, TreeTable]]:
    """Yield tables with the names of their files."""
    for path, table in read_files(paths, input_format, skip_bad, progress, "reading", counted=True):
        yield name_of(path), table
