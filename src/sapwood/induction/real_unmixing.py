"""Unmixing on a text: the paper's algorithm (`sapwood.induction.unmixing`) where tables of three words can be held.

It fits tables of the probabilities of any three words, with the derivative of each by each parameter. For d terminals
and p parameters that is d^3 p numbers, so it is for few terminals: classes of words, or a small set of tags. Longer
sentences say the same with more noise, so those of up to `LONGEST` words are used.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from sapwood.errors import SapwoodError, UsageError
from sapwood.induction.models import make_model
from sapwood.induction.moments import Sentences
from sapwood.induction.problem import Counts, Problem
from sapwood.induction.unmixing import UncertainAnswer, unmix
from sapwood.run.progress import Progress

LONGEST = 4
# The most numbers in the derivatives of a table; so many take a minute.
_MOST = 250_000


def unmixed_counts(name: str, problem: Problem, random_state: int, progress: Progress) -> Counts:
    """Return the parameters that unmixing finds, as counts of about as many choices as there are.

    What makes the answer doubtful is said through `progress`.
    """
    text = problem.sentences(len(problem.lengths) - 1)
    states: int | None = getattr(problem, "states", None)
    model = make_model(name, len(text.terminals), states)
    size = len(text.terminals) ** 3 * model.n_parameters
    if size > _MOST:
        raise UsageError(
            f"unmixing {name} over {len(text.terminals)} terminals has tables with {size:,} derivatives, more than "
            f"{_MOST:,}; learn from fewer classes of words or fewer states, or by em"
        )
    rows = [text.sentence(number).tolist() for number in range(text.n_sentences) if text.lengths[number] <= LONGEST]
    if not rows:
        raise UsageError(f"unmixing takes sentences of up to {LONGEST} words, and there are none")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UncertainAnswer)
        try:
            source: Any = Sentences(rows, words=model.words)
            found = unmix(model, source, random_state=random_state, progress=progress)
        except SapwoodError as error:
            raise UsageError(
                f"unmixing, from the {len(rows):,} sentences of up to {LONGEST} words: {error}; learn from fewer "
                "classes, or by em"
            ) from error
    for warning in caught:
        progress.note(f"unmixing: {warning.message}")
    parameters = {each: np.asarray(array, float) for each, array in found.parameters.items()}
    return {one.name: _counts(one.name, one.shape, parameters, len(text.word)) for one in problem.families}


def _counts(name: str, shape: tuple[int, ...], parameters: dict[str, Any], words: int) -> np.ndarray:
    """Return a block of parameters by condition first, with as many counts as there are words."""
    if name == "attach":
        blocks = [parameters[each] for each in ("Al", "Ar", "A") if each in parameters]
        found = np.stack([block.T for block in blocks])
    else:
        found = parameters["pi" if name == "root" else name].T
    found = np.maximum(found.reshape(shape), 0.0)
    return found * words / max(float(found.sum()), 1e-300)
