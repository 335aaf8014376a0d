"""Helpers shared by commands: options, progress, reading trees."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack

import click
from click.core import ParameterSource

from sapwood.cli.options.types import ABOVE_ZERO, BETWEEN_0_AND_1, NATURAL, POSITIVE, ChoiceParam, ShardParam, Size
from sapwood.errors import ClusterError, InputError, SapwoodError, TreeFormatError, UsageError, listed
from sapwood.model.installed import default_model_path
from sapwood.runtime.progress import Bars, Progress, Silent
from sapwood.storage.files import STANDARD_STREAM, check_readable, explained, is_regular, name_of, read_lines
from sapwood.storage.locks import claimed
from sapwood.trees.formats.gaps import Gaps
from sapwood.trees.formats.registry import GROUP as FORMATS
from sapwood.trees.formats.registry import INPUT_FORMATS, BadTrees, InputFormat, read_trees
from sapwood.trees.heads.tables import HEAD_TABLES
from sapwood.trees.normalise import FunctionTags, Normaliser, read_labels
from sapwood.trees.tokenise.lines import LINES
from sapwood.trees.transform import Direction
from sapwood.trees.tree import Tree

if TYPE_CHECKING:
    from sapwood.inference import Parser
    from sapwood.inference.parser import Precision
    from sapwood.runtime.executor import Executor

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

# The names in sapwood.inference.decode, whose import takes seconds.
DECODERS = ("max-rule", "max-rule-sum", "recall", "f1", "max-rule-absolute", "viterbi")
# Key of the value of --gaps in the data of a command.
_GAPS = "sapwood.gaps"
# Number of words that show whether a model fits a text, and the fewest.
_ENOUGH_WORDS, _FEWEST_WORDS = 200, 4


quiet_option = click.option("-q", "--quiet", is_flag=True, help="Print no progress or messages to standard error.")
# For commands without messages, which accept --quiet all the same.
silent_option = click.option("-q", "--quiet", is_flag=True, expose_value=False, help="Print nothing to standard error.")
logger_option = click.option(
    "--logger",
    "loggers",
    multiple=True,
    metavar="NAME[:ARGUMENT]",
    help="Also send the lines of the training log to this logger, from a package that registers it. Repeatable.",
)
seed_option = click.option("--seed", type=NATURAL, default=0, help="Random seed.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
skip_bad_option = click.option("--skip-bad", is_flag=True, help="Skip malformed trees and report their number.")


def format_option(function: F) -> F:
    """Add the options `--from` and `--gaps`, which say how trees are read."""
    formats = click.option(
        "--from",
        "input_format",
        type=ChoiceParam(INPUT_FORMATS, FORMATS),
        default="auto",
        help="Input format of the trees.",
    )
    gaps = click.option(
        "--gaps",
        type=ChoiceParam(["keep", "close", "split", "join"]),
        default="keep",
        expose_value=False,
        callback=_note_gaps,
        help="Gaps in phrases: keep or close them, split phrases into parts (VP*), or join such parts.",
    )
    return formats(gaps(function))


def _note_gaps(context: click.Context, _: click.Parameter, value: Gaps) -> None:
    """Keep the value for all readers of this command."""
    context.meta[_GAPS] = value


def gaps_option() -> Gaps:
    """Return the value of `--gaps` in this command."""
    context = click.get_current_context(silent=True)
    found: Gaps = "keep" if context is None else context.meta.get(_GAPS, "keep")
    return found


threads_option = click.option(
    "--threads", type=click.IntRange(min=1, max=1024), default=None, help="Number of threads. [default: all cores]"
)

cluster_option = click.option(
    "--cluster",
    metavar="ADDRESS|FILE|local[:N]",
    help="Run on a Dask cluster: scheduler address, scheduler file, or N local processes.",
)


shard_option = click.option(
    "--shard",
    type=ShardParam(),
    metavar="I/N",
    help="Do only part I of N of the work: 3/8 is the third of eight. Joined, the outputs are those of one run.",
)


params_option = click.option(
    "--params",
    default="default",
    help="Evaluation parameters: default, collins, proper, or an EVALB parameter file (.prm).",
)


def resampling_options(function: F) -> F:
    """Add the options of bootstrap resampling."""
    for option in (
        seed_option,
        click.option("--resamples", type=POSITIVE, default=10_000, help="Number of bootstrap samples."),
        click.option("--confidence", type=BETWEEN_0_AND_1, default=0.95, help="Confidence level of the intervals."),
    ):
        function = option(function)
    return function


def normaliser_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of normalisation; the command receives the resulting `normaliser`."""

    @functools.wraps(function)
    def command(
        *arguments: Any,
        function_tags: FunctionTags,
        keep_tags: tuple[str, ...],
        label_map: str | None,
        keep_empties: bool,
        empty: tuple[str, ...],
        keep_repeated: bool,
        **options: Any,
    ) -> Any:
        normaliser = Normaliser(
            function_tags=function_tags,
            empties=not keep_empties,
            repeated_unaries=not keep_repeated,
            keep=keep_tags,
            labels=() if label_map is None else read_labels(label_map),
            empty=empty,
        )
        return function(*arguments, normaliser=normaliser, **options)

    # From last to first, like decorators.
    for option in (
        click.option(
            "--keep-repeated", is_flag=True, help="Keep unary nodes with the same label as their child (NP over NP)."
        ),
        click.option(
            "--empty",
            multiple=True,
            metavar="WORD",
            help="Word or tag of further empty elements to remove. Repeatable.",
        ),
        click.option("--keep-empties", is_flag=True, help="Keep empty elements (traces, null words)."),
        click.option("--label-map", help="File that maps labels, one pair per line: IP-MAT* IP-MAT."),
        click.option(
            "--keep-tag",
            "keep_tags",
            multiple=True,
            help="Function tag to keep: IP-MAT, or -SBJ for any label. Repeatable.",
        ),
        click.option(
            "--function-tags",
            type=ChoiceParam(["phrases", "all", "indices", "none"]),
            default="phrases",
            help="Strip function tags (NP-SBJ to NP) from phrases or from all nodes; indices strips only numbers "
            "(NP-SBJ=2 to NP-SBJ).",
        ),
    ):
        command = option(command)
    return command


