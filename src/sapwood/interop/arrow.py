"""Tables: a column of sentences in, columns of trees out, for Parquet, Arrow and Hugging Face `datasets`.

All rows and columns are kept, in order, and new columns are appended. A cell is a string of tokens separated by spaces,
or a list of words, and gets

    tree              brackets, or null if there are no words
    gaps              whether the tree has gaps, and is in discbracket; only for models of trees with gaps
    log_probability   natural logarithm, or null
    status            as in `ParseResult`

With `raw`, a cell is raw text of one or more sentences, and gets the column `parses`: a list with
`ParseResult.to_dict` of each sentence. A null cell gets nulls. Files are read and written in batches of rows, so they
can be of any size.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sapwood.errors import InputError, UsageError, listed
from sapwood.inference.parser import Parser
from sapwood.inference.result import ParseResult
from sapwood.runtime.progress import Progress, Silent
from sapwood.storage.files import atomic_write, explained
from sapwood.storage.limits import ReadLimits
from sapwood.trees.formats.brackets import TOKENS
from sapwood.trees.tokenise.attached import PlainTextWarning
from sapwood.trees.tokenise.lines import Lines

if TYPE_CHECKING:
    import pyarrow as pa

# File name suffixes of tables.
TABLES = (".parquet", ".arrow", ".feather")
_TOKEN = re.compile(r"\S+", re.ASCII)
_ROWS = 1024


class ColumnParser:
    """Parser of a column in batches of rows, for `datasets.Dataset.map(..., batched=True)`.

    Without `batched=True` it parses row by row, which is slower.

    Parameters
    ----------
    parser
        Parser, whose threads share the sentences of a batch.
    column
        Name of the column.
    raw
        Whether cells are raw text.
    lines
        The way to read the lines of raw text (`Parser.tokenise`).
    warn
        Warn of cells that look like raw text if `raw` is false.

    Attributes
    ----------
    finding
        The reason for that warning, empty if there is none.

    Examples
    --------
    >>> parse = ColumnParser(Parser(), "sentence")
    >>> parse({"sentence": ["It rained .", None]})["tree"]
    ['(ROOT (S (NP (PRP It)) (VP (VBD rained)) (. .)))', None]
    """

    def __init__(
        self, parser: Parser, column: str = "text", *, raw: bool = False, lines: Lines | None = None, warn: bool = True
    ) -> None:
        if not isinstance(parser, Parser):
            raise UsageError(f"parser is a `Parser`, not {type(parser).__name__}; make one with `sapwood.Parser(path)`")
        self.parser, self.column, self.raw, self.lines = parser, column, raw, lines
        self.finding, self._warns = "", warn

    def __repr__(self) -> str:
        return f"<ColumnParser: column {self.column!r}, {'plain text' if self.raw else 'tokens'}, {self.parser!r}>"

    @property
    def columns(self) -> list[str]:
        """Names of the new columns."""
        return ["parses"] if self.raw else [name for name in self._fields() if name not in ("words", "offsets")]

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Return the new columns of a batch, given as lists by name, or the new cells of a single row."""
        try:
            cells = batch[self.column]
        except KeyError:
            raise UsageError(f"there is no column {self.column!r}; there are: {listed(batch)}") from None
        if _is_row(batch, cells):
            return {name: values[0] for name, values in self._parse_cells([cells]).items()}
        return self._parse_cells(cells)

    def _parse_cells(self, cells: Sequence[Any]) -> dict[str, list[Any]]:
        rows = self._texts(cells) if self.raw else self._sentences(cells)
        found: dict[str, list[Any]] = {name: [] for name in self.columns}
        for row in rows:
            for name, values in found.items():
                values.append(None if row is None else row[name])
        return found

    def _sentences(self, cells: Sequence[Any]) -> Iterator[dict[str, Any] | None]:
        sentences = [_words(cell, self.column) for cell in cells if cell is not None]
        if not self.finding and (finding := self.parser.attached_punctuation().finding(sentences)):
            self.finding = f"column {self.column!r}: {finding}"
            if self._warns:
                warnings.warn(f"{self.finding}; use raw=True to tokenise it", PlainTextWarning, stacklevel=4)
        results = self.parser.parse(sentences, check_tokens=False)
        for cell in cells:
            yield None if cell is None else self._row(next(results))

    def _texts(self, cells: Sequence[Any]) -> Iterator[dict[str, Any] | None]:
        for cell in cells:
            if cell is not None and not isinstance(cell, str):
                raise InputError(f"column {self.column!r}: plain text is a string, not {type(cell).__name__}")
        # All texts of a batch at once, to keep all threads busy.
        cut = [None if cell is None else list(self.parser.tokenise(cell, lines=self.lines)) for cell in cells]
        results = self.parser.parse_tokens(chain.from_iterable(sentences or () for sentences in cut))
        for sentences in cut:
            yield None if sentences is None else {"parses": [self._row(next(results)) for _ in sentences]}

    def _row(self, result: ParseResult) -> dict[str, Any]:
        value = result.to_dict()
        if "marginals" in value:
            names = ("start", "end", "label", "probability")
            value["marginals"] = [dict(zip(names, one, strict=True)) for one in value["marginals"]]
        if self.parser.grammar.transform.gaps:
            for one in (value, *value.get("alternatives", [])):
                one.setdefault("gaps", False)
        for name in self._fields():
            value.setdefault(name, [])
        return value

    def _fields(self) -> dict[str, Any]:
        """Return the names and types of the fields of a parsed sentence."""
        fields: dict[str, Any] = {"words": ["string"], "offsets": [["int32"]]}
        gaps = {"gaps": "bool"} if self.parser.grammar.transform.gaps else {}
        fields |= {"tree": "string", **gaps, "log_probability": "float64", "status": "string"}
        if self.parser.marginals:
            fields["marginals"] = [{"start": "int32", "end": "int32", "label": "string", "probability": "float64"}]
        if self.parser.alternatives:
            fields["alternatives"] = [{"tree": "string", **gaps, "log_probability": "float64"}]
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


