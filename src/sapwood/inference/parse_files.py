"""Parsing files: one, or a crawl of them into a folder, on threads or on a cluster.

Of a crawl each input file has an output file of its own, written whole or not at all, and a line in the folder's
manifest: digests of both, how many sentences had which status, and which lines could not be read. Run again, files
whose digests are still those are left alone. A line that cannot be read is a blank line in the output, so that the two
line up, and is reported by file and line.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import repeat
from pathlib import Path
from typing import Any, TypedDict

from sapwood.errors import InputError, ModelError, UsageError
from sapwood.files import (
    COMPRESSED,
    STANDARD_STREAM,
    explained,
    is_regular,
    name_of,
    open_output,
    read_lines,
    temporary_prefix,
)
from sapwood.inference.parser import Parser
from sapwood.inference.result import ParseResult
from sapwood.run.progress import Progress, Silent, Stage
from sapwood.schema import check_json
from sapwood.storage import content_digest
from sapwood.trees.formats import file_footer, file_header, format_as, read_tagged, read_tokens
from sapwood.trees.heads import HeadRules
from sapwood.trees.tree import Tree

MANIFEST = "manifest.jsonl"
# What the names of outputs end in, by format; others end in the format's name.
_ENDINGS = {
    "brackets": "mrg",
    "pretty": "mrg",
    "tokens": "txt",
    "tagged": "txt",
    "draw": "txt",
    "latex": "tex",
    "qtree": "tex",
    "tiger": "xml",
}
_CHUNK = 1 << 20


@dataclass(frozen=True)
class TextFormat:
    """How input is read and output is written.

    Attributes
    ----------
    raw
        Whether the input is plain text, cut into sentences and tokens here.
    tags
        Whether tokens are word/TAG.
    output
        The format of trees.
    as_json
        Whether each line is an object of JSON instead.
    states
        Whether trees are written with their hidden states; one without states as it is.
    heads
        The head rules for dependencies, by name or file (`HeadRules.named`).
    """

    raw: bool = False
    tags: bool = False
    output: str = "brackets"
    as_json: bool = False
    states: bool = False
    heads: str | None = None

    def results(self, parser: Parser, source: str | Path, bad: list[str] | None = None) -> Iterator[ParseResult]:
        """Parse the sentences of a file. What is wrong with a line goes to the list, if there is one."""
        on_bad = None if bad is None else lambda error: bad.append(str(error))
        if self.raw:
            return parser.parse_text(line for _, line in read_lines(source, on_bad))
        if self.tags:
            return parser.parse(read_tagged(source, parser.known_tags, on_bad))
        return parser.parse(read_tokens(source, on_bad))

    @property
    def head(self) -> str:
        """What stands before the first tree of a file."""
        return "" if self.as_json else file_header(self.output)

    @property
    def foot(self) -> str:
        """What stands behind the last tree of a file."""
        return "" if self.as_json else file_footer(self.output)

    def written(self, result: ParseResult, number: int) -> str:
        """Return a result as it is written, without the final line end; `number` counts sentences from 1."""
        if self.as_json:
            return json.dumps(result.to_dict(), ensure_ascii=False, allow_nan=False)
        tree = self.shown(result)
        return "" if tree is None else format_as(tree, self.output, number, heads=self._rules)

    @cached_property
    def _rules(self) -> HeadRules | None:
        return None if self.heads is None else HeadRules.named(self.heads)

    def shown(self, result: ParseResult) -> Tree | None:
        """Return the tree of a result as it is written."""
        return (result.state_tree or result.tree) if self.states else result.tree

    def output_name(self, path: str | Path) -> str:
        """Return the name of the output of a file of a crawl: `news.txt.gz` becomes `news.mrg.gz`."""
        name = Path(path).name
        packed = next((ending for ending in COMPRESSED if name.endswith(ending)), "")
        base = name.removesuffix(packed).removesuffix(".txt")
        return f"{base}.{'jsonl' if self.as_json else _ENDINGS.get(self.output, self.output)}{packed}"


class _Entry(TypedDict):
    input: str
    output: str
    input_digest: str
    output_digest: str
    sentences: int
    statuses: dict[str, int]
    bad: list[str]
    error: str


@dataclass(frozen=True)
class FileReport:
    """What became of a file: a line of the manifest.

    Attributes
    ----------
    input, output, input_digest, output_digest
        The files' names in their folders, and SHA-256 of their bytes.
    sentences, statuses
        How many, and how many of each `ParseResult.status`.
    bad
        What is wrong with lines that could not be read.
    error
        Why there is no output, if there is none.
    skipped
        Whether it had been done before.
    """

    input: str
    output: str
    input_digest: str = ""
    output_digest: str = ""
    sentences: int = 0
    statuses: Mapping[str, int] = field(default_factory=dict)
    bad: Sequence[str] = ()
    error: str = ""
    skipped: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the line of the manifest."""
        return {name: value for name, value in asdict(self).items() if name != "skipped"}


