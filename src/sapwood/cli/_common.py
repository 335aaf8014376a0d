"""What several commands share: options, progress, reading trees."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from sapwood.errors import InputError, UsageError
from sapwood.run.progress import Bars, Progress, Silent
from sapwood.trees.formats import INPUT_FORMATS, BadTrees, InputFormat, read_trees
from sapwood.trees.normalise import Normaliser
from sapwood.trees.tree import Tree

F = TypeVar("F", bound=Callable[..., Any])

quiet_option = click.option("-q", "--quiet", is_flag=True, help="No progress and no remarks on standard error.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print machine-readable JSON.")
skip_bad_option = click.option("--skip-bad", is_flag=True, help="Skip malformed trees and report how many.")
format_option = click.option(
    "--from",
    "input_format",
    type=click.Choice(INPUT_FORMATS),
    default="auto",
    show_default=True,
    help="Format of the trees.",
)
threads_option = click.option(
    "--threads", type=click.IntRange(min=1), default=None, help="Sentences to work on at once. [default: all cores]"
)


def normaliser_options(function: F) -> F:
    """Add the options that say how trees are cleaned."""
    for option in (
        click.option(
            "--function-tags",
            type=click.Choice(["phrases", "all", "none"]),
            default="phrases",
            show_default=True,
            help="Where to cut function tags (NP-SBJ to NP).",
        ),
        click.option("--keep-empties", is_flag=True, help="Keep empty elements (traces, zero words)."),
        click.option("--keep-repeated", is_flag=True, help="Keep unary nodes over the same label (NP over NP)."),
    ):
        function = option(function)
    return function


def make_normaliser(function_tags: Any, keep_empties: bool, keep_repeated: bool) -> Normaliser:
    """Return the normaliser that the options ask for."""
    return Normaliser(function_tags=function_tags, empties=not keep_empties, repeated_unaries=not keep_repeated)


def make_progress(quiet: bool) -> Progress:
    """Return bars on standard error, or silence."""
    return Silent() if quiet else Bars()


def default_threads(threads: int | None) -> int:
    """Return the given number of threads, or as many as there are cores."""
    return (
        threads or len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else threads or os.cpu_count() or 1
    )


def trees_from(paths: Sequence[str], input_format: InputFormat, skip_bad: bool, progress: Progress) -> Iterator[Tree]:
    """Yield the trees of all files; at the end of each, report what was skipped."""
    for path in paths:
        bad = BadTrees() if skip_bad else None
        yield from read_trees(path, format=input_format, on_bad=bad)
        if bad is not None and bad.count:
            progress.note(bad.report())


def check_output(path: str | Path) -> None:
    """Find out before the work begins whether its result can be written."""
    target = Path(path)
    if target.is_dir():
        raise InputError(f"{path}: is a directory; name a file")
    if not target.absolute().parent.is_dir():
        raise InputError(f"{target.parent}: no such directory; make it first")
    if not os.access(target.absolute().parent, os.W_OK):
        raise InputError(f"{target.parent}: no permission to write there")


def print_json(value: Any) -> None:
    """Print one JSON object on a line of standard output."""
    click.echo(json.dumps(value, ensure_ascii=False, allow_nan=False))


@contextlib.contextmanager
def compiling_note(progress: Progress, seconds: float = 2.0) -> Iterator[None]:
    """Say that kernels are being compiled, should the block take longer than it does from the cache."""
    timer = threading.Timer(
        seconds, progress.note, ["compiling for this machine (once after installing; takes about half a minute) ..."]
    )
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def load_parser(model: str | None, progress: Progress, **options: Any) -> Any:
    """Load a model (None: the bundled one) and make its parser ready to go."""
    from sapwood.inference import Parser
    from sapwood.models import default_model_path

    if model == "-":
        raise UsageError("a model cannot be read from standard input; name a file")
    with compiling_note(progress):
        parser = Parser(model or default_model_path(), **options)
        parser.parse_one(["warm", "up"])
    return parser
