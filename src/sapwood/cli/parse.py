"""`sapwood parse`."""

from __future__ import annotations

import io
import math
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click

from sapwood.cli import _common as common
from sapwood.errors import InputError, UsageError
from sapwood.files import STANDARD_STREAM, name_of, open_output, read_lines
from sapwood.trees.brackets import unescape
from sapwood.trees.formats import OUTPUT_FORMATS, format_as


@click.command("parse")
@click.argument("file", required=False)
@click.option("-m", "--model", help="Model file. [default: the bundled English model]")
@click.option("-s", "--sentence", "text", help="Parse this plain text instead of a file.")
@click.option("--raw", is_flag=True, help="The input is plain text: split it into sentences and tokens.")
@click.option("--tags", is_flag=True, help="Tokens are word/TAG, and the tags must hold.")
@click.option(
    "--to",
    "output_format",
    type=click.Choice(OUTPUT_FORMATS),
    default="brackets",
    show_default=True,
    help="Format of the output.",
)
@click.option("-o", "--output", help="Output file. [default: standard output]")
@click.option(
    "--decoder",
    type=click.Choice(["max-rule", "recall", "viterbi"]),
    default="max-rule",
    show_default=True,
    help="How the tree is chosen from the posteriors.",
)
@click.option(
    "--threshold",
    type=click.FloatRange(0, 1, max_open=True),
    default=1e-5,
    show_default=True,
    help="Posterior below which the coarse pass prunes.",
)
@click.option("--exact", is_flag=True, help="Do not prune (slow).")
@click.option(
    "--max-words", type=click.IntRange(min=1), default=500, show_default=True, help="Longer sentences get a flat tree."
)
@common.threads_option
@common.json_option
@common.quiet_option
def command(
    file: str | None,
    model: str | None,
    text: str | None,
    raw: bool,
    tags: bool,
    output_format: Any,
    output: str | None,
    decoder: str,
    threshold: float,
    exact: bool,
    max_words: int,
    threads: int | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Parse FILE (default: standard input): one sentence a line, tokens separated by blanks.

    There is one line of output for each line of input, blank lines included, and it appears as the input arrives.
    With --json each line is an object with words, tree, log_probability and status.

    \b
    Examples:
      sapwood parse -s "The dog that chased the cat sleeps."
      sapwood parse tokens.txt -m model.sapwood > trees.mrg
      sapwood parse --raw < novel.txt
      echo "time/NN flies/VBZ" | sapwood parse --tags
    """
    if text is not None and file is not None:
        raise UsageError("give either -s TEXT or a FILE, not both")
    if tags and (raw or text is not None):
        raise UsageError("--tags is for tokens (word/TAG), not for plain text")
    source = file or STANDARD_STREAM
    from_stream = text is None and source == STANDARD_STREAM
    if output is not None and output != STANDARD_STREAM:
        common.check_output(output)
    progress = common.make_progress(quiet)
    if from_stream and sys.stdin.isatty():
        progress.note("reading sentences from the terminal, one a line; end with Ctrl-D")
    # Several threads work ahead of the output; a stream is answered line by line unless asked otherwise.
    workers = (threads or 1) if from_stream else common.default_threads(threads)
    if not from_stream and text is None and not Path(source).is_file():
        next(read_lines(source), None)  # raises the right error
    parser = common.load_parser(
        model, progress, decoder=decoder, threshold=0.0 if exact else threshold, threads=workers, max_words=max_words
    )
    if text is not None or raw:
        style = parser.grammar.info.get("tokeniser", {})
        sentences: Iterable[list[Any]] = _tokenised(_lines_of(text, source), style)
    else:
        sentences = _tokens(source, tags, set(parser.grammar.emissions.tags))
    with (
        open_output(output) as stream,
        progress.stage("parsing", _count_lines(text, source, raw), "sentences") as stage,
    ):
        for number, result in enumerate(parser.parse(sentences), 1):
            if as_json:
                line = _as_json(result)
            elif result.tree is None:
                line = ""
            else:
                line = format_as(result.tree, output_format, number)
            stream.write(line + "\n")
            stream.flush()
            stage.step()


def _count_lines(text: str | None, source: str, raw: bool) -> int | None:
    """Return how many sentences there will be, if that is known without reading them."""
    if text is not None or raw or source == STANDARD_STREAM or source.endswith(".gz"):
        return None
    with Path(source).open("rb") as stream:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: stream.read(1 << 20), b""))


def _lines_of(text: str | None, source: str) -> Iterator[tuple[int, str]]:
    return enumerate(io.StringIO(text), 1) if text is not None else read_lines(source)


def _tokens(source: str, tagged: bool, known_tags: set[str]) -> Iterator[list[Any]]:
    """Yield the tokens of each line; with tags, as `(word, tag)` pairs."""
    for number, line in read_lines(source):
        tokens = line.split()
        if not tagged:
            yield [unescape(token) for token in tokens]
            continue
        pairs = []
        for token in tokens:
            word, slash, tag = token.rpartition("/")
            if not slash or not word or not tag:
                raise InputError(f"{name_of(source)}:{number}: expected word/TAG, found {token!r}")
            if tag not in known_tags:
                raise InputError(
                    f"{name_of(source)}:{number}: the model has no tag {tag!r}; it has: {' '.join(sorted(known_tags))}"
                )
            pairs.append((unescape(word), tag))
        yield pairs


def _tokenised(lines: Iterable[tuple[int, str]], style: dict[str, bool]) -> Iterator[list[str]]:
    """Yield the tokenised sentences of running text, paragraph by paragraph."""
    from sapwood.trees.tokenise import split_sentences, tokenise

    paragraph: list[str] = []

    def flush() -> Iterator[list[str]]:
        for sentence in split_sentences("".join(paragraph)):
            tokens = tokenise(sentence, **style)
            if tokens:
                yield tokens
        paragraph.clear()

    for _, line in lines:
        if line.strip():
            paragraph.append(line)
        else:
            yield from flush()
    yield from flush()


def _as_json(result: Any) -> str:
    import json

    log_probability = None if math.isnan(result.log_probability) else result.log_probability
    return json.dumps(
        {
            "words": result.words,
            "tree": None if result.tree is None else str(result.tree),
            "log_probability": log_probability,
            "status": result.status,
        },
        ensure_ascii=False,
    )
