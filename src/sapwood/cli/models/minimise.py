"""`sapwood minimise`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sapwood.cli.models.inspect import is_sapwood_file
from sapwood.cli.options import common
from sapwood.cli.options.aliases import MINIMISE
from sapwood.cli.options.help import GroupedCommand
from sapwood.cli.options.types import ChoiceParam
from sapwood.errors import InputError, UsageError
from sapwood.plots.pictures import check_matplotlib, picture_format
from sapwood.storage.files import STANDARD_STREAM, is_regular

if TYPE_CHECKING:
    from sapwood.automata.reduce.truncation import Symbols, Weighting
    from sapwood.automata.svta import StateBudget as StateChoice
    from sapwood.grammar.tensor_grammar import TensorGrammar
    from sapwood.model.parser_model import ParserModel
    from sapwood.pipeline.compress import Way
    from sapwood.runtime.progress import Progress
    from sapwood.trees.corpus import Corpus
    from sapwood.trees.formats.registry import InputFormat
    from sapwood.trees.tree import Tree

# An upper bound on the states of a symbol.
_MOST = 1_000_000


def _removed(context: click.Context, parameter: click.Parameter, value: str | None) -> None:  # noqa: ARG001
    """Refuse a removed option, and name its replacement."""
    if value is None:
        return
    remedy = {
        "keep": f"give --budget {value}: that share of all states, the most important ones",
        "states": f"give --cost-of-states {value}: the same parsing cost, more accurate; for a text grammar, {value} "
        "states",
    }
    raise UsageError(f"{'/'.join(parameter.opts)} was removed; {remedy[str(parameter.name)]}")


@click.command(
    "minimise",
    cls=GroupedCommand,
    aliases=MINIMISE,
    short_help="Compress a model: fewer hidden states, faster parsing.",
)
@click.argument("model")
@click.option("-o", "--output", required=True, help="Write the smaller model to this file.")
@click.option(
    "--method",
    type=ChoiceParam(["merging", "projection", "cp"]),
    help="Merge states by the likelihood of --trees, project any grammar onto its singular states, or decompose the "
    "rules (CP decomposition). [default: merging with --trees and a probabilistic model, else projection]",
)
@click.option("--rank", type=click.IntRange(min=1, max=_MOST), help="With --method cp, number of products R.")
@click.option("--seed", type=click.IntRange(min=0), help="With --method cp, random seed. [default: 0]")
@click.option(
    "--cost-of-states",
    "work",
    type=click.IntRange(min=1, max=_MOST),
    help="Keep the most useful states within the parsing cost of N states per symbol; of a text grammar, N states.",
)
@click.option(
    "--budget",
    type=click.FloatRange(min=0, max=1, min_open=True),
    help="Share of all states to keep, the most important ones. [default: 0.7 for merging]",
)
@click.option(
    "--tolerance",
    type=click.FloatRange(min=0, max=1, max_open=True),
    help="Keep as few states as this error allows; 0 drops only states without effect. [default: 0.05 for projection]",
)
@click.option(
    "--min-probability",
    "min_probability",
    type=click.FloatRange(min=0, max=1, max_open=True),
    help="With merging, drop rule probabilities below this; 0 keeps all. [default: 1e-5]",
)
@click.option(
    "--precision",
    type=ChoiceParam(["half", "single"]),
    help="With merging, store weights in half (2-byte) or single (4-byte) precision. [default: half]",
)
@click.option(
    "--cell-recall",
    "cell_recall",
    type=click.FloatRange(min=0, max=1, min_open=True),
    help="With merging, share of gold constituents that the cell pruner keeps reachable; lower is faster, 1 "
    "turns it off. [default: 0.99]",
)
@click.option(
    "--threshold",
    type=click.FloatRange(0, 1, max_open=True),
    help="With merging, default pruning threshold stored in the model. [default: 5e-05]",
)
@click.option("--keep", hidden=True, expose_value=False, callback=_removed)
@click.option("-k", "--states", hidden=True, expose_value=False, callback=_removed)
@click.option(
    "--weighting",
    "weigh",
    type=ChoiceParam(["l2", "gamma", "trees"]),
    help="Weighting of the error: all trees by squared probability (l2), larger trees more (gamma), or the trees "
    "of --trees. [default: trees with --trees, else l2]",
)
@click.option("--trees", help="Training treebank of the model; improves the parsing accuracy of the result.")
@click.option(
    "--gamma",
    type=click.FloatRange(min=1e-6, max=1e6),
    hidden=True,
    help="Factor per node for --weighting gamma. [default: close to the largest possible]",
)
@click.option(
    "--symbols",
    type=ChoiceParam(["own", "base", "none"]),
    default="own",
    help="Reduce the states of each symbol (own); first merge NP^S, NP^VP, ... into NP (base); or merge all "
    "symbols into one, for unlabelled trees (none).",
)
@click.option("--distance", is_flag=True, help="Also compute the exact distance between the two models over all trees.")
@click.option("--dev", help="Treebank to compare accuracy and speed on before and after.")
@click.option("--plot", "picture", help="Plot the singular values to this file (.svg, .png or .pdf).")
@common.format_option
@common.skip_bad_option
@common.threads_option
@common.json_option
@common.quiet_option
def command(
    model: str,
    output: str,
    picture: str | None,
    as_json: bool,
    quiet: bool,
    **given: Any,
) -> None:
    """Compress MODEL: remove the hidden states that matter least.

    With --trees, the states of a probabilistic model are merged where this lowers the likelihood least, small weights
    are dropped, the others are stored in two bytes each, and a cell pruner is trained that skips chart cells by the
    words around them. The result is about as accurate and parses twice as fast, from a much smaller file.

    Otherwise, or with --method projection, the states are those of the singular value decomposition of the model's
    Hankel matrices, one per symbol (the singular value tree automaton). The weights of the smaller model are real
    numbers, not probabilities, and are rarely zero. Without --trees, the approximation minimises the error in the
    probabilities of whole trees. Short trees dominate these, so it says little about parsing accuracy.

    With --method cp, the rules stay, and a sum of R products is added that parses in their place, without pruning.

    MODEL can also be a weighted context-free grammar as text, in NLTK's notation or one rule per line (`0.7 S -> NP
    VP`); its nonterminals are then the states. If OUTPUT ends in .sapwood, the result is a model of unlabelled trees.

    \b
    Examples:
      sapwood minimise model.sapwood --trees train.mrg --dev dev.mrg -o small.sapwood
      sapwood minimise model.sapwood --method projection --cost-of-states 8 --trees train.mrg -o small.sapwood
      sapwood minimise model.sapwood --tolerance 0 -o same.sapwood
      sapwood minimise pcfg.sapwood --symbols base --cost-of-states 8 --trees train.mrg --plot svd.svg -o small.sapwood
      sapwood minimise pcfg.sapwood --method cp --rank 80 --dev dev.mrg -o factored.sapwood
      sapwood minimise grammar.txt --cost-of-states 5 -o small.txt
    """
    options = _Options(**given)
    options.check()
    _check_files(model, output, options.trees, options.dev, picture)
    progress = common.make_progress(quiet)
    if is_regular(model) and not is_sapwood_file(model):
        report, records = _minimise_text(model, output, options, progress)
        shown = _format_text(report)
    else:
        report, records = _minimise_model(model, output, options, picture is not None, progress)
        shown = _format(report)
    if picture is not None:
        from sapwood.plots.spectra import draw_spectra

        # Symbols without weight or occurrences have nothing to draw.
        drawn = [{**record, "count": round(record["count"])} for record in records if record["rank"]]
        draw_spectra(drawn, picture)
    if as_json:
        common.print_json({name: value for name, value in report.items() if name != "real_valued"})
    else:
        click.echo(shown)


@dataclass(frozen=True)
class _Options:
    """Options of the command, by name."""

    method: Way | None
    rank: int | None
    seed: int | None
    work: int | None
    budget: float | None
    tolerance: float | None
    min_probability: float | None
    precision: str | None
    cell_recall: float | None
    threshold: float | None
    weigh: Weighting | None
    trees: str | None
    gamma: float | None
    symbols: Symbols
    distance: bool
    dev: str | None
    input_format: InputFormat
    skip_bad: bool
    threads: int | None

    @property
    def weighting(self) -> Weighting:
        """Weighting of the error; by default the trees, if there are any."""
        return self.weigh or ("trees" if self.trees else "l2")

    @property
    def choice(self) -> StateChoice:
        """Criterion for the number of states to keep."""
        return {"work": self.work, "budget": self.budget, "tolerance": self.tolerance}

    @property
    def merging(self) -> dict[str, Any]:
        """Settings of merging that were given."""
        own = {"min_probability": self.min_probability, "cell_recall": self.cell_recall, "threshold": self.threshold}
        halves = {} if self.precision is None else {"half_precision": self.precision != "single"}
        return {name: value for name, value in own.items() if value is not None} | halves

    def check(self) -> None:
        """Refuse options that cannot be combined."""
        if sum(option is not None for option in self.choice.values()) > 1:
            raise UsageError(
                "--cost-of-states, --budget and --tolerance each set how many states to keep; give only one"
            )
        if self.method == "merging" and (self.trees is None or self.weigh not in (None, "trees")):
            raise UsageError(
                "--method merging requires --trees, ideally those that the model was trained on, and no other "
                "--weighting"
            )
        if self.method == "cp":
            self._check_cp()
        elif self.rank is not None or self.seed is not None:
            raise UsageError("--rank and --seed require --method cp")
        _check_weighting(self.weighting, self.gamma, self.symbols, self.trees)
        if self.merging and (self.method == "projection" or self.trees is None):
            raise UsageError(
                "--min-probability, --precision, --cell-recall and --threshold require merging: give --trees, and not "
                "--method projection"
            )

    def _check_cp(self) -> None:
        if self.rank is None:
            raise UsageError("--method cp needs --rank, the number of products, such as --rank 80")
        others = [*self.choice.values(), *self.merging.values(), self.weigh, self.gamma, self.trees]
        if any(option is not None for option in others) or self.symbols != "own" or self.distance:
            raise UsageError(
                "--method cp keeps all states and needs no trees; give only --rank, --seed and --dev with it"
            )

    def read(self, path: str, progress: Progress) -> Iterator[Tree]:
        """Yield the trees of a file."""
        return common.trees_from([path], self.input_format, self.skip_bad, progress)


def _minimise_text(
    model: str, output: str, options: _Options, progress: Progress
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Minimise a grammar in text; return the report and a record for each symbol."""
    from sapwood.automata.wcfg.convert import minimise_text

    weighting = options.weighting
    if options.method == "cp":
        raise UsageError(f"{model}: --method cp is for a sapwood model, not for a text grammar")
    if weighting == "trees" or options.dev is not None or options.symbols != "own":
        raise UsageError(
            f"{model}: is not a sapwood model; --trees, --dev and --symbols do not apply to a text grammar"
        )
    text = minimise_text(model, output, weighting=weighting, gamma=options.gamma, progress=progress, **options.choice)
    records = text.records()
    return {"model": model, "output": output, **text.to_dict(), **records[0]}, records


def _minimise_model(
    model: str, output: str, options: _Options, drawn: bool, progress: Progress
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Compress a model; return the report and a record for each symbol."""
    from sapwood.automata.reduce.state_merging import MergeResult
    from sapwood.model.parser_model import ParserModel
    from sapwood.pipeline.compress import run_compression

    given = ParserModel.load(model)
    method = _way(model, given, options)
    if method != "projection" and drawn:
        named = "merging" if method == "merging" else "a CP decomposition"
        raise UsageError(f"--plot draws singular values, and {named} has none; give --method projection")
    if method == "cp":
        return _decompose_model(model, given, output, options, progress), []
    corpus = None if options.trees is None else _read_corpus(options.trees, given, options, progress)
    # First of all, so that an unreadable treebank is reported before the work begins.
    before = None if options.dev is None else _score(model, options.dev, options, progress)
    own = options.merging if method == "merging" else {"weighting": options.weighting, "gamma": options.gamma}
    with common.naming([options.trees or model]):
        compression = run_compression(
            given, corpus, method=method, symbols=options.symbols, distances=options.distance,
            threads=common.default_threads(options.threads), progress=progress, **options.choice, **own,
        )  # fmt: skip
    compression.model.save(output)
    found = compression.members
    if (
        options.weighting != "trees"
        and options.symbols != "none"
        and any(one.to_dict()["dropped"] > 0 for one in found)
    ):
        progress.note("without --trees, the approximation favours short trees over parsing accuracy")
    main = next((one for one in found if isinstance(one, MergeResult) == (method == "merging")), found[0])
    records = main.records()
    report = {
        "model": model,
        "output": output,
        "grammars": len(found),
        "by": method,
        "weigh": options.weighting,
        "before": _size([reduction.before for reduction in found], model if options.symbols == "own" else None),
        "after": _size([reduction.grammar for reduction in found], output),
        **main.to_dict(),
        "real_valued": sum(
            old.probabilistic and not one.grammar.probabilistic for old, one in zip(given.grammars, found, strict=True)
        ),
        "dev": None,
        "symbols": records,
    }
    if options.dev is not None:
        report["dev"] = {"before": before, "after": _score(output, options.dev, options, progress)}
    return report, records


def _decompose_model(
    path: str, model: ParserModel, output: str, options: _Options, progress: Progress
) -> dict[str, Any]:
    """Add a CP decomposition to a model; return the report."""
    from sapwood.pipeline.compress import run_compression

    before = None if options.dev is None else _score(path, options.dev, options, progress)
    with common.naming([path]):
        compression = run_compression(
            model, method="cp", rank=options.rank, random_state=options.seed or 0,
            threads=common.default_threads(options.threads), progress=progress,
        )  # fmt: skip
    compression.model.save(output)
    found, grammar = compression.decomposition, model.grammar
    assert found is not None
    after = None if options.dev is None else _score(output, options.dev, options, progress)
    return {
        "model": path,
        "output": output,
        "grammars": 1,
        "by": "cp",
        "rank": options.rank,
        "before": _size([grammar], path),
        "after": {
            "states": len(grammar.root),
            "weights": 3 * found.tensor.parent.size,
            "bytes": _size([], output)["bytes"],
        },
        "divergence": found.divergence,
        "iterations": found.iterations,
        "converged": found.converged,
        "dev": None if after is None else {"before": before, "after": after},
    }


def _way(path: str, model: ParserModel, options: _Options) -> Way:
    """Return the way to compress a model, chosen unless --method is given."""
    from sapwood.pipeline.compress import default_way

    if options.method is not None:
        return options.method
    method = default_way(model, options.trees is not None)
    if method == "projection" and options.merging:
        raise UsageError(
            f"{path}: --min-probability, --precision, --cell-recall and --threshold are for probabilities, "
            "not real weights"
        )
    return method


def _read_corpus(path: str, model: ParserModel, options: _Options, progress: Progress) -> Corpus:
    """Return the treebank of a model."""
    from sapwood.automata.reduce.truncation import corpus_for

    trees = options.read(path, progress)
    with common.naming([path]):
        return corpus_for(model.grammar, trees, symbols=options.symbols, progress=progress)


def _check_weighting(weigh: Weighting, gamma: float | None, symbols: Symbols, trees: str | None) -> None:
    if weigh == "trees" and trees is None:
        raise UsageError("--weighting trees needs --trees, ideally those that the model was trained on")
    if weigh != "trees" and trees is not None:
        raise UsageError(f"--trees cannot be used with --weighting {weigh}")
    if weigh == "trees" and symbols == "none":
        raise UsageError("--symbols none cannot be used with --trees: those have labels")
    if gamma is not None and weigh != "gamma":
        raise UsageError("--gamma requires --weighting gamma")


def _check_files(model: str, output: str, trees: str | None, dev: str | None, picture: str | None) -> None:
    if STANDARD_STREAM in (model, output):
        raise UsageError("models cannot be read from standard input or written to standard output; name files")
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


def _score(path: str, dev: str, options: _Options, progress: Progress) -> dict[str, float]:
    from sapwood.evaluate.dev_set import evaluate_parser

    parser = common.load_parser(path, threads=common.default_threads(options.threads))
    started = time.perf_counter()
    result = evaluate_parser(parser, options.read(dev, progress), progress=progress)
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
    if report["by"] == "cp":
        rows.append(f"rank         {report['rank']}; the rules stay in the file")
        rows.append(f"divergence   {report['divergence']:.4g} after {report['iterations']} iterations")
    elif report["by"] == "merging":
        mean = report["log_likelihood"]
        lost = f"; {report['impossible']:,} tree(s) are impossible now" if report["impossible"] else ""
        rows.append(f"trees        {mean['before']:.2f} -> {mean['after']:.2f} log-likelihood each{lost}")
    else:
        rows.append(f"dropped      {report['dropped']:.2%} of the singular values (roots of sums of squares)")
    if report.get("real_valued"):
        rows.append(
            f"real-valued  {report['real_valued']} of {report['grammars']} grammars, which had probabilities before; "
            "--trees without --method projection keeps them"
        )
    if report.get("gamma") is not None:
        rows.append(f"gamma        {report['gamma']:.4g}")
    if report.get("l2") is not None:
        rows.append(f"l2 distance  {report['l2']:.4g} ({report['l2_relative']:.2%} of the norm)")
    if report.get("hankel_best") is not None:
        rows.append(
            f"Hankel norm  {report['hankel']:.4g} away; no model with as many states is closer than "
            f"{report['hankel_best']:.4g}"
        )
    if report["dev"] is not None:
        old, new = report["dev"]["before"], report["dev"]["after"]
        rows.append(f"F1 on dev    {old['f1']:.2f} -> {new['f1']:.2f}")
        ratio = new["sentences_per_second"] / max(old["sentences_per_second"], 1e-9)
        speeds = f"{old['sentences_per_second']:.1f} -> {new['sentences_per_second']:.1f}"
        rows.append(f"speed        {speeds} sentences/s ({ratio:.2f} times)")
    if report["by"] == "cp":
        return "\n".join(rows)
    shown = "losses" if report["by"] == "merging" else "singular_values"
    rows.append("symbol       states  " + ("log-likelihood of each merge" if shown == "losses" else "singular values"))
    for record in sorted(report["symbols"], key=lambda record: -record["count"])[:10]:
        states = f"{record['states_before']:>2} -> {record['states']:<2}"
        rows.append(f"  {record['symbol']:<10} {states} {_numbers(record[shown], 8)}")
    return "\n".join(rows)
