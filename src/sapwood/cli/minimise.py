"""`sapwood minimise`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sapwood.cli import _common as common
from sapwood.cli._types import Choice
from sapwood.cli.inspect import is_sapwood_file
from sapwood.errors import InputError, UsageError
from sapwood.files import STANDARD_STREAM, is_regular
from sapwood.plots.pictures import check_matplotlib, picture_format

if TYPE_CHECKING:
    from sapwood.automata.merging import Merged
    from sapwood.automata.reduction import Reduction, Symbols, Weighing
    from sapwood.automata.svta import Choice as StateChoice
    from sapwood.grammar.tensor_grammar import TensorGrammar
    from sapwood.run.progress import Progress
    from sapwood.trees.corpus import Corpus
    from sapwood.trees.formats import InputFormat

# More states than any symbol has.
_MOST = 1_000_000


def _removed(context: click.Context, parameter: click.Parameter, value: str | None) -> None:  # noqa: ARG001
    """Say what has taken the place of an option."""
    if value is None:
        return
    remedy = {
        "keep": f"give --budget {value}: that part of all states, kept where they matter most",
        "states": f"give --work {value}: as much work, more accurate; of a grammar in text, so many states",
    }
    raise UsageError(f"there is no {'/'.join(parameter.opts)} any more; {remedy[str(parameter.name)]}")


@click.command("minimise", short_help="Make a model smaller and faster: fewer hidden states.")
@click.argument("model")
@click.option("-o", "--output", required=True, help="Where to write the smaller model.")
@click.option(
    "--by",
    type=Choice(["merging", "projection"]),
    help="Merge states by the likelihood of --trees, which keeps probabilities and zeros; or project to singular "
    "states, any grammar's. [default: merging if there are --trees and the model has probabilities]",
)
@click.option(
    "--work",
    type=click.IntRange(min=1, max=_MOST),
    help="As much work in parsing as with so many states of each symbol, spread to where it serves most. Of a grammar "
    "in text: so many states.",
)
@click.option(
    "--budget",
    type=click.FloatRange(min=0, max=1, min_open=True),
    help="The part of all states to keep, wherever they matter most. [default: 0.7 for merging]",
)
@click.option(
    "--tolerance",
    type=click.FloatRange(min=0, max=1, max_open=True),
    help="Keep as few states as this error allows; 0 only what has no effect goes. [default: 0.05 for projection]",
)
@click.option(
    "--least",
    type=click.FloatRange(min=0, max=1, max_open=True),
    help="With merging: leave out rule probabilities below this, 0 none. [default: 1e-5]",
)
@click.option(
    "--precision",
    type=Choice(["half", "single"]),
    help="With merging: store weights in two bytes or in four. [default: half]",
)
@click.option(
    "--open",
    "keep_open",
    type=click.FloatRange(min=0, max=1, min_open=True),
    help="With merging: the part of all phrases, about, that stays possible where spans are closed by the words around "
    "them, which makes parsing faster; 1 closes none. [default: 0.99]",
)
@click.option(
    "--threshold",
    type=click.FloatRange(0, 1, max_open=True),
    help="With merging: what the model is parsed with where no --threshold is given. [default: 5e-05]",
)
@click.option("--keep", hidden=True, expose_value=False, callback=_removed)
@click.option("-k", "--states", hidden=True, expose_value=False, callback=_removed)
@click.option(
    "--weigh",
    type=Choice(["l2", "gamma", "trees"]),
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
    type=Choice(["own", "base", "none"]),
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
    by: str | None,
    work: int | None,
    budget: float | None,
    tolerance: float | None,
    least: float | None,
    precision: str | None,
    keep_open: float | None,
    threshold: float | None,
    weigh: Weighing | None,
    trees: str | None,
    gamma: float | None,
    symbols: Symbols,
    distance: bool,
    dev: str | None,
    picture: str | None,
    input_format: InputFormat,
    skip_bad: bool,
    threads: int | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Reduce the hidden states of a MODEL, leaving out those that matter least.

    With --trees, states of a model with probabilities are merged where the trees get hardly less probable, small
    weights are left out, and what is left takes two bytes a weight; and the model learns which spans are no phrases,
    by the words around them. It parses about as well, twice as fast, from a file of a fraction of the size.

    Otherwise, or with --by projection, the states are those of the singular value decomposition of the model's Hankel
    matrices, one for each symbol (the singular value tree automaton). The smaller model's weights are real numbers, no
    longer probabilities, and hardly any is zero. Without --trees it is as close as can be in the probabilities of
    whole trees, and so of short ones, which says little about parsing.

    MODEL can also be a weighted context-free grammar in text, NLTK's notation or one rule a line (`0.7 S -> NP VP`);
    its nonterminals are then the states. If OUTPUT ends in .sapwood it becomes a model, for trees without labels.

    \b
    Examples:
      sapwood minimise model.sapwood --trees train.mrg --dev dev.mrg -o small.sapwood
      sapwood minimise model.sapwood --by projection --work 8 --trees train.mrg -o small.sapwood
      sapwood minimise model.sapwood --tolerance 0 -o same.sapwood
      sapwood minimise pcfg.sapwood --symbols base --work 8 --trees train.mrg --plot values.svg -o small.sapwood
      sapwood minimise grammar.txt --work 5 -o small.txt
    """
    if sum(option is not None for option in (work, budget, tolerance)) > 1:
        raise UsageError("--work, --budget and --tolerance each say how many states to keep; give one of them")
    if by == "merging" and (trees is None or weigh not in (None, "trees")):
        raise UsageError("--by merging goes by --trees, best those that the model was trained on, and by nothing else")
    weigh = weigh or ("trees" if trees else "l2")
    _check_options(weigh, gamma, symbols, trees)
    rounding = {"least": least, "keep_open": keep_open, "threshold": threshold}
    merging = [number for number in (least, precision, keep_open, threshold) if number is not None]
    if merging and (by == "projection" or trees is None):
        raise UsageError(
            "--least, --precision, --open and --threshold go with merging: give --trees, and no --by projection"
        )
    _check_files(model, output, trees, dev, picture)
    progress = common.make_progress(quiet)
    choice: StateChoice = {"work": work, "budget": budget, "tolerance": tolerance}
    if is_regular(model) and not is_sapwood_file(model):
        if weigh == "trees" or dev is not None or symbols != "own":
            raise UsageError(
                f"{model}: is not a model of sapwood; of a weighted grammar in text, --trees, --dev and --symbols make "
                "no sense"
            )
        from sapwood.automata.convert import minimise_text

        text = minimise_text(model, output, weighing=weigh, gamma=gamma, progress=progress, **choice)
        records = text.records()
        report = {"model": model, "output": output, **text.to_dict(), **records[0]}
        shown = _format_text(report)
    else:
        from sapwood.automata.reduction import corpus_for
        from sapwood.grammar.bundle import load_models, save_models

        threads = common.default_threads(threads)
        grammars = load_models(model)
        if by is None:
            by = "merging" if trees is not None and all(one.probabilistic for one in grammars) else "projection"
            if by == "projection" and merging:
                raise UsageError(
                    f"{model}: --least, --precision, --open and --threshold are for probabilities, not real weights"
                )
        if by == "merging" and picture is not None:
            raise UsageError("--plot draws singular values, and merging has none; give --by projection")
        corpus = None
        if trees is not None:
            read = common.trees_from([trees], input_format, skip_bad, progress)
            with common.naming([trees]):
                corpus = corpus_for(grammars[0], read, symbols=symbols, progress=progress)
        # First of all, so that a treebank that cannot be read is found out before the work begins.
        score = None if dev is None else _score(model, dev, input_format, skip_bad, threads, progress)
        with common.naming([trees or model]):
            shared: dict[str, Any] = {
                "symbols": symbols, "distances": distance, "threads": threads, "progress": progress, **choice,
            }  # fmt: skip
            if by == "merging":
                own = {name: number for name, number in rounding.items() if number is not None}
                shared = {**shared, **own, "halves": precision != "single"}
            else:
                shared = {**shared, "weighing": weigh, "gamma": gamma}
            found = [_smaller(grammars[0], corpus, by, shared)]
            # Of several grammars the first one closes cells for all.
            shared = {**shared, "keep_open": 1.0} if by == "merging" else shared
            found += [_smaller(grammar, corpus, by, shared) for grammar in grammars[1:]]
        save_models([one.grammar for one in found], output)
        if weigh != "trees" and symbols != "none" and any(one.to_dict()["dropped"] > 0 for one in found):
            progress.note("without --trees, probabilities of short trees are kept rather than accuracy in parsing")
        records = found[0].records()
        report = {
            "model": model,
            "output": output,
            "grammars": len(found),
            "by": by,
            "weigh": weigh,
            "before": _size([reduction.before for reduction in found], model if symbols == "own" else None),
            "after": _size([reduction.grammar for reduction in found], output),
            **found[0].to_dict(),
            "dev": None,
            "symbols": records,
        }
        if dev is not None:
            after = _score(output, dev, input_format, skip_bad, threads, progress)
            report["dev"] = {"before": score, "after": after}
        shown = _format(report)
    if picture is not None:
        from sapwood.plots.spectra import draw_spectra

        # What has no weight, or was not seen, has nothing to draw.
        drawn = [{**record, "count": round(record["count"])} for record in records if record["rank"]]
        draw_spectra(drawn, picture)
    if as_json:
        common.print_json(report)
    else:
        click.echo(shown)


