"""Tables: a column of sentences in, columns of trees out, for Parquet, Arrow and Hugging Face `datasets`.

A row stays a row: all its columns are kept, in their order, and new ones come behind them. A cell can be a string,
whose tokens stand apart by blanks, or a list of words, and gets

    tree              brackets, or null if there are no words
    log_probability   natural logarithm, or null
    status            as in `ParseResult`

With `raw` a cell is plain text, which may have several sentences, and gets the column `parses`: a list with what
`ParseResult.to_dict` has of each sentence. A cell that is null gets nulls. Files are read and written a batch of rows
at a time, so their size does not matter.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sapwood.errors import InputError, UsageError, listed
from sapwood.files import atomic_write, explained
from sapwood.inference.parser import Parser
from sapwood.inference.result import ParseResult
from sapwood.run.progress import Progress, Silent
from sapwood.trees.brackets import TOKENS

if TYPE_CHECKING:
    import pyarrow as pa

# How the names of files end that are tables.
TABLES = (".parquet", ".arrow", ".feather")
_TOKEN = re.compile(r"\S+", re.ASCII)
_ROWS = 1024


class ColumnParser:
    """Parses a column of batches of rows, as `datasets.Dataset.map(..., batched=True)` hands them over.

    Parameters
    ----------
    parser
        What parses; its threads share the sentences of a batch.
    column
        The name of the column.
    raw
        Whether cells are plain text.

    Examples
    --------
    >>> parse = ColumnParser(Parser(), "sentence")
    >>> parse({"sentence": ["It rained .", None]})["tree"]
    ['(ROOT (S (NP (PRP It)) (VP (VBD rained)) (. .)))', None]
    """

    def __init__(self, parser: Parser, column: str = "text", *, raw: bool = False) -> None:
        self.parser, self.column, self.raw = parser, column, raw

    def __repr__(self) -> str:
        return f"<ColumnParser: column {self.column!r}, {'plain text' if self.raw else 'tokens'}, {self.parser!r}>"

    @property
    def columns(self) -> list[str]:
        """The names of the new columns."""
        return ["parses"] if self.raw else [name for name in self._fields() if name not in ("words", "offsets")]

    def __call__(self, batch: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
        """Return the new columns of a batch, given as lists by name."""
        try:
            cells = batch[self.column]
        except KeyError:
            raise UsageError(f"there is no column {self.column!r}; there are: {listed(batch)}") from None
        rows = self._texts(cells) if self.raw else self._sentences(cells)
        found: dict[str, list[Any]] = {name: [] for name in self.columns}
        for row in rows:
            for name, values in found.items():
                values.append(None if row is None else row[name])
        return found

    def _sentences(self, cells: Sequence[Any]) -> Iterator[dict[str, Any] | None]:
        results = self.parser.parse(_words(cell, self.column) for cell in cells if cell is not None)
        for cell in cells:
            yield None if cell is None else self._row(next(results))

    def _texts(self, cells: Sequence[Any]) -> Iterator[dict[str, Any] | None]:
        for cell in cells:
            if cell is not None and not isinstance(cell, str):
                raise InputError(f"column {self.column!r}: plain text is a string, not {type(cell).__name__}")
        # All texts of a batch at once, so that threads have enough to do.
        cut = [None if cell is None else list(self.parser.tokenise(cell)) for cell in cells]
        results = self.parser.parse_tokens(chain.from_iterable(sentences or () for sentences in cut))
        for sentences in cut:
            yield None if sentences is None else {"parses": [self._row(next(results)) for _ in sentences]}

    def _row(self, result: ParseResult) -> dict[str, Any]:
        value = result.to_dict()
        if "marginals" in value:
            names = ("start", "end", "label", "probability")
            value["marginals"] = [dict(zip(names, one, strict=True)) for one in value["marginals"]]
        for name in self._fields():
            value.setdefault(name, [])
        return value

    def _fields(self) -> dict[str, Any]:
        """Return the names and kinds of what there is of a sentence."""
        fields: dict[str, Any] = {"words": ["string"], "offsets": [["int32"]]}
        fields |= {"tree": "string", "log_probability": "float64", "status": "string"}
        if self.parser.marginals:
            fields["marginals"] = [{"start": "int32", "end": "int32", "label": "string", "probability": "float64"}]
        if self.parser.alternatives:
            fields["alternatives"] = [{"tree": "string", "log_probability": "float64"}]
        return fields

    def schema(self) -> pa.Schema:
        """Return the types of the new columns."""
        arrow = import_arrow()

        def kind(field: Any) -> Any:
            if isinstance(field, list):
                return arrow.list_(kind(field[0]))
            if isinstance(field, dict):
                return arrow.struct([(name, kind(part)) for name, part in field.items()])
            return arrow.string() if field == "string" else arrow.type_for_alias(field)

        fields = {"parses": [self._fields()]} if self.raw else self._fields()
        return arrow.schema([(name, kind(fields[name])) for name in self.columns])


def _words(cell: Any, column: str) -> list[str]:
    if isinstance(cell, str):
        return [TOKENS.read(token) for token in _TOKEN.findall(cell)]
    if isinstance(cell, Sequence) and all(isinstance(word, str) for word in cell):
        return list(cell)
    raise InputError(f"column {column!r}: a sentence is a string or a list of words, not {cell!r:.60}")


def import_arrow() -> Any:
    """Return the package pyarrow, or say what to do without it."""
    try:
        import pyarrow
    except ImportError:
        raise UsageError("tables need the package pyarrow (pip install pyarrow)") from None
    return pyarrow


def parse_table(
    parse: ColumnParser, source: str | Path, target: str | Path, *, progress: Progress | None = None, rows: int = _ROWS
) -> Counter[str]:
    """Parse a column of a table, and write the table with the new columns, whole or not at all.

    Parameters
    ----------
    parse
        What to parse, and how.
    source, target
        Files whose names end in `.parquet`, `.feather` (Arrow's file format) or `.arrow` (a stream of Arrow's is
        written, either is read).
    progress
        What is told of the work.
    rows
        How many rows to read at a time.

    Returns
    -------
    How many sentences had each status.
    """
    arrow = import_arrow()
    statuses: Counter[str] = Counter()
    with _reading(source, rows) as (schema, total, batches):
        _check_columns(parse, schema, source)
        metadata = {name: value for name, value in (schema.metadata or {}).items() if name != b"huggingface"}
        whole = arrow.schema([*schema, *parse.schema()], metadata=metadata or None)
        with (
            _writing(target, whole) as write,
            (progress or Silent()).stage("parsing", total, "rows") as stage,
        ):
            for batch in batches:
                batch.validate(full=True)  # whatever the file says, no value lies outside of it
                found = parse({parse.column: batch.column(parse.column).to_pylist()})
                new = [arrow.array(found[field.name], field.type) for field in parse.schema()]
                write(arrow.record_batch([*batch.columns, *new], schema=whole))
                rows_found = found["parses"] if parse.raw else [[{"status": status}] for status in found["status"]]
                statuses.update(one["status"] for row in rows_found for one in row or [] if one["status"] is not None)
                stage.step(batch.num_rows)
    return statuses


def _check_columns(parse: ColumnParser, schema: Any, source: str | Path) -> None:
    arrow = import_arrow()
    names = schema.names
    if parse.column not in names:
        raise InputError(f"{source}: there is no column {parse.column!r}; there are: {listed(names)}")
    if names.count(parse.column) > 1:
        raise InputError(f"{source}: there are {names.count(parse.column)} columns {parse.column!r}")
    if taken := set(parse.columns) & set(names):
        raise InputError(f"{source}: there is a column {min(taken)!r} already; rename it, or leave it out")
    kind = schema.field(parse.column).type
    is_text = arrow.types.is_string(kind) or arrow.types.is_large_string(kind)
    is_list = arrow.types.is_list(kind) or arrow.types.is_large_list(kind)
    is_words = is_list and (arrow.types.is_string(kind.value_type) or arrow.types.is_large_string(kind.value_type))
    if not (is_text or (is_words and not parse.raw)):
        wanted = "strings" if parse.raw else "strings or of lists of strings"
        raise InputError(f"{source}: column {parse.column!r} is of {kind}; it must be of {wanted}")


@contextmanager
def _reading(path: str | Path, rows: int) -> Iterator[tuple[Any, int | None, Iterator[Any]]]:
    """Open a table: its schema, how many rows it has if that is known, and batches of rows."""
    arrow = import_arrow()
    try:
        with explained(path), Path(path).open("rb") as raw:
            if str(path).endswith(".parquet"):
                from pyarrow import parquet

                file = parquet.ParquetFile(raw)
                yield file.schema_arrow, file.metadata.num_rows, file.iter_batches(batch_size=rows)
                return
            try:
                reader = arrow.ipc.open_file(raw)
                whole = (reader.get_batch(number) for number in range(reader.num_record_batches))
            except arrow.ArrowInvalid:
                raw.seek(0)
                reader = arrow.ipc.open_stream(raw)
                whole = iter(reader)
            yield reader.schema, None, _cut(whole, rows)
    except (arrow.ArrowException, MemoryError) as error:
        raise InputError(
            f"{path}: no table that can be read: {error or 'it needs more memory than there is'}"
        ) from error


def _cut(batches: Iterator[Any], rows: int) -> Iterator[Any]:
    for batch in batches:
        for begin in range(0, batch.num_rows, rows):
            yield batch.slice(begin, rows)


@contextmanager
def _writing(path: str | Path, schema: Any) -> Iterator[Any]:
    """Open a table for writing: a function that takes batches of rows."""
    arrow = import_arrow()
    with atomic_write(path) as raw:
        if str(path).endswith(".parquet"):
            from pyarrow import parquet

            with parquet.ParquetWriter(raw, schema) as writer:
                yield writer.write_batch
            return
        new = arrow.ipc.new_file if str(path).endswith(".feather") else arrow.ipc.new_stream
        with new(raw, schema) as writer:
            yield writer.write_batch
