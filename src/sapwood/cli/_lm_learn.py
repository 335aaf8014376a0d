"""How `sapwood lm train` learns a model by each of its methods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sapwood.cli import _lm_common as shared
from sapwood.errors import UsageError
from sapwood.run.log import Log, NoLog
from sapwood.run.progress import Progress, Silent

if TYPE_CHECKING:
    import numpy as np

    from sapwood.lm.aggregate import AggregateMarkov
    from sapwood.lm.counts import Counts
    from sapwood.lm.models import AnyModel

# A mixture has weights for contexts by how often their last word was seen: below these numbers, and from the last on.
_EDGES = (3, 10, 30, 100, 300, 1000, 3000, 10000)


class Steps:
    """A log in which the steps of several trainings, one after the other, are counted on.

    Parameters
    ----------
    log
        Where to write.
    several
        Whether each training is a `member` with a number of its own.

    Attributes
    ----------
    done
        Steps so far.
    """

    def __init__(self, log: Log, *, several: bool) -> None:
        self._log, self._several = log, several
        self._before = self._last = self._member = 0

    @property
    def done(self) -> int:
        """Steps so far."""
        return self._before + self._last

    def write(self, event: str, *, step: int, seconds: float | None = None, **figures: object) -> None:
        """Note an event; a step before the last one is of another training."""
        if step < self._last:
            self._before += self._last
            self._member += 1
        self._last = step
        labels = {"member": self._member} if self._several else {}
        self._log.write(event, step=self.done, seconds=seconds, **labels, **figures)


class Learning:
    """Learns a model from counts, the ids of a text and those of held-out text.

    Parameters
    ----------
    method
        One of `sapwood lm train`.
    settings
        Those of its options that were given.
    seed, threads
        For all random choices, and to work with.
    """

    def __init__(self, method: str, settings: dict[str, Any], seed: int, threads: int) -> None:
        from sapwood.lm.aggregate import AggregateMarkov

        self.method = method
        self.least: float = settings.get("least", AggregateMarkov().least)
        self.lags = settings.get("lags", 3)
        self.settings = {name: value for name, value in settings.items() if name != "lags"}
        self.settings |= {"random_state": seed, "threads": threads}

    def check(self, counts: Counts) -> None:
        """Refuse counts that nothing can be learned from by this method."""
        if self.method in ("kn", "mkn"):
            return
        if counts.order < 2 or not len(counts.table(2)[1]):
            raise UsageError(f"--method {self.method} needs bigrams, and there are none")
        if self.method.startswith("pivot") and not self._has_anchors(counts):
            raise UsageError(
                f"--method {self.method}: no word was seen {self.least:g} times or more, so none can stand for a "
                "state; lower --least, or use --method em"
            )

    def __call__(
        self, counts: Counts, text: np.ndarray | None, dev: np.ndarray | None, progress: Progress, log: Log
    ) -> AnyModel:
        """Return the model."""
        from sapwood.lm.kneser_ney import KneserNey
        from sapwood.lm.mixture import Mixture

        if self.method in ("kn", "mkn"):
            return KneserNey(order=counts.order, modified=self.method == "mkn").fit(counts)
        if self.method == "mixed-order":
            return self._mixed_order(counts, text, dev, progress, log)
        if self.method != "mix":
            return self._latent(self.method).fit(counts, dev=dev, progress=progress, log=log)
        assert dev is not None
        method = "pivot+em" if self._has_anchors(counts) else "em"
        members: list[Any] = [self._latent(method).fit(counts, dev=dev, progress=progress, log=log)]
        if text is None:
            progress.note("learning from counts: the mixture has no mixed-order model, which needs the text")
        else:
            members.append(self._mixed_order(counts, text, dev, progress, log))
        members.append(KneserNey(order=counts.order).fit(counts))
        return Mixture.fit(members, dev, edges=_EDGES)

    def _latent(self, method: Any) -> AggregateMarkov:
        from sapwood.lm.aggregate import AggregateMarkov

        settings = dict(self.settings)
        if method == "pivot" and "iterations" in settings:
            settings["pivot_iterations"] = settings.pop("iterations")
        return AggregateMarkov(method=method, **settings)

    def _mixed_order(
        self, counts: Counts, text: np.ndarray | None, dev: np.ndarray | None, progress: Progress, log: Log
    ) -> AnyModel:
        from sapwood.lm.mixed_order import MixedOrderMarkov

        assert text is not None
        learner = MixedOrderMarkov(lags=self.lags, **self.settings)
        return learner.fit(text, counts.vocabulary, boundaries=counts.boundaries, dev=dev, progress=progress, log=log)

    def _has_anchors(self, counts: Counts) -> bool:
        """Return whether a word was seen often enough, after another one, to stand for a state."""
        import numpy as np

        ngrams, numbers = counts.table(2)
        return bool(np.bincount(ngrams[:, 1], numbers).max() >= self.least)


def warm_up(method: str, order: int, threads: int) -> None:
    """Learn from a few words, so that all kernels are compiled."""
    from sapwood.lm.counts import count_text
    from sapwood.lm.text import encode_text

    with shared.tiny_text() as path:
        counts = count_text(path, order=max(order, 2))
        (ids,) = encode_text(path, counts.vocabulary)
    learn = Learning(method, {"states": 2, "iterations": 2, "least": 0.0, "lags": 2}, 0, threads)
    learn(counts, ids, ids, Silent(), NoLog())
