"""`sapwood inspect`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

import click

from sapwood.cli.options import common
from sapwood.cli.options.induction import induced_model, inspect_induced
from sapwood.cli.options.output import terminal_width
from sapwood.cli.options.types import NATURAL, POSITIVE, suggestion
from sapwood.errors import InputError, ModelError, UsageError
from sapwood.model.installed import default_model_path, find_model
from sapwood.runtime.progress import Progress
from sapwood.storage.arrays import read_header
from sapwood.storage.files import explained, is_regular, name_of
from sapwood.trees.normalise import Normaliser, describe_empties, empty_name, unknown_empties
from sapwood.trees.tree import Tree


@click.command("inspect", short_help="Describe a model or a treebank.")
@click.argument("file", required=False)
@click.option("--top", type=NATURAL, default=10, help="Number of items per list.")
@click.option("--tree", "tree_number", type=POSITIVE, help="Draw tree N of a treebank, counted from 1.")
@click.option("--symbol", help="Describe the hidden states of this symbol of a model.")
@click.option("--treebank", help="With --symbol, also show example phrases of each state from this treebank.")
@click.option("--export", help="Export a model as text files to this folder.")
@common.normaliser_options
@common.format_option
@common.skip_bad_option
@common.json_option
@common.quiet_option
@click.pass_context
def command(
    context: click.Context,
    file: str | None,
    top: int,
    tree_number: int | None,
    symbol: str | None,
    treebank: str | None,
    export: str | None,
    normaliser: Normaliser,
    input_format: Any,
    skip_bad: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Describe a model or a treebank FILE (default: the included model).

    If a file contains several grammars, report their number and describe the first.

    \b
    Examples:
      sapwood inspect
      sapwood inspect model.sapwood --json
      sapwood inspect train.mrg --tree 3
      sapwood inspect model.sapwood --symbol NP --treebank dev.mrg
      sapwood inspect model.sapwood --export text/

    With --symbol, list the rules, words and contexts that distinguish each state from the other states of the symbol,
    with their probability given the state and its ratio to the mean of the symbol. The words of a phrase are those
    directly below it, with their share among such words. Weights of real-valued grammars are not probabilities: their
    states are listed without.
    """
    path = str(find_model(file)) if file is not None else str(default_model_path())
    common.check_inputs(path, treebank)
    if symbol is None:
        common.refuse_given(context, ["treebank"], "requires --symbol")
    if export is not None:
        common.refuse_given(context, ["symbol", "tree_number", "top"], "cannot be used with --export")
    if is_regular(path) and is_sapwood_file(path):
        if tree_number:
            raise UsageError("--tree is for treebanks; a model has no trees")
        if export is not None:
            _export(path, export, as_json, common.make_progress(quiet))
            return
        if symbol is not None:
            progress = common.make_progress(quiet)
            gold = None if treebank is None else list(common.trees_from([treebank], input_format, skip_bad, progress))
            _inspect_symbol(path, symbol, top, gold, as_json)
            return
        _inspect_model(path, top, as_json)
        return
    if export is not None:
        raise UsageError("--export is for models; for the trees of a treebank, use `sapwood convert`")
    if symbol is not None:
        raise UsageError("--symbol is for models; to find a label in a treebank, use `sapwood search`")
    progress = common.make_progress(quiet)
    trees = common.trees_from([path], input_format, skip_bad, progress)
    if tree_number:
        number = 0
        for number, tree in enumerate(trees, 1):
            if number == tree_number:
                if as_json:
                    common.print_json({"tree": str(tree), "words": tree.words(), "tags": tree.tags()})
                else:
                    click.echo(tree.draw(width=terminal_width()))
                return
        raise InputError(f"{name_of(path)}: there is no tree {tree_number}; it has {number}")
    report = _treebank_report(trees, normaliser, progress, top)
    if not report["trees"]:
        emptied = f" ({report['dropped']} are empty after normalisation)" if report["dropped"] else ""
        raise InputError(f"{name_of(path)}: no trees in it{emptied}")
    if as_json:
        common.print_json(report)
    else:
        click.echo(_format_report(report, top))