def _is_row(batch: Mapping[str, Any], cells: Any) -> bool:
    """Return whether this is a single row: `datasets` says so, the cell is not a list, or another column is not one."""
    if type(batch).__name__ in ("LazyRow", "LazyBatch"):
        return type(batch).__name__ == "LazyRow"
    return any(value is None or isinstance(value, str | int | float) for value in (cells, *batch.values()))


def _words(cell: Any, column: str) -> list[str]:
    if isinstance(cell, str):
        return [TOKENS.read(token) for token in _TOKEN.findall(cell)]
    if isinstance(cell, Sequence) and all(isinstance(word, str) for word in cell):
        return list(cell)
    raise InputError(f"column {column!r}: a sentence is a string or a list of words, not {cell!r:.60}")


def import_arrow() -> Any:
    """Return the package pyarrow; raises `UsageError` if it is not installed."""
    try:
        import pyarrow
    except ImportError:
        raise UsageError("tables need the package pyarrow (pip install pyarrow)") from None
    return pyarrow


def parse_table(
    parse: ColumnParser, source: str | Path, target: str | Path, *, progress: Progress | None = None, rows: int = _ROWS
) -> Counter[str]:
    """Parse a column of a table, and write the table with the new columns atomically.

    Parameters
    ----------
    parse
        Parser of the column.
    source, target
        Files that end in `.parquet`, `.feather` (Arrow file format) or `.arrow` (written as an Arrow stream, read as
        either).
    progress
        Progress to report to.
    rows
        Number of rows to read at a time.

    Returns
    -------
    Number of sentences by status.
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
                _check_cells(batch.column(parse.column), source)
                found = parse({parse.column: batch.column(parse.column).to_pylist()})
                new = [arrow.array(found[field.name], field.type) for field in parse.schema()]
                write(arrow.record_batch([*batch.columns, *new], schema=whole))
                rows_found = found["parses"] if parse.raw else [[{"status": status}] for status in found["status"]]
                statuses.update(one["status"] for row in rows_found for one in row or [] if one["status"] is not None)
                stage.step(batch.num_rows)
    return statuses


def _check_cells(column: Any, source: str | Path) -> None:
    """Refuse a text that is longer than a line may be."""
    from pyarrow import compute

    texts = compute.list_flatten(column) if hasattr(column.type, "value_type") else column
    longest, limit = compute.max(compute.binary_length(texts)).as_py() or 0, ReadLimits.from_environment().line
    if longest > limit:
        raise InputError(f"{source}: a cell of more than {limit:,} bytes; split it, or set SAPWOOD_MAX_LINE")


def _check_columns(parse: ColumnParser, schema: Any, source: str | Path) -> None:
    arrow = import_arrow()
    names = schema.names
    if parse.column not in names:
        raise InputError(f"{source}: there is no column {parse.column!r}; there are: {listed(names)}")
    if names.count(parse.column) > 1:
        raise InputError(f"{source}: there are {names.count(parse.column)} columns {parse.column!r}")
    if taken := set(parse.columns) & set(names):
        raise InputError(f"{source}: there is a column {min(taken)!r} already; rename or drop it")
    kind = schema.field(parse.column).type
    is_text = arrow.types.is_string(kind) or arrow.types.is_large_string(kind)
    is_list = arrow.types.is_list(kind) or arrow.types.is_large_list(kind)
    is_words = is_list and (arrow.types.is_string(kind.value_type) or arrow.types.is_large_string(kind.value_type))
    if not (is_text or (is_words and not parse.raw)):
        wanted = "strings" if parse.raw else "strings or of lists of strings"
        raise InputError(f"{source}: column {parse.column!r} is of {kind}; it must be of {wanted}")


@contextmanager
def _reading(path: str | Path, rows: int) -> Iterator[tuple[Any, int | None, Iterator[Any]]]:
    """Open a table: its schema, its number of rows if known, and batches of rows."""
    arrow = import_arrow()
    try:
        with explained(path), Path(path).open("rb") as raw:
            limits, size = ReadLimits.from_environment(), Path(path).stat().st_size
            if str(path).endswith(".parquet"):
                from pyarrow import parquet

                file = parquet.ParquetFile(raw)
                groups = (file.metadata.row_group(number) for number in range(file.metadata.num_row_groups))
                limits.check_decompressed(str(path), sum(group.total_byte_size for group in groups), size)
                with Path(path).open("rb") as again:
                    packed = parquet.ParquetFile(again, read_dictionary=list(_texts(file.schema)))
                    measured = _within_limits(_read_packed(packed, file, rows), str(path), size, limits)
                    yield file.schema_arrow, file.metadata.num_rows, _unpacked(file, measured, rows)
                return
            try:
                reader = arrow.ipc.open_file(raw)
                whole = (reader.get_batch(number) for number in range(reader.num_record_batches))
            except arrow.ArrowInvalid:
                raw.seek(0)
                reader = arrow.ipc.open_stream(raw)
                whole = iter(reader)
            checked = _within_limits(whole, str(path), size, limits)
            yield reader.schema, None, _cut(checked, rows)
    except (arrow.ArrowException, MemoryError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not a readable table: {error or 'it needs more memory than there is'}") from error


def _within_limits(batches: Iterator[Any], name: str, size: int, limits: ReadLimits) -> Iterator[Any]:
    held = 0
    for batch in batches:
        batch.validate(full=True)
        held += sum(map(_size, batch.columns))
        limits.check_decompressed(name, held, size)
        yield batch


def _size(array: Any) -> int:
    """Return the number of bytes of an array if each row had its own copy of what it refers to."""
    from pyarrow import compute, types

    if types.is_dictionary(array.type) and _is_text(array.type.value_type):
        lengths = compute.binary_length(array.dictionary).take(array.indices)
        return int(array.nbytes) + (compute.sum(compute.cast(lengths, "int64")).as_py() or 0)
    if types.is_map(array.type):
        return int(array.nbytes) + _size(array.keys) + _size(array.items)
    if any(test(array.type) for test in (types.is_list, types.is_large_list, types.is_fixed_size_list)):
        return int(array.nbytes) + _size(array.flatten())
    if types.is_struct(array.type):
        return int(array.nbytes) + sum(map(_size, array.flatten()))
    return int(array.nbytes)


def _is_text(kind: Any) -> bool:
    from pyarrow import types

    return any(test(kind) for test in (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary))


def _texts(schema: Any) -> Iterator[str]:
    """Yield the paths of the columns of a Parquet file that are texts or bytes."""
    for column in map(schema.column, range(len(schema))):
        if column.physical_type == "BYTE_ARRAY" and column.logical_type.type != "DECIMAL":
            yield column.path


def _read_packed(packed: Any, file: Any, rows: int) -> Iterator[Any]:
    """Yield batches of rows of a Parquet file with texts as dictionaries, or single rows where Arrow cannot."""
    arrow = import_arrow()
    for group in range(file.metadata.num_row_groups):
        done = 0
        try:
            for batch in packed.iter_batches(batch_size=rows, row_groups=[group]):
                done += batch.num_rows
                yield batch
        except arrow.ArrowNotImplementedError:  # texts within lists whose dictionary does not have all of them
            yield from islice(file.iter_batches(batch_size=1, row_groups=[group]), done, None)


def _unpacked(file: Any, measured: Iterator[Any], rows: int) -> Iterator[Any]:
    """Yield batches of rows of a Parquet file, each after it was measured.

    A text that is repeated is in the file once, but many times in memory. `measured` has the same rows with each text
    once, and ends in an error if they hold too much.
    """
    ahead = 0
    batches = file.iter_batches(batch_size=rows)
    while True:
        while ahead < rows and (batch := next(measured, None)) is not None:
            ahead += batch.num_rows
        if (batch := next(batches, None)) is None:
            return
        ahead -= batch.num_rows
        yield batch


def _cut(batches: Iterator[Any], rows: int) -> Iterator[Any]:
    for batch in batches:
        for begin in range(0, batch.num_rows, rows):
            yield batch.slice(begin, rows)


@contextmanager
def _writing(path: str | Path, schema: Any) -> Iterator[Any]:
    """Open a table for writing; yields a function that writes a batch of rows."""
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
