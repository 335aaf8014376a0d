"""`sapwood parse`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sapwood.cli.options import common
from sapwood.cli.options.aliases import PARSE
from sapwood.cli.options.help import GroupedCommand
from sapwood.cli.options.induction import USE_RAW, induced_model, parse_induced
from sapwood.cli.options.output import PICTURES, heads_option, note_learned_heads, read_heads, to_option, tree_output
from sapwood.cli.options.phrases import PhraseWriter, phrases_option
from sapwood.cli.options.types import NATURAL, POSITIVE
from sapwood.errors import InputError, UsageError
from sapwood.model.installed import default_model_path, find_model
from sapwood.runtime.progress import Progress
from sapwood.runtime.shards import Shard
from sapwood.storage.files import COMPRESSED, STANDARD_STREAM, explained, is_regular
from sapwood.trees.heads.tables import HEAD_TABLES

if TYPE_CHECKING:
    from sapwood.inference.batch import TextIO
    from sapwood.inference.parser import Parser
    from sapwood.trees.tokenise.lines import Lines


# Options that do not apply to models of heads and spans.
_OF_GRAMMARS = (
    "decoder", "threshold", "encoder", "exact", "precision", "max_memory", "timeout", "marginals", "alternatives",
    "states", "heads", "tokeniser", "phrases",
)  # fmt: skip
# The suffixes in sapwood.interop.arrow and csv_tables, whose import takes seconds.
_ARROW = (".parquet", ".arrow", ".feather")
_CSV = tuple(kind + packed for packed in ("", *COMPRESSED) for kind in (".csv", ".tsv"))
_TABLES = (*_ARROW, *_CSV)
_A_TREE = "looks like a tree, but is parsed as words; get these with `sapwood convert --to tokens`"


@click.command(
    "parse", cls=GroupedCommand, aliases=PARSE, short_help="Parse sentences: one per line in, one tree per line out."
)
@click.argument("files", nargs=-1, metavar="[FILE]...")
@click.option(
    "-m",
    "--model",
    "models",
    multiple=True,
    help="Model file or name; repeat to parse with the product of several. [default: the included English model]",
)
@click.option("-s", "--sentence", "text", help="Parse this text instead of a file.")
@click.option("--raw", is_flag=True, help="Input is raw text: split it into sentences and tokens.")
@common.lines_option
@click.option("--tags", is_flag=True, help="Input tokens are word/TAG; parses keep these tags.")
@to_option
@phrases_option
@heads_option
@click.option(
    "-o", "--output", help="Output file, or a folder (OUT/) with one file per input. [default: standard output]"
)
@common.parser_options
@common.encoder_option
@common.precision_option
@click.option("--exact", is_flag=True, help="Parse without pruning (slow).")
@click.option("--max-words", type=POSITIVE, default=500, help="Give longer sentences a flat tree.")
@click.option("--marginals", is_flag=True, help="With --json or --phrases, add marginal probabilities.")
@click.option("--alternatives", type=NATURAL, default=0, help="With --json, add the N best trees.")
@click.option(
    "--show-states", "states", is_flag=True, help="Show the hidden state of each node: NP-3 is state 3 of NP."
)
@click.option("--tokeniser", help="Tokeniser for raw text: penn, blanks, characters, spacy:de. [default: the model's]")
@click.option("--column", help="Column with the sentences, for a table (.csv, .tsv, .parquet, .arrow, .feather).")
@common.threads_option
@common.cluster_option
@common.shard_option
@common.json_option
@common.quiet_option
@click.pass_context
def command(
    context: click.Context,
    /,
    files: tuple[str, ...],
    models: tuple[str, ...],
    text: str | None,
    raw: bool,
    lines: Lines,
    tags: bool,
    output_format: str,
    phrases: str | None,
    heads: str | None,
    output: str | None,
    threshold: float | None,
    exact: bool,
    states: bool,
    column: str | None,
    threads: int | None,
    cluster: str | None,
    shard: Shard | None,
    as_json: bool,
    quiet: bool,
    **parsing: Any,
) -> None:
    """Parse FILE (default: standard input): one sentence per line, tokens separated by spaces.

    Several files are parsed into a folder, -o OUT/: one output file per input, written atomically and listed in
    OUT/manifest.jsonl. Run the same command again to resume an interrupted run; finished files are skipped.

    With --shard 3/8, a process parses the third of eight parts: some of the files or, of a single one, some of the
    lines, written to OUT/NAME.3-of-8.mrg. These, joined in order, are the output of one run.

    There is one line of output per line of input, blank lines included. Exceptions: pretty, export and draw print
    several lines per tree, and --raw and -s split the text into sentences. A line of raw text ends a sentence, unless
    the lines are wrapped: most of them have no room for the next word, and sentences go on from line to line. --lines
    sets this for all lines; with --lines sentences, raw text has one line of output per line as well.
    Standard input is parsed line by line as it arrives; --threads reads ahead instead.

    With --json, each line is an object with words, tree, log_probability and status: parsed, relaxed (no parse until
    pruning was relaxed), coarse (parsed by a simpler grammar), flat (no parse), too long, out of memory or timed out
    (these four have a flat tree over the best tags), or empty (a blank line; its tree is null). --raw and -s add
    offsets: [start, end] of each word in characters. --marginals adds [start, end, label, probability] of each phrase
    and tag, --alternatives the best trees with their log-probabilities, --show-states [start, end, symbol, state,
    probability] of each node of the binarised tree.

    With --phrases NP,PP, each row is a phrase: the number of its sentence, its label, its words [start, end), its
    characters [start_char, end_char) with --raw and -s, its head word, and its text. Rows are tab-separated or, with
    --json, objects; --marginals adds probabilities. NP also selects NP-SBJ.

    A table (.csv, .tsv, .parquet, .arrow, .feather) is parsed into another table, -o OUT.csv: all its rows and columns,
    plus tree, log_probability and status or, with --raw, a list column parses (JSON in .csv and .tsv).

    A model of trees with gaps writes discbracket unless --to says otherwise.

    Several models (repeated -m, or a file with several grammars) must have been trained on the same trees. The product
    of their posteriors selects the tree; probabilities are means over the models.

    \b
    Examples:
      sapwood parse -s "The dog that chased the cat sleeps."
      sapwood parse tokens.txt -m model.sapwood > trees.mrg
      sapwood parse tokens.txt -m seed1.sapwood -m seed2.sapwood > trees.mrg
      sapwood parse --raw < novel.txt
      sapwood parse --raw --lines sentences titles.txt > trees.mrg
      sapwood parse crawl/*.txt.gz -o trees/ --cluster tcp://scheduler:8786
      sapwood parse crawl/*.txt.gz -o trees/ --shard 3/8
      echo "time/NN flies/VBZ" | sapwood parse --tags
      sapwood parse -s "I saw her duck." --json --marginals --alternatives 3
      sapwood parse -s "I saw her duck." --show-states
      sapwood parse -s "I saw her duck." --phrases NP,PP
      sapwood parse reviews.csv --column text --raw -o trees.csv
    """
    into_folder = output is not None and (output.endswith(("/", os.sep)) or Path(output).is_dir())
    if shard is not None:
        if not into_folder:
            raise UsageError("--shard requires a folder for the outputs of all shards: -o OUT/")
        common.refuse_given(
            context,
            ["cluster"],
            "cannot be used with --shard, which needs no scheduler; start a process for each shard",
        )
    _check_output(files, text, output, output_format, into_folder)
    is_table = any(file.endswith(_TABLES) for file in files)
    _check_options(context, is_text=raw or text is not None, is_table=is_table)
    read_heads(context, heads, output_format)
    source = files[0] if files else STANDARD_STREAM
    _check_input(files, text)
    read = [str(find_model(model)) for model in models] or [str(default_model_path())]
    if not into_folder:
        common.refuse_replacing({"-o": output}, [*read, None if text is not None else source])
    progress = common.make_progress(quiet)
    from_stream = text is None and source == STANDARD_STREAM
    if from_stream:
        _announce_terminal("paragraphs" if raw and lines in ("auto", "free") else "sentences", progress)
    # Several threads read ahead of the output; a stream is parsed line by line unless --threads is given.
    workers = common.open_workers(context, cluster, (threads or 1) if from_stream else threads)
    if (induced := induced_model(models)) is not None:
        common.refuse_given(context, _OF_GRAMMARS, f"is for grammars, and {read[0]} is a model of heads or spans")
        if into_folder:
            raise UsageError(f"-o {output}: {read[0]} is a model of heads or spans, and parses one file at a time")
        given = output_format if common.was_given(context, "output_format") else None
        parse_induced(
            induced, source, text, raw=raw, lines=lines, tags=tags, output=output, output_format=given, as_json=as_json,
            max_words=parsing["max_words"], workers=workers, progress=progress,
        )  # fmt: skip
        return
    parsing |= {"threshold": 0.0 if exact else threshold, "states": states}
    parser = common.load_parser(models, workers=workers, **parsing)
    from sapwood.inference.batch import TextIO

    if parser.grammar.transform.gaps and not common.was_given(context, "output_format"):
        output_format = "discbracket"
    form = TextIO(raw, tags, output_format, as_json, states, heads, lines)
    form = _with_heads(form, parser, read[0], progress, phrases)
    if is_table:
        _parse_into_table(parser, source, str(output), str(column), form, progress)
    elif output is not None and into_folder:
        _parse_into(parser, files, output, form, read, progress, shard)
    else:
        _parse_one(parser, source, text, form, output, progress, phrases, by_default=not models)


def _check_output(
    files: Sequence[str], text: str | None, output: str | None, output_format: str, into_folder: bool
) -> None:
    """Refuse an output that does not fit the input."""
    if text is not None and files:
        raise UsageError("give either -s TEXT or a FILE, not both")
    if into_folder and not files:
        raise UsageError(f"-o {output}: an output folder requires input files")
    if len(files) > 1 and not into_folder:
        raise UsageError("several files are parsed into a folder: -o OUT/")
    if into_folder and output_format in PICTURES:
        raise UsageError(f"--to {output_format} is for one file: -o trees.{output_format}")


def _check_options(context: click.Context, *, is_text: bool, is_table: bool) -> None:
    """Refuse options that do not fit the input, and options that cannot be combined."""
    given = context.params
    if is_table:
        _check_table(context, given["files"], given["column"], given["output"])
    else:
        common.refuse_given(context, ["column"], "is for tables: .csv, .tsv, .parquet, .arrow or .feather")
    if given["tokeniser"] is not None and not is_text:
        raise UsageError("--tokeniser is for raw text: --raw, or -s")
    if not is_text:
        common.refuse_given(context, ["lines"], "is for raw text: --raw, or -s")
    if given["tags"] and is_text:
        raise UsageError("--tags is for tokens (word/TAG), not for raw text")
    if given["as_json"]:
        common.refuse_given(context, ["output_format"], "cannot be used with --json, which has brackets in it")
    elif not is_table:
        common.refuse_given(context, ["alternatives"], "requires --json")
        if given["phrases"] is None:
            common.refuse_given(context, ["marginals"], "requires --json or --phrases")
    if given["phrases"] is not None:
        others = ["output_format", "alternatives", "states", "column"]
        common.refuse_given(context, others, "cannot be used with --phrases")
        if given["output"] is not None and (given["output"].endswith(("/", os.sep)) or Path(given["output"]).is_dir()):
            raise UsageError("--phrases is for one file: -o phrases.tsv")
    if given["exact"]:
        common.refuse_given(context, ["threshold"], "cannot be used with --exact, which prunes nothing")


def _check_input(files: Sequence[str], text: str | None) -> None:
    """Refuse a text that is not valid UTF-8, or files that cannot be read."""
    if text is None:
        for file in files:
            if " " in file.strip() and not Path(file).exists():
                raise InputError(f"{file}: no such file or directory; to parse a sentence, use -s")
        common.check_inputs(*(files or [STANDARD_STREAM]))
        return
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(f"-s: not valid UTF-8 at character {error.start + 1}") from None


def _announce_terminal(unit: str, progress: Progress) -> None:
    """Say how to end input that is typed in a terminal."""
    if sys.stdin.isatty():
        unit += ", each ended by a blank line" if unit == "paragraphs" else ", one per line"
        progress.note(f"reading from the terminal: {unit}; end with Ctrl-D")


def _with_heads(form: TextIO, parser: Parser, model: str, progress: Progress, phrases: str | None) -> TextIO:
    """Return the form with head rules that fit the model, if it needs some and none are given; note if none do."""
    if form.heads is not None or (phrases is None and (form.output != "conllu" or form.as_json)):
        return form
    from sapwood.grammar.describe import label_counts

    if parser.heads is not None and parser.heads.name in HEAD_TABLES:
        return replace(form, heads=parser.heads.name)
    note_learned_heads(
        label_counts(parser.grammar)[0], model, "each tree" if parser.heads is None else "its trees", progress
    )
    return form


def _parse_one(
    parser: Parser, source: str, text: str | None, form: TextIO, output: str | None, progress: Progress,
    phrases: str | None, *, by_default: bool,
) -> None:  # fmt: skip
    """Parse one file, or a text, and write each result, or its phrases, as it arrives."""
    from sapwood.trees.formats.registry import begins_with_trees, is_bracketed

    rows = None if phrases is None else PhraseWriter(parser, phrases, form.rules, as_json=form.as_json)
    name = "standard input" if source == STANDARD_STREAM else source
    hinted = form.tags or text is not None
    if text is None:
        results = form.results(parser, source, tell=lambda finding: progress.note(f"{name}: {finding}; {USE_RAW}"))
    else:
        results = parser.parse_text(text, lines=form.lines)
    if by_default:
        results = common.note_unknown_words(results, lambda result: result.words, parser, progress)
    with (
        tree_output(output, None if form.as_json or rows else form.output, form.rules or parser.heads) as writer,
        progress.stage("parsing", _count_lines(text, source, form.raw), "sentences") as stage,
    ):
        if rows is not None:
            rows.header(writer)
        for result in results:
            if not hinted and result.words:
                hinted = True
                if is_bracketed(" ".join(result.words)) or begins_with_trees(source):
                    progress.note(f"{name}: the first line {_A_TREE}")
            if rows is not None:
                rows.write(writer, result)
            elif form.as_json:
                writer.line(form.written(result, 1))
            else:
                writer.tree(form.shown(result))
            stage.step()


def _parse_into(
    parser: Parser, files: Sequence[str], folder: str, form: TextIO, models: Sequence[str], progress: Progress,
    shard: Shard | None,
) -> None:  # fmt: skip
    """Parse files into a folder, without replacing the models, and report the outcome."""
    for target in (str(Path(folder, form.output_name(file))) for file in files):
        if is_regular(target):
            common.refuse_replacing({"-o": target}, models, claim=False)
    from sapwood.inference.batch import manifest_path, parse_files, summary

    def left() -> list[str]:
        return [folder] if manifest_path(folder, shard).exists() else []

    with common.resumable(left, ""):
        reports = parse_files(parser, files, folder, form, shard=shard, progress=progress)
    progress.note(f"{folder}: {summary(reports)}")
    if plain := [report for report in reports if report.finding]:
        more = f" (and in {len(plain) - 1} other files)" if len(plain) > 1 else ""
        progress.note(f"{plain[0].input}: {plain[0].finding}{more}; {USE_RAW}")
    problems = [problem for report in reports for problem in (*report.bad, *([report.error] if report.error else []))]
    if problems:
        shown = "".join(f"\n  {problem}" for problem in problems[:5])
        more = f"\n  ... and {len(problems) - 5} more" if len(problems) > 5 else ""
        raise InputError(f"{folder}: not all files could be read; the manifest lists the others:{shown}{more}")


def _count_lines(text: str | None, source: str, raw: bool) -> int | None:
    """Return the number of sentences if it is known without reading them, else None."""
    if text is not None or raw or source.endswith(COMPRESSED) or not is_regular(source):
        return None
    with explained(source), Path(source).open("rb") as stream:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: stream.read(1 << 20), b""))


def _check_table(context: click.Context, files: Sequence[str], column: str | None, output: str | None) -> None:
    """Refuse options that cannot be used with a table."""
    if len(files) > 1:
        raise UsageError("one table at a time; name one file")
    if column is None:
        raise UsageError(f"{files[0]}: name the column with the sentences: --column text")
    same = _CSV if files[0].endswith(_CSV) else _ARROW
    if output is None or not output.endswith(same):
        shown = same if same == _ARROW else (".csv", ".tsv", "compressed")
        raise UsageError(
            f"{files[0]}: a table is parsed into another one: -o OUT{shown[0]} (or {', '.join(shown[1:])})"
        )
    common.refuse_given(
        context, ["output_format", "as_json", "tags", "states"], "cannot be used with a table, which has columns"
    )


def _parse_into_table(parser: Parser, source: str, output: str, column: str, form: TextIO, progress: Progress) -> None:
    """Parse a column of a table into another table, and report the number of sentences by status."""
    from sapwood.interop.arrow import ColumnParser, parse_table
    from sapwood.interop.csv_tables import parse_csv

    into = parse_csv if source.endswith(_CSV) else parse_table
    columns = ColumnParser(parser, column, raw=form.raw, lines=form.lines, warn=False)
    statuses = into(columns, source, output, progress=progress)
    told = ", ".join(f"{count:,} {status}" for status, count in statuses.most_common())
    progress.note(f"{output}: {told or 'no sentences'}")
    if columns.finding:
        progress.note(f"{source}: {columns.finding}; {USE_RAW}")
