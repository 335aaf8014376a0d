"""CSV and TSV tables: a column of sentences in, columns of trees out.

All rows and columns are kept, in order, and those of `ColumnParser` are appended; the list column `parses` of raw text
is written as JSON. An empty cell has no parse, and the new cells next to it are empty. Files may be compressed.
"""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from sapwood.errors import InputError, listed
from sapwood.interop.arrow import ColumnParser
from sapwood.runtime.progress import Progress, Silent
from sapwood.storage.files import COMPRESSED, is_regular, open_binary, open_output
from sapwood.storage.limits import ReadLimits

_SEPARATORS = {".csv": ",", ".tsv": "\t"}
# File name suffixes of these tables.
CSV_TABLES = (*_SEPARATORS, *(kind + packed for kind in _SEPARATORS for packed in COMPRESSED))
_ROWS = 256


def parse_csv(
    parse: ColumnParser, source: str | Path, target: str | Path, *, progress: Progress | None = None
) -> Counter[str]:
    """Parse a column of a table, and write the table with the new columns atomically.

    Parameters
    ----------
    parse
        Parser of the column.
    source, target
        Files that end in `.csv` or `.tsv`, or in these and the suffix of a compressed file; the first row has the
        names of the columns.
    progress
        Progress to report to.

    Returns
    -------
    Number of sentences by status.
    """
    statuses: Counter[str] = Counter()
    with _reading(source) as rows, (progress or Silent()).stage("parsing", unit="rows") as stage:
        _, names = next(rows, (1, []))
        place = _check_columns(parse, names, source)
        with open_output(target) as stream:
            writer = csv.writer(stream, delimiter=_separator(target), lineterminator="\n")
            writer.writerow([*names, *parse.columns])
            while batch := list(islice(rows, _ROWS)):
                for line, row in batch:
                    if len(row) != len(names):
                        raise InputError(
                            f"{source}:{line}: a row of {len(row)} cells below a header of {len(names)}; "
                            "quote cells that contain the separator"
                        )
                found = parse({parse.column: [row[place] or None for _, row in batch]})
                for number, (_, row) in enumerate(batch):
                    writer.writerow([*row, *(_cell(found[name][number]) for name in parse.columns)])
                parsed = found["parses"] if parse.raw else [[{"status": status}] for status in found["status"]]
                statuses.update(one["status"] for row in parsed for one in row or [] if one["status"] is not None)
                stage.step(len(batch))
    return statuses


@contextmanager
def _reading(path: str | Path) -> Iterator[Iterator[tuple[int, list[str]]]]:
    """Open a table; yields an iterator of its rows, with the numbers of their last lines."""
    most = ReadLimits.from_environment().line
    before = csv.field_size_limit(most)
    try:
        with open_binary(path) as raw:
            text = io.TextIOWrapper(raw, encoding="utf-8-sig", newline="")
            yield _rows(text, path, most)
            text.detach()
    finally:
        csv.field_size_limit(before)


def _rows(text: io.TextIOWrapper, path: str | Path, most: int) -> Iterator[tuple[int, list[str]]]:
    held = 0

    def lines() -> Iterator[str]:
        nonlocal held
        while line := text.readline(most + 1):
            held += len(line)
            if held > most:
                raise InputError(
                    f"{path}:{reader.line_num + 1}: a row of more than {most:,} bytes; split it or set SAPWOOD_MAX_LINE"
                )
            yield line

    reader = csv.reader(lines(), delimiter=_separator(path), strict=True)
    try:
        for row in reader:
            held = 0
            if row:  # not a blank line
                yield reader.line_num, row
    except UnicodeDecodeError as error:
        place = f"{path}:{_undecodable_line(path, reader.line_num + 1)}"
        raise InputError(f"{place}: not valid UTF-8; convert the file to UTF-8 first") from error
    except csv.Error as error:
        raise InputError(f"{path}:{reader.line_num}: not a readable table: {error}") from error


def _undecodable_line(path: str | Path, least: int) -> int:
    """Return the first line that is not UTF-8; text is decoded in blocks, so the error itself does not say."""
    if is_regular(path):
        with open_binary(path) as raw:
            for number, line in enumerate(raw, 1):
                try:
                    line.decode("utf-8")
                except UnicodeDecodeError:
                    return number
    return least


def _separator(path: str | Path) -> str:
    name = str(path)
    for packed in COMPRESSED:
        name = name.removesuffix(packed)
    return _SEPARATORS[Path(name).suffix]


def _check_columns(parse: ColumnParser, names: list[str], source: str | Path) -> int:
    """Return the place of the column; raises `InputError` if there is not exactly one."""
    if names.count(parse.column) != 1:
        found = f"there are {names.count(parse.column)} columns" if parse.column in names else "there is no column"
        told = f"; there are: {listed(names)}" if names else "; the file is empty"
        if len(names) == 1 and (others := [sign for sign in ";\t|," if sign in names[0]]):
            wanted = "a tab" if _separator(source) == "\t" else repr(_separator(source))
            told = f"; the separator looks like {others[0]!r}, and must be {wanted}"
        raise InputError(f"{source}: {found} {parse.column!r}{told}")
    if taken := set(parse.columns) & set(names):
        raise InputError(f"{source}: there is a column {min(taken)!r} already; rename or drop it")
    return names.index(parse.column)


def _cell(value: Any) -> Any:
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    return "" if value is None else value
