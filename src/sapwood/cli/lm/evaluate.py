"""`sapwood lm eval` and `sapwood lm score`."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import click

from sapwood.cli.lm import common as shared
from sapwood.cli.options import common
from sapwood.errors import UsageError
from sapwood.lm.registry import Boundaries
from sapwood.storage.files import STANDARD_STREAM, is_regular, open_output

if TYPE_CHECKING:
    from sapwood.lm.scoring import ScoredLine

# Number of lines to score at a time.
_BATCH = 512


@click.command("eval", short_help="Measure the perplexity of texts.")
@click.argument("model")
@click.argument("text", nargs=-1)
@shared.boundaries_option("as in training")
@click.option("--no-ends", is_flag=True, help="Predict words only, not ends of sentences.")
@common.json_option
@common.quiet_option
def eval_command(
    model: str, text: tuple[str, ...], boundaries: Boundaries | None, no_ends: bool, as_json: bool, quiet: bool
) -> None:
    """Compute the perplexity of MODEL on TEXT files (default: standard input), all together.

    MODEL may be an ARPA file of another tool (.arpa, .arpa.gz). Unknown words are counted, but not predicted. The end
    of each sentence is predicted as a token. This is ppl in SRILM, and perplexity excluding OOVs in KenLM.

    \b
    Examples:
      sapwood lm eval model.sapwood test.txt
      sapwood lm eval kenlm.arpa test.txt --json
      zcat test.gz | sapwood lm eval model.sapwood
    """
    texts = text or (STANDARD_STREAM,)
    common.check_inputs(*texts)
    progress = common.make_progress(quiet)
    loaded = shared.load_model(model)
    from sapwood.lm.scoring import evaluate_text

    found = evaluate_text(loaded, texts, boundaries=boundaries, ends=not no_ends, progress=progress)
    report = shared.evaluation_report(found, progress)
    if as_json:
        shared.print_json({"model": model, "boundaries": boundaries or loaded.boundaries, **report})
    else:
        click.echo(shared.format_evaluation(found))


@click.command("score", short_help="Print log-probabilities of sentences or words.")
@click.argument("model")
@click.argument("text", default=STANDARD_STREAM)
@click.option("--words", "by_word", is_flag=True, help="Print one line per word instead of one per sentence.")
@shared.boundaries_option("as in training")
@click.option("-o", "--output", help="Output file. [default: standard output]")
@common.json_option
@common.quiet_option
def score_command(
    model: str, text: str, by_word: bool, boundaries: Boundaries | None, output: str | None, as_json: bool, quiet: bool
) -> None:
    """Print the natural log-probability of each line of TEXT (default: standard input) under MODEL.

    There is one line of output per line of input, with tab-separated fields: log-probability, number of words
    (including the end of the sentence), number of unknown words, which neither includes, and the line itself. With
    --words, there is one line per word: word, log-probability, and "unknown" if it is the probability of all unknown
    words together; a blank line ends each line of the text. Standard input is scored line by line.

    With --json, each line is an object with log_probability, tokens, unknown, words and log_probabilities.

    \b
    Examples:
      sapwood lm score model.sapwood test.txt
      echo "the old man sleeps" | sapwood lm score model.sapwood --words
      sapwood lm score model.sapwood candidates.txt | sort -g -r | head -n 1
    """
    if by_word and as_json:
        raise UsageError("--words cannot be used with --json, which has the words in it")
    common.check_inputs(text)
    common.refuse_replacing({"-o": output}, [model, text])
    progress = common.make_progress(quiet)
    if text == STANDARD_STREAM and sys.stdin.isatty():
        progress.note("reading from the terminal, one sentence per line; end with Ctrl-D")
    loaded = shared.load_model(model)
    from sapwood.lm.scoring import score_lines

    form = _as_json if as_json else _as_words if by_word else _as_line
    batch = _BATCH if is_regular(text) else 1
    lines = score_lines(loaded, text, boundaries=boundaries, batch=batch)
    with open_output(output) as stream, progress.stage("scoring", unit="lines") as stage:
        for line in lines:
            stream.write(form(line))
            if batch == 1:
                stream.flush()
            stage.step()


def _as_line(line: ScoredLine) -> str:
    found = line.evaluation
    return f"{found.log_probability:.6f}\t{found.tokens}\t{found.unknown}\t{line.text}\n"


def _as_words(line: ScoredLine) -> str:
    mark = {True: "", False: "\tunknown"}
    words = zip(line.words, line.log_probabilities, line.known, strict=True)
    return "".join(f"{word}\t{value:.6f}{mark[known]}\n" for word, value, known in words) + "\n"


def _as_json(line: ScoredLine) -> str:
    from sapwood.lm.base import finite

    found = line.evaluation
    report = {
        "log_probability": found.log_probability,
        "tokens": found.tokens,
        "unknown": found.unknown,
        "words": line.words,
        "log_probabilities": line.log_probabilities,
    }
    return json.dumps(finite(report), ensure_ascii=False, allow_nan=False) + "\n"
