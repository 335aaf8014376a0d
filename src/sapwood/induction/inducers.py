"""Ways of learning without trees, by model: each is its settings, takes a text, and returns what was learned.

Constituency models become a `TensorGrammar`, the others an `InducedModel`. `INDUCERS` has them by name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Final, TypeAlias, cast

import numpy as np

from sapwood.errors import UsageError
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.induction.climbing import Climbed, Schedule, climb
from sapwood.induction.grammars import hidden_grammar, low_rank_grammar, terminal_emissions
from sapwood.induction.hidden import AlikeProblem, HiddenProblem, IndependentProblem
from sapwood.induction.induced import InducedModel
from sapwood.induction.low_rank import (
    SPAN_STARTS,
    LowRankProblem,
    low_rank_weights,
    odds_of,
    right_posteriors,
)
from sapwood.induction.passes import Shards, Valence
from sapwood.induction.problem import ESTIMATES, Counts, Problem
from sapwood.induction.real_unmixing import unmixed_counts
from sapwood.induction.span_model import HeadedSpanProblem, SpanProblem, binary_trees
from sapwood.induction.text import Text
from sapwood.induction.valence import (
    STARTS,
    AlikeArgumentsProblem,
    ArgumentsProblem,
    StationaryArgumentsProblem,
    ValenceProblem,
    valence_weights,
)
from sapwood.learn.lexical import LexicalSettings
from sapwood.learn.settings import Declared, as_json, choice, integer, number, numbers, other
from sapwood.run.log import Log, NoLog
from sapwood.run.progress import Progress, Silent
from sapwood.shapes import Array, Float64

Learned: TypeAlias = TensorGrammar | InducedModel
METHODS = ("em", "unmix", "unmix+em")


@dataclass(frozen=True, kw_only=True, repr=False)
class Inducer(Declared, ABC):
    """Settings of a model, and the way to learn it: a text in, a model out.

    Parameters
    ----------
    lengths
        The most words of a sentence; of several numbers, in stages, the shorter sentences first.
    iterations, tolerance
        The most iterations of a stage, and the gain for each word below which it ends.
    prior, estimate
        What is added to the count of each outcome, and how: see `sapwood.induction.problem`.
    restarts
        How many random starts; the most probable is kept.
    anneal
        The power that probabilities are taken to at first.
    random_state
        The seed of every random choice.
    lexical
        How rare and unknown words are treated.
    """

    model: ClassVar[str]
    # Whether it gives probabilities to sentences.
    generative: ClassVar[bool] = True

    lengths: tuple[float, ...] | float = numbers(
        (10.0, 15.0, 20.0, 40.0), "The most words of sentences; several are stages, the shorter sentences first.", low=1
    )
    iterations: int = integer(30, "The most iterations of EM at each length.", low=1)
    tolerance: float = number(1e-4, "An iteration that gains less for each word is the last at its length.")
    prior: float = number(0.1, "Added to the count of every outcome.")
    estimate: str = choice(
        "smoothed", "How distributions follow from counts: smoothed, or variational (sparse with a prior below 1).",
        ESTIMATES,
    )  # fmt: skip
    restarts: int = integer(1, "Random starts, of which the best is kept.", low=1)
    anneal: float = number(1.0, "The power of probabilities in the first iteration, up to 1: less makes trees alike.")
    random_state: int = integer(0, "Seed of every random choice.")
    lexical: LexicalSettings = other(LexicalSettings(), "How rare and unknown words are treated.", LexicalSettings)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.anneal <= 1:
            raise UsageError(f"anneal must be above 0 and at most 1, not {self.anneal:g}")
        if any(not float(length).is_integer() for length in np.atleast_1d(self.lengths)):
            raise UsageError(f"lengths must be whole numbers, not {self.lengths}")
        # However they were given, they are the same in what is remembered.
        object.__setattr__(self, "lengths", tuple(sorted({int(length) for length in np.atleast_1d(self.lengths)})))

    @property
    def called(self) -> str:
        """The name of the model."""
        return self.model

    @property
    def stages(self) -> tuple[int, ...]:
        """The lengths, the shortest first."""
        return cast(tuple[int, ...], self.lengths)

    def fit(
        self,
        text: Text,
        *,
        progress: Progress | None = None,
        log: Log | None = None,
        checkpoint: str | Path | None = None,
    ) -> Learned:
        """Learn, and return the model.

        Parameters
        ----------
        text
            The sentences; `sapwood.induction.make_text` makes them.
        progress, log
            What to report to.
        checkpoint
            A file to keep the state in. If it is there, learning goes on from it, to the same result.
        """
        if not isinstance(text, Text):
            raise UsageError(f"fit takes a Text, not {type(text).__name__}: make_text(sentences)")
        return self._learn(text.trimmed(), progress or Silent(), log or NoLog(), checkpoint)

    @abstractmethod
    def _learn(self, text: Text, progress: Progress, log: Log, checkpoint: str | Path | None) -> Learned:
        """Return the model; arguments as for `fit`."""

    @property
    def schedule(self) -> Schedule:
        """How long EM goes on."""
        return Schedule(self.iterations, self.tolerance, self.restarts, self.random_state)

    def _climb(
        self, problem: Problem, progress: Progress, log: Log, checkpoint: str | Path | None, name: str = "learning"
    ) -> Climbed:
        key = {"model": self.model, "settings": self.settings(), "text": problem.text.digest()}
        return climb(problem, self.schedule, key=key, progress=progress, log=log, checkpoint=checkpoint, name=name)

    def _shared(self) -> dict[str, Any]:
        """Return what all problems take."""
        return {"estimate": self.estimate, "anneal": self.anneal, "cooling": self.iterations // 2}

    def _info(self, text: Text, climbed: Climbed | None) -> dict[str, Any]:
        found: dict[str, Any] = {} if climbed is None else {"iterations": climbed.steps}
        if climbed is not None and self.generative:
            found["log_likelihood"] = climbed.log_likelihood
        return {
            "method": f"induce {self.model}",
            "settings": self.settings(),
            "training": {"sentences": text.n_sentences, "words": len(text.word), "digest": text.digest()},
            "lexical": as_json(self.lexical),
            **found,
        }

    def _model(self, text: Text, climbed: Climbed | None, **parts: Any) -> InducedModel:
        return InducedModel(
            model=self.model,
            terminals=text.terminals,
            kind=text.kind,
            punctuation=text.punctuation,
            frequency=np.bincount(text.terminal, minlength=len(text.terminals)).astype(float),
            emissions=terminal_emissions(text, self.lexical),
            info=self._info(text, climbed),
            **parts,
        )


@dataclass(frozen=True, kw_only=True, repr=False)
class DMV(Inducer):
    """The dependency model with valence (`sapwood.induction.valence`).

    Parameters
    ----------
    start
        Where EM begins: with heads that are near (harmonic), with all trees alike (uniform), or from there at random.
    distance_power
        Heads at a distance d count like 1 / d to this power at first.
    """

    model: ClassVar[str] = "dmv"
    start: str = choice("harmonic", "Where EM begins: heads that are near, all trees alike, or at random.", STARTS)
    distance_power: float = number(2.0, "At first, heads at a distance d count like 1 / d to this power.")

    def problem(self, text: Text) -> ValenceProblem:
        """Return what EM runs on."""
        return ValenceProblem(
            text, self.stages, self.where, start=self.start, power=self.distance_power, prior=self.prior,  # type: ignore[arg-type]
            **self._shared(),
        )  # fmt: skip

    def _learn(self, text: Text, progress: Progress, log: Log, checkpoint: str | Path | None) -> InducedModel:
        problem = self.problem(text)
        climbed = self._climb(problem, progress, log, checkpoint)
        return self._model(text, climbed, heads=valence_weights(problem.normalised(climbed.counts)))


@dataclass(frozen=True, kw_only=True, repr=False)
class CCM(Inducer):
    """The constituent-context model (`sapwood.induction.span_model`).

    Parameters
    ----------
    longest
        The most words of a yield of its own.
    """

    model: ClassVar[str] = "ccm"
    generative: ClassVar[bool] = False
    lengths: tuple[float, ...] | float = numbers((10.0,), "The most words of sentences; several are stages.", low=1)
    iterations: int = integer(20, "The most iterations of EM at each length.", low=1)
    longest: int = integer(10, "The most words of a span that is known by its words.", low=1)

    def _learn(self, text: Text, progress: Progress, log: Log, checkpoint: str | Path | None) -> InducedModel:
        problem = SpanProblem(text, self.stages, self.where, longest=self.longest, **self._shared())
        climbed = self._climb(problem, progress, log, checkpoint)
        return self._model(text, climbed, **_spans(problem, climbed.counts))


@dataclass(frozen=True, kw_only=True, repr=False)
class DMVCCM(DMV):
    """Both together: heads by one, spans by the other, trees by their product.

    Parameters
    ----------
    longest
        The most words of a yield of its own.
    """

    model: ClassVar[str] = "dmv+ccm"
    generative: ClassVar[bool] = False
    lengths: tuple[float, ...] | float = numbers((10.0,), "The most words of sentences; several are stages.", low=1)
    iterations: int = integer(20, "The most iterations of EM at each length.", low=1)
    longest: int = integer(10, "The most words of a span that is known by its words.", low=1)

    def problem(self, text: Text) -> HeadedSpanProblem:
        """Return what EM runs on."""
        return HeadedSpanProblem(
            text, self.stages, self.where, longest=self.longest, start=self.start, power=self.distance_power,
            prior=self.prior, **self._shared(),
        )  # fmt: skip

    def _learn(self, text: Text, progress: Progress, log: Log, checkpoint: str | Path | None) -> InducedModel:
        problem = self.problem(text)
        climbed = self._climb(problem, progress, log, checkpoint)
        heads = valence_weights(problem.normalised(climbed.counts))
        return self._model(text, climbed, heads=heads, **_spans(problem, climbed.counts))


def _spans(problem: SpanProblem | HeadedSpanProblem, counts: Counts) -> dict[str, Any]:
    table = problem.index.table(np.zeros((0, 2), np.int32))
    return {"table": table, "yields": counts["yields"], "contexts": counts["contexts"], "longest": problem.longest}


@dataclass(frozen=True, kw_only=True, repr=False)
class LPCFG(Inducer):
    """A PCFG with many states and rules of low rank (`sapwood.induction.low_rank`).

    Parameters
    ----------
    states, rank
        How many states, and how many patterns of rules; None is twice the number of states.
    start
        Whose spans EM begins with: of the dependency model with valence (learned with these settings), of the
        constituent-context model, right-branching ones, or none.
    hold, release
        For how many iterations they hold, and over how many more they are let go.
    distance_power
        Of the dependency model.
    """

    model: ClassVar[str] = "l-pcfg"
    iterations: int = integer(40, "The most iterations of EM, those of the start not counted.", low=1)
    prior: float = number(0.02, "Added to the count of every outcome.")
    states: int = integer(20, "Hidden states of phrases.", low=1)
    rank: int | None = integer(
        None, "Patterns of rules: the rank of their tensor. By default twice the states.", low=1, optional=True
    )
    start: str = choice(
        "dmv", "Whose spans EM begins with: dmv, ccm, right-branching ones, or random rules.", SPAN_STARTS
    )
    hold: int = integer(5, "Iterations for which the spans of the start hold.")
    release: int = integer(20, "Iterations over which they are let go.")
    distance_power: float = number(2.0, "Of the dmv that it starts with.")

    def _learn(self, text: Text, progress: Progress, log: Log, checkpoint: str | Path | None) -> TensorGrammar:
        longest = self.stages[-1]
        part = text.up_to(longest, 2)
        odds = self._odds(text, part, progress)
        problem = LowRankProblem(
            text, (longest,), self.where, states=self.states, rank=self.rank or 2 * self.states, prior=self.prior,
            odds=odds, hold=self.hold, release=self.release, **self._shared(),
        )  # fmt: skip
        climbed = self._climb(problem, progress, log, checkpoint)
        theta = problem.normalised(climbed.counts)
        occupancy = problem.shards(0).sums(low_rank_weights(theta)).occupancy
        return low_rank_grammar(text, self.lexical, theta, occupancy, self._info(text, climbed))

    def _odds(self, text: Text, part: Text, progress: Progress) -> Float64[Array, "spans"] | None:
        """Return the odds of all spans by the start."""
        if self.start == "random":
            return None
        if self.start == "right":
            return odds_of(right_posteriors(part))
        settings: dict[str, Any] = {"random_state": self.random_state, "threads": self.threads, "workers": self.workers}
        if self.start == "dmv":
            dmv = DMV(lengths=self.lengths, distance_power=self.distance_power, **settings)
            problem: Any = dmv.problem(text)
            climbed = climb(problem, dmv.schedule, progress=progress, name="start: dmv")
            weights: Any = valence_weights(problem.normalised(climbed.counts))
            return odds_of(Shards(part, self.where).sums(weights, spans=True).spans)
        ccm = CCM(lengths=self.stages[0], **settings)
        problem = SpanProblem(text, ccm.stages, self.where, longest=ccm.longest, **ccm._shared())
        climbed = climb(problem, ccm.schedule, progress=progress, name="start: ccm")
        log_weights = problem.log_weights(part, climbed.counts)
        found = Shards(part, self.where).sums(binary_trees(len(text.terminals)), np.exp(log_weights), spans=True)
        return odds_of(found.spans)


@dataclass(frozen=True, kw_only=True, repr=False)
class _Hidden(Inducer):
    """What the paper's constituency models share.

    Parameters
    ----------
    states
        How many hidden states.
    method
        EM from random starts, unmixing, or unmixing and then EM.
    """

    _problem: ClassVar[type[HiddenProblem]]
    lengths: tuple[float, ...] | float = numbers((10.0,), "The most words of sentences; several are stages.", low=1)
    iterations: int = integer(100, "The most iterations of EM at each length.", low=1)
    states: int = integer(10, "Hidden states.", low=1)
    method: str = choice("em", "How to learn: EM, unmixing, or both.", METHODS)

    def _learn(self, text: Text, progress: Progress, log: Log, checkpoint: str | Path | None) -> TensorGrammar:
        problem = self._problem(text, self.stages, self.where, states=self.states, prior=self.prior, **self._shared())
        counts, climbed = _by_method(self, problem, progress, log, checkpoint)
        theta = problem.normalised(counts)
        last = len(self.stages) - 1
        occupancy = problem.shards(last).sums(problem.weights(theta)).occupancy + 1e-9
        info = self._info(text, climbed)
        return hidden_grammar(text, self.lexical, theta["pi"], problem.rule(theta), theta["O"], occupancy, info)


class PCFGInducer(_Hidden):
    """Any pairs of children."""

    model, _problem = "pcfg", HiddenProblem


class PCFGIInducer(_Hidden):
    """Children apart."""

    model, _problem = "pcfg-i", IndependentProblem


class PCFGIEInducer(_Hidden):
    """Children apart and alike."""

    model, _problem = "pcfg-ie", AlikeProblem


@dataclass(frozen=True, kw_only=True, repr=False)
class _Arguments(Inducer):
    """What the paper's dependency models share.

    Parameters
    ----------
    method
        EM from random starts, unmixing, or unmixing and then EM.
    """

    _problem: ClassVar[type[ArgumentsProblem]]
    lengths: tuple[float, ...] | float = numbers((10.0,), "The most words of sentences; several are stages.", low=1)
    iterations: int = integer(100, "The most iterations of EM at each length.", low=1)
    method: str = choice("em", "How to learn: EM, unmixing, or both.", METHODS)

    def _learn(self, text: Text, progress: Progress, log: Log, checkpoint: str | Path | None) -> InducedModel:
        problem = self._problem(text, self.stages, self.where, prior=self.prior, **self._shared())
        counts, climbed = _by_method(self, problem, progress, log, checkpoint)
        weights = problem.weights(problem.normalised(counts))
        heads = Valence(weights.attach, weights.go, weights.stop, weights.root / weights.root.sum())
        return self._model(text, climbed, heads=heads)


class DepI(_Arguments):
    """Arguments by side."""

    model, _problem = "dep-i", ArgumentsProblem


class DepIE(_Arguments):
    """Both sides alike."""

    model, _problem = "dep-ie", AlikeArgumentsProblem


class DepIES(_Arguments):
    """Both sides alike, and the root stationary."""

    model, _problem = "dep-ies", StationaryArgumentsProblem


def _by_method(
    inducer: _Hidden | _Arguments, problem: Any, progress: Progress, log: Log, checkpoint: str | Path | None
) -> tuple[Counts, Climbed | None]:
    """Return the counts that EM, unmixing, or both find."""
    if inducer.method == "em":
        climbed = inducer._climb(problem, progress, log, checkpoint)
        return climbed.counts, climbed
    counts = unmixed_counts(inducer.model, problem, inducer.random_state, progress)
    if inducer.method == "unmix":
        return counts, None
    problem.begin = lambda _: counts
    climbed = inducer.replace(restarts=1)._climb(problem, progress, log, checkpoint)
    return climbed.counts, climbed


DEFAULT_MODEL: Final = LPCFG.model
INDUCERS: Final[Mapping[str, type[Inducer]]] = MappingProxyType(
    {cls.model: cls for cls in (LPCFG, DMV, CCM, DMVCCM, PCFGInducer, PCFGIInducer, PCFGIEInducer, DepI, DepIE, DepIES)}
)


def make_inducer(model: str = DEFAULT_MODEL, **settings: Any) -> Inducer:
    """Return the way to learn a model, with these settings.

    >>> make_inducer("dmv", lengths=10)
    DMV(lengths=(10,))
    """
    if model not in INDUCERS:
        raise UsageError(f"there is no model {model!r} to induce; the models are {', '.join(INDUCERS)}")
    return INDUCERS[model]().replace(**settings)
