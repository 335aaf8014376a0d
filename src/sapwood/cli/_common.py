"""What several commands share: options, progress, reading trees."""

from __future__ import annotations

import contextlib
import functools
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack

import click
from click.core import ParameterSource

from sapwood.cli._types import Choice, Size
from sapwood.errors import ClusterError, InputError, TreeFormatError, UsageError
from sapwood.files import STANDARD_STREAM, check_readable, explained, is_regular, name_of, read_lines
from sapwood.models import default_model_path
from sapwood.run.progress import Bars, Progress, Silent
from sapwood.trees.formats import GROUP as FORMATS
from sapwood.trees.formats import INPUT_FORMATS, BadTrees, InputFormat, read_trees
from sapwood.trees.head_tables import HEAD_TABLES
from sapwood.trees.normalise import FunctionTags, Normaliser, read_labels
from sapwood.trees.transform import Direction, TreeTransform
from sapwood.trees.tree import Tree

if TYPE_CHECKING:
    from sapwood.grammar.tensor_grammar import TensorGrammar
    from sapwood.inference import Parser
    from sapwood.inference.parser import Precision
    from sapwood.run.workers import Workers

F = TypeVar("F", bound=Callable[..., Any])

# The names in sapwood.inference.decode, without the seconds that importing it costs.
DECODERS = ("max-rule", "max-rule-sum", "recall", "f1", "max-rule-absolute", "viterbi")


quiet_option = click.option("-q", "--quiet", is_flag=True, help="No progress and no remarks on standard error.")
# For commands that have nothing to be quiet about: whoever says it to all gets no error.
silent_option = click.option("-q", "--quiet", is_flag=True, expose_value=False, help="Nothing on standard error.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print machine-readable JSON.")
skip_bad_option = click.option("--skip-bad", is_flag=True, help="Skip malformed trees and report how many.")
format_option = click.option(
    "--from",
    "input_format",
    type=Choice(INPUT_FORMATS, FORMATS),
    default="auto",
    show_default=True,
    help="Format of the trees.",
)
threads_option = click.option(
    "--threads",
    type=click.IntRange(min=1, max=1024),
    default=None,
    help="Sentences to work on at once. [default: all cores]",
)

cluster_option = click.option(
    "--cluster",
    metavar="ADDRESS|FILE|local[:N]",
    help="Work on a Dask cluster: a scheduler's address, its scheduler file, or N processes of this machine.",
)


params_option = click.option(
    "--params",
    default="default",
    show_default=True,
    help="What counts: default, collins, or an EVALB parameter file (.prm).",
)


def resampling_options(function: F) -> F:
    """Add the options that say how sentences are resampled."""
    for option in (
        click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of the random numbers."),
        click.option(
            "--resamples",
            type=click.IntRange(min=1),
            default=10_000,
            show_default=True,
            help="Samples of the sentences that are drawn.",
        ),
        click.option(
            "--confidence",
            type=click.FloatRange(0, 1, min_open=True, max_open=True),
            default=0.95,
            show_default=True,
            help="Of the intervals.",
        ),
    ):
        function = option(function)
    return function