def _smaller(grammar: TensorGrammar, corpus: Corpus | None, by: str, settings: dict[str, Any]) -> Merged | Reduction:
    from sapwood.automata.merging import merge
    from sapwood.automata.reduction import minimise

    if by == "merging":
        assert corpus is not None
        return merge(grammar, corpus, **settings)
    return minimise(grammar, corpus=corpus, **settings)


def _check_options(weigh: Weighing, gamma: float | None, symbols: Symbols, trees: str | None) -> None:
    if weigh == "trees" and trees is None:
        raise UsageError("--weigh trees needs --trees, best those that the model was trained on")
    if weigh != "trees" and trees is not None:
        raise UsageError(f"--trees does not go with --weigh {weigh}")
    if weigh == "trees" and symbols == "none":
        raise UsageError("--symbols none does not go with --trees: those have labels")
    if gamma is not None and weigh != "gamma":
        raise UsageError("--gamma goes with --weigh gamma")


def _check_files(model: str, output: str, trees: str | None, dev: str | None, picture: str | None) -> None:
    if STANDARD_STREAM in (model, output):
        raise UsageError("models are not read from standard input nor written to standard output; name files")
    common.check_inputs(model, trees, dev)
    if dev is not None and not is_regular(dev):
        raise UsageError(f"--dev {dev}: is read twice, for both models; name a file")
    if picture is not None:
        picture_format(picture)
        check_matplotlib()
    common.refuse_replacing({"-o": output, "--plot": picture}, [model, trees, dev])


