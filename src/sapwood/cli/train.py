"""`sapwood train`."""

from __future__ import annotations

import contextlib
import glob
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from sapwood.cli import _common as common
from sapwood.errors import InputError, UsageError
from sapwood.files import STANDARD_STREAM, is_regular
from sapwood.run.log import Log, NoLog, TrainingLog
from sapwood.run.progress import Progress
from sapwood.storage import read_header

METHODS = ("pcfg", "em", "split-merge", "spectral", "cluster", "pivot", "pivot+em")
# Options that mean something to some methods only.
_LATENT = ("ensemble", "resume", "log_path", "unaries", "rare")
_SPECTRAL = (*_LATENT, "states", "features", "kappa", "smoothing")
_ONLY: dict[str, tuple[str, ...]] = {
    "pcfg": (),
    "em": (*_LATENT, "states", "iterations", "restarts", "stop", "init", "prior"),
    "split-merge": (*_LATENT, "cycles", "smoothing"),
    "spectral": (*_SPECTRAL, "dropout"),
    "cluster": (*_SPECTRAL, "iterations", "noise"),
    "pivot": _SPECTRAL,
    "pivot+em": (*_SPECTRAL, "iterations"),
}
# Hidden states find out for themselves what ancestors and siblings say.
_PLAIN = {"vertical": 1, "horizontal": 0, "annotate_tags": False}


