"""`sapwood parse`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sapwood.cli import _common as common
from sapwood.cli._induced import induced_model, parse_induced
from sapwood.cli._output import PICTURES, heads_option, read_heads, to_option, tree_output
from sapwood.cli._tables import TABLES, check_table, parse_into_table
from sapwood.errors import InputError, UsageError
from sapwood.files import COMPRESSED, STANDARD_STREAM, explained, is_regular
from sapwood.models import default_model_path, find_model
from sapwood.run.progress import Progress

if TYPE_CHECKING:
    from sapwood.inference.parse_files import TextFormat
    from sapwood.inference.parser import Parser, Precision

# Options that mean nothing to models of heads and spans.
_OF_GRAMMARS = (
    "decoder", "threshold", "exact", "precision", "max_memory", "timeout", "marginals", "alternatives", "states",
    "heads", "tokeniser",
)  # fmt: skip


@click.command("parse", short_help="Parse sentences: one line in, one tree out.")
@click.argument("files", nargs=-1, metavar="[FILE]...")
@click.option(
    "-m",
    "--model",
    "models",
    multiple=True,
    help="Model file; give several to parse with their product. [default: the included English model]",
)
@click.option("-s", "--sentence", "text", help="Parse this plain text instead of a file.")
@click.option("--raw", is_flag=True, help="The input is plain text: split it into sentences and tokens.")
@click.option("--tags", is_flag=True, help="Tokens are word/TAG, and the tags must hold.")
@to_option
@heads_option
@click.option(
    "-o", "--output", help="Output file, or a folder (OUT/) for one of each input. [default: standard output]"
)
@common.parser_options
@common.precision_option
@click.option("--exact", is_flag=True, help="Do not prune (slow).")
@click.option(
    "--max-words", type=click.IntRange(min=1), default=500, show_default=True, help="Longer sentences get a flat tree."
)
@click.option("--marginals", is_flag=True, help="With --json: how probable each phrase and tag of the tree is.")
@click.option("--alternatives", type=click.IntRange(min=0), default=0, help="With --json: this many of the best trees.")
@click.option("--states", is_flag=True, help="Show the hidden states of the tree: NP-3 for state 3 of NP.")
@click.option(
    "--tokeniser", help="How to cut plain text up: penn, blanks, characters, spacy:de. [default: the model's]"
)
@click.option("--column", help="Of a table (.parquet, .arrow, .feather): the column with the sentences.")
@common.threads_option
@common.cluster_option
@common.json_option
@common.quiet_option
@click.pass_context
def command(
    context: click.Context,
    files: tuple[str, ...],
    models: tuple[str, ...],
    text: str | None,
    raw: bool,
    tags: bool,
    output_format: str,
    heads: str | None,
    output: str | None,
    decoder: str | None,
    threshold: float | None,
    precision: Precision,
    exact: bool,
    max_words: int,
    max_memory: int | None,
    timeout: float | None,
    marginals: bool,
    alternatives: int,
    states: bool,
    tokeniser: str | None,
    column: str | None,
    threads: int | None,
    cluster: str | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Parse FILE (default: standard input): one sentence per line, tokens separated by spaces.

    Several files are parsed into a folder, -o OUT/: each into a file of its own, written whole or not at all, and noted
    in OUT/manifest.jsonl. The same command again leaves alone what is done, so it can be interrupted at any time.

    There is one line of output for each line of input, blank lines included (but pretty, export and draw take
    several lines a tree, and --raw and -s find the sentences themselves: there a paragraph ends at a blank line).
    Standard input is answered as it arrives, line by line; give --threads to work ahead instead.

    With --json each line is an object with words, tree, log_probability and status: parsed, loosened (pruning had
    left no parse), coarse (only a simpler grammar had one), fallback, too long, out of memory or timed out (a flat tree
    over the best tags), empty (a blank line; its tree is null). Of plain text it also has offsets: [start, end] of each
    word, in characters of the text. --marginals adds [start, end, label, probability] for each phrase and tag,
    --alternatives the best trees with their log probabilities, --states [start, end, symbol, state, probability] of the
    nodes of the tree as the grammar sees it.

    A table (.parquet, .arrow, .feather) is parsed into another one, -o OUT.parquet: its rows with all their columns,
    and new columns tree, log_probability and status, or with --raw the column parses, a list.

    Several models (-m more than once, or a file that holds several) must have been trained on the same trees. The
    product of their posteriors chooses the tree; probabilities are means over the models.

    \b
    Examples:
      sapwood parse -s "The dog that chased the cat sleeps."
      sapwood parse tokens.txt -m model.sapwood > trees.mrg
      sapwood parse tokens.txt -m seed1.sapwood -m seed2.sapwood > trees.mrg
      sapwood parse --raw < novel.txt
      sapwood parse crawl/*.txt.gz -o trees/ --cluster tcp://scheduler:8786
      echo "time/NN flies/VBZ" | sapwood parse --tags
      sapwood parse -s "I saw her duck." --json --marginals --alternatives 3
      sapwood parse -s "I saw her duck." --states
      sapwood parse reviews.parquet --column text --raw -o trees.parquet
    """
    if text is not None and files:
        raise UsageError("give either -s TEXT or a FILE, not both")
    into_folder = output is not None and (output.endswith(("/", os.sep)) or Path(output).is_dir())
    if into_folder and not files:
        raise UsageError(f"-o {output}: is a folder, for the trees of files; name some")
    if len(files) > 1 and not into_folder:
        raise UsageError("several files are parsed into a folder: -o OUT/")
    if into_folder and output_format in PICTURES:
        raise UsageError(f"--to {output_format} is for one file: -o trees.{output_format}")
    is_table = any(file.endswith(TABLES) for file in files)
    if is_table:
        check_table(context, files, column, output)
    else:
        common.refuse_given(context, ["column"], "is for tables: .parquet, .arrow or .feather")
    if tokeniser is not None and not raw and text is None:
        raise UsageError("--tokeniser is for plain text: --raw, or -s")
    if tags and (raw or text is not None):
        raise UsageError("--tags is for tokens (word/TAG), not for plain text")
    if as_json:
        common.refuse_given(context, ["output_format"], "does not go with --json, which has brackets in it")
    elif not is_table:
        common.refuse_given(context, ["marginals", "alternatives"], "goes with --json")
    if exact:
        common.refuse_given(context, ["threshold"], "does not go with --exact, which prunes nothing")
    rules = read_heads(context, heads, output_format)
    if text is not None and not text.isprintable():
        _check_text(text)
    source = files[0] if files else STANDARD_STREAM
    from_stream = text is None and source == STANDARD_STREAM
    if text is None:
        for file in files:
            if " " in file.strip() and not Path(file).exists():
                raise InputError(f"{file}: no such file or directory; a sentence is given by -s")
        common.check_inputs(*(files or [source]))
    read = [str(find_model(model)) for model in models] or [str(default_model_path())]
    if not into_folder:
        common.refuse_replacing({"-o": output}, [*read, None if text is not None else source])
    progress = common.make_progress(quiet)
    if from_stream and sys.stdin.isatty():
        unit = "paragraphs, each ended by a blank line" if raw else "sentences, one a line"
        progress.note(f"reading from the terminal: {unit}; end with Ctrl-D")
    # Several threads work ahead of the output; a stream is answered line by line unless asked otherwise.
    workers = common.open_workers(context, cluster, (threads or 1) if from_stream else threads)
    if (induced := induced_model(models)) is not None:
        common.refuse_given(context, _OF_GRAMMARS, f"is for grammars, and {read[0]} is a model of heads or spans")
        if into_folder:
            raise UsageError(f"-o {output}: {read[0]} is a model of heads or spans, and parses one file at a time")
        given = output_format if common.was_given(context, "output_format") else None
        parse_induced(
            induced, source, text, raw=raw, tags=tags, output=output, output_format=given, as_json=as_json,
            max_words=max_words, workers=workers, progress=progress,
        )  # fmt: skip
        return
    parser = common.load_parser(
        models,
        decoder=decoder,
        threshold=0.0 if exact else threshold,
        precision=precision,
        workers=workers,
        max_words=max_words,
        max_memory=max_memory,
        timeout=timeout,
        marginals=marginals,
        alternatives=alternatives,
        states=states,
        tokeniser=tokeniser,
    )
    if is_table:
        parse_into_table(parser, source, str(output), str(column), raw, progress)
        return
    from sapwood.inference.parse_files import TextFormat

    form = TextFormat(raw, tags, output_format, as_json, states, heads)
    if output is not None and into_folder:
        for target in (str(Path(output, form.output_name(file))) for file in files):
            if is_regular(target):
                common.refuse_replacing({"-o": target}, read)
        _parse_into(parser, files, output, form, progress)
        return
    results = form.results(parser, source) if text is None else parser.parse_text(text)
    with (
        tree_output(output, None if as_json else output_format, rules) as writer,
        progress.stage("parsing", _count_lines(text, source, raw), "sentences") as stage,
    ):
        hinted = raw or tags or text is not None
        for result in results:
            if not hinted and result.words:
                hinted = True
                if hint := _hint(result.words):
                    progress.note(f"{'standard input' if from_stream else source}: {hint}")
            if as_json:
                writer.line(form.written(result, 1))
            else:
                writer.tree(form.shown(result))
            stage.step()


