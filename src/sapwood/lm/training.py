"""From texts to a language model by any of the methods, which is what `sapwood lm train` does.

>>> from pathlib import Path
>>> from sapwood.lm import train
>>> _ = Path("text.txt").write_text("the dog barks\\nthe cat sleeps\\na dog sleeps\\na cat barks\\n")
>>> [word for word, _ in train("text.txt", method="mkn").next_words(["the"], 2)]
['cat', 'dog']
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict, Unpack, cast

import numpy as np

from sapwood.errors import InputError, UsageError
from sapwood.files import STANDARD_STREAM, is_regular, name_of
from sapwood.lm.aggregate import PIVOT_ITERATIONS, AggregateMarkov, LatentMethod
from sapwood.lm.counts import Counts
from sapwood.lm.kneser_ney import KneserNey
from sapwood.lm.latent_model import LatentBigram
from sapwood.lm.methods import (
    DEFAULT_MIN_COUNT,
    DEFAULT_ORDER,
    METHODS,
    Boundaries,
    Method,
    Settings,
    check_method,
    default_method,
)
from sapwood.lm.mixed_order import MixedOrder, MixedOrderMarkov
from sapwood.lm.mixture import Mixture
from sapwood.lm.models import AnyModel, kind_of
from sapwood.lm.reading import read_counts, read_whole
from sapwood.lm.resuming import CHECKPOINT, Run, Steps
from sapwood.lm.text import Sources, source_list
from sapwood.run.checkpoint import Checkpoint
from sapwood.run.log import Log, NoLog
from sapwood.run.progress import Progress, Silent
from sapwood.run.workers import Workers
from sapwood.shapes import Array, Int32
from sapwood.storage import content_digest

# They walk through the text itself, of which counts say too little.
_WALKING = ("mixed-order", "mix")
# A mixture has weights for contexts by how often their last word was seen: below these numbers, and from the last on.
_EDGES = (3, 10, 30, 100, 300, 1000, 3000, 10000)


class Counting(TypedDict, total=False):
    """How texts are counted; see `read_counts`."""

    order: int | None
    max_words: int | None
    boundaries: Boundaries | None
    memory: int
    threads: int
    workers: Workers | None


@dataclass(frozen=True)
class TrainingText:
    """What a model is learned from.

    Attributes
    ----------
    counts
        The n-grams.
    ids
        The text itself, if the method looks further back than n-grams go and it is there.
    dev
        Held-out text, if there is any.
    dev_name
        What messages call it.
    min_count
        How often words had to be seen to be known.
    """

    counts: Counts
    ids: Int32[Array, "tokens"] | None = None
    dev: Int32[Array, "dev_tokens"] | None = None
    dev_name: str = "dev"
    min_count: int = 1

    def digests(self) -> dict[str, str | None]:
        """Return fingerprints of what the model depends on."""
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
    memory: int = 4 << 30,
    random_state: int = 0,
    threads: int = 1,
    workers: Workers | None = None,
    progress: Progress | None = None,
    log: Log | None = None,
    checkpoint: str | Path | None = None,
    **settings: Unpack[Settings],
) -> AnyModel:
    """Learn a language model from texts, or from files of counts.

    Parameters
    ----------
    texts
        Paths of texts and of files of counts; `.gz`, `.bz2`, `.xz` and `.zst` are decompressed, `-` is standard input.
    dev
        The path of held-out text: to stop by, and to take the weights of mixtures from.
    order
        The longest n-grams: 3 by default where the method has an order, or that of the counts.
    min_count
        Words seen less often become `<unk>`: 2 by default, or 1 with files of counts.
    max_words, boundaries, memory
        As `read_counts` takes them.
    method
        See `sapwood.lm.methods`. By default the best, `mix`, or without `dev` modified Kneser-Ney smoothing, `mkn`.
    random_state
        Seed of every random choice.
    threads, workers
        How many threads of this process to use, and where to count and learn instead, if elsewhere. The result depends
        on neither.
    progress, log
        What to report to.
    checkpoint
        A file to keep the state of training in. If it is there, training goes on from it, to the same result. The
        methods `kn` and `mkn`, which have no iterations to go on with, leave it alone.
    settings
        Of the method.
    """
    method = method or default_method(dev is not None)
    check_method(method, [*settings, *(["order"] if order is not None else [])], dev is not None)
    text = read_training_text(
        texts, method=method, dev=dev, order=order, min_count=min_count, max_words=max_words, boundaries=boundaries,
        memory=memory, threads=threads, workers=workers, progress=progress,
    )  # fmt: skip
    return fit(
        text, method, random_state=random_state, threads=threads, workers=workers, progress=progress, log=log,
        checkpoint=checkpoint, **settings,
    )  # fmt: skip


# Reading.


def read_training_text(
    texts: Sources,
    *,
    method: Method,
    dev: str | Path | None = None,
    min_count: int | None = None,
    progress: Progress | None = None,
    **counting: Unpack[Counting],
) -> TrainingText:
    """Read what a model is to be learned from by a method; parameters are those of `train`."""
    progress = progress or Silent()
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
    counts = read_counts(paths, default_order=default_order, min_count=min_count, progress=progress, **counting)
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
    threads: int = 1,
    workers: Workers | None = None,
    progress: Progress | None = None,
    log: Log | None = None,
    checkpoint: str | Path | None = None,
    **settings: Unpack[Settings],
) -> AnyModel:
    """Learn a model from what was read for its method; parameters are those of `train`."""
    check_method(method, settings, text.dev is not None)
    counts, chosen = text.counts, resolved_settings(method, **settings)
    progress, steps = progress or Silent(), Steps(log or NoLog(), several=method in _WALKING)
    about = {**chosen, "order": counts.order, "seed": random_state}
    run = Run(steps)
    if checkpoint is not None and method not in ("kn", "mkn"):
        key = {**about, "method": method, **text.digests()}
        run = Run.resumed(steps, Checkpoint(checkpoint, key, CHECKPOINT, data="text"))
    if not steps.lines or getattr(log, "is_new", False):
        words = len(counts.vocabulary)
        steps.write("start", step=0, method=method, settings=about, tokens=counts.tokens, words=words)
    own: dict[str, Any] = {**chosen, "random_state": random_state, "threads": threads, "workers": workers}
    reporting: dict[str, Any] = {"dev": text.dev, "progress": progress, "log": steps}

    def latent(method: LatentMethod) -> LatentBigram:
        settings = {name: value for name, value in own.items() if name != "lags"}
        if method == "pivot":
            settings["pivot_iterations"] = settings.pop("iterations")
        learner = AggregateMarkov(method=method, **settings)
        return run.model("latent", LatentBigram, lambda: learner.fit(counts, run=run, **reporting))

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


def resolved_settings(method: Method, **settings: Unpack[Settings]) -> Settings:
    """Return all settings that a method has (but for the order), those not given as they are by default."""
    defaults: dict[str, Any] = {each.name: each.default for each in dataclasses.fields(AggregateMarkov)}
    defaults["lags"] = MixedOrderMarkov().lags
    if method == "pivot":
        defaults["iterations"] = PIVOT_ITERATIONS
    # As floats or whole numbers whichever way they are written, so that the same settings give the same bytes.
    given: dict[str, Any] = {name: settings.get(name, defaults[name]) for name in METHODS[method] if name != "order"}
    kinds = {name: int if default is None else type(default) for name, default in defaults.items()}
    chosen = {name: value if value is None else kinds[name](value) for name, value in given.items()}
    return cast(Settings, chosen)
