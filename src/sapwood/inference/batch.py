"""Batch parsing: one file, or many files into a folder, on threads or on a cluster.

Each input file of a batch has an output file of its own, written atomically, and a line in the folder's manifest:
digests of both, the number of sentences of each status, and the lines that could not be read. In a rerun, files whose
digests are unchanged are skipped. A line that cannot be read becomes a blank line in the output, so that the two line
up, and is reported by file and line.

Shards of a batch are separate processes that write to one folder, each with a manifest of its own: a shard of several
files parses some of them, a shard of one file some of its lines. A run without shards takes over what shards have done.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import repeat
from pathlib import Path
from typing import Any, TypedDict

from sapwood.errors import InputError, ModelError, UsageError
from sapwood.inference.parser import Parser
from sapwood.inference.result import ParseResult
from sapwood.runtime.progress import Progress, Silent, Stage
from sapwood.runtime.shards import Shard, file_size
from sapwood.storage.arrays import content_digest
from sapwood.storage.files import (
    COMPRESSED,
    STANDARD_STREAM,
    explained,
    is_regular,
    name_of,
    open_binary,
    open_output,
    read_lines,
)
from sapwood.storage.locks import claimed, remove_abandoned
from sapwood.storage.schema import check_json
from sapwood.trees.formats.registry import file_footer, file_header, format_as, parse_tagged, parse_tokens
from sapwood.trees.heads.rules import HeadRules
from sapwood.trees.tokenise.lines import Lines
from sapwood.trees.tree import Tree

MANIFEST = "manifest.jsonl"
# File extension of outputs by format; others take the name of the format.
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
_OF_SHARD = re.compile(r"manifest[.][0-9]+-of-[0-9]+[.]jsonl")


@dataclass(frozen=True)
class ShardLines:
    """Lines of a file, numbered from 0, that a shard parses."""

    shard: Shard
    lines: range

    @classmethod
    def of(cls, path: str | Path, shard: Shard) -> ShardLines:
        """Return the lines of a file that belong to a shard."""
        return cls(shard, shard.part(_count_lines(path)))

    def read(self, path: str | Path, on_bad: Callable[[InputError], object] | None) -> Iterator[tuple[int, str]]:
        """Yield the lines as `read_lines` does; errors in other lines are ignored."""
        current = 0

        def note(error: InputError) -> None:
            if current in self.lines:
                if on_bad is None:
                    raise error
                on_bad(error)

        for number, text in read_lines(path, note) if self.lines else ():
            current = number
            if number - 1 in self.lines:
                yield number, text
            if number >= self.lines.stop:
                break


@dataclass(frozen=True)
class TextIO:
    """Input and output format of a batch.

    Attributes
    ----------
    raw
        The input is plain text, to be split into sentences and tokens.
    tags
        Tokens are word/TAG.
    output
        The format of trees.
    as_json
        Write each line as a JSON object instead.
    states
        Write trees with their hidden states, where they have any.
    heads
        The head rules for dependencies, by name or file (`HeadRules.named`).
    lines
        The way to read the lines of plain text (`Parser.tokenise`).
    """

    raw: bool = False
    tags: bool = False
    output: str = "brackets"
    as_json: bool = False
    states: bool = False
    heads: str | None = None
    lines: Lines | None = None

    def results(
        self,
        parser: Parser,
        source: str | Path,
        bad: list[str] | None = None,
        tell: Callable[[str], object] = id,
        part: ShardLines | None = None,
    ) -> Iterator[ParseResult]:
        """Parse the sentences of a file, or of some of its lines.

        Errors in lines are appended to `bad`, if given, and `tell` is called with the finding that tokens look like
        plain text.
        """
        on_bad = None if bad is None else lambda error: bad.append(str(error))
        lines = read_lines(source, on_bad) if part is None else part.read(source, on_bad)
        if self.raw:
            return parser.parse_text((line for _, line in lines), lines=self.lines)
        if self.tags:
            return parser.parse(parse_tagged(lines, source=name_of(source), tags=parser.tags, on_bad=on_bad))
        sentences = parser.attached_punctuation().watched(parse_tokens(lines), tell)
        return parser.parse(sentences, check_tokens=False)

    @property
    def head(self) -> str:
        """Text before the first tree of a file."""
        return "" if self.as_json else file_header(self.output)

    @property
    def foot(self) -> str:
        """Text after the last tree of a file."""
        return "" if self.as_json else file_footer(self.output)

    def written(self, result: ParseResult, number: int) -> str:
        """Return a result as text, without the final newline; `number` counts sentences from 1."""
        if self.as_json:
            return json.dumps(result.to_dict(), ensure_ascii=False, allow_nan=False)
        tree = self.shown(result)
        return "" if tree is None else format_as(tree, self.output, number, heads=self.rules or result.heads)

    @cached_property
    def rules(self) -> HeadRules | None:
        """The head rules, if any are named."""
        return None if self.heads is None else HeadRules.named(self.heads)

    def shown(self, result: ParseResult) -> Tree | None:
        """Return the tree of a result in the form in which it is written."""
        return (result.state_tree or result.tree) if self.states else result.tree

    def output_name(self, path: str | Path, shard: Shard | None = None) -> str:
        """Return the name of the output file of an input file: `news.txt.gz` becomes `news.mrg.gz`.

        That of some lines of it becomes `news.3-of-8.mrg.gz`.
        """
        name = Path(path).name
        packed = next((ending for ending in COMPRESSED if name.endswith(ending)), "")
        base = name.removesuffix(packed).removesuffix(".txt")
        base = base if shard is None else f"{base}.{shard.label}"
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
    """Outcome of a file: a line of the manifest.

    Attributes
    ----------
    input, output, input_digest, output_digest
        Names of the files in their folders, and SHA-256 of their contents.
    sentences, statuses
        Number of sentences, and of each `ParseResult.status`.
    bad
        Messages about lines that could not be read.
    error
        Reason for missing output, if any.
    skipped
        True if it had been parsed before.
    finding
        Reason to take the tokens for plain text, if any.
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
    finding: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the line of the manifest as a dictionary."""
        return {name: value for name, value in asdict(self).items() if name not in ("skipped", "finding")}


class Manifest:
    """List of a folder's finished files, one JSON object per line; the first line identifies the run.

    Parameters
    ----------
    folder
        Output folder.
    key
        Identifies everything but the inputs that outputs depend on; a folder with another key is rejected.
    shard
        The shard whose files are listed, if not all.
    """

    def __init__(self, folder: str | Path, key: str, shard: Shard | None = None) -> None:
        self.path, self.key = manifest_path(folder, shard), key
        found = read_manifest(self.path, key) if self.path.exists() else []
        self.done = {report.input: report for report in found}
        # Rewritten without a truncated last line.
        self.write(found)

    def write(self, reports: Iterable[FileReport]) -> None:
        """Write the manifest with these files."""
        kept = {report.input: report for report in reports}
        with open_output(self.path) as stream:
            stream.writelines(_line(line) for line in [{"key": self.key}, *(r.to_dict() for r in kept.values())])

    def add(self, report: FileReport) -> None:
        """Append the outcome of a file, at once."""
        with explained(self.path, "write"), self.path.open("ab", buffering=0) as stream:
            stream.write(_line(report.to_dict()).encode())


def manifest_path(folder: str | Path, shard: Shard | None = None) -> Path:
    """Return the path of a folder's manifest, or of that of a shard: `manifest.3-of-8.jsonl`."""
    return Path(folder, MANIFEST if shard is None else f"manifest.{shard.label}.jsonl")