def normaliser_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say how trees are cleaned; the command gets the `normaliser` that they ask for."""

    @functools.wraps(function)
    def command(
        *arguments: Any,
        function_tags: FunctionTags,
        keep_tags: tuple[str, ...],
        label_map: str | None,
        keep_empties: bool,
        keep_repeated: bool,
        **options: Any,
    ) -> Any:
        normaliser = Normaliser(
            function_tags=function_tags,
            empties=not keep_empties,
            repeated_unaries=not keep_repeated,
            keep=keep_tags,
            labels=() if label_map is None else read_labels(label_map),
        )
        return function(*arguments, normaliser=normaliser, **options)

    # Decorators apply from the last to the first, and so does this.
    for option in (
        click.option("--keep-repeated", is_flag=True, help="Keep unary nodes over the same label (NP over NP)."),
        click.option("--keep-empties", is_flag=True, help="Keep empty elements (traces, zero words)."),
        click.option("--label-map", help="A table of labels, one a line with what it becomes: IP-MAT* IP-MAT."),
        click.option(
            "--keep-tag",
            "keep_tags",
            multiple=True,
            help="A function tag to keep where others are cut: IP-MAT, or -SBJ of any label. Can be repeated.",
        ),
        click.option(
            "--function-tags",
            type=Choice(["phrases", "all", "indices", "none"]),
            default="phrases",
            show_default=True,
            help="Where to cut function tags (NP-SBJ to NP); indices: nothing but numbers (NP-SBJ=2 to NP-SBJ).",
        ),
    ):
        command = option(command)
    return command


def parser_options(function: F) -> F:
    """Add the options that say how sentences are parsed."""
    for option in (
        click.option(
            "--timeout",
            type=click.FloatRange(min=0, min_open=True),
            help="Seconds to spend on a sentence; one that needs more gets a flat tree. [default: no limit]",
        ),
        click.option(
            "--max-memory",
            type=Size(),
            help="Memory for the chart of a sentence, such as 500M or 2G; one that needs more gets a flat tree. "
            "[default: no limit]",
        ),
        click.option(
            "--threshold",
            type=click.FloatRange(0, 1, max_open=True),
            help="Posterior below which the coarse pass prunes. [default: what the model says, else 2e-05]",
        ),
        click.option(
            "--decoder",
            type=Choice(DECODERS, "sapwood.decoders"),
            help="How the tree is chosen from the posteriors. [default: f1 for models with a layer or a network, "
            "recall for grammars learned without trees, else max-rule]",
        ),
    ):
        function = option(function)
    return function


def precision_option(function: F) -> F:
    """Add --precision."""
    return click.option(
        "--precision",
        type=Choice(["single", "double"]),
        default="single",
        show_default=True,
        help="Of the arithmetic in parsing.",
    )(function)


def transform_options(function: F) -> F:
    """Add the options that say how trees become a grammar's symbols."""
    for option in (
        click.option(
            "--annotate-tags/--plain-tags",
            default=None,
            help="Whether part-of-speech tags know their parent too, with --vertical 2 or more. "
            "[default: no; pcfg: yes]",
        ),
        click.option(
            "--heads", help="Head rules for --binarise head: english, icelandic or a file. [default: english]"
        ),
        click.option(
            "--horizontal",
            type=click.IntRange(min=0),
            help="Siblings that a binarised symbol remembers. [default: 0; pcfg: 1]",
        ),
        click.option(
            "--vertical",
            type=click.IntRange(min=1),
            help="Labels on the way to the root that a symbol knows of: 1 its own, 2 its parent's too. "
            "[default: 1; pcfg: 2]",
        ),
    ):
        function = option(function)
    return function


def head_file(heads: str | None) -> str | None:
    """Return the file that an option names for head rules, if they are not ours."""
    return None if heads in HEAD_TABLES else heads


TRANSFORM_OPTIONS = ("vertical", "horizontal", "heads", "annotate_tags")


def make_transform(
    base: TreeTransform,
    direction: Direction,
    vertical: int | None,
    horizontal: int | None,
    heads: str | None,
    annotate_tags: bool | None,
) -> TreeTransform:
    """Return the transform that the options ask for; what they say nothing of is as in `base`."""
    from sapwood.trees import HeadRules

    if heads is not None and direction != "head":
        raise UsageError("--heads goes with --binarise head")
    table = ""
    if heads is not None:
        table = HEAD_TABLES.get(heads) or "".join(line for _, line in read_lines(heads))
        HeadRules.parse(table, source=name_of(heads))
    given = {"vertical": vertical, "horizontal": horizontal, "annotate_tags": annotate_tags}
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    return replace(base, direction=direction, heads=table, **changes)


NORMALISER_OPTIONS = ("function_tags", "keep_tags", "label_map", "keep_empties", "keep_repeated")


def was_given(context: click.Context, name: str) -> bool:
    """Return whether an option was given, on the command line or in a settings file."""
    return context.get_parameter_source(name) in (ParameterSource.COMMANDLINE, ParameterSource.DEFAULT_MAP)


def refuse_given(context: click.Context, names: Sequence[str], reason: str) -> None:
    """Raise a `UsageError` if any of these options was given, rather than let it do nothing."""
    for parameter in context.command.params:
        if parameter.name is not None and parameter.name in names and was_given(context, parameter.name):
            raise UsageError(f"{max(parameter.opts, key=len)} {reason}")


def check_inputs(*paths: str | None) -> None:
    """Find out before the work begins whether all its input files are there, and standard input named once."""
    if paths.count(STANDARD_STREAM) > 1:
        raise UsageError("standard input (-) can be read only once; name a file for the others")
    for path in paths:
        if path is not None:
            check_readable(path)


@contextlib.contextmanager
def resumable(left: Callable[[], Sequence[str | Path]], how: str = " with --resume") -> Iterator[None]:
    """Say how to go on if something is interrupted that has left files."""
    try:
        yield
    except (KeyboardInterrupt, ClusterError) as error:
        if paths := left():
            hint = f"{paths[0]} has what is done, and the same command{how} goes on from there"
            if isinstance(error, ClusterError):
                raise ClusterError(f"{error}; {hint}") from error
            raise KeyboardInterrupt(hint) from error
        raise


