"""`sapwood minimize`."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sapwood.cli import _common as common
from sapwood.cli.inspect import is_sapwood_file
from sapwood.errors import InputError, UsageError
from sapwood.evaluate.held_out import evaluate_parser
from sapwood.files import STANDARD_STREAM, is_regular
from sapwood.plots.pictures import check_matplotlib, picture_format

if TYPE_CHECKING:
    from sapwood.automata.reduction import Reduction
    from sapwood.run.progress import Progress

# More states than any symbol has.
_MOST = 1_000_000
_PART = click.FloatRange(min=0, max=1, min_open=True)


@click.command("minimize", short_help="Make a model smaller and faster: fewer hidden states.")
@click.argument("model")
@click.option("-o", "--output", required=True, help="Where to write the smaller model.")
@click.option("-k", "--states", type=click.IntRange(min=1, max=_MOST), help="The most states a symbol keeps.")
@click.option("--keep", type=_PART, help="The part of its states that each symbol keeps (0.5: half of them).")
@click.option("--budget", type=_PART, help="The part of all states to keep, wherever they matter most.")
@click.option(
    "--work",
    type=click.IntRange(min=1, max=_MOST),
    help="As much work in parsing as with so many states of each symbol, spread to where it serves most.",
)
@click.option(
    "--tolerance",
    type=click.FloatRange(min=0, max=1, max_open=True),
    help="Keep as few states as this error allows; 0 leaves out only what has no effect. [default: 0.05]",
)
@click.option(
    "--weigh",
    type=click.Choice(["l2", "gamma", "trees"]),
    help="What counts: all trees by their squared probability (l2), larger ones more (gamma), or what is seen in "
    "--trees. [default: trees if they are given, else l2]",
)
@click.option("--trees", help="The treebank that the model was trained on: the best guide for parsing.")
@click.option(
    "--gamma",
    type=click.FloatRange(min=1e-6, max=1e6),
    help="The factor for --weigh gamma. [default: nearly the largest possible]",
)
@click.option(
    "--symbols",
    type=click.Choice(["own", "base", "none"]),
    default="own",
    show_default=True,
    help="Reduce each symbol's own states; or first make NP^S, NP^VP, ... states of one symbol NP (base); or all "
    "symbols states of one, for trees without labels (none).",
)
@click.option("--distance", is_flag=True, help="Compute the exact distance of the two models over all trees, too.")
@click.option("--dev", help="Treebank to compare accuracy and speed on, before and after.")
@click.option("--plot", "picture", help="Where to draw the singular values (.svg, .png or .pdf).")
@common.format_option
@common.skip_bad_option
@common.threads_option
@common.json_option
@common.quiet_option
def command(
    model: str,
    output: str,
    states: int | None,
    keep: float | None,
    budget: float | None,
    work: int | None,
    tolerance: float | None,
    weigh: Any,
    trees: str | None,
    gamma: float | None,
    symbols: Any,
    distance: bool,
    dev: str | None,
    picture: str | None,
    input_format: Any,
    skip_bad: bool,
    threads: int | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Reduce the hidden states of a MODEL, leaving out those that matter least.

    The states are those of the singular value decomposition of the model's Hankel matrices, one for each symbol (the
    singular value tree automaton). The smaller model's weights are real numbers, no longer probabilities. With --trees
    it parses nearly as well as before, faster; without, it is as close as can be in the probabilities of whole trees,
    and so of short ones, which says little about parsing.

    MODEL can also be a weighted context-free grammar in text, NLTK's notation or one rule a line (`0.7 S -> NP VP`);
    its nonterminals are then the states.

    \b
    Examples:
      sapwood minimize model.sapwood --work 8 --trees train.mrg --dev dev.mrg -o small.sapwood
      sapwood minimize model.sapwood --tolerance 0 -o same.sapwood
      sapwood minimize pcfg.sapwood --symbols base -k 8 --trees train.mrg --plot values.svg -o small.sapwood
      sapwood minimize grammar.txt -k 5 -o small.txt
    """
    if sum(option is not None for option in (states, keep, budget, work, tolerance)) > 1:
        raise UsageError(
            "-k, --keep, --budget, --work and --tolerance each say how many states to keep; give one of them"
        )
    if STANDARD_STREAM in (model, output):
        raise UsageError("models are not read from standard input nor written to standard output; name files")
    weigh = weigh or ("trees" if trees else "l2")
    if weigh == "trees" and trees is None:
        raise UsageError("--weigh trees needs --trees, best those that the model was trained on")
    if weigh != "trees" and trees is not None:
        raise UsageError(f"--trees does not go with --weigh {weigh}")
    if weigh == "trees" and symbols == "none":
        raise UsageError("--symbols none does not go with --trees: those have labels")
    if gamma is not None and weigh != "gamma":
        raise UsageError("--gamma goes with --weigh gamma")
    common.check_inputs(model, trees, dev)
    if dev is not None and not is_regular(dev):
        raise UsageError(f"--dev {dev}: is read twice, for both models; name a file")
    if picture is not None:
        picture_format(picture)
        check_matplotlib()
    common.refuse_replacing({"-o": output, "--plot": picture}, [model, trees, dev])
    progress = common.make_progress(quiet)
    how_many: dict[str, Any] = {"states": states, "keep": keep, "budget": budget, "work": work, "tolerance": tolerance}
    if is_regular(model) and not is_sapwood_file(model):
        if trees is not None or dev is not None or symbols != "own":
            raise UsageError(
                f"{model}: is not a model of sapwood; of a weighted grammar in text, --trees, --dev and --symbols make "
                "no sense"
            )
        _minimize_text(model, output, how_many, weigh, gamma, picture, as_json, progress)
        return
    from sapwood.automata.reduction import minimise
    from sapwood.grammar.bundle import load_models, save_models

    threads = common.default_threads(threads)
    grammars = load_models(model)
    corpus = None
    if trees is not None:
        from sapwood.trees import Corpus

        first = grammars[0]
        read = common.trees_from([trees], input_format, skip_bad, progress)
        transform = first.transform
        if symbols == "base":
            transform = replace(transform, vertical=1, horizontal=0, annotate_tags=False)
        with common.naming([trees]):
            corpus = Corpus.from_trees(read, normaliser=first.normaliser, transform=transform, progress=progress)
    # First of all, so that a treebank that cannot be read is found out before the work begins.
    reading: tuple[Any, ...] = (input_format, skip_bad, threads, progress)
    score = None if dev is None else _score(model, dev, *reading)
    with common.naming([trees or model]):
        found = [
            minimise(
                grammar, **how_many, weighing=weigh, gamma=gamma, corpus=corpus, symbols=symbols, distances=distance,
                threads=threads, progress=progress,
            )
            for grammar in grammars
        ]  # fmt: skip
    save_models([reduction.grammar for reduction in found], output)
    if weigh != "trees" and symbols != "none" and any(reduction.dropped > 0 for reduction in found):
        progress.note("without --trees, probabilities of short trees are kept rather than accuracy in parsing")
    report: dict[str, Any] = {
        "model": model,
        "output": output,
        "grammars": len(found),
        "weigh": weigh,
        "before": _size([reduction.before for reduction in found], model if symbols == "own" else None),
        "after": _size([reduction.grammar for reduction in found], output),
        "dropped": found[0].dropped,
        "gamma": found[0].gamma,
        **_distances(found[0], weigh),
        "dev": None if dev is None else {"before": score, "after": _score(output, dev, *reading)},
    }
    records = found[0].records()
    if picture is not None:
        from sapwood.plots.spectra import draw_spectra

        # What has no weight, or was not seen, has nothing to draw.
        drawn = [{**record, "count": round(record["count"])} for record in records if record["rank"]]
        draw_spectra(drawn, picture)
    if as_json:
        common.print_json({**report, "symbols": records})
    else:
        click.echo(_format(report, records))