def _size(grammars: list[TensorGrammar], path: str | None) -> dict[str, int | None]:
    return {
        "states": sum(int(grammar.states.sum()) for grammar in grammars),
        "weights": sum(int((grammar.tensors != 0).sum()) for grammar in grammars),
        "bytes": None if path is None else Path(path).stat().st_size,
    }


def _bytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size / 1e3:.1f} kB"


def _score(
    path: str, dev: str, input_format: InputFormat, skip_bad: bool, threads: int, progress: Progress
) -> dict[str, float]:
    from sapwood.evaluate.held_out import evaluate_parser

    parser = common.load_parser(path, threads=threads)
    started = time.perf_counter()
    trees = common.trees_from([dev], input_format, skip_bad, progress)
    result = evaluate_parser(parser, trees, progress=progress)
    seconds = time.perf_counter() - started
    figures = result.to_dict()
    if not figures["sentences"]:
        raise InputError(f"{dev}: no trees")
    return {"f1": figures["f1"], "sentences_per_second": round(figures["sentences"] / max(seconds, 1e-9), 2)}


def _format_text(report: dict[str, Any]) -> str:
    values = report["singular_values"]
    rows = [f"states       {report['states_before']} (rank {len(values)}) -> {report['states']}"]
    if report["l2"] is not None:
        rows.append(f"l2 distance  {report['l2']:.4g} ({report['l2_relative']:.2%} of the norm)")
    rows.append(f"singular values  {_numbers(values, 12)}")
    return "\n".join(rows)


def _numbers(values: list[float], most: int) -> str:
    return " ".join(f"{value:.3g}" for value in values[:most]) + " ..." * (len(values) > most)


def _format(report: dict[str, Any]) -> str:
    before, after = report["before"], report["after"]
    rows = [
        f"states       {before['states']:,} -> {after['states']:,}",
        f"weights      {before['weights']:,} -> {after['weights']:,}",
    ]
    if before["bytes"] is not None:
        rows.append(f"file         {_bytes(before['bytes'])} -> {_bytes(after['bytes'])}")
    if report["by"] == "merging":
        mean = report["log_likelihood"]
        lost = f"; {report['impossible']:,} tree(s) are impossible now" if report["impossible"] else ""
        rows.append(f"trees        {mean['before']:.2f} -> {mean['after']:.2f} log-likelihood each{lost}")
    else:
        rows.append(f"left out     {report['dropped']:.2%} of the singular values (roots of sums of squares)")
    if report.get("gamma") is not None:
        rows.append(f"gamma        {report['gamma']:.4g}")
    if report["l2"] is not None:
        rows.append(f"l2 distance  {report['l2']:.4g} ({report['l2_relative']:.2%} of the norm)")
    if report.get("hankel_best") is not None:
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
    shown = "losses" if report["by"] == "merging" else "singular_values"
    rows.append("symbol       states  " + ("log-likelihood of each merge" if shown == "losses" else "singular values"))
    for record in sorted(report["symbols"], key=lambda record: -record["count"])[:10]:
        states = f"{record['states_before']:>2} -> {record['states']:<2}"
        rows.append(f"  {record['symbol']:<10} {states} {_numbers(record[shown], 8)}")
    return "\n".join(rows)