def _shard_manifests(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("manifest.*.jsonl") if _OF_SHARD.fullmatch(path.name))


def read_manifest(path: str | Path, key: str) -> list[FileReport]:
    """Return the entries of a manifest; a truncated last line is skipped.

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
    form: TextIO | None = None,
    *,
    shard: Shard | None = None,
    progress: Progress | None = None,
) -> list[FileReport]:
    """Parse files into a folder, one output per input, and return the outcome of each.

    Parameters
    ----------
    parser
        The parser; if its `workers` are remote, each file is parsed there, and all workers must have access to the
        files and the folder.
    inputs
        Files with distinct names. Finished ones are skipped.
    folder
        Folder of outputs and manifest; it is created if missing.
    form
        Input and output format.
    shard
        Parse only this shard: some of the files, or of a single file some of the lines.
    progress
        Progress reporter.
    """
    form, progress = form or TextIO(), progress or Silent()
    _outputs(inputs, form)
    part = None
    if shard is not None:
        if not parser.workers.is_local:
            raise UsageError("a shard is parsed by threads of this process; without it, a cluster parses all files")
        if len(inputs) == 1:
            _check_lines(inputs[0], form)
            part = ShardLines.of(inputs[0], shard)
        else:
            inputs = shard.files(inputs)
    outputs = [form.output_name(path, None if part is None else shard) for path in inputs]
    paths = [str(Path(path).resolve()) for path in inputs]
    targets = [str(Path(folder, name).resolve()) for name in outputs]
    if replaced := set(paths) & set(targets):
        raise UsageError(f"{min(replaced)}: is one of the input files and would be overwritten; give another folder")
    with explained(folder, "write"):
        Path(folder).mkdir(parents=True, exist_ok=True)
    with claimed(manifest_path(folder, shard)):
        reports = _parse_all(parser, paths, targets, folder, form, progress, shard, part)
        _clear_away(Path(folder), set(outputs))
    return reports


def _check_lines(path: str | Path, form: TextIO) -> None:
    """Refuse a file whose lines cannot be parsed separately with the same result."""
    if form.raw and (form.lines != "sentences" or form.as_json):
        raise UsageError(
            f"{path}: shards of one file are lines, but in raw text sentences go on from line to line, and offsets "
            "count from the beginning; use lines='sentences' (--lines sentences) without JSON, or several files"
        )


def _parse_all(
    parser: Parser,
    paths: list[str],
    targets: list[str],
    folder: str | Path,
    form: TextIO,
    progress: Progress,
    shard: Shard | None,
    part: ShardLines | None,
) -> list[FileReport]:
    """Parse files that no manifest lists as finished, and add them to the manifest."""
    key = content_digest({}, {"parser": parser.fingerprint(), "form": asdict(form)})
    manifest = Manifest(folder, key, shard)
    with ExitStack() as stack:
        of_shards = {}
        for path in _shard_manifests(Path(folder)) if shard is None else ():
            stack.enter_context(claimed(path))
            of_shards[path] = read_manifest(path, key)
        done = {report.input: report for found in of_shards.values() for report in found} | manifest.done
        reports = _parse_rest(parser, paths, targets, form, progress, manifest, done, part)
        if of_shards:
            ours = {report.input for report in reports}
            listed = [*(report for report in done.values() if report.input not in ours), *reports]
            manifest.write(listed)
            outputs = {report.output for report in listed}
            for path, found in of_shards.items():
                if {report.output for report in found} <= outputs:
                    path.unlink()
    return reports


def _parse_rest(
    parser: Parser,
    paths: list[str],
    targets: list[str],
    form: TextIO,
    progress: Progress,
    manifest: Manifest,
    done: Mapping[str, FileReport],
    part: ShardLines | None,
) -> list[FileReport]:
    """Parse files that are not done, and add them to the manifest."""
    before = [done.get(Path(path).name) for path in paths]
    workers, reports = parser.workers, []
    for path in {str(Path(path).parent) for path in (*paths, *targets)}:
        workers.check_visible(path)
    with progress.stage("parsing", len(paths), "files") as stage:
        found: Iterator[FileReport]
        if workers.is_local:
            found = map(parse_file, repeat(parser), repeat(form), paths, targets, before, repeat(part))
        else:
            found = workers.map(parse_file, repeat(parser.remote), repeat(form), paths, targets, before)
        for report in found:
            if not report.skipped:
                manifest.add(report)
            reports.append(report)
            _advance(stage, reports)
    return reports


def _clear_away(folder: Path, outputs: Set[str]) -> None:
    """Remove partial files of workers that were killed."""
    with explained(folder, "write"):
        for name in outputs:
            remove_abandoned(folder, name)


def _advance(stage: Stage, reports: Sequence[FileReport]) -> None:
    stage.step(1, sentences=sum(report.sentences for report in reports))


def _outputs(inputs: Sequence[str | Path], form: TextIO) -> list[str]:
    """Return the names of outputs; inputs whose outputs would collide are an error."""
    seen: dict[str, str | Path] = {}
    for path in inputs:
        if str(path) == STANDARD_STREAM or (Path(path).exists() and not is_regular(path)):
            raise UsageError(f"{name_of(path)}: is not a regular file; with a folder for output, name files")
        name = form.output_name(path)
        if name in seen:
            raise UsageError(f"{path} and {seen[name]}: would both be written to {name}; parse them into two folders")
        if name == MANIFEST or _OF_SHARD.fullmatch(name):
            raise UsageError(f"{path}: would be written to {name}, where the manifest is; rename it")
        seen[name] = path
    return list(seen)


def parse_file(
    parser: Parser, form: TextIO, path: str, output: str, before: FileReport | None, part: ShardLines | None = None
) -> FileReport:
    """Parse one file, or some of its lines, into another, unless done before; problems are reported, not raised."""
    names = Path(path).name, Path(output).name
    bad: list[str] = []
    findings: list[str] = []
    statuses: Counter[str] = Counter()
    try:
        given = _digest(path)
        same = before is not None and not before.error and before.input_digest == given and before.output == names[1]
        if before is not None and same and is_regular(output) and _digest(output) == before.output_digest:
            return replace(before, skipped=True)
        with open_output(output) as stream:
            stream.write(form.head if part is None or part.shard.index == 1 else "")
            first = 1 if part is None else 1 + part.lines.start
            for number, result in enumerate(form.results(parser, path, bad, findings.append, part), first):
                stream.write(form.written(result, number) + "\n")
                statuses[result.status] += 1
            stream.write(form.foot if part is None or part.shard.index == part.shard.count else "")
        total, finding = sum(statuses.values()), "".join(findings)
        return FileReport(*names, given, _digest(output), total, dict(statuses), bad, finding=finding)
    except InputError as error:
        return FileReport(*names, error=str(error))


def summary(reports: Sequence[FileReport]) -> str:
    """Return a one-sentence summary of all files."""
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


def _count_lines(path: str | Path) -> int:
    """Return the number of lines, with or without a line feed at the end of the last one."""
    file_size(path)
    lines, last = 0, b"\n"
    with open_binary(path) as stream:
        while chunk := stream.read(_CHUNK):
            lines, last = lines + chunk.count(b"\n"), chunk[-1:]
    return lines + (last != b"\n")


def _line(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=True) + "\n"