class Manifest:
    """The list of a folder's files that are done, one JSON object a line, the first of which says by what.

    Parameters
    ----------
    folder
        Where the outputs are.
    key
        What they depend on beside the inputs; a folder of outputs by something else is refused.
    """

    def __init__(self, folder: str | Path, key: str) -> None:
        self.path = Path(folder, MANIFEST)
        found = read_manifest(self.path, key) if self.path.exists() else []
        self.done = {report.input: report for report in found}
        lines = [{"key": key}, *(report.to_dict() for report in self.done.values())]
        # Written again, without a last line that was cut short.
        with open_output(self.path) as stream:
            stream.writelines(_line(line) for line in lines)

    def add(self, report: FileReport) -> None:
        """Note what became of a file, at once."""
        with explained(self.path, "write"), self.path.open("ab", buffering=0) as stream:
            stream.write(_line(report.to_dict()).encode())


def read_manifest(path: str | Path, key: str) -> list[FileReport]:
    """Return what a manifest says of files; a last line that was cut short is left out.

    A manifest with another key raises a `UsageError`, and anything else an `InputError`.
    """
    reports = []
    for number, text in read_lines(path):
        place = f"{path}:{number}"
        try:
            line = json.loads(text)
        except (ValueError, RecursionError) as error:
            if not text.endswith("\n"):
                break
            raise InputError(f"{place}: not a line of a manifest; remove the file to parse all again") from error
        if number == 1:
            if not isinstance(line, dict) or line.get("key") != key:
                raise UsageError(
                    f"{path}: the files here were parsed with another model or other options; "
                    "give the same ones again, or another folder"
                )
            continue
        try:
            check_json(line, _Entry)
        except ModelError as error:
            raise InputError(f"{place}: {error}; remove the file to parse all again") from error
        reports.append(FileReport(**{name: line[name] for name in _Entry.__annotations__}))
    return reports


def parse_files(
    parser: Parser,
    inputs: Sequence[str | Path],
    folder: str | Path,
    form: TextFormat | None = None,
    *,
    progress: Progress | None = None,
) -> list[FileReport]:
    """Parse files into a folder, each into one of its own, and return what became of each.

    Parameters
    ----------
    parser
        The parser; where its `workers` are elsewhere, each file is parsed there, and both files and the folder must
        be where all workers see them.
    inputs
        Files, of different names. What was done before is not done again.
    folder
        Where outputs and the manifest are written; it is made if it is not there.
    form
        How inputs are read and outputs written.
    progress
        What to report to.
    """
    form, progress = form or TextFormat(), progress or Silent()
    outputs = _outputs(inputs, form)
    paths = [str(Path(path).resolve()) for path in inputs]
    targets = [str(Path(folder, name).resolve()) for name in outputs]
    if replaced := set(paths) & set(targets):
        raise UsageError(f"{min(replaced)}: is one of the input files; it would be replaced; give another folder")
    with explained(folder, "write"):
        Path(folder).mkdir(parents=True, exist_ok=True)
    manifest = Manifest(folder, content_digest({}, {"parser": parser.key(), "form": asdict(form)}))
    before = [manifest.done.get(Path(path).name) for path in paths]
    workers, reports = parser.workers, []
    for path in {str(Path(path).parent) for path in (*paths, *targets)}:
        workers.check_visible(path)
    with progress.stage("parsing", len(paths), "files") as stage:
        found: Iterator[FileReport]
        if workers.near:
            found = map(parse_file, repeat(parser), repeat(form), paths, targets, before)
        else:
            found = workers.map(parse_file, repeat(parser.shared), repeat(form), paths, targets, before)
        for report in found:
            if not report.skipped:
                manifest.add(report)
            reports.append(report)
            _advance(stage, reports)
    _clear_away(Path(folder), set(outputs))
    return reports


