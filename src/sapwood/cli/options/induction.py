"""Induced models that are not grammars: `sapwood parse`, `eval` and `inspect` of dependencies and spans."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from sapwood.cli.options import common
from sapwood.cli.options.output import tree_output
from sapwood.errors import InputError, ModelError, UsageError
from sapwood.model.installed import find_model
from sapwood.runtime.executor import Executor
from sapwood.runtime.progress import Progress, track
from sapwood.storage.arrays import read_header
from sapwood.storage.files import is_regular, name_of, read_lines

# The remedy for plain text where tokens are expected.
USE_RAW = "use --raw to split and tokenise it"

if TYPE_CHECKING:
    from sapwood.evaluate.unlabelled import UnlabelledResult
    from sapwood.induction.evaluation import Gold
    from sapwood.induction.induced_model import InducedModel
    from sapwood.inference import Parser
    from sapwood.trees.tokenise.lines import Lines
    from sapwood.trees.tree import Tree


def induced_model(models: Sequence[str]) -> InducedModel | None:
    """Return the named model if it is one of heads or spans, else None."""
    paths = [find_model(model) for model in models]
    kinds = [_kind(str(path)) for path in paths]
    if "induced-model" not in kinds:
        return None
    if len(models) > 1:
        raise UsageError("-m: a model of heads or spans cannot be combined with others")
    from sapwood.induction.induced_model import InducedModel

    return InducedModel.load(paths[0])


def _kind(path: str) -> str | None:
    if not is_regular(path):
        return None
    try:
        return read_header(path).get("kind")
    except ModelError:
        return None  # the reader reports what is wrong with it


def parse_induced(
    model: InducedModel,
    source: str,
    text: str | None,
    *,
    raw: bool,
    lines: Lines,
    tags: bool,
    output: str | None,
    output_format: str | None,
    as_json: bool,
    max_words: int,
    workers: Executor,
    progress: Progress,
) -> None:
    """Parse a file, or a text, with a model of heads or spans; without a format, heads are written as CoNLL-U."""
    from sapwood.induction.parser import InducedParser
    from sapwood.trees.punctuation import is_punctuation
    from sapwood.trees.tokenise.attached import AttachedPunctuation

    parser = InducedParser(model, max_words=max_words, workers=workers)
    form = output_format or ("brackets" if model.heads is None else "conllu")
    if form == "conllu" and model.heads is None and not as_json:
        raise UsageError(f"--to conllu: {model.model} has no heads; omit it for brackets")
    sentences = _sentences(source, text, raw, lines, parser.tags if tags else None)
    if not (raw or tags or text is not None):
        plain = AttachedPunctuation(lambda word: is_punctuation(word) or model.emissions.lexicon.knows(word))
        name = name_of(source)
        sentences = plain.watched(sentences, lambda finding: progress.note(f"{name}: {finding}; {USE_RAW}"))
    results = parser.parse(sentences)
    with (
        tree_output(output, None if as_json or form == "conllu" else form) as writer,
        progress.stage("parsing", None, "sentences") as stage,
    ):
        for number, result in enumerate(results, 1):
            if as_json:
                writer.line(common.format_json(result.to_dict()))
            elif form == "conllu":
                writer.line(result.format_conllu(number) if result.words else "")
            else:
                writer.tree(result.tree)
            stage.step()


def _sentences(source: str, text: str | None, raw: bool, lines: Lines, tags: Collection[str] | None) -> Iterator[Any]:
    from sapwood.trees.formats.registry import read_tagged, read_tokens
    from sapwood.trees.tokenise.sentences import tokenise_text

    if text is not None or raw:
        pieces: Iterable[str] | str = text if text is not None else (line for _, line in read_lines(source))
        return ([token.word for token in sentence] for sentence in tokenise_text(pieces, lines=lines))
    return read_tokens(source) if tags is None else read_tagged(source, tags)


def read_gold(path: str, input_format: str, skip_bad: bool, progress: Progress) -> list[Gold]:
    """Return the gold analyses of a treebank or a CoNLL-U file."""
    from sapwood.evaluate.unlabelled import kept_heads
    from sapwood.induction.evaluation import Gold
    from sapwood.trees.formats.conllu import read_conllu
    from sapwood.trees.normalise import Normaliser
    from sapwood.trees.punctuation import is_punctuation

    found: list[Gold] = []
    if is_conllu(path):
        for one in read_conllu(path):
            keep = [not is_punctuation(*pair) for pair in zip(one.words, one.tags, strict=True)]
            tokens = [pair for pair, kept in zip(zip(one.words, one.tags, strict=True), keep, strict=True) if kept]
            if tokens:
                found.append(Gold(tokens, None, None if one.heads is None else kept_heads(one.heads, keep)))
        return found
    normaliser = Normaliser()
    for tree in common.trees_from([path], input_format, skip_bad, progress):
        clean = normaliser(tree)
        gold = None if clean is None else Gold.of_tree(clean)
        if gold is not None:
            found.append(gold)
    return found


def is_conllu(path: str) -> bool:
    """Return whether a file is CoNLL-U, by its name."""
    return path.removesuffix(".gz").endswith((".conllu", ".conll"))


def eval_induced(
    model: InducedModel, gold: str, input_format: str, skip_bad: bool, gold_tags: bool, workers: Executor,
    progress: Progress,
) -> UnlabelledResult:  # fmt: skip
    """Score the predicted spans and heads of a model."""
    from sapwood.induction.evaluation import score_model

    rows = read_gold(gold, input_format, skip_bad, progress)
    if not rows:
        raise InputError(f"{name_of(gold)}: no sentences to score")
    return score_model(model, rows, tags=gold_tags, workers=workers, progress=progress)


def eval_unlabelled(parser: Parser, trees: Iterable[Tree], gold_tags: bool, progress: Progress) -> UnlabelledResult:
    """Score the parses of a grammar without labels and punctuation."""
    from sapwood.evaluate.unlabelled import UnlabelledScorer

    clean = [tree for tree in map(parser.grammar.normaliser, trees) if tree is not None]
    sentences = (list(zip(tree.words(), tree.tags(), strict=True)) if gold_tags else tree.words() for tree in clean)
    scorer = UnlabelledScorer()
    results = track(parser.parse(sentences, check_tokens=False), progress, "parsing", len(clean), "sentences")
    for tree, result in zip(clean, results, strict=True):
        scorer.add_trees(tree, result.tree)
    return scorer.result()


def score_unlabelled(gold: str, predicted: str, input_format: str, progress: Progress) -> UnlabelledResult:
    """Score the trees, or the CoNLL-U heads, of a file against a gold file, without labels and punctuation."""
    from sapwood.evaluate.unlabelled import UnlabelledScorer, kept_heads
    from sapwood.trees.formats.conllu import read_conllu
    from sapwood.trees.formats.registry import read_trees
    from sapwood.trees.normalise import Normaliser
    from sapwood.trees.punctuation import is_punctuation

    scorer = UnlabelledScorer()
    if is_conllu(predicted):
        rows = read_gold(gold, input_format, False, progress)
        found = list(read_conllu(predicted))
        if len(found) != len(rows):
            raise InputError(f"{name_of(gold)} has {len(rows)} sentences, {name_of(predicted)} has {len(found)}")
        for row, one in zip(rows, found, strict=True):
            place = f"{name_of(predicted)}:{one.line}"
            keep = [not is_punctuation(*pair) for pair in zip(one.words, one.tags, strict=True)]
            if [word for word, kept in zip(one.words, keep, strict=True) if kept] != [word for word, _ in row.tokens]:
                raise InputError(f"{place}: its words differ from those of the gold sentence: {' '.join(one.words)!r}")
            if one.heads is None or row.heads is None:
                raise InputError(f"{place}: a word has no head")
            scorer.add(len(row.tokens), heads=(row.heads, kept_heads(one.heads, keep)))
        return scorer.result()
    normaliser = Normaliser()
    trees = [list(read_trees(path, format=input_format, gaps=common.gaps_option())) for path in (gold, predicted)]
    if len(trees[0]) != len(trees[1]):
        raise InputError(
            f"{name_of(gold)} has {len(trees[0])} trees, {name_of(predicted)} has {len(trees[1])}; they must line up"
        )
    for own, other in zip(*trees, strict=True):
        clean = normaliser(own)
        if clean is not None:
            scorer.add_trees(clean, normaliser(other))
    return scorer.result()


def show_unlabelled(result: UnlabelledResult, as_json: bool) -> None:
    """Print unlabelled scores."""
    if as_json:
        common.print_json(result.to_dict())
    else:
        click.echo(result.format())


def inspect_induced(model: InducedModel, path: str, top: int, as_json: bool) -> None:
    """Describe a model of heads or spans."""
    report: dict[str, Any] = {
        "kind": "induced-model",
        "model": model.model,
        "terminals": len(model.terminals),
        "of": model.kind,
        "punctuation": model.punctuation,
        "words": model.emissions.lexicon.n_words,
        "info": dict(model.info),
    }
    report |= model.profile(top)
    if as_json:
        common.print_json(report)
        return
    lines = [
        f"model        {path}",
        f"learned      {model.model}, without trees",
        f"terminals    {len(model.terminals):,} {model.kind}; punctuation: {model.punctuation}",
        f"words        {model.emissions.lexicon.n_words:,}",
    ]
    for title in ("roots", "arguments", "constituents"):
        if title in report:
            lines += [title, *(f"  {row}" for row in report[title])]
    click.echo("\n".join(lines))