def parser_options(function: F) -> F:
    """Add the options of parsing, without limits on sentences."""
    return limited_parser_options(None, None)(function)


def limited_parser_options(timeout: float | None, max_memory: str | None) -> Callable[[F], F]:
    """Return the decorator that adds the options of parsing, with default limits on sentences."""
    return lambda function: _parser_options(function, timeout, max_memory)


def _parser_options(function: F, timeout: float | None, max_memory: str | None) -> F:
    def unlimited(default: object) -> str:
        return " [default: no limit]" if default is None else ""

    for option in (
        click.option(
            "--timeout",
            type=ABOVE_ZERO,
            default=timeout,
            help=f"Time limit per sentence in seconds; beyond it, the tree is flat.{unlimited(timeout)}",
        ),
        click.option(
            "--max-memory",
            type=Size(),
            default=max_memory,
            help=f"Memory limit per sentence (500M, 2G); beyond it, the tree is flat.{unlimited(max_memory)}",
        ),
        click.option(
            "--threshold",
            type=click.FloatRange(0, 1, max_open=True),
            help="Prune below this posterior in the coarse pass. [default: the model's, else 2e-05]",
        ),
        click.option(
            "--decoder",
            type=ChoiceParam(DECODERS, "sapwood.decoders"),
            help="Criterion that selects the tree. [default: f1 for models with a CRF or a span scorer, recall for "
            "induced grammars, else max-rule]",
        ),
    ):
        function = option(function)
    return function


encoder_option = click.option(
    "--encoder",
    help="Pretrained encoder of the model: a folder, or the name of an installed package. [default: found by its "
    "digest in $SAPWOOD_ENCODERS or its package]",
)


def lines_option(function: F) -> F:
    """Add --lines."""
    return click.option(
        "--lines",
        type=ChoiceParam(LINES),
        default="auto",
        help="Lines of raw text: sentences (one line in, one line out), paragraphs, free (wrapped text), or auto: "
        "paragraphs unless the lines are wrapped.",
    )(function)


def precision_option(function: F) -> F:
    """Add --precision."""
    return click.option(
        "--precision",
        type=ChoiceParam(["single", "double"]),
        default="single",
        help="Floating-point precision.",
    )(function)


def transform_options(function: F) -> F:
    """Add the options of Markovisation and binarisation."""
    for option in (
        click.option(
            "--annotate-tags/--plain-tags",
            default=None,
            help="Annotate part-of-speech tags with their parent (needs --vertical 2 or more). [default: no; "
            "pcfg: yes]",
        ),
        click.option(
            "--heads", help="Head rules for --binarise head: english, icelandic or a file. [default: english]"
        ),
        click.option(
            "--horizontal",
            type=NATURAL,
            help="Order of horizontal Markovisation: number of siblings in a symbol. [default: 0; pcfg: 1]",
        ),
        click.option(
            "--vertical",
            type=POSITIVE,
            help="Order of vertical Markovisation: 1 = label, 2 = label and parent. [default: 1; pcfg: 2]",
        ),
    ):
        function = option(function)
    return function


