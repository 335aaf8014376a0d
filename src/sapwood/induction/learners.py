"""Inducers: one settings class for each model, whose `fit` takes a text and returns the learned model.

Constituency models become a `TensorGrammar`, the others an `InducedModel`. `INDUCERS` maps names to classes.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Final, TypeAlias, cast

import numpy as np

from sapwood.errors import SapwoodError, UsageError
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.identifiability.models.zoo import make_model
from sapwood.identifiability.moments import Sentences
from sapwood.identifiability.unmixing.unmix import UncertainAnswer, unmix
from sapwood.induction.em import EMRun, Schedule, run_em
from sapwood.induction.em_model import ESTIMATES, Counts, EMModel
from sapwood.induction.estep import Shards, SpanFactors, Valence
from sapwood.induction.gradient_training import TrainingSettings, train_network
from sapwood.induction.induced_model import InducedModel
from sapwood.induction.models.ccm import CCMProblem, DMVCCMProblem, binary_trees
from sapwood.induction.models.dmv import (
    STARTS,
    ArgumentsProblem,
    DMVProblem,
    StationaryArgumentsProblem,
    TiedArgumentsProblem,
    dmv_weights,
)
from sapwood.induction.models.pcfg import IndependentPCFGProblem, PCFGProblem, TiedPCFGProblem
from sapwood.induction.models.rule_network import RuleNetwork, initial_parameters
from sapwood.induction.models.tensor_pcfg import (
    SPAN_STARTS,
    TensorPCFGProblem,
    odds_of,
    right_posteriors,
    tensor_pcfg_weights,
)
from sapwood.induction.text import Text
from sapwood.induction.to_grammar import pcfg_grammar, tensor_pcfg_grammar, terminal_emissions
from sapwood.learn.lpcfg.lexical import LexicalSettings
from sapwood.runtime.context import RunContext
from sapwood.runtime.log import Log
from sapwood.runtime.params import HasExecutor, as_json, choice, integer, number, numbers, opaque
from sapwood.runtime.progress import Progress
from sapwood.storage.arrays import content_digest
from sapwood.storage.shapes import Array, Float64

InductionResult: TypeAlias = TensorGrammar | InducedModel
METHODS = ("em", "unmix", "unmix+em")
RIGHT_STARTS = ("right", "random")
_LONGEST_UNMIXED = 4
# Maximum number of derivatives of a table, which takes about a minute.
_MOST_DERIVATIVES = 250_000


def _lengths(*default: float) -> Any:
    help = "Maximum sentence length in words; several values are stages, shorter sentences first."
    return numbers(default, help, low=1)


@dataclass(frozen=True, kw_only=True, repr=False)
class Inducer(HasExecutor, ABC):
    """Settings of a model and its training: a text in, a model out.

    Parameters
    ----------
    lengths
        Maximum number of words of a sentence; several numbers are stages, the shorter sentences first.
    random_state
        The seed of every random choice.
    lexical
        Treatment of rare and unknown words.
    """

    model: ClassVar[str]
    # Whether it assigns probabilities to sentences.
    generative: ClassVar[bool] = True

    lengths: tuple[float, ...] | float = _lengths(10.0, 15.0, 20.0, 40.0)
    random_state: int = integer(0, "Random seed.")
    lexical: LexicalSettings = opaque(LexicalSettings(), "Treatment of rare and unknown words.", LexicalSettings)

    def __post_init__(self) -> None:
        super().__post_init__()
        if any(not float(length).is_integer() for length in np.atleast_1d(self.lengths)):
            raise UsageError(f"lengths must be whole numbers, not {self.lengths}")
        # Normalised, so that equal settings are stored alike.
        object.__setattr__(self, "lengths", tuple(sorted({int(length) for length in np.atleast_1d(self.lengths)})))

    @property
    def display_name(self) -> str:
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
    ) -> InductionResult:
        """Learn and return the model.

        Parameters
        ----------
        text
            The sentences, made by `sapwood.induction.text.make_text`.
        progress, log
            Progress display and log.
        checkpoint
            File to keep the state in. If it exists, training resumes from it, with the same result.
        """
        if not isinstance(text, Text):
            raise UsageError(f"fit takes a Text, not {type(text).__name__}: make_text(sentences)")
        return self._learn(text.trimmed(), RunContext.of(progress=progress, log=log, checkpoint=checkpoint))

    @abstractmethod
    def _learn(self, text: Text, run: RunContext) -> InductionResult:
        """Return the model; arguments as for `fit`."""

    def _key(self, text: Text) -> dict[str, Any]:
        """Return everything that a run depends on."""
        return {"model": self.model, "settings": self.settings(), "text": text.digest()}

    def _info(self, text: Text, iterations: int | None, log_likelihood: float | None) -> dict[str, Any]:
        found: dict[str, Any] = {} if iterations is None else {"iterations": iterations}
        if log_likelihood is not None and self.generative:
            found["log_likelihood"] = log_likelihood
        return {
            "method": f"induce {self.model}",
            "settings": self.settings(),
            "training": {"sentences": text.n_sentences, "words": len(text.word), "digest": text.digest()},
            "lexical": as_json(self.lexical),
            **found,
        }

    def _model(self, text: Text, info: Mapping[str, Any], **parts: Any) -> InducedModel:
        return InducedModel(
            model=self.model,
            terminals=text.terminals,
            kind=text.kind,
            punctuation=text.punctuation,
            frequency=np.bincount(text.terminal, minlength=len(text.terminals)).astype(float),
            emissions=terminal_emissions(text, self.lexical),
            info=info,
            **parts,
        )


@dataclass(frozen=True, kw_only=True, repr=False)
class EMInducer(Inducer):
    """Settings of a model that EM trains.

    Parameters
    ----------
    iterations, tolerance
        Maximum number of iterations of a stage, and the gain per word below which it ends.
    prior, estimate
        Pseudo-count of each outcome, and its use: see `sapwood.induction.em_model`.
    restarts
        Number of random starts; the most probable result is kept.
    anneal
        Power to which probabilities are raised at first.
    """

    iterations: int = integer(30, "Maximum EM iterations per stage.", low=1)
    tolerance: float = number(1e-4, "Stop a stage when the gain per word is below this.")
    prior: float = number(0.1, "Pseudo-count of every outcome.")
    estimate: str = choice(
        "smoothed", "M-step: smoothed relative frequencies, or variational (sparse with a prior below 1).",
        ESTIMATES,
    )  # fmt: skip
    restarts: int = integer(1, "Number of random restarts; the best is kept.", low=1)
    anneal: float = number(1.0, "Initial exponent of deterministic annealing; 1 turns it off.", above=0, high=1)

    @property
    def schedule(self) -> Schedule:
        """Stopping criteria and restarts of EM."""
        return Schedule(self.iterations, self.tolerance, self.restarts, self.random_state)

    def _run_em(self, problem: EMModel, run: RunContext) -> EMRun:
        options: Any = {"progress": run.progress, "log": run.log, "checkpoint": run.checkpoint}
        return run_em(problem, self.schedule, key=self._key(problem.text), **options)

    def _shared(self) -> dict[str, Any]:
        """Return the arguments that all problems share."""
        return {"estimate": self.estimate, "anneal": self.anneal, "cooling": self.iterations // 2}

    def _em_info(self, text: Text, em_run: EMRun | None) -> dict[str, Any]:
        return self._info(text, *((None, None) if em_run is None else (em_run.steps, em_run.log_likelihood)))


@dataclass(frozen=True, kw_only=True, repr=False)
class DMV(EMInducer):
    """The dependency model with valence (`sapwood.induction.models.dmv`).

    Parameters
    ----------
    start
        Initial counts: from nearby heads (harmonic), from all trees equally (uniform), or uniform with noise.
    distance_power
        Initially a head at distance d counts like 1 / d to this power.
    """

    model: ClassVar[str] = "dmv"
    start: str = choice(
        "harmonic", "Initialise with harmonic weights (near heads), uniformly over trees, or at random.", STARTS
    )
    distance_power: float = number(2.0, "Exponent p of the harmonic initialisation 1 / distance^p.")

    def problem(self, text: Text) -> DMVProblem:
        """Return the EM problem."""
        return DMVProblem(
            text, self.stages, self.executor, start=self.start, power=self.distance_power, prior=self.prior,  # type: ignore[arg-type]
            **self._shared(),
        )  # fmt: skip

    def _learn(self, text: Text, run: RunContext) -> InducedModel:
        problem = self.problem(text)
        em_run = self._run_em(problem, run)
        return self._model(text, self._em_info(text, em_run), heads=dmv_weights(problem.normalised(em_run.counts)))


@dataclass(frozen=True, kw_only=True, repr=False)
class CCM(EMInducer):
    """The constituent-context model (`sapwood.induction.models.ccm`).

    Parameters
    ----------
    longest
        Maximum number of words of a yield of its own.
    """

    model: ClassVar[str] = "ccm"
    generative: ClassVar[bool] = False
    lengths: tuple[float, ...] | float = _lengths(10.0)
    iterations: int = integer(20, "Maximum EM iterations per stage.", low=1)
    longest: int = integer(10, "Maximum length in words of spans modelled by their yield.", low=1)

    def _learn(self, text: Text, run: RunContext) -> InducedModel:
        problem = CCMProblem(text, self.stages, self.executor, longest=self.longest, **self._shared())
        em_run = self._run_em(problem, run)
        return self._model(text, self._em_info(text, em_run), **_spans(problem, em_run.counts))


@dataclass(frozen=True, kw_only=True, repr=False)
class DMVCCM(DMV):
    """DMV and CCM combined: the weight of a tree is the product of both models.

    Parameters
    ----------
    longest
        Maximum number of words of a yield of its own.
    """

    model: ClassVar[str] = "dmv+ccm"
    generative: ClassVar[bool] = False
    lengths: tuple[float, ...] | float = _lengths(10.0)
    iterations: int = integer(20, "Maximum EM iterations per stage.", low=1)
    longest: int = integer(10, "Maximum length in words of spans modelled by their yield.", low=1)

    def problem(self, text: Text) -> DMVCCMProblem:
        """Return the EM problem."""
        return DMVCCMProblem(
            text, self.stages, self.executor, longest=self.longest, start=self.start, power=self.distance_power,
            prior=self.prior, **self._shared(),
        )  # fmt: skip

    def _learn(self, text: Text, run: RunContext) -> InducedModel:
        problem = self.problem(text)
        em_run = self._run_em(problem, run)
        heads = dmv_weights(problem.normalised(em_run.counts))
        return self._model(text, self._em_info(text, em_run), heads=heads, **_spans(problem, em_run.counts))


def _spans(problem: CCMProblem | DMVCCMProblem, counts: Counts) -> dict[str, Any]:
    table = problem.index.table(np.zeros((0, 2), np.int32))
    return {"table": table, "yields": counts["yields"], "contexts": counts["contexts"], "longest": problem.longest}


@dataclass(frozen=True, kw_only=True, repr=False)
class TensorPCFG(EMInducer):
    """A low-rank PCFG with many states (`sapwood.induction.models.tensor_pcfg`).

    Parameters
    ----------
    states, rank
        Number of states, and of patterns of rules; None is twice the number of states.
    start
        Spans that EM begins with: those of the dependency model with valence (learned with these settings), of the
        constituent-context model, right-branching ones, or none.
    warmup, warmup_decay
        Number of iterations for which they are held, and over which they are then released.
    distance_power
        Setting of the dependency model.
    """

    model: ClassVar[str] = "tensor-pcfg"
    iterations: int = integer(40, "Maximum EM iterations, not counting the initialisation.", low=1)
    prior: float = number(0.02, "Pseudo-count of every outcome.")
    states: int = integer(20, "Number of hidden states.", low=1)
    rank: int | None = integer(
        None, "Rank of the rule tensor; none means twice the number of states.", low=1, optional=True
    )
    start: str = choice(
        "dmv", "Initialise from the spans of dmv or ccm, right-branching spans, or random rules.", SPAN_STARTS
    )
    warmup: int = integer(5, "Iterations for which the spans of the initialisation are fixed.")
    warmup_decay: int = integer(20, "Iterations over which the fixed spans are released.")
    distance_power: float = number(2.0, "Exponent p of the harmonic initialisation 1 / distance^p.")

    def _learn(self, text: Text, run: RunContext) -> TensorGrammar:
        longest = self.stages[-1]
        part = text.up_to(longest, 2)
        odds = self._odds(text, part, run.progress)
        problem = TensorPCFGProblem(
            text, (longest,), self.executor, states=self.states, rank=self.rank or 2 * self.states, prior=self.prior,
            odds=odds, warmup=self.warmup, warmup_decay=self.warmup_decay, **self._shared(),
        )  # fmt: skip
        em_run = self._run_em(problem, run)
        theta = problem.normalised(em_run.counts)
        occupancy = problem.shards(0).sums(tensor_pcfg_weights(theta)).occupancy
        return tensor_pcfg_grammar(text, self.lexical, theta, occupancy, self._em_info(text, em_run))

    def _odds(self, text: Text, part: Text, progress: Progress) -> Float64[Array, "spans"] | None:
        """Return the odds of all spans under the start."""
        if self.start == "random":
            return None
        if self.start == "right":
            return odds_of(right_posteriors(part))
        settings: dict[str, Any] = {"random_state": self.random_state, "threads": self.threads, "workers": self.workers}
        if self.start == "dmv":
            dmv = DMV(lengths=self.lengths, distance_power=self.distance_power, **settings)
            problem: Any = dmv.problem(text)
            em_run = run_em(problem, dmv.schedule, progress=progress, name="start: dmv")
            weights: Any = dmv_weights(problem.normalised(em_run.counts))
            return odds_of(Shards(part, self.executor).sums(weights, spans=True).spans)
        ccm = CCM(lengths=self.stages[0], **settings)
        problem = CCMProblem(text, ccm.stages, self.executor, longest=ccm.longest, **ccm._shared())
        em_run = run_em(problem, ccm.schedule, progress=progress, name="start: ccm")
        log_weights = problem.log_weights(part, em_run.counts)
        found = Shards(part, self.executor).sums(binary_trees(len(text.terminals)), np.exp(log_weights), spans=True)
        return odds_of(found.spans)


@dataclass(frozen=True, kw_only=True, repr=False)
class SimplePCFG(Inducer):
    """A PCFG with many symbols and independent children (`sapwood.induction.models.simple_pcfg`).

    Parameters
    ----------
    nonterminals, preterminals
        Numbers of symbols; None is twice the number of nonterminals.
    embedding
        Dimensions of the embeddings of symbols, and hidden units of the rule network.
    start, warmup
        Spans that training begins with: right-branching ones within segments between punctuation marks, or any. Others
        have a small weight at first, which becomes 1 in the course of the warm-up, given in epochs.
    across_begin, across_end
        Factors of spans that contain a dividing punctuation mark and do not begin, or end, at one; 1 ignores marks.
    elsewhere
        Factor, in parsing, of spans of two or more words that end neither at a mark nor with the sentence.
    epochs, patience
        Maximum number of epochs of a stage, and epochs without a better likelihood of held-out sentences that end it.
    batch_sentences, learning_rate
        Sentences of a mini-batch, and the learning rate of Adam.
    """

    model: ClassVar[str] = "simple-pcfg"
    lengths: tuple[float, ...] | float = _lengths(40.0)
    nonterminals: int = integer(64, "Number of nonterminals.", low=1, high=4096)
    preterminals: int | None = integer(
        None, "Number of preterminals; none means twice the number of nonterminals.", low=1, high=8192, optional=True
    )
    embedding: int = integer(64, "Dimensions of the embeddings of symbols.", low=1, high=4096)
    start: str = choice("right", "Begin with right-branching spans, or with any.", RIGHT_STARTS)
    warmup: float = number(2.0, "Epochs over which the spans of the start are released.", above=0)
    across_begin: float = number(0.3, "Weight of spans across punctuation that do not begin at a mark.", above=0)
    across_end: float = number(0.02, "Weight of spans across punctuation that do not end at a mark.", above=0)
    elsewhere: float = number(
        0.6, "Weight, in parsing, of spans that end neither at a mark nor with the sentence.", above=0
    )
    epochs: int = integer(5, "Maximum epochs per stage.", low=1)
    patience: int = integer(1, "Epochs without a better held-out likelihood that end a stage.")
    batch_sentences: int = integer(8, "Sentences of a mini-batch.", low=1)
    learning_rate: float = number(0.001, "Learning rate of Adam.", above=0)

    def _key(self, text: Text) -> dict[str, Any]:
        divided = {} if text.divided is None else {"divided": text.divided}
        return {**super()._key(text), "divided": content_digest(divided, {})}

    def _learn(self, text: Text, run: RunContext) -> InducedModel:
        frequency = np.bincount(text.terminal, minlength=len(text.terminals)).astype(float)
        parameters = initial_parameters(
            self.nonterminals, self.preterminals or 2 * self.nonterminals, self.embedding, frequency,
            np.random.default_rng(self.random_state),
        )  # fmt: skip
        settings = TrainingSettings(
            self.stages,
            self.epochs,
            self.patience,
            self.batch_sentences,
            self.learning_rate,
            self.random_state,
            SpanFactors(self.across_begin, self.across_end),
            self.warmup if self.start == "right" else 0.0,
        )
        options: Any = {"progress": run.progress, "log": run.log, "checkpoint": run.checkpoint}
        found = train_network(text, parameters, settings, self.executor, key=self._key(text), **options)
        info = self._info(text, found.epochs, found.log_likelihood)
        return self._model(
            text,
            info,
            rules=RuleNetwork(found.parameters).rules(),
            span_factors=settings.spans._replace(elsewhere=self.elsewhere),
        )


@dataclass(frozen=True, kw_only=True, repr=False)
class _HiddenStates(EMInducer):
    """Base class of the paper's constituency models.

    Parameters
    ----------
    states
        Number of hidden states.
    method
        EM from random starts, unmixing, or unmixing and then EM.
    """

    _problem: ClassVar[type[PCFGProblem]]
    lengths: tuple[float, ...] | float = _lengths(10.0)
    iterations: int = integer(100, "Maximum EM iterations per stage.", low=1)
    states: int = integer(10, "Number of hidden states.", low=1)
    method: str = choice("em", "Learning method: EM, unmixing, or unmixing followed by EM.", METHODS)

    def _learn(self, text: Text, run: RunContext) -> TensorGrammar:
        problem = self._problem(
            text, self.stages, self.executor, states=self.states, prior=self.prior, **self._shared()
        )
        counts, em_run = _fit_counts(self, problem, run)
        theta = problem.normalised(counts)
        last = len(self.stages) - 1
        occupancy = problem.shards(last).sums(problem.weights(theta)).occupancy + 1e-9
        info = self._em_info(text, em_run)
        return pcfg_grammar(text, self.lexical, theta["pi"], problem.rule(theta), theta["O"], occupancy, info)


class PCFGInducer(_HiddenStates):
    """PCFG with arbitrary pairs of children."""

    model, _problem = "pcfg", PCFGProblem


class PCFGIInducer(_HiddenStates):
    """PCFG with independent children."""

    model, _problem = "pcfg-i", IndependentPCFGProblem


class PCFGIEInducer(_HiddenStates):
    """PCFG with independent and identically distributed children."""

    model, _problem = "pcfg-ie", TiedPCFGProblem


@dataclass(frozen=True, kw_only=True, repr=False)
class _Arguments(EMInducer):
    """Base class of the paper's dependency models.

    Parameters
    ----------
    method
        EM from random starts, unmixing, or unmixing and then EM.
    """

    _problem: ClassVar[type[ArgumentsProblem]]
    lengths: tuple[float, ...] | float = _lengths(10.0)
    iterations: int = integer(100, "Maximum EM iterations per stage.", low=1)
    method: str = choice("em", "Learning method: EM, unmixing, or unmixing followed by EM.", METHODS)

    def _learn(self, text: Text, run: RunContext) -> InducedModel:
        problem = self._problem(text, self.stages, self.executor, prior=self.prior, **self._shared())
        counts, em_run = _fit_counts(self, problem, run)
        weights = problem.weights(problem.normalised(counts))
        heads = Valence(weights.attach, weights.go, weights.stop, weights.root / weights.root.sum())
        return self._model(text, self._em_info(text, em_run), heads=heads)


class DepI(_Arguments):
    """Dependency model whose arguments depend on their side."""

    model, _problem = "dep-i", ArgumentsProblem


class DepIE(_Arguments):
    """Dependency model with both sides alike."""

    model, _problem = "dep-ie", TiedArgumentsProblem


class DepIES(_Arguments):
    """Dependency model with both sides alike and a stationary root."""

    model, _problem = "dep-ies", StationaryArgumentsProblem


def _fit_counts(inducer: _HiddenStates | _Arguments, problem: Any, run: RunContext) -> tuple[Counts, EMRun | None]:
    """Return the counts found by EM, unmixing, or both."""
    if inducer.method == "em":
        em_run = inducer._run_em(problem, run)
        return em_run.counts, em_run
    counts = _unmixed_counts(inducer.model, problem, inducer.random_state, run.progress)
    if inducer.method == "unmix":
        return counts, None
    problem.begin = lambda _: counts
    em_run = inducer.replace(restarts=1)._run_em(problem, run)
    return em_run.counts, em_run


DEFAULT_MODEL: Final = TensorPCFG.model
INDUCERS: Final[Mapping[str, type[Inducer]]] = MappingProxyType(
    {
        cls.model: cls
        for cls in (
            TensorPCFG,
            SimplePCFG,
            DMV,
            CCM,
            DMVCCM,
            PCFGInducer,
            PCFGIInducer,
            PCFGIEInducer,
            DepI,
            DepIE,
            DepIES,
        )
    }
)


def make_inducer(model: str = DEFAULT_MODEL, **settings: Any) -> Inducer:
    """Return the inducer of a model with these settings.

    >>> make_inducer("dmv", lengths=10)
    DMV(lengths=(10,))
    """
    if model not in INDUCERS:
        raise UsageError(f"there is no model {model!r} to induce; the models are {', '.join(INDUCERS)}")
    return INDUCERS[model]().replace(**settings)


def _unmixed_counts(name: str, problem: EMModel, random_state: int, progress: Progress) -> Counts:
    """Return the parameters found by unmixing, as counts of about as many choices as the text has.

    It fits tables of the probabilities of any three words, with the derivative of each by each parameter
    (`sapwood.identifiability.unmixing.unmix`). For d terminals and p parameters these are d^3 p numbers, so it requires
    few terminals: word classes, or a small tag set. Longer sentences carry the same information with more noise, so
    only short ones are used.

    Warnings about the answer are reported to `progress`.
    """
    text = problem.sentences(len(problem.lengths) - 1)
    states: int | None = getattr(problem, "states", None)
    model = make_model(name, len(text.terminals), states)
    size = len(text.terminals) ** 3 * model.n_parameters
    if size > _MOST_DERIVATIVES:
        raise UsageError(
            f"unmixing {name} over {len(text.terminals)} terminals has tables with {size:,} derivatives, more than "
            f"{_MOST_DERIVATIVES:,}; learn from fewer classes of words or fewer states, or by em"
        )
    rows = [
        text.sentence(number).tolist() for number in range(text.n_sentences) if text.lengths[number] <= _LONGEST_UNMIXED
    ]
    if not rows:
        raise UsageError(f"unmixing takes sentences of up to {_LONGEST_UNMIXED} words, and there are none")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UncertainAnswer)
        try:
            source: Any = Sentences(rows, words=model.words)
            found = unmix(model, source, random_state=random_state, progress=progress)
        except SapwoodError as error:
            raise UsageError(
                f"unmixing, from the {len(rows):,} sentences of up to {_LONGEST_UNMIXED} words: {error}; learn from "
                "fewer classes, or by em"
            ) from error
    for warning in caught:
        progress.note(f"unmixing: {warning.message}")
    parameters = {each: np.asarray(array, float) for each, array in found.parameters.items()}
    return {one.name: _counts(one.name, one.shape, parameters, len(text.word)) for one in problem.families}


def _counts(name: str, shape: tuple[int, ...], parameters: dict[str, Any], words: int) -> np.ndarray:
    """Return a block of parameters with the condition first, as counts that sum to the number of words."""
    if name == "attach":
        blocks = [parameters[each] for each in ("Al", "Ar", "A") if each in parameters]
        found = np.stack([block.T for block in blocks])
    else:
        found = parameters["pi" if name == "root" else name].T
    found = np.maximum(found.reshape(shape), 0.0)
    return found * words / max(float(found.sum()), 1e-300)
