"""`sapwood inspect`."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

import click

from sapwood.cli import _common as common
from sapwood.cli._induced import induced_model, inspect_induced
from sapwood.cli._types import suggestion
from sapwood.errors import InputError, ModelError, UsageError
from sapwood.files import explained, is_regular, name_of
from sapwood.models import default_model_path, find_model
from sapwood.run.progress import Progress
from sapwood.storage import read_header
from sapwood.trees.normalise import Normaliser
from sapwood.trees.tree import Tree


@click.command("inspect", short_help="Show what is in a model or a treebank.")
@click.argument("file", required=False)
@click.option(
    "--top", type=click.IntRange(min=0), default=10, show_default=True, help="How many of each thing to list."
)
@click.option(
    "--tree", "tree_number", type=click.IntRange(min=1), help="Of a treebank: draw this tree, counted from 1."
)
@click.option("--symbol", help="Of a model: what the hidden states of this symbol have learned.")
@click.option("--treebank", help="With --symbol: also show phrases of this treebank that are in each state.")
@click.option("--export", help="Of a model: write it as text into this folder, for people and other programs.")
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
    """Show what is in a model or a treebank FILE (default: the bundled model).

    Of a file that holds several grammars, it says how many, and describes the first.

    \b
    Examples:
      sapwood inspect
      sapwood inspect model.sapwood --json
      sapwood inspect train.mrg --tree 3
      sapwood inspect model.sapwood --symbol NP --treebank dev.mrg
      sapwood inspect model.sapwood --export text/

    With --symbol, rules, words and contexts are those that tell a state from the others of the symbol, with their
    probability and how many times larger it is than the symbol's mean.
    """
    path = str(find_model(file)) if file is not None else str(default_model_path())
    common.check_inputs(path, treebank)
    if symbol is None:
        common.refuse_given(context, ["treebank"], "goes with --symbol")
    if export is not None:
        common.refuse_given(context, ["symbol", "tree_number", "top"], "does not go with --export")
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
                    click.echo(tree.draw())
                return
        raise InputError(f"{name_of(path)}: there is no tree {tree_number}; it has {number}")
    report = _treebank_report(trees, normaliser, progress, top)
    if not report["trees"]:
        emptied = f" of which normalising leaves anything ({report['dropped']} are empty)" if report["dropped"] else ""
        raise InputError(f"{name_of(path)}: no trees in it{emptied}")
    if as_json:
        common.print_json(report)
    else:
        click.echo(_format_report(report, top))


def is_sapwood_file(path: str) -> bool:
    """Return whether a file is one of ours; a damaged one that is named like ours raises `ModelError`."""
    try:
        read_header(path)
    except ModelError:
        # Not one of ours; unless its name says that it should be.
        if path.endswith(".sapwood"):
            raise
        return False
    return True


def _export(path: str, folder: str, as_json: bool, progress: Progress) -> None:
    """Write the grammars of a model as text, and say what was written."""
    from sapwood.grammar.bundle import load_models
    from sapwood.grammar.text_files import write_text

    grammars = load_models(path)
    with explained(folder, "write"):
        Path(folder).mkdir(exist_ok=True)
    names = ["model"] if len(grammars) == 1 else [f"model-{number}" for number in range(1, len(grammars) + 1)]
    written = []
    for name, grammar in zip(names, grammars, strict=True):
        written += write_text(grammar, Path(folder, name), progress=progress)
        parts = {"layer": grammar.layer, "network": grammar.network}
        if left_out := " and ".join(part for part, value in parts.items() if value is not None):
            progress.note(f"{path}: the text does not hold its {left_out}")
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
    from sapwood.grammar.bundle import load_models

    grammars = load_models(path)
    grammar = grammars[0]
    if not as_json:
        several = f"grammars     {len(grammars)}; this is the first\n" if len(grammars) > 1 else ""
        click.echo(f"model        {path}\n{several}{grammar.describe(top=top)}")
        return
    order = sorted(range(len(grammar.rules)), key=lambda rule: -grammar.rule_counts[rule])[:top]
    common.print_json(
        {
            "kind": "model",
            "grammars": len(grammars),
            "symbols": len(grammar.symbols),
            "interminals": grammar.n_interminals,
            "states": {"min": int(grammar.states.min()), "max": int(grammar.states.max())},
            "rules": len(grammar.rules),
            "words": grammar.lexicon.n_words,
            "signatures": len(grammar.lexicon.signatures),
            "probabilistic": grammar.probabilistic,
            "transform": grammar.transform.to_dict(),
            "normaliser": grammar.normaliser.to_dict(),
            "info": dict(grammar.info),
            "top_rules": [
                {"rule": grammar.rule_name(rule), "count": float(grammar.rule_counts[rule])} for rule in order
            ],
        }
    )


def _inspect_symbol(path: str, name: str, top: int, trees: list[Tree] | None, as_json: bool) -> None:
    """Print what the states of a symbol have learned: of phrases, of tags, or of both if both have the name."""
    from sapwood.grammar.bundle import load_models
    from sapwood.grammar.profiles import StateProfile, Telling, state_profiles
    from sapwood.inference.examples import state_examples

    grammar = load_models(path)[0]
    numbers = [number for number, symbol in enumerate(grammar.symbols) if symbol == name]
    if not numbers:
        raise UsageError(f"{path}: the model has no symbol {name!r}{suggestion(name, grammar.symbols)}")
    examples = state_examples(grammar, trees) if trees is not None else {}

    def phrases(number: int, profile: StateProfile) -> list[str]:
        found = examples[number][profile.state] if number in examples else []
        return [" ".join(one.words[one.start : one.end]) for one in found]

    def line(title: str, found: list[Telling]) -> str:
        return f"  {title:<9} " + "  ".join(f"{one.name} {one.probability:.3f} (x{one.lift:.1f})" for one in found)

    for number in numbers:
        profiles = state_profiles(grammar, number, top=top)
        kind = "phrase" if number < grammar.n_interminals else "tag"
        if as_json:
            rows = [{**asdict(profile), "examples": phrases(number, profile)} for profile in profiles]
            common.print_json({"symbol": name, "kind": kind, "states": rows})
            continue
        click.echo(f"{name} ({kind}), {len(profiles)} state(s)")
        for profile in profiles:
            click.echo(f"\nstate {profile.state}: {profile.count:,.1f} times, {profile.share:.1%}")
            for title in ("rules", "words", "contexts"):
                if getattr(profile, title):
                    click.echo(line(title, getattr(profile, title)))
            if shown := phrases(number, profile):
                click.echo("  examples  " + " | ".join(shown))
        click.echo("")


def _treebank_report(trees: Any, normaliser: Any, progress: Any, top: int) -> dict[str, Any]:
    labels: Counter[str] = Counter()
    tags: Counter[str] = Counter()
    words: Counter[str] = Counter()
    rules: Counter[tuple[str, ...]] = Counter()
    lengths: Counter[int] = Counter()
    depth = dropped = 0
    with progress.stage("reading", unit="trees") as stage:
        for tree in trees:
            stage.step()
            clean = normaliser(tree)
            if clean is None:
                dropped += 1
                continue
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
    }


def _format_report(report: dict[str, Any], top: int) -> str:
    def table(counts: dict[str, int]) -> str:
        shown = "  ".join(f"{name} {count:,}" for name, count in islice(counts.items(), 3 * top))
        return shown + (f"  ... and {len(counts) - 3 * top} more" if len(counts) > 3 * top else "")

    lines = [
        f"trees        {report['trees']:,}" + (f" ({report['dropped']} more are empty)" if report["dropped"] else ""),
        f"words        {report['words']:,}, {report['distinct_words']:,} distinct",
        f"length       {report['mean_length']} words a sentence, at most {report['longest']}",
        f"depth        at most {report['depth']}",
        f"labels       {len(report['labels'])}: {table(report['labels'])}",
        f"tags         {len(report['tags'])}: {table(report['tags'])}",
        f"rules        {report['distinct_rules']:,} distinct",
        *(f"  {row['count']:>9,}  {row['rule']}" for row in report["top_rules"]),
        "frequent words",
        *(f"  {count:>9,}  {word}" for word, count in report["top_words"].items()),
    ]
    return "\n".join(lines)
