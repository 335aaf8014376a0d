"""Training of a language model from texts by any method, as `sapwood lm train` does.

>>> from pathlib import Path
>>> from sapwood.lm import train
>>> _ = Path("text.txt").write_text("the dog barks\\nthe cat sleeps\\na dog sleeps\\na cat barks\\n")
>>> [word for word, _ in train("text.txt", method="mkn").next_words(["the"], 2)]
['cat', 'dog']
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack, cast

import numpy as np

from sapwood.errors import InputError, UsageError
from sapwood.lm.checkpoint import CheckpointedRun, StepLog
from sapwood.lm.counts.counts import Counts
from sapwood.lm.counts.load import read_counts, read_whole
from sapwood.lm.counts.text import Sources, source_list
from sapwood.lm.io import AnyModel, kind_of
from sapwood.lm.latent.aggregate import PIVOT_ITERATIONS, AggregateMarkov
from sapwood.lm.latent.bigram import LatentBigram
from sapwood.lm.latent.mixed_order import MixedOrder, MixedOrderMarkov
from sapwood.lm.mixture import Mixture
from sapwood.lm.ngram.kneser_ney import KneserNey
from sapwood.lm.registry import (
    DEFAULT_MIN_COUNT,
    DEFAULT_ORDER,
    METHODS,
    Boundaries,
    LatentMethod,
    Method,
    MixedOrderParams,
    check_method,
    default_method,
)
from sapwood.runtime.context import Execution, RunContext
from sapwood.runtime.params import defaults, params_of
from sapwood.runtime.progress import Silent
from sapwood.storage.arrays import content_digest
from sapwood.storage.files import STANDARD_STREAM, is_regular, name_of
from sapwood.storage.shapes import Array, Int32

# Methods that walk through the text itself, because counts are not sufficient.
_WALKING = ("mixed-order", "mix")
# Buckets of a mixture, by the count of a context's last word: below these numbers, and from the last on.
_EDGES = (3, 10, 30, 100, 300, 1000, 3000, 10000)


class Counting(Execution, total=False):
    """Settings for counting texts; see `read_counts`."""

    order: int | None
    max_words: int | None
    boundaries: Boundaries | None
    memory: int


@dataclass(frozen=True)
class TrainingText:
    """Training data of a model.

    Attributes
    ----------
    counts
        The n-grams.
    ids
        The text itself, if available and if the method looks further back than n-grams.
    dev
        Held-out text, if any.
    dev_name
        Its name in messages.
    min_count
        Minimum count of known words.
    """

    counts: Counts
    ids: Int32[Array, "tokens"] | None = None
    dev: Int32[Array, "dev_tokens"] | None = None
    dev_name: str = "dev"
    min_count: int = 1

    def digests(self) -> dict[str, str | None]:
        """Return fingerprints of the data that the model depends on."""
        parts = {"text": self.ids, "dev": self.dev}
        found = {name: None if ids is None else content_digest({"ids": ids}, {}) for name, ids in parts.items()}
        return {"counts": self.counts.digest(), **found}


def train(
    texts: Sources,
    *,
    method: Method | None = None,
    dev: str | Path | None = None,
    order: int | None = None,
    min_count: int | None = None,
    max_words: int | None = None,
    boundaries: Boundaries | None = None,
    random_state: int = 0,
    **options: Any,
) -> AnyModel:
    """Learn a language model from texts, or from count files.

    Parameters
    ----------
    texts
        Paths of texts and of count files; `.gz`, `.bz2`, `.xz` and `.zst` are decompressed, `-` is standard input.
    dev
        The path of held-out text, for early stopping and the weights of mixtures.
    order
        Order of the longest n-grams: by default 3 if the method has an order, or that of the counts.
    min_count
        Words seen less often become `<unk>`: 2 by default, or 1 with count files.
    max_words, boundaries
        As for `read_counts`.
    method
        See `sapwood.lm.registry`. By default the best, `mix`, or without `dev` modified Kneser-Ney smoothing, `mkn`.
    random_state
        Seed of every random choice.
    options
        Settings of the method; `memory`, as for `read_counts`; `threads`, `workers`, `progress`, `log` and
        `checkpoint`, as for `sapwood.runtime.context.RunContext`. The result depends on neither threads nor workers. If
        the checkpoint exists, training resumes from it, with the same result. The methods `kn` and `mkn`, which have no
        iterations, ignore it.
    """
    counting: Counting = {"memory": options.pop("memory")} if "memory" in options else {}
    run, settings = RunContext.split(options)
    method = method or default_method(dev is not None)
    check_method(method, settings if order is None else {**settings, "order": order}, dev is not None)
    counting |= {"order": order, "max_words": max_words, "boundaries": boundaries}
    counting |= {"threads": run.threads, "workers": run.workers, "progress": run.progress}
    text = read_training_text(texts, method=method, dev=dev, min_count=min_count, **counting)
    return fit(text, method, random_state=random_state, **options)


# Reading.


def read_training_text(
    texts: Sources,
    *,
    method: Method,
    dev: str | Path | None = None,
    min_count: int | None = None,
    **counting: Unpack[Counting],
) -> TrainingText:
    """Read the training data for a method; parameters are those of `train`."""
    progress = counting.get("progress") or Silent()
    paths = source_list(texts)
    from_counts = any(kind_of(path) is not None for path in paths)
    if method == "mixed-order" and from_counts:
        raise UsageError("method mixed-order needs the text itself; counts of n-grams do not have all it looks at")
    walks = method in _WALKING and not from_counts
    for path in paths if walks else ():
        if str(path) == STANDARD_STREAM or (Path(path).exists() and not is_regular(path)):
            raise UsageError(f"{path}: is read more than once with method {method}; name a file")
    if min_count is None:
        min_count = 1 if from_counts else DEFAULT_MIN_COUNT
    default_order = DEFAULT_ORDER if "order" in METHODS[method] else 2
    counts = read_counts(paths, default_order=default_order, min_count=min_count, **counting)
    if method not in ("kn", "mkn") and (counts.order < 2 or not len(counts.table(2)[1])):
        raise UsageError(f"method {method} needs bigrams, and there are none")
    held_out = None if dev is None else read_whole(dev, counts, progress)
    if held_out is not None and not len(held_out):
        raise InputError(f"{dev}: no words in it")
    return TrainingText(
        counts, read_whole(paths, counts, progress) if walks else None, held_out, name_of(dev or "dev"), min_count
    )


# Learning.


def fit(
    text: TrainingText,
    method: Method,
    *,
    random_state: int = 0,
    **options: Any,
) -> AnyModel:
    """Learn a model from its training data; parameters are those of `train`."""
    context, settings = RunContext.split(options)
    check_method(method, settings, text.dev is not None)
    counts, chosen = text.counts, resolved_settings(method, **settings)
    progress, steps = context.progress, StepLog(context.log, several=method in _WALKING)
    about = {**chosen, "order": counts.order, "seed": random_state}
    kept = None if method in ("kn", "mkn") else context.checkpoint
    run = CheckpointedRun(steps, kept, {} if kept is None else {**about, "method": method, **text.digests()})
    if not steps.lines or getattr(context.log, "is_new", False):
        words = len(counts.vocabulary)
        steps.write("start", step=0, method=method, settings=about, tokens=counts.tokens, words=words)
    own: dict[str, Any] = {
        **chosen,
        "random_state": random_state,
        "threads": context.threads,
        "workers": context.workers,
    }
    reporting: dict[str, Any] = {"dev": text.dev, "progress": progress, "log": steps}

    def latent(method: LatentMethod) -> LatentBigram:
        settings = {name: value for name, value in own.items() if name != "lags"}
        if method == "pivot":
            settings["pivot_iterations"] = settings.pop("iterations")
        learner = AggregateMarkov(method=method, **settings)
        return run.model("latent", LatentBigram, lambda: learner.fit(counts, part=run.part("latent"), **reporting))

    def mixed_order() -> MixedOrder:
        assert text.ids is not None
        learner = MixedOrderMarkov(**own)
        return learner.fit(text.ids, counts.vocabulary, boundaries=counts.boundaries, run=run, **reporting)

    def mixture() -> Mixture:
        assert text.dev is not None
        ngrams, numbers = counts.table(2)
        has_anchors = np.bincount(ngrams[:, 1], numbers).max() >= chosen["anchor_count"]
        members: list[AnyModel] = [latent("pivot+em" if has_anchors else "em")]
        if text.ids is None:
            progress.note("learning from counts: the mixture has no mixed-order model, which needs the text")
        else:
            members.append(mixed_order())
        return Mixture.fit([*members, KneserNey(order=counts.order).fit(counts)], text.dev, edges=_EDGES)

    try:
        model: AnyModel
        if method in ("kn", "mkn"):
            model = KneserNey(order=counts.order, modified=method == "mkn").fit(counts)
        elif method == "mix":
            model = mixture()
        else:
            model = mixed_order() if method == "mixed-order" else latent(cast(LatentMethod, method))
    except InputError as error:  # only the held-out text can be at fault
        raise InputError(f"{text.dev_name}: {error}") from error
    steps.write("end", step=steps.last)
    return model


def resolved_settings(method: Method, **settings: Any) -> dict[str, Any]:
    """Return all settings of a method (except the order), with defaults for those not given."""
    chosen = defaults(MixedOrderParams) | ({"iterations": PIVOT_ITERATIONS} if method == "pivot" else {}) | settings
    # Converted to their declared number types, so that the same settings give the same bytes.
    kinds = {name: int if one.kind == "integer" else float for name, one in params_of(MixedOrderParams).items()}
    names = [name for name in METHODS[method] if name != "order"]
    return {name: chosen[name] if chosen[name] is None else kinds[name](chosen[name]) for name in names}