def make_progress(quiet: bool) -> Progress:
    """Return bars on standard error, or silence."""
    return Silent() if quiet else Bars()


def default_threads(threads: int | None) -> int:
    """Return the given number of threads, or as many as there are cores."""
    if threads is not None:
        return threads
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def open_workers(context: click.Context, cluster: str | None, threads: int | None) -> Workers:
    """Return the workers of a cluster until the command ends or, if none was named, threads."""
    from sapwood.run.cluster import open_workers as opened

    return context.with_resource(opened(cluster, default_threads(threads)))


@contextlib.contextmanager
def naming(paths: Sequence[str]) -> Iterator[None]:
    """Put the names of the files before the message of an `InputError` that names none."""
    names = [name_of(path) for path in paths]
    try:
        yield
    except InputError as error:
        if isinstance(error, TreeFormatError) or any(name in str(error) for name in names):
            raise
        shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        raise InputError(f"{shown}: {error}") from error


def trees_from(paths: Sequence[str], input_format: InputFormat, skip_bad: bool, progress: Progress) -> Iterator[Tree]:
    """Yield the trees of all files; at the end of each, report what was skipped."""
    for path in paths:
        bad = BadTrees() if skip_bad else None
        yield from read_trees(path, format=input_format, on_bad=bad)
        if bad is not None and bad.count:
            progress.note(bad.report())


def check_output(path: str | Path) -> None:
    """Find out before the work begins whether its result can be written."""
    if str(path) == STANDARD_STREAM:
        return
    with explained(path, "write"):
        if Path(path).is_dir() or str(path).endswith(("/", os.sep)):
            raise InputError(f"{path}: is a directory; name a file")
        if Path(path).exists() and not is_regular(path):
            return  # a device or a pipe
        parent = Path(os.path.realpath(path)).parent
        if not parent.is_dir():
            raise InputError(f"{Path(path).parent}: no such directory; make it first")
        if not os.access(parent, os.W_OK):
            raise InputError(f"{Path(path).parent}: no permission to write there")


def refuse_replacing(outputs: dict[str, str | None], inputs: Sequence[str | None]) -> None:
    """Check outputs, by the options that name them, and refuse those that are among the inputs or the same."""
    seen: dict[str, str] = {}
    for option, output in outputs.items():
        if output is None or output == STANDARD_STREAM:
            continue
        check_output(output)
        for path in inputs:
            if path and is_regular(path) and is_regular(output) and Path(path).samefile(output):
                raise UsageError(f"{option} {output}: is one of the input files; it would be replaced")
        place = str(Path(output).resolve())
        if place in seen:
            raise UsageError(f"{option} {output}: is where {seen[place]} is written, too")
        seen[place] = option


def print_json(value: Mapping[str, object]) -> None:
    """Print one JSON object on a line of standard output."""
    click.echo(format_json(value))


def format_json(value: Mapping[str, object]) -> str:
    """Return a JSON object in one line."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


class ParserOptions(TypedDict, total=False):
    """What a parser is told besides its model; without a decoder it is the usual one for that."""

    decoder: str | None
    threshold: float | None
    precision: Precision
    threads: int
    workers: Workers
    max_words: int
    max_memory: int | None
    timeout: float | None
    marginals: bool
    alternatives: int
    states: bool
    tokeniser: str | None


def load_parser(model: str | Sequence[str] | None, **options: Unpack[ParserOptions]) -> Parser:
    """Return a parser with a model or several (none: the included one)."""
    from sapwood.inference import Parser

    paths = [model] if isinstance(model, str) else list(model or [])
    if STANDARD_STREAM in paths:
        raise UsageError("a model cannot be read from standard input; name a file")
    if "" in paths:
        raise UsageError("-m: the name of the model is empty")
    from sapwood.inference.product import gather_grammars

    grammars = gather_grammars([str(path) for path in paths] or default_model_path())
    kind, induced = Parser, is_induced(grammars[0])
    if induced:
        from sapwood.induction.parsing import InducedGrammarParser as kind
    settings: dict[str, Any] = {**options}
    if induced and options.get("decoder") is None:
        settings["decoder"] = "recall"
    return kind(grammars, **settings)


def is_induced(grammar: TensorGrammar) -> bool:
    """Return whether a grammar was learned without trees, and perhaps without punctuation."""
    return isinstance(grammar.info.get("induced"), dict)