def _minimize_text(
    model: str,
    output: str,
    how_many: dict[str, Any],
    weigh: Any,
    gamma: float | None,
    picture: str | None,
    as_json: bool,
    progress: Progress,
) -> None:
    """Reduce a weighted grammar in text form; the result is written in the plain notation."""
    from sapwood.automata.convert import from_weighted_grammar, to_weighted_grammar
    from sapwood.automata.reduction import minimise_automaton
    from sapwood.automata.wcfg_files import read_grammar, write_grammar

    automaton = from_weighted_grammar(read_grammar(model))
    smaller, found, closeness = minimise_automaton(
        automaton, **how_many, weighing=weigh, gamma=gamma, progress=progress
    )
    if not any(part.any() for part in found.values):
        raise InputError(f"{model}: no tree has any weight; are words in quotes, and has every nonterminal rules?")
    write_grammar(to_weighted_grammar(smaller), output)
    values = [float(f"{value:.6g}") for value in found.values[0]]
    if picture is not None:
        from sapwood.plots.spectra import draw_spectra

        draw_spectra([{"symbol": "all", "count": 1, "states": smaller.n_states, "singular_values": values}], picture)
    report = {
        "model": model,
        "output": output,
        "states_before": automaton.n_states,
        "rank": len(values),
        "states": smaller.n_states,
        "dropped": found.dropped(smaller.n_states) / max(found.dropped(0), 1e-300),
        "l2": None if closeness is None else closeness.l2,
        "l2_relative": None if closeness is None else closeness.relative,
        "hankel": None if closeness is None else closeness.hankel,
        "hankel_best": found.dropped(smaller.n_states) if weigh == "l2" else None,
        "singular_values": values,
    }
    if as_json:
        common.print_json(report)
        return
    click.echo(f"states       {automaton.n_states} (rank {len(values)}) -> {smaller.n_states}")
    if closeness is not None:
        click.echo(f"l2 distance  {closeness.l2:.4g} ({closeness.relative:.2%} of the norm)")
    click.echo(f"singular values  {' '.join(f'{value:.3g}' for value in values[:12])}{' ...' * (len(values) > 12)}")


