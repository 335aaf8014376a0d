"""`sapwood parse` of tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from sapwood.cli import _common as common
from sapwood.errors import UsageError
from sapwood.run.progress import Progress

if TYPE_CHECKING:
    from sapwood.inference import Parser

# The endings in sapwood.interop.arrow, without the seconds that importing it costs.
TABLES = (".parquet", ".arrow", ".feather")


def check_table(context: click.Context, files: Sequence[str], column: str | None, output: str | None) -> None:
    """Refuse what does not go with a table."""
    if len(files) > 1:
        raise UsageError("one table at a time; name one file")
    if column is None:
        raise UsageError(f"{files[0]}: say which column has the sentences: --column text")
    if output is None or not output.endswith(TABLES):
        raise UsageError(f"{files[0]}: a table is parsed into another one: -o OUT.parquet (or {', '.join(TABLES[1:])})")
    common.refuse_given(
        context, ["output_format", "as_json", "tags", "states"], "does not go with a table, which has columns"
    )


def parse_into_table(parser: Parser, source: str, output: str, column: str, raw: bool, progress: Progress) -> None:
    """Parse a column of a table into another table, and say what became of the sentences."""
    from sapwood.interop.arrow import ColumnParser, parse_table

    statuses = parse_table(ColumnParser(parser, column, raw=raw), source, output, progress=progress)
    told = ", ".join(f"{count:,} {status}" for status, count in statuses.most_common())
    progress.note(f"{output}: {told or 'no sentences'}")