def head_file(heads: str | None) -> str | None:
    """Return the file of head rules, None for a built-in table."""
    return None if heads in HEAD_TABLES else heads


TRANSFORM_OPTIONS = ("vertical", "horizontal", "heads", "annotate_tags")


def transform_changes(
    direction: Direction,
    vertical: int | None,
    horizontal: int | None,
    heads: str | None,
    annotate_tags: bool | None,
) -> dict[str, Any]:
    """Return the parameters of `TreeTransform` that the options set."""
    from sapwood.trees import HeadRules

    if heads is not None and direction != "head":
        raise UsageError("--heads requires --binarise head")
    table = ""
    if heads is not None:
        table = HEAD_TABLES.get(heads) or "".join(line for _, line in read_lines(heads))
        HeadRules.parse(table, source=name_of(heads))
    given = {"vertical": vertical, "horizontal": horizontal, "annotate_tags": annotate_tags}
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    return {"direction": direction, "heads": table, **changes}


NORMALISER_OPTIONS = ("function_tags", "keep_tags", "label_map", "keep_empties", "empty", "keep_repeated")


def was_given(context: click.Context, name: str) -> bool:
    """Return whether an option was given, on the command line or in a settings file."""
    return context.get_parameter_source(name) in (ParameterSource.COMMANDLINE, ParameterSource.DEFAULT_MAP)


def refuse_given(context: click.Context, names: Sequence[str], reason: str) -> None:
    """Raise a `UsageError` if any of these options was given, rather than ignore it."""
    for parameter in context.command.params:
        if parameter.name is not None and parameter.name in names and was_given(context, parameter.name):
            raise UsageError(f"{max(parameter.opts, key=len)} {reason}")


def check_inputs(*paths: str | None) -> None:
    """Check before the work begins that all input files exist, and that standard input is named at most once."""
    if paths.count(STANDARD_STREAM) > 1:
        raise UsageError("standard input (-) can be read only once; name a file for the others")
    for path in paths:
        if path is not None:
            check_readable(path)


def refuse_trees_as_text(*paths: str | None) -> None:
    """Refuse treebanks where text is read."""
    from sapwood.trees.formats.registry import refuse_trees

    for path in paths:
        refuse_trees(path)


@contextlib.contextmanager
def resumable(left: Callable[[], Sequence[str | Path]], how: str = " with --resume") -> Iterator[None]:
    """Report how to resume, if an interrupted run has left files."""
    try:
        yield
    except (KeyboardInterrupt, ClusterError) as error:
        if paths := left():
            hint = f"{paths[0]} holds the progress so far, and the same command{how} continues from there"
            if isinstance(error, ClusterError):
                raise ClusterError(f"{error}; {hint}") from error
            raise KeyboardInterrupt(hint) from error
        raise


def make_progress(quiet: bool) -> Progress:
    """Return progress bars on standard error, or no progress."""
    return Silent() if quiet else Bars()


def default_threads(threads: int | None) -> int:
    """Return the given number of threads, by default the number of cores."""
    if threads is not None:
        return threads
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def open_workers(context: click.Context, cluster: str | None, threads: int | None) -> Executor:
    """Return the workers of a cluster, open until the command ends, or threads if no cluster was named."""
    from sapwood.runtime.dask.executor import open_workers as opened

    return context.with_resource(opened(cluster, default_threads(threads)))


@contextlib.contextmanager
def naming(paths: Sequence[str]) -> Iterator[None]:
    """Prefix an `InputError` that names no file with the names of the files."""
    names = [name_of(path) for path in paths]
    try:
        yield
    except InputError as error:
        if isinstance(error, TreeFormatError) or any(name in str(error) for name in names):
            raise
        raise InputError(f"{listed(names, most=3)}: {error}") from error


def trees_from(paths: Sequence[str], input_format: InputFormat, skip_bad: bool, progress: Progress) -> Iterator[Tree]:
    """Yield the trees of all files; at the end of each, report the number of skipped trees."""
    for path in paths:
        bad = BadTrees() if skip_bad else None
        yield from read_trees(path, format=input_format, on_bad=bad, gaps=gaps_option())
        if bad is not None and bad.count:
            progress.note(bad.report())


