"""`sapwood lm next`, `generate`, `topics`, `nearest` and `export`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from sapwood.cli.lm import common as shared
from sapwood.cli.options import common
from sapwood.cli.options.aliases import MIN_COUNT
from sapwood.cli.options.help import GroupedCommand
from sapwood.cli.options.types import NATURAL, POSITIVE, ChoiceParam
from sapwood.errors import InputError, ModelError, UsageError
from sapwood.storage.files import COMPRESSED, STANDARD_STREAM

if TYPE_CHECKING:
    from sapwood.lm.latent.bigram import By, Likeness

EXPORTS = ("arpa", "word2vec", "word2vec-binary")


@click.command("next", short_help="Suggest the next word.")
@click.argument("model")
@click.argument("context", nargs=-1)
@shared.top_option
@common.json_option
@common.quiet_option
def next_command(model: str, context: tuple[str, ...], top: int, as_json: bool, quiet: bool) -> None:
    """Print the most probable words after the words of CONTEXT, with their probabilities.

    For a model of sentences, CONTEXT is the beginning of a sentence; without it, suggest first words.

    \b
    Examples:
      sapwood lm next model.sapwood "the old"
      sapwood lm next model.sapwood the old --top 3 --json
    """
    words = " ".join(context).split()
    _check_utf8(words)
    progress = common.make_progress(quiet)
    loaded = shared.load_model(model)
    unknown = [word for word in words if word not in loaded.vocabulary]
    if unknown:
        progress.note(f"the model does not know: {' '.join(unknown)}")
    found = loaded.next_words(words, top)
    if as_json:
        shared.print_json({"context": words, "unknown": unknown, "next": _pairs(found, "probability")})
        return
    for word, probability in found:
        click.echo(f"{probability:.6f}\t{word}")


@click.command("generate", short_help="Sample sentences from a model.")
@click.argument("model")
@click.option("-n", "--number", type=POSITIVE, default=5, help="Number of sentences.")
@common.seed_option
@click.option("--max-words", type=POSITIVE, default=50, help="Truncate sentences after N words.")
@click.option("--unknown", is_flag=True, help="Also sample <unk>, with the probability that the model gives it.")
@common.json_option
@common.silent_option
def generate_command(model: str, number: int, seed: int, max_words: int, unknown: bool, as_json: bool) -> None:
    """Sample sentences from MODEL, one per line; from a stream model, sequences of --max-words words.

    \b
    Examples:
      sapwood lm generate model.sapwood
      sapwood lm generate model.sapwood -n 100 --seed 7 --max-words 20 > made-up.txt
    """
    import numpy as np

    loaded = shared.load_model(model)
    # Sentences are printed as they are drawn, and equal those of a single call with this seed.
    rng = np.random.default_rng(seed)
    for _ in range(number):
        words = loaded.sample(1, random_state=rng, max_words=max_words, unknown=unknown)[0]
        if as_json:
            shared.print_json({"words": words})
        else:
            click.echo(" ".join(words))


@click.command("topics", cls=GroupedCommand, aliases=MIN_COUNT, short_help="Show the words of each hidden state.")
@click.argument("model")
@shared.top_option
@click.option(
    "--by",
    type=ChoiceParam(["probability", "lift"]),
    default="probability",
    help="Rank words by p(word | state), or by its ratio to p(word).",
)
@click.option("--min-count", type=NATURAL, help="With --by lift, skip words seen fewer than N times. [default: 10]")
@common.json_option
@common.silent_option
@click.pass_context
def topics_command(
    context: click.Context, /, model: str, top: int, by: By, min_count: int | None, as_json: bool
) -> None:
    """Show the hidden states of MODEL, most frequent first: their words, and the words that lead to them.

    For a mixture, these are the states of the first member with hidden states; for a mixed-order model, those of the
    preceding word.

    \b
    Examples:
      sapwood lm topics model.sapwood --top 5
      sapwood lm topics model.sapwood --by lift --min-count 20 --json
    """
    if by != "lift":
        common.refuse_given(context, ["min_count"], "requires --by lift")
    loaded = shared.load_latent(model)
    topics = loaded.topics(top, by=by, min_count=10 if min_count is None else min_count)
    if as_json:
        shared.print_json(
            {
                "states": [
                    {
                        "state": topic.state,
                        "probability": topic.probability,
                        "words": _pairs(topic.words, by),
                        "contexts": _pairs(topic.contexts, "probability"),
                    }
                    for topic in topics
                ]
            }
        )
        return
    for topic in topics:
        click.echo(f"state {topic.state}: {100 * topic.probability:.1f}% of all words")
        for name, words in (("words", topic.words), ("after", topic.contexts)):
            if words:
                click.echo(f"  {name}: {', '.join(f'{word} {value:.3g}' for word, value in words)}")


@click.command("nearest", short_help="Find words with similar hidden states.")
@click.argument("model")
@click.argument("word")
@shared.top_option
@click.option(
    "--likeness",
    type=ChoiceParam(["hellinger", "cosine"]),
    default="hellinger",
    help="Similarity of words: Bhattacharyya coefficient (hellinger) or cosine.",
)
@common.json_option
@common.silent_option
def nearest_command(model: str, word: str, top: int, likeness: Likeness, as_json: bool) -> None:
    """Print the words of MODEL whose hidden states are most similar to those of WORD, with the similarity (at most 1).

    \b
    Examples:
      sapwood lm nearest model.sapwood monday
      sapwood lm nearest model.sapwood monday --top 3 --likeness cosine --json
    """
    _check_utf8([word])
    loaded = shared.load_latent(model)
    if word not in loaded.vocabulary:
        raise InputError(f"{model}: the model does not know the word {word!r}")
    found = loaded.nearest(word, top, likeness=likeness)
    if as_json:
        shared.print_json({"word": word, "nearest": _pairs(found, "likeness")})
        return
    for other, value in found:
        click.echo(f"{value:.6f}\t{other}")


@click.command("export", short_help="Export a model as ARPA or word vectors.")
@click.argument("model")
@click.option("-o", "--output", required=True, help="Output file; - is standard output, .gz is compressed.")
@click.option(
    "--to",
    "form",
    type=ChoiceParam(EXPORTS),
    help="Output format. [default: arpa for n-gram models, word2vec for models with hidden states]",
)
@click.option(
    "--likeness",
    type=ChoiceParam(["hellinger", "cosine"]),
    help="Scale word vectors so that inner products are this similarity. [default: the state probabilities]",
)
@common.quiet_option
def export_command(model: str, output: str, form: str | None, likeness: Likeness | None, quiet: bool) -> None:
    """Write MODEL in a format for other tools.

    An n-gram model (--method kn or mkn) becomes an ARPA file, for KenLM, SRILM and others. For a model with hidden
    states, the state distributions r(h|w) of words become word vectors in the text or binary format of word2vec, for
    gensim and others.

    \b
    Examples:
      sapwood lm export trigrams.sapwood -o trigrams.arpa.gz
      sapwood lm export model.sapwood --to word2vec-binary -o vectors.bin
    """
    common.refuse_replacing({"-o": output}, [model])
    progress = common.make_progress(quiet)
    loaded = shared.load_model(model)
    from sapwood.lm.ngram.arpa import write_arpa
    from sapwood.lm.ngram.model import NgramModel
    from sapwood.lm.vectors import write_vectors

    form = form or ("arpa" if isinstance(loaded, NgramModel) else "word2vec")
    if form == "arpa":
        if likeness is not None:
            raise UsageError("--likeness requires word vectors")
        if not isinstance(loaded, NgramModel):
            raise ModelError(f"{model}: not an n-gram model, the only kind that ARPA files can hold; use --to word2vec")
        write_arpa(loaded, output)
        what = f"{sum(loaded.describe()['ngrams']):,} n-grams"
    else:
        binary = form == "word2vec-binary"
        if binary and (output == STANDARD_STREAM or output.endswith(COMPRESSED)):
            raise UsageError(f"-o {output}: the binary format requires a regular file; name one")
        number = write_vectors(shared.latent_part(loaded, model), output, binary=binary, likeness=likeness)
        what = f"{number:,} word vectors"
    if output != STANDARD_STREAM:
        progress.note(f"{output}: {what}")


def _check_utf8(words: list[str]) -> None:
    """Refuse arguments that are not valid UTF-8."""
    for word in words:
        try:
            word.encode("utf-8")
        except UnicodeEncodeError:
            raise InputError(f"not valid UTF-8: {word!r}") from None


def _pairs(found: list[tuple[str, float]], name: str) -> list[dict[str, str | float]]:
    return [{"word": word, name: value} for word, value in found]