def is_sapwood_file(path: str) -> bool:
    """Return whether a file is a sapwood file; raises `ModelError` for a damaged one with the right suffix."""
    try:
        read_header(path)
    except ModelError:
        # Not a sapwood file, unless its name says so.
        if path.endswith(".sapwood"):
            raise
        return False
    return True


def _export(path: str, folder: str, as_json: bool, progress: Progress) -> None:
    """Write the grammars of a model as text, and list the files."""
    from sapwood.grammar.io.text import write_text
    from sapwood.model.parser_model import ParserModel

    model = ParserModel.load(path)
    grammars = model.to_grammars()
    with explained(folder, "write"):
        Path(folder).mkdir(exist_ok=True)
    names = ["model"] if len(grammars) == 1 else [f"model-{number}" for number in range(1, len(grammars) + 1)]
    written = []
    for name, grammar in zip(names, grammars, strict=True):
        written += write_text(grammar, Path(folder, name), progress=progress)
    parts = {"CRF": model.crf, "span scorer": model.span_scorer, "CP decomposition": model.cp}
    if left_out := " and ".join(part for part, value in parts.items() if value is not None):
        progress.note(f"{path}: the text files do not include its {left_out}")
    sizes = {str(file): file.stat().st_size for file in written}
    if as_json:
        common.print_json({"files": sizes})
    else:
        for file, size in sizes.items():
            click.echo(f"{size:>13,} bytes  {file}")


def _inspect_model(path: str, top: int, as_json: bool) -> None:
    if (model := induced_model([path])) is not None:
        inspect_induced(model, path, top, as_json)
        return
    from sapwood.model.parser_model import ParserModel

    loaded = ParserModel.load(path)
    grammar = loaded.grammar
    if not as_json:
        click.echo(f"model        {path}\n{loaded.describe(top=top)}")
        return
    order = sorted(range(len(grammar.rules)), key=lambda rule: -grammar.rule_counts[rule])[:top]
    common.print_json(
        {
            "kind": "model",
            "grammars": len(loaded.grammars),
            "symbols": len(grammar.symbols),
            "interminals": grammar.n_interminals,
            "states": {"min": int(grammar.states.min()), "max": int(grammar.states.max())},
            "rules": len(grammar.rules),
            "words": grammar.lexicon.n_words,
            "signatures": len(grammar.lexicon.signatures),
            "probabilistic": grammar.probabilistic,
            "transform": grammar.transform.to_dict(),
            "normaliser": grammar.normaliser.to_dict(),
            "info": dict(sorted(loaded.info.items())),
            "top_rules": [
                {"rule": grammar.rule_name(rule), "count": float(grammar.rule_counts[rule])} for rule in order
            ],
        }
    )


_REAL_VALUED = "real-valued, not probabilities: the states have no probable rules, words and contexts to list"


def _inspect_symbol(path: str, name: str, top: int, trees: list[Tree] | None, as_json: bool) -> None:
    """Describe the states of the symbols of this name: phrases, tags, or both."""
    from sapwood.grammar.state_profiles import Distinctive, StateProfile, state_profiles
    from sapwood.inference.forest.tree_states import state_examples
    from sapwood.model.parser_model import ParserModel

    grammar = ParserModel.load(path).grammar
    numbers = [number for number, symbol in enumerate(grammar.symbols) if symbol == name]
    if not numbers:
        raise UsageError(f"{path}: the model has no symbol {name!r}{suggestion(name, grammar.symbols)}")
    examples = state_examples(grammar, trees) if trees is not None else {}

    def phrases(number: int, profile: StateProfile) -> list[str]:
        found = examples[number][profile.state] if number in examples else []
        return [" ".join(one.words[one.start : one.end]) for one in found]

    def line(title: str, found: list[Distinctive]) -> str:
        return f"  {title:<9} " + "  ".join(f"{one.name} {one.probability:.3f} (x{one.lift:.1f})" for one in found)

    # Only weights that are not probabilities are spoken of; lists of probable rules and words are then empty.
    about = {} if grammar.probabilistic else {"weights": _REAL_VALUED}
    for number in numbers:
        profiles = state_profiles(grammar, number, top=top)
        kind = "phrase" if number < grammar.n_interminals else "tag"
        if as_json:
            rows = [{**asdict(profile), "examples": phrases(number, profile)} for profile in profiles]
            common.print_json({"symbol": name, "kind": kind, "states": rows, **about})
            continue
        click.echo(f"{name} ({kind}), {len(profiles)} state(s)")
        if about:
            click.echo(f"weights: {about['weights']}")
        for profile in profiles:
            click.echo(f"\nstate {profile.state}: {profile.count:,.1f} times, {profile.share:.1%}")
            for title in ("rules", "words", "contexts"):
                if getattr(profile, title):
                    click.echo(line(title, getattr(profile, title)))
            if shown := phrases(number, profile):
                click.echo("  examples  " + " | ".join(shown))
        click.echo("")