def _hint(words: Sequence[str]) -> str:
    """Return what there is to say if the words of the first line do not look like words of a sentence."""
    opened, closed = (sum(word.count(bracket) for word in words) for bracket in "()")
    if opened == closed > 2 and words[0].startswith("(") and words[-1].endswith("))"):
        return (
            "the first line looks like a tree, but is parsed as words; `sapwood convert --to tokens` has those of trees"
        )
    if len(words) > 2 and words[-1][:-1].isalpha() and words[-1].endswith((".", "!", "?")) and len(words[-1]) > 4:
        return (
            "the first line looks like plain text, but is parsed as tokens; --raw splits text into sentences and tokens"
        )
    return ""


def _parse_into(parser: Parser, files: Sequence[str], folder: str, form: TextFormat, progress: Progress) -> None:
    """Parse files into a folder, and say what became of them."""
    from sapwood.inference.parse_files import MANIFEST, parse_files, summary

    def left() -> list[str]:
        return [folder] if Path(folder, MANIFEST).exists() else []

    with common.resumable(left, ""):
        reports = parse_files(parser, files, folder, form, progress=progress)
    progress.note(f"{folder}: {summary(reports)}")
    problems = [problem for report in reports for problem in (*report.bad, *([report.error] if report.error else []))]
    if problems:
        shown = "".join(f"\n  {problem}" for problem in problems[:5])
        more = f"\n  ... and {len(problems) - 5} more" if len(problems) > 5 else ""
        raise InputError(f"{folder}: not all could be read; the manifest has the rest:{shown}{more}")


def _count_lines(text: str | None, source: str, raw: bool) -> int | None:
    """Return how many sentences there will be, if that is known without reading them."""
    if text is not None or raw or source.endswith(COMPRESSED) or not is_regular(source):
        return None
    with explained(source), Path(source).open("rb") as stream:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: stream.read(1 << 20), b""))


def _check_text(text: str) -> None:
    """Refuse what the shell handed over although it is not UTF-8."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(f"-s: not valid UTF-8 at character {error.start + 1}") from None