def _clear_away(folder: Path, outputs: Set[str]) -> None:
    """Remove what workers that were killed had begun to write."""
    begun = {temporary_prefix(name) for name in outputs}
    with explained(folder, "write"):
        for path in folder.glob(".*.part"):
            if path.name.rsplit(".", 2)[0] + "." in begun:
                path.unlink(missing_ok=True)


def _advance(stage: Stage, reports: Sequence[FileReport]) -> None:
    stage.step(1, sentences=sum(report.sentences for report in reports))


def _outputs(inputs: Sequence[str | Path], form: TextFormat) -> list[str]:
    """Return the names of outputs; refuse inputs that cannot each have one."""
    seen: dict[str, str | Path] = {}
    for path in inputs:
        if str(path) == STANDARD_STREAM or (Path(path).exists() and not is_regular(path)):
            raise UsageError(f"{name_of(path)}: is no plain file; with a folder for output, name files")
        name = form.output_name(path)
        if name in seen:
            raise UsageError(f"{path} and {seen[name]}: would both be written to {name}; parse them into two folders")
        if name == MANIFEST:
            raise UsageError(f"{path}: would be written to {name}, where the manifest is; rename it")
        seen[name] = path
    return list(seen)


def parse_file(parser: Parser, form: TextFormat, path: str, output: str, before: FileReport | None) -> FileReport:
    """Parse one file into another, unless that has been done; problems are reported, not raised."""
    names = Path(path).name, Path(output).name
    bad: list[str] = []
    statuses: Counter[str] = Counter()
    try:
        given = _digest(path)
        same = before is not None and not before.error and before.input_digest == given and before.output == names[1]
        if before is not None and same and is_regular(output) and _digest(output) == before.output_digest:
            return replace(before, skipped=True)
        with open_output(output) as stream:
            stream.write(form.head)
            for number, result in enumerate(form.results(parser, path, bad), 1):
                stream.write(form.written(result, number) + "\n")
                statuses[result.status] += 1
            stream.write(form.foot)
        return FileReport(*names, given, _digest(output), sum(statuses.values()), dict(statuses), bad)
    except InputError as error:
        return FileReport(*names, error=str(error))


def summary(reports: Sequence[FileReport]) -> str:
    """Return what became of all files, in a sentence."""
    statuses: Counter[str] = Counter()
    for report in reports:
        statuses.update(report.statuses)
    told = ", ".join(f"{count:,} {status}" for status, count in statuses.most_common())
    skipped = sum(report.skipped for report in reports)
    bad, failed = sum(len(report.bad) for report in reports), sum(bool(report.error) for report in reports)
    parts = [f"{len(reports):,} files, {sum(report.sentences for report in reports):,} sentences ({told or 'none'})"]
    for count, what in (
        (skipped, "file(s) were done before"),
        (bad, "line(s) could not be read"),
        (failed, "file(s) failed"),
    ):
        if count:
            parts.append(f"{count:,} {what}")
    return "; ".join(parts)


def _digest(path: str) -> str:
    found = hashlib.sha256()
    with explained(path), Path(path).open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            found.update(chunk)
    return found.hexdigest()


def _line(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=True) + "\n"