class _States(click.ParamType):
    """A number of states, or `auto`."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        """Return the number, or the word."""
        if value == "auto":
            return "auto"
        try:
            number = int(value)
        except ValueError:
            self.fail(f"{value!r} is neither a number nor auto", param, ctx)
        if number < 1:
            self.fail(f"{number} is less than 1", param, ctx)
        return number


@click.command("train", short_help="Learn a grammar from treebanks.")
@click.argument("treebank", nargs=-1, required=True)
@click.option("-o", "--output", required=True, help="Where to write the model.")
@click.option(
    "--method",
    type=click.Choice(METHODS),
    default="pcfg",
    show_default=True,
    help="How to learn: count rules (pcfg), or find hidden states: by split-merge, pivot+em (the best two), em, "
    "spectral learning, clustering or pivot (the last three in seconds).",
)
@click.option("--dev", help="Treebank to choose the best grammar by, and to score it on after training.")
@click.option("--cycles", type=click.IntRange(1, 10), help="split-merge: how often to split. [default: 5]")
@click.option(
    "--states",
    type=_States(),
    help="All but pcfg and split-merge: hidden states per symbol; spectral: or auto. [default: 16]",
)
@click.option(
    "--iterations",
    type=click.IntRange(min=0),
    help="em: the most iterations. [default: 40] cluster, pivot+em: iterations of EM afterwards. [default: 0, 10]",
)
@click.option(
    "--features",
    type=click.Choice(["simple", "rich"]),
    help="spectral, cluster, pivot: what is looked at inside and outside of nodes. [default: rich]",
)
@click.option(
    "--kappa", type=click.FloatRange(0, 1e6), help="spectral, cluster, pivot: how much rare features are held back."
)
@click.option(
    "--smoothing",
    type=click.FloatRange(0, 1e6),
    help="spectral: the weight of simpler moments beside a rule's own; split-merge, cluster, pivot: of the mean of all "
    "states beside each state's own (below 1).",
)
@click.option(
    "--dropout",
    type=click.FloatRange(0, 1, max_open=True),
    help="spectral: part of the features left out at random, for ensembles.",
)
@click.option("--noise", type=click.FloatRange(0, 100), help="cluster: noise on the vectors, for ensembles.")
@click.option("--restarts", type=click.IntRange(1, 1000), help="em: random starts, the best of which is kept.")
@click.option(
    "--stop",
    type=click.Choice(["iterations", "f1", "log-likelihood"]),
    help="em: when to stop: after all iterations, or when this figure of --dev gets no better.",
)
@click.option("--init", help="em: a model to start from, over the same trees.")
@click.option(
    "--prior", type=click.FloatRange(min=0), help="em: as if every rule and word had been seen so often more."
)
@click.option(
    "--unaries",
    type=click.Choice(["steps", "collapsed"]),
    help="All but pcfg: unary rules as steps with weights of their own, or part of the symbols. [default: steps]",
)
@click.option("--rare", type=click.IntRange(min=0), help="All but pcfg: words seen no more often show their form only.")
@click.option("--ensemble", type=click.IntRange(1, 64), help="All but pcfg: grammars to train, from as many seeds.")
@click.option("--resume", is_flag=True, help="Go on with a training run that was interrupted.")
@click.option("--log", "log_path", help="Where to write a line (JSON) for each iteration; `sapwood plot` draws them.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of every random choice.")
@common.threads_option
@click.option(
    "--binarise",
    "direction",
    type=click.Choice(["right", "left", "head"]),
    default="right",
    show_default=True,
    help="Binarise to the right, to the left, or outward from the head.",
)
@common.transform_options
@common.normaliser_options
@common.format_option
@common.skip_bad_option
@common.json_option
@common.quiet_option
@click.pass_context
def command(
    context: click.Context,
    /,
    treebank: tuple[str, ...],
    output: str,
    method: str,
    dev: str | None,
    seed: int,
    threads: int | None,
    direction: Any,
    heads: str | None,
    function_tags: str,
    keep_empties: bool,
    keep_repeated: bool,
    input_format: Any,
    skip_bad: bool,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> None:
    """Learn a grammar from one or more TREEBANK files and write it to a model file.

    Training with hidden states (but for spectral) can be interrupted at any time: what is done is kept beside the
    model, in MODEL.checkpoint, and the same command with --resume goes on from there to the same result.

    But for pcfg, symbols know neither ancestors nor siblings (--vertical 1 --horizontal 0 --plain-tags)
    unless asked to.

    \b
    Examples:
      sapwood train train.mrg -o model.sapwood
      sapwood train train.mrg --dev dev.mrg --method split-merge --log train.jsonl -o model.sapwood
      sapwood train wsj/*.mrg --method split-merge --ensemble 4 -o model.sapwood
      sapwood train train.mrg --dev dev.mrg --method em --states 8 --stop f1 -o model.sapwood
      sapwood train train.mrg --dev dev.mrg --method spectral --states auto -o model.sapwood
      sapwood train train.mrg --dev dev.mrg --method cluster --iterations 10 -o model.sapwood
      sapwood train train.mrg --dev dev.mrg --method pivot+em --states 24 -o model.sapwood
    """
    from sapwood.trees import Corpus

    _refuse_foreign(context, method)
    if (
        method != "pcfg"
        and dev is not None
        and (dev == STANDARD_STREAM or (Path(dev).exists() and not is_regular(dev)))
    ):
        raise UsageError(f"--dev {dev}: is read more than once with --method {method}; name a file")
    if output == STANDARD_STREAM:
        raise UsageError("a model cannot be written to standard output; name a file")
    init, log_path = options["init"], options["log_path"]
    common.check_inputs(*treebank, dev, heads, init)
    common.check_output(output)
    for path in (*treebank, dev, heads, init):
        for written, name in ((output, "-o"), (log_path, "--log")):
            if path and written and is_regular(path) and is_regular(written) and Path(path).samefile(written):
                raise UsageError(f"{name} {written}: is one of the input files; it would be replaced")
    progress = common.make_progress(quiet)
    started = time.perf_counter()
    normaliser = common.make_normaliser(function_tags, keep_empties, keep_repeated)
    shape = {name: options[name] for name in ("vertical", "horizontal", "annotate_tags")}
    if method != "pcfg":
        shape |= {name: value for name, value in _PLAIN.items() if not common.was_given(context, name)}
    transform = common.make_transform(
        direction, shape["vertical"], shape["horizontal"], heads, shape["annotate_tags"], normaliser.root
    )
    trees = common.trees_from(treebank, input_format, skip_bad, progress)
    with common.naming(treebank):
        corpus = Corpus.from_trees(trees, normaliser=normaliser, transform=transform, progress=progress)
    if corpus.dropped:
        progress.note(f"left out {corpus.dropped} tree(s) of which normalising left nothing")
    workers = common.default_threads(threads)
    report: dict[str, Any] = {
        "model": output,
        "method": method,
        "trees": corpus.n_trees,
        "words": corpus.n_words,
        "dropped": corpus.dropped,
    }
    if method == "pcfg":
        from sapwood.learn import PCFG

        grammars = [PCFG().fit(corpus, progress=progress).with_info(seed=seed)]
        grammars[0].save(output)
    else:
        evaluate = None
        if dev is not None:
            evaluate = _evaluation(dev, corpus, input_format, skip_bad, workers)
        run = _Run(output, options["resume"], log_path)
        options = {name: value for name, value in options.items() if name in _ONLY[method] and value is not None}
        grammars = run.train(method, corpus, options, seed, workers, evaluate, progress)
    seconds = time.perf_counter() - started
    many = f"{len(grammars)} grammars, the first " if len(grammars) > 1 else ""
    progress.note(f"{output}: {many}{grammars[0]!r} from {corpus.n_trees:,} trees in {seconds:.1f} s")
    report |= {
        "grammars": len(grammars),
        "symbols": len(grammars[0].symbols),
        "states": int(grammars[0].states.sum()),
        "rules": len(grammars[0].rules),
        "seconds": round(seconds, 3),
    }
    if dev is not None:
        from sapwood.cli.evaluate import evaluate_model

        parser = common.load_parser(output, progress, threads=workers)
        result, parse_seconds = evaluate_model(parser, dev, input_format, "default", skip_bad, progress)
        report["dev"] = {**result.to_dict(), "seconds": round(parse_seconds, 3)}
        if not as_json:
            click.echo(result.format())
    if as_json:
        common.print_json(report)


def _refuse_foreign(context: click.Context, method: str) -> None:
    """Refuse options of other methods, rather than let them do nothing."""
    known = set(_ONLY[method])
    for name in sorted({option for options in _ONLY.values() for option in options} - known):
        users = " and ".join(other for other, options in _ONLY.items() if name in options)
        common.refuse_given(context, [name], f"goes with --method {users}")
    if context.params["states"] == "auto" and method != "spectral":
        raise UsageError("--states auto goes with --method spectral")
    if method in ("em", "pivot+em") and context.params["iterations"] == 0:
        raise UsageError("--iterations 0: EM needs at least one")
    if context.params["stop"] in ("f1", "log-likelihood") and context.params["dev"] is None:
        raise UsageError(f"--stop {context.params['stop']} needs --dev")


def _evaluation(dev: str, corpus: Any, input_format: Any, skip_bad: bool, threads: int) -> Callable[[Any], Any]:
    """Return a function that measures a grammar on the development treebank."""
    from sapwood.evaluate import Scorer, get_parameters
    from sapwood.inference import Parser
    from sapwood.inference.observed import held_out_log_likelihood
    from sapwood.trees import Corpus
    from sapwood.trees.formats import BadTrees, read_trees

    trees = [
        clean
        for tree in read_trees(dev, format=input_format, on_bad=BadTrees() if skip_bad else None)
        if (clean := corpus.normaliser(tree)) is not None
    ]
    with common.naming([dev]):
        observed = Corpus.from_trees(trees, normaliser=corpus.normaliser, transform=corpus.transform)

    def evaluate(grammar: Any) -> dict[str, float]:
        scorer = Scorer(get_parameters("default"))
        results = Parser(grammar, threads=threads).parse([tree.words() for tree in trees])
        for tree, result in zip(trees, results, strict=True):
            scorer.add(tree, result.tree)
        figures = scorer.result().to_dict()
        return {
            "f1": figures["f1"],
            "exact": figures["exact"],
            "tags": figures["tag_accuracy"],
            "log_likelihood": likelihood(grammar),
        }

    def likelihood(grammar: Any) -> float:
        try:
            return held_out_log_likelihood(grammar, observed, threads=threads)
        except InputError:  # the grammar can build none of these trees
            return float("-inf")

    # Training that is resumed must be measured on the same trees.
    evaluate.digest = observed.digest()  # type: ignore[attr-defined]
    return evaluate


class _Run:
    """A training run of one or several grammars whose progress is kept in files beside the model."""

    def __init__(self, output: str, resume: bool, log_path: str | None) -> None:
        self.output = output
        self.resume = resume
        self.log_path = log_path
        self.members = Path(f"{output}.members")
        if log_path is not None:
            common.check_output(log_path)
            own, log = os.path.realpath(output), os.path.realpath(log_path)
            if log in (own, f"{own}.members") or log.startswith(f"{own}.checkpoint"):
                raise UsageError(f"--log {log_path}: is where the model, or what is kept for --resume, is written")
        if not resume and (left := self._left()):
            raise UsageError(
                f"{left[0]}: training was interrupted here; go on with --resume, or remove this file to start anew"
            )

    def _checkpoints(self) -> list[Path]:
        path = Path(self.output)
        return sorted(path.parent.glob(f"{glob.escape(path.name)}.checkpoint*"))

    def _left(self) -> list[Path]:
        """Return the files that an interrupted run has left."""
        return [path for path in (*self._checkpoints(), self.members) if path.exists()]

    def _torn(self) -> list[Path]:
        """Return what being killed in the middle of writing has left."""
        path = Path(self.output)
        names = (f"{path.name}.checkpoint", self.members.name, path.name)
        return [torn for name in names for torn in path.parent.glob(f".{glob.escape(name[:40])}*.part")]

    def _checkpoint(self, member: int, count: int) -> str:
        """Return where the state of one grammar's training is kept, and clear away what others have left."""
        path = f"{self.output}.checkpoint" + (f"-{member:02d}" if count > 1 else "")
        for other in self._checkpoints():
            if str(other) != path:
                other.unlink()
        return path

    def train(
        self,
        method: str,
        corpus: Any,
        options: dict[str, Any],
        seed: int,
        threads: int,
        evaluate: Callable[[Any], Any] | None,
        progress: Progress,
    ) -> list[Any]:
        """Train, save, and clear away what was kept for the case of an interruption."""
        from sapwood.grammar.bundle import load_models, save_models

        count = options.pop("ensemble", 1)
        for name in ("resume", "log_path"):
            options.pop(name, None)
        done = load_models(self.members) if self.resume and self.members.exists() else []
        self._check_members(done, method, corpus, options, seed, threads)
        if len(done) > count:
            raise UsageError(f"{self.members}: holds {len(done)} grammars, more than --ensemble {count} asks for")
        steps = sum(grammar.info.get("iterations", 0) for grammar in done)
        with self._open_log(steps) as log:
            if getattr(log, "is_new", True):
                log.write(
                    "start", step=0, method=method, settings={**options, "seed": seed, "ensemble": count},
                    trees=corpus.n_trees, words=corpus.n_words,
                )  # fmt: skip
            for member in range(len(done), count):
                if count > 1:
                    progress.note(f"grammar {member + 1} of {count}")
                learner = make_learner(method, options, _member_seed(seed, member), threads)
                # Spectral learning has no iterations to go on with.
                kept = {} if method == "spectral" else {"checkpoint": self._checkpoint(member, count)}
                view = _MemberLog(log, steps, {"member": member} if count > 1 else {})
                grammar = learner.fit(corpus, evaluate=evaluate, progress=progress, log=view, **kept)
                done.append(grammar.with_info(seed=seed))
                steps += grammar.info.get("iterations", 0)
                if count > 1:
                    save_models(done, self.members)
            log.write("end", step=steps)
        if count > 1:
            save_models(done, self.output)
        else:
            done[0].save(self.output)
        for path in (*self._left(), *self._torn()):
            path.unlink(missing_ok=True)
        return done

    def _check_members(
        self, done: list[Any], method: str, corpus: Any, options: dict[str, Any], seed: int, threads: int
    ) -> None:
        """Refuse to go on with grammars of another run."""
        digest = corpus.digest() if done else ""
        for member, grammar in enumerate(done):
            ours = make_learner(method, options, _member_seed(seed, member), threads).settings()
            theirs = dict(grammar.info.get("settings", {}))
            if method == "spectral":  # the grammar says which of the weights was chosen
                ours.pop("smoothing"), theirs.pop("smoothing", None)
            same = json.loads(json.dumps(ours)) == json.loads(json.dumps(theirs))
            if grammar.info.get("method") != method or grammar.info["training"]["digest"] != digest or not same:
                raise UsageError(
                    f"{self.members}: grammars of a training run with other settings or trees; give the same ones "
                    "again, or remove it to start anew"
                )

    def _open_log(self, steps: int) -> contextlib.AbstractContextManager[Log]:
        if self.log_path is None:
            return contextlib.nullcontext(NoLog())
        if not self.resume:
            return TrainingLog(self.log_path)
        # Lines behind the last checkpoint will be written again.
        step = measured = 0
        if current := self._checkpoints():
            metadata = read_header(current[-1])["metadata"]
            step, measured = int(metadata["step"]), int(metadata["measured"])
        return TrainingLog.resume(self.log_path, step=steps + step, measured=steps + measured)


class _MemberLog:
    """One grammar's part of a log."""

    def __init__(self, log: Log, steps: int, labels: dict[str, Any]) -> None:
        self._log, self._steps, self._labels = log, steps, labels

    def write(self, event: str, *, step: int, seconds: float | None = None, **figures: object) -> None:
        """Note an event, its step counted on from the grammars before."""
        self._log.write(event, step=self._steps + step, seconds=seconds, **self._labels, **figures)


def make_learner(method: str, options: dict[str, Any], seed: int, threads: int) -> Any:
    """Return the learner that the options ask for."""
    from sapwood.grammar.tensor_grammar import TensorGrammar
    from sapwood.learn import EM, Cluster, Pivot, Spectral, SplitMerge

    options = {**options, "random_state": seed, "threads": threads}
    if features := options.pop("features", None):
        options |= {"inside": features, "outside": features}
    if method == "split-merge":
        return SplitMerge(**options)
    if method == "cluster":
        return Cluster(**options)
    if method in ("pivot", "pivot+em"):
        return Pivot(**{"iterations": 10 if method == "pivot+em" else 0} | options)
    if method == "spectral":
        # Several weights of simpler moments cost nothing more than parsing dev with each.
        return Spectral(**{"smoothing": (20.0, 10.0, 30.0)} | options)
    if "stop" in options:
        options["stop"] = options["stop"].replace("-", "_")
    if "init" in options:
        options["init"] = TensorGrammar.load(options["init"])
    return EM(**options)


def _member_seed(seed: int, member: int) -> int:
    """Return the seed of a member of an ensemble; the first one is trained as it would be alone."""
    import numpy as np

    return seed if member == 0 else int(np.random.SeedSequence([seed, member]).generate_state(1)[0])