def check_output(path: str | Path, *, claim: bool = True) -> None:
    """Check before the work begins that its result can be written; claim it until the command ends."""
    if str(path) == STANDARD_STREAM:
        return
    with explained(path, "write"):
        if Path(path).is_dir() or str(path).endswith(("/", os.sep)):
            raise InputError(f"{path}: is a directory; name a file")
        if Path(path).exists() and not is_regular(path):
            return  # a device or a pipe
        parent = Path(os.path.realpath(path)).parent
        folder = Path(path).parent if Path(path).parent.name else parent  # never "."
        if not parent.is_dir():
            raise InputError(f"{folder}: no such directory; make it first")
        if not os.access(parent, os.W_OK):
            raise InputError(f"{folder}: no permission to write there")
        context = click.get_current_context(silent=True)
        if claim and context is not None:
            context.with_resource(claimed(path))


def refuse_replacing(outputs: dict[str, str | None], inputs: Sequence[str | None], *, claim: bool = True) -> None:
    """Check outputs, keyed by option; refuse those that are inputs or coincide, or that another run is writing."""
    seen: dict[str, str] = {}
    for option, output in outputs.items():
        if output is None or output == STANDARD_STREAM:
            continue
        place = os.path.realpath(output)
        if place in seen:
            raise UsageError(f"{option} {output}: is also the output of {seen[place]}")
        check_output(output, claim=claim)
        for path in inputs:
            if path and is_regular(path) and is_regular(output) and Path(path).samefile(output):
                raise UsageError(f"{option} {output}: is one of the input files and would be overwritten")
        seen[place] = option


def print_json(value: Mapping[str, object]) -> None:
    """Print a JSON object on one line of standard output."""
    click.echo(format_json(value))


def format_json(value: Mapping[str, object]) -> str:
    """Return a JSON object on one line; values that have no JSON raise a `SapwoodError`."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (ValueError, RecursionError) as error:
        raise SapwoodError(f"the result cannot be written as JSON: {error}; omit --json") from error


class ParserOptions(TypedDict, total=False):
    """Options of a parser; without a decoder, the default for its model."""

    decoder: str | None
    threshold: float | None
    precision: Precision
    threads: int
    workers: Executor
    max_words: int
    max_memory: int | None
    timeout: float | None
    marginals: bool
    alternatives: int
    states: bool
    tokeniser: str | None
    encoder: str | None


def load_parser(model: str | Sequence[str] | None, **options: Unpack[ParserOptions]) -> Parser:
    """Return a parser for one or more models (none: the included one)."""
    from sapwood.inference import Parser
    from sapwood.inference.span_scorer import SpanScorerWarning

    paths = [model] if isinstance(model, str) else list(model or [])
    if STANDARD_STREAM in paths:
        raise UsageError("a model cannot be read from standard input; name a file")
    if "" in paths:
        raise UsageError("-m: the name of the model is empty")
    from sapwood.model.parser_model import ParserModel

    found = ParserModel.gather([str(path) for path in paths] or default_model_path())
    kind, induced = Parser, found.preparation.induced is not None
    if induced:
        from sapwood.induction.parser import InducedGrammarParser as kind
    settings: dict[str, Any] = {**options}
    if induced and options.get("decoder") is None:
        settings["decoder"] = "recall"
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always", SpanScorerWarning)
        parser = kind(found, **settings)
    context = click.get_current_context(silent=True)
    progress = make_progress(context is not None and bool(context.params.get("quiet")))
    for one in heard:
        progress.note(str(one.message))
    return parser


def note_unknown_words(
    items: Iterable[T], words_of: Callable[[T], Iterable[str]], parser: Parser, progress: Progress
) -> Iterator[T]:
    """Yield trees or results, and note if the included model, used by default, does not know most of their words."""
    counts = Counter[bool]()
    told = False

    def note() -> None:
        if counts[False] > counts[True]:
            share = counts[False] / counts.total()
            progress.note(
                "the included English model is used, as no model is named (-m); "
                f"it does not know {share:.0%} of the words"
            )

    for item in items:
        if not told:
            counts.update(map(parser.grammar.lexicon.knows, filter(str.isalpha, words_of(item))))
            if told := counts.total() >= _ENOUGH_WORDS:
                note()
        yield item
    if not told and counts.total() >= _FEWEST_WORDS:
        note()
