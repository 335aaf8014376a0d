"""`sapwood lm eval` and `sapwood lm score`."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from sapwood.cli import _common as common
from sapwood.cli import _lm_common as shared
from sapwood.errors import InputError, ModelError, UsageError
from sapwood.files import STANDARD_STREAM, is_regular, name_of, open_output, read_lines
from sapwood.run.progress import track

if TYPE_CHECKING:
    import numpy as np

    from sapwood.lm.models import AnyModel

# White space and control characters of ASCII.
_WORD = re.compile(r"[^\x00-\x20]+")
# Lines of a file that are scored at a time.
_BATCH = 512
boundaries_option = click.option(
    "--boundaries",
    type=click.Choice(shared.BOUNDARIES),
    help="Each line is a sentence, or line ends mean nothing. [default: as in training]",
)


@click.command("eval", short_help="Measure the perplexity of texts.")
@click.argument("model")
@click.argument("text", nargs=-1)
@boundaries_option
@click.option("--no-ends", is_flag=True, help="Leave the ends of sentences out: predict words only.")
@common.json_option
@common.quiet_option
def eval_command(
    model: str, text: tuple[str, ...], boundaries: str | None, no_ends: bool, as_json: bool, quiet: bool
) -> None:
    """Measure how well MODEL predicts TEXT files (default: standard input), all together.

    MODEL may be an ARPA file of other tools (.arpa, .arpa.gz). Words that the model does not know are not predicted,
    only counted; those after them are. The end of each sentence is predicted too, and is one of the tokens. So this is
    what SRILM calls ppl, and KenLM perplexity without OOVs.

    \b
    Examples:
      sapwood lm eval model.sapwood test.txt
      sapwood lm eval kenlm.arpa test.txt --json
      zcat test.gz | sapwood lm eval model.sapwood
    """
    texts = text or (STANDARD_STREAM,)
    common.check_inputs(*texts)
    progress = common.make_progress(quiet)
    loaded = shared.load_model(model, progress)
    shared.check_boundaries(boundaries, loaded, model)
    from sapwood.lm.evaluation import evaluate

    pieces = shared.encode(texts, loaded, boundaries)
    found = evaluate(loaded, track(pieces, progress, "evaluating", unit="pieces"), ends=not no_ends)
    if found.tokens + found.unknown == 0:
        raise InputError(f"{', '.join(map(name_of, texts))}: no words in it")
    note_infinite(found, progress)
    report = {"model": model, "boundaries": boundaries or loaded.boundaries, **evaluation_report(found)}
    if as_json:
        common.print_json(report)
    else:
        click.echo(format_evaluation(found))


def note_infinite(found: Any, progress: Any) -> None:
    """Say why there is no perplexity, if there is none."""
    if not found.tokens:
        progress.note("there is no perplexity: the model knows none of the words")
    elif found.log_probability == -math.inf:
        progress.note("the perplexity is infinite: a word that the model knows has the probability 0")


def evaluation_report(found: Any) -> dict[str, Any]:
    """Return an evaluation as JSON values."""
    return {
        "perplexity": shared.finite(found.perplexity),
        "tokens": found.tokens,
        "unknown": found.unknown,
        "log_probability": shared.finite(found.log_probability),
    }


def format_evaluation(found: Any) -> str:
    """Return an evaluation as text."""
    perplexity = f"{found.perplexity:.2f}" if found.tokens else "none"
    return f"perplexity  {perplexity}\ntokens      {found.tokens:,}\nunknown     {found.unknown:,}"


class _Line(NamedTuple):
    """A line of text; its words with the marks of sentences; their ids; and which id is never predicted, or -1."""

    text: str
    words: list[str]
    ids: list[int]
    begin: int


@click.command("score", short_help="Print log-probabilities of sentences or words.")
@click.argument("model")
@click.argument("text", default=STANDARD_STREAM)
@click.option("--words", "by_word", is_flag=True, help="A line for each word instead of each line of the text.")
@boundaries_option
@click.option("-o", "--output", help="Output file. [default: standard output]")
@common.json_option
@common.quiet_option
def score_command(
    model: str, text: str, by_word: bool, boundaries: str | None, output: str | None, as_json: bool, quiet: bool
) -> None:
    """Print the natural logarithm of the probability that MODEL gives to each line of TEXT (default: standard input).

    There is a line of output for each line of input, with tabs between its parts: the log-probability, of how many
    words (the end of the sentence is one), how many unknown words were left out of both, and the line itself. With
    --words there is a line for each word: word, log-probability, and "unknown" where it is that of all unknown words
    together; a blank line ends each line of the text. Standard input is answered line by line.

    With --json each line is an object with log_probability, tokens, unknown, words and log_probabilities.

    \b
    Examples:
      sapwood lm score model.sapwood test.txt
      echo "the old man sleeps" | sapwood lm score model.sapwood --words
      sapwood lm score model.sapwood candidates.txt | sort -g -r | head -n 1
    """
    if by_word and as_json:
        raise UsageError("--words does not go with --json, which has the words in it")
    common.check_inputs(text)
    common.refuse_replacing({"-o": output}, [model, text])
    if (kind := shared.kind_of(text)) is not None:
        raise ModelError(f"{text}: holds {shared.held(kind)}, not text")
    progress = common.make_progress(quiet)
    if text == STANDARD_STREAM and sys.stdin.isatty():
        progress.note("reading from the terminal, a sentence a line; end with Ctrl-D")
    loaded = shared.load_model(model, progress)
    shared.check_boundaries(boundaries, loaded, model)
    form = _as_json if as_json else _as_words if by_word else _as_line
    batch = 1 if not is_regular(text) else _BATCH
    with open_output(output) as stream, progress.stage("scoring", unit="lines") as stage:
        for line, values in _scored(_lines(text, loaded, boundaries or loaded.boundaries), loaded, batch):
            stream.write(form(line, values))
            if batch == 1:
                stream.flush()
            stage.step()


def _lines(path: str, model: AnyModel, boundaries: str) -> Iterator[_Line]:
    """Yield each line of a text."""
    from sapwood.lm.vocabulary import BEGIN, END, SPECIAL, UNKNOWN

    index = model.vocabulary.index
    begin = BEGIN if model.boundaries == "sentence" else -1
    marks = SPECIAL[BEGIN], SPECIAL[END]
    for line in _texts(path):
        words = _WORD.findall(line)
        text = " ".join(words)
        if boundaries == "sentence":
            sentences: list[list[str]] = [[]]
            for word in words:
                # A mark in the text ends a sentence.
                if word in marks:
                    sentences.append([])
                else:
                    sentences[-1].append(word)
            words = [word for sentence in sentences if sentence for word in (marks[0], *sentence, marks[1])]
        yield _Line(text, words, [index.get(word, UNKNOWN) for word in words], begin)


def _texts(path: str) -> Iterator[str]:
    """Yield the lines of a file; of a .zst file too."""
    if not path.endswith(".zst"):
        yield from (line for _, line in read_lines(path))
        return
    from sapwood.lm.zstd import open_zstd

    with open_zstd(path) as stream:
        rest, number = b"", 0
        while block := stream.read(1 << 20):
            *whole, rest = (rest + block).split(b"\n")
            for line in whole:
                number += 1
                yield _decoded(line, path, number)
        if rest:
            yield _decoded(rest, path, number + 1)


def _decoded(line: bytes, path: str, number: int) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}:{number}:{error.start + 1}: not valid UTF-8; convert the file to UTF-8 first"
        ) from None


def _scored(lines: Iterator[_Line], model: AnyModel, batch: int) -> Iterator[tuple[_Line, np.ndarray]]:
    """Yield each line with the log-probabilities of its ids, some lines at a time."""
    import itertools

    import numpy as np

    before = np.zeros(0, np.int32)
    while some := list(itertools.islice(lines, batch)):
        ids = np.array([number for line in some for number in line.ids], np.int32)
        values = model.log_probabilities(ids, context=before)
        before = np.concatenate([before, ids])[-16:]
        ends = np.cumsum([len(line.ids) for line in some])
        yield from zip(some, np.split(values, ends[:-1]), strict=True)


def _predicted(line: _Line, values: np.ndarray) -> list[tuple[str, float, bool]]:
    """Return each word but the beginning of a sentence, its log-probability, and whether it is known."""
    from sapwood.lm.vocabulary import UNKNOWN

    words = zip(line.words, line.ids, values.tolist(), strict=True)
    return [(word, value, number != UNKNOWN) for word, number, value in words if number != line.begin]


def _totals(predicted: list[tuple[str, float, bool]]) -> tuple[float, int, int]:
    """Return the log-probability of what counts, how much that is, and how many unknown words do not."""
    counted = [value for _, value, known in predicted if known]
    return sum(counted), len(counted), len(predicted) - len(counted)


def _as_line(line: _Line, values: np.ndarray) -> str:
    total, tokens, unknown = _totals(_predicted(line, values))
    return f"{total:.6f}\t{tokens}\t{unknown}\t{line.text}\n"


def _as_words(line: _Line, values: np.ndarray) -> str:
    mark = {True: "", False: "\tunknown"}
    return "".join(f"{word}\t{value:.6f}{mark[known]}\n" for word, value, known in _predicted(line, values)) + "\n"


def _as_json(line: _Line, values: np.ndarray) -> str:
    predicted = _predicted(line, values)
    total, tokens, unknown = _totals(predicted)
    report = {
        "log_probability": shared.finite(total),
        "tokens": tokens,
        "unknown": unknown,
        "words": [word for word, _, _ in predicted],
        "log_probabilities": [shared.finite(value) for _, value, _ in predicted],
    }
    return json.dumps(report, ensure_ascii=False, allow_nan=False) + "\n"