def _leaves(tree: Tree) -> Iterator[tuple[str, str]]:
    """Return the tags and words of a tree."""
    return zip(tree.tags(), tree.words(), strict=True)


def _treebank_report(trees: Any, normaliser: Any, progress: Any, top: int) -> dict[str, Any]:
    labels: Counter[str] = Counter()
    tags: Counter[str] = Counter()
    words: Counter[str] = Counter()
    rules: Counter[tuple[str, ...]] = Counter()
    lengths: Counter[int] = Counter()
    leaves: Counter[tuple[str, str]] = Counter()
    removed: Counter[str] = Counter()
    depth = dropped = 0
    with progress.stage("reading", unit="trees") as stage:
        for tree in trees:
            stage.step()
            removed.update(empty_name(word) for tag, word in _leaves(tree) if normaliser.is_empty(tag, word))
            clean = normaliser(tree)
            if clean is None:
                dropped += 1
                continue
            leaves.update(_leaves(clean))
            lengths[len(clean)] += 1
            depth = max(depth, clean.depth())
            for node in clean.nodes():
                if node.word is None:
                    labels[node.label] += 1
                    rules[node.label, *(child.label for child in node.children)] += 1
                else:
                    tags[node.label] += 1
                    words[node.word] += 1
    total = sum(lengths.values())
    return {
        "kind": "treebank",
        "trees": total,
        "dropped": dropped,
        "words": words.total(),
        "distinct_words": len(words),
        "longest": max(lengths, default=0),
        "mean_length": round(words.total() / max(total, 1), 2),
        "depth": depth,
        "labels": dict(labels.most_common()),
        "tags": dict(tags.most_common()),
        "distinct_rules": len(rules),
        "top_rules": [
            {"rule": f"{rule[0]} -> {' '.join(rule[1:])}", "count": count} for rule, count in rules.most_common(top)
        ],
        "top_words": dict(words.most_common(top)),
        "empty_elements": {
            "removed": dict(removed.most_common()),
            "unknown": unknown_empties(leaves) if normaliser.empties else {},
        },
    }


def _format_report(report: dict[str, Any], top: int) -> str:
    def table(counts: dict[str, int]) -> str:
        shown = "  ".join(f"{name} {count:,}" for name, count in islice(counts.items(), 3 * top))
        return shown + (f"  ... and {len(counts) - 3 * top} more" if len(counts) > 3 * top else "")

    removed, unknown = report["empty_elements"]["removed"], report["empty_elements"]["unknown"]
    empties = [f"empty        {sum(removed.values()):,} empty elements removed: {table(removed)}"] if removed else []
    empties += [f"remark       {describe_empties(unknown)}"] if unknown else []
    dropped = report["dropped"]
    lines = [
        f"trees        {report['trees']:,}"
        + (f" ({dropped} more {'is' if dropped == 1 else 'are'} empty)" if dropped else ""),
        f"words        {report['words']:,}, {report['distinct_words']:,} distinct",
        f"length       {report['mean_length']} words per sentence, at most {report['longest']}",
        f"depth        at most {report['depth']}",
        f"labels       {len(report['labels'])}: {table(report['labels'])}",
        f"tags         {len(report['tags'])}: {table(report['tags'])}",
        *empties,
        f"rules        {report['distinct_rules']:,} distinct",
        *(f"  {row['count']:>9,}  {row['rule']}" for row in report["top_rules"]),
        "frequent words",
        *(f"  {count:>9,}  {word}" for word, count in report["top_words"].items()),
    ]
    return "\n".join(lines)
