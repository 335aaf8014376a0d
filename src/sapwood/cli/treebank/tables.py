"""Output of tables of counts: text, CSV, JSON, Parquet and pictures."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

from sapwood.errors import UsageError
from sapwood.plots.pictures import PICTURE_FORMATS, check_matplotlib
from sapwood.runtime.tables import format_table
from sapwood.storage.files import STANDARD_STREAM, atomic_write, open_output
from sapwood.treebank.counts import ResultTable

_SEPARATORS = {".csv": ",", ".tsv": "\t"}
_PARQUET = ".parquet"
# Extensions of other formats, and what there is instead.
_OTHERS = (".xlsx", ".xls", ".ods", ".arrow", ".feather", ".html", ".jpg", ".jpeg", ".mrg", ".dbr", ".docx")
_ENDINGS = ".csv, .tsv, .parquet, .svg, .png, .pdf or .txt"


def check_table_output(output: str | None, as_json: bool) -> None:
    """Raise a `UsageError` before the work begins if a table cannot be written as its name asks."""
    ending = "" if output is None else Path(output).suffix.lower()
    if as_json and (ending in (*_SEPARATORS, _PARQUET) or ending[1:] in PICTURE_FORMATS):
        raise UsageError(f"--json cannot be used with -o {output}, which has a format of its own")
    if ending in _OTHERS or (ending == ".json" and not as_json):
        remedy = "add --json" if ending == ".json" else f"end the name in {_ENDINGS}"
        raise UsageError(f"-o {output}: a table cannot be written in the format of that name: {remedy}")
    if ending[1:] in PICTURE_FORMATS:
        check_matplotlib()
    if ending == _PARQUET:
        from sapwood.interop.arrow import import_arrow

        import_arrow()


def write_table(table: ResultTable, output: str | None, *, as_json: bool, title: str = "") -> None:
    """Write a table: `.csv`, `.tsv`, `.parquet` and pictures by the name of the file, else JSON lines or text."""
    ending = "" if output is None or output == STANDARD_STREAM else Path(output).suffix.lower()
    if output is not None and ending[1:] in PICTURE_FORMATS:
        _draw(table, output, title)
    elif output is not None and ending == _PARQUET:
        _write_parquet(table, output)
    else:
        with open_output(output) as stream:
            if ending in _SEPARATORS:
                writer = csv.writer(stream, delimiter=_SEPARATORS[ending], lineterminator="\n")
                writer.writerow(table.columns)
                writer.writerows(table.rows)
            elif as_json:
                for row in table.rows:
                    value = dict(zip(table.columns, row, strict=True))
                    stream.write(json.dumps(value, ensure_ascii=False) + "\n")
            else:
                rows = [[_shown(cell) for cell in row] for row in table.rows]
                stream.write(format_table([table.columns, *rows]) + "\n")


def _shown(cell: Any) -> str:
    if isinstance(cell, float):
        return f"{cell:.4g}" if abs(cell) < 10 else f"{cell:,.1f}"
    return f"{cell:,}" if isinstance(cell, int) else "".join(c if c.isprintable() else " " for c in str(cell))


def _write_parquet(table: ResultTable, output: str) -> None:
    from sapwood.interop.arrow import import_arrow

    arrow = import_arrow()
    import pyarrow.parquet

    columns = {name: [row[place] for row in table.rows] for place, name in enumerate(table.columns)}
    with atomic_write(output) as stream:
        pyarrow.parquet.write_table(arrow.table(columns), stream)


def _draw(table: ResultTable, output: str, title: str) -> None:
    """Draw the first column of numbers, with the texts before it as names."""
    from sapwood.plots.bars import draw_bars

    numbers = [
        place
        for place in range(1, len(table.columns))
        if all(isinstance(row[place], int | float) for row in table.rows)
    ]
    place = numbers[0] if numbers else len(table.columns) - 1
    names = [" · ".join(str(cell) for cell in row[:place]) for row in table.rows]
    draw_bars(names, [row[place] for row in table.rows], output, axis=table.columns[place], title=title)
