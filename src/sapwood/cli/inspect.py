"""`sapwood inspect`."""

from __future__ import annotations

from collections import Counter
from typing import Any

import click

from sapwood.cli import _common as common
from sapwood.errors import InputError, ModelError, UsageError
from sapwood.files import is_regular, name_of
from sapwood.models import default_model_path
from sapwood.storage import read_header


@click.command("inspect", short_help="Show what is in a model or a treebank.")
@click.argument("file", required=False)
@click.option(
    "--top", type=click.IntRange(min=0), default=10, show_default=True, help="How many of each thing to list."
)
@click.option(
    "--tree", "tree_number", type=click.IntRange(min=1), help="Of a treebank: draw this tree, counted from 1."
)
@common.normaliser_options
@common.format_option
@common.skip_bad_option
@common.json_option
@common.quiet_option
def command(
    file: str | None,
    top: int,
    tree_number: int | None,
    function_tags: str,
    keep_empties: bool,
    keep_repeated: bool,
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
    """
    path = str(default_model_path()) if file is None else file
    common.check_inputs(path)
    if is_regular(path) and is_sapwood_file(path):
        if tree_number:
            raise UsageError("--tree is for treebanks; a model has no trees")
        _inspect_model(path, top, as_json)
        return
    progress = common.make_progress(quiet)
    normaliser = common.make_normaliser(function_tags, keep_empties, keep_repeated)
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
        click.echo(_format_report(report))


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


def _inspect_model(path: str, top: int, as_json: bool) -> None:
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


def _format_report(report: dict[str, Any]) -> str:
    def table(counts: dict[str, int]) -> str:
        return "  ".join(f"{name} {count:,}" for name, count in counts.items())

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
