"""Phrases of parses, one row each: `sapwood parse --phrases`."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

import click

from sapwood.cli.options.output import TreeWriter
from sapwood.cli.options.types import suggestion
from sapwood.errors import UsageError, listed
from sapwood.trees.heads.rules import HeadRules
from sapwood.trees.normalise import cut_function_tag

if TYPE_CHECKING:
    from sapwood.inference.parser import Parser
    from sapwood.inference.result import ParseResult

_COLUMNS = ("sentence", "label", "start", "end", "start_char", "end_char", "head", "head_position", "text")

phrases_option = click.option(
    "--phrases", metavar="LABEL,...", help="Print the phrases with these labels instead of trees, one row each."
)


class PhraseWriter:
    """Writer of the phrases of results: tab-separated rows below a header, or JSON objects.

    Parameters
    ----------
    parser
        The parser, whose labels are the known ones.
    labels
        Labels separated by commas, without function tags or with them.
    heads
        Head rules. Default: those that fit the model.
    """

    def __init__(self, parser: Parser, labels: str, heads: HeadRules | None, *, as_json: bool) -> None:
        self.labels = [label for label in (part.strip() for part in labels.split(",")) if label]
        self.heads, self.as_json, self._sentences = heads, as_json, 0
        self._columns = _COLUMNS if not parser.marginals else (*_COLUMNS[:-1], "probability", _COLUMNS[-1])
        _check_labels(self.labels, parser.labels, parser.tags)

    def header(self, writer: TreeWriter) -> None:
        """Write the names of the columns."""
        if not self.as_json:
            writer.line("\t".join(self._columns))

    def write(self, writer: TreeWriter, result: ParseResult) -> None:
        """Write the phrases of the next sentence."""
        self._sentences += 1
        for phrase in result.phrases(*self.labels, heads=self.heads):
            row = {"sentence": self._sentences, **phrase._asdict()}
            values = {name: _rounded(row[name]) for name in self._columns}
            writer.line(json.dumps(values, ensure_ascii=False) if self.as_json else _tab_separated(values.values()))


def _check_labels(labels: Collection[str], known: Collection[str], tags: Collection[str]) -> None:
    """Raise an error for a label that no phrase of the model has."""
    if not labels:
        raise UsageError("--phrases: name at least one label, such as NP")
    every = {*known, *map(cut_function_tag, known)}
    for label in labels:
        if label in every:
            continue
        if label in tags:
            raise UsageError(f"--phrases {label}: is a tag, not a phrase label; for words with tags, use --to tagged")
        hint = suggestion(label, sorted(every)) or f"; it has {listed(known, most=20)}"
        raise UsageError(f"--phrases {label}: the model has no phrases with this label{hint}")


def _rounded(value: object) -> object:
    return round(value, 6) if isinstance(value, float) else value


def _tab_separated(values: Iterable[object]) -> str:
    stream = io.StringIO()
    csv.writer(stream, delimiter="\t", lineterminator="").writerow(values)
    return stream.getvalue()