def _size(grammars: list[Any], path: str | None) -> dict[str, Any]:
    return {
        "states": sum(int(grammar.states.sum()) for grammar in grammars),
        "weights": sum(len(grammar.tensors) for grammar in grammars),
        "bytes": None if path is None else Path(path).stat().st_size,
    }


def _bytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size / 1e3:.1f} kB"


def _distances(reduction: Reduction, weigh: str) -> dict[str, Any]:
    """Return the distances of the first grammar, as JSON values."""
    close = reduction.closeness
    if close is None:
        return {"l2": None, "l2_relative": None, "hankel": None, "hankel_best": None}
    best = reduction.best_possible() if weigh == "l2" else None
    return {"l2": close.l2, "l2_relative": close.relative, "hankel": close.hankel, "hankel_best": best}


def _score(
    path: str, dev: str, input_format: Any, skip_bad: bool, threads: int, progress: Progress
) -> dict[str, float]:
    parser = common.load_parser(path, progress, threads=threads)
    started = time.perf_counter()
    trees = common.trees_from([dev], input_format, skip_bad, progress)
    result = evaluate_parser(parser, trees, progress=progress)
    seconds = time.perf_counter() - started
    figures = result.to_dict()
    if not figures["sentences"]:
        raise InputError(f"{dev}: no trees")
    return {"f1": figures["f1"], "sentences_per_second": round(figures["sentences"] / max(seconds, 1e-9), 2)}


def _format(report: dict[str, Any], records: list[dict[str, Any]]) -> str:
    before, after = report["before"], report["after"]
    rows = [
        f"states       {before['states']:,} -> {after['states']:,}",
        f"weights      {before['weights']:,} -> {after['weights']:,}",
    ]
    if before["bytes"] is not None:
        rows.append(f"file         {_bytes(before['bytes'])} -> {_bytes(after['bytes'])}")
    rows.append(f"left out     {report['dropped']:.2%} of the singular values (roots of sums of squares)")
    if report["gamma"] is not None:
        rows.append(f"gamma        {report['gamma']:.4g}")
    if report["l2"] is not None:
        rows.append(f"l2 distance  {report['l2']:.4g} ({report['l2_relative']:.2%} of the norm)")
        if report["hankel_best"] is not None:
            rows.append(
                f"Hankel norm  {report['hankel']:.4g} away; no model with so many states is closer than "
                f"{report['hankel_best']:.4g}"
            )
    if report["dev"] is not None:
        old, new = report["dev"]["before"], report["dev"]["after"]
        rows.append(f"F1 on dev    {old['f1']:.2f} -> {new['f1']:.2f}")
        ratio = new["sentences_per_second"] / max(old["sentences_per_second"], 1e-9)
        speeds = f"{old['sentences_per_second']:.1f} -> {new['sentences_per_second']:.1f}"
        rows.append(f"speed        {speeds} sentences/s ({ratio:.2f} times)")
    rows.append("symbol       states  singular values")
    for record in sorted(records, key=lambda record: -record["count"])[:10]:
        values = " ".join(f"{value:.3g}" for value in record["singular_values"][:8])
        more = " ..." if len(record["singular_values"]) > 8 else ""
        rows.append(f"  {record['symbol']:<10} {record['states_before']:>2} -> {record['states']:<2} {values}{more}")
    return "\n".join(rows)
