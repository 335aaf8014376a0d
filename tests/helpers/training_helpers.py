"""What tests of training runs share: a log in memory, interruptions, and grammars with states that matter."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.grammar.validate import inner_sums
from sapwood.runtime.progress import Silent
from sapwood.testing.grammars import random_grammar


class Lines:
    """A log in memory, which can fail at its n-th line."""

    def __init__(self, fail_at: int = -1) -> None:
        self.lines: list[dict[str, Any]] = []
        self.fail_at = fail_at

    def write(self, event: str, *, step: int, seconds: float | None = None, **figures: object) -> None:
        if len(self.lines) == self.fail_at:
            raise Interrupted
        self.lines.append({"event": event, "step": step, **figures})

    def of(self, event: str) -> list[dict[str, Any]]:
        """Return the lines of one kind."""
        return [line for line in self.lines if line["event"] == event]

    def likelihoods(self) -> list[float]:
        """Return the log-likelihoods of the iterations."""
        return [line["log_likelihood"] for line in self.of("iteration")]


class Interrupted(Exception):
    """Somebody pulled the plug."""


class PullThePlug:
    """A progress that fails at its n-th step: the first is before any operation, then there is one behind each."""

    def __init__(self, at: int) -> None:
        self.at, self.steps = at, 0

    @contextlib.contextmanager
    def stage(self, name: str, total: int | None = None, unit: str = "it") -> Iterator[PullThePlug]:
        yield self

    def step(self, amount: float = 1, **figures: object) -> None:
        if self.steps == self.at:
            raise Interrupted
        self.steps += 1

    def note(self, message: str) -> None:
        """Drop the message."""


class Notes(Silent):
    """Progress of which the notes are kept."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def note(self, message: str) -> None:
        """Keep the message."""
        self.texts.append(message)


def sharpened(grammar: TensorGrammar, power: float) -> TensorGrammar:
    """Return the grammar with all weights raised to a power: what differs a little now differs much."""
    emissions = replace(grammar.emissions, values=grammar.emissions.values**power)
    sizes = emissions.states[emissions.symbol]
    begins = np.repeat(emissions.state_offsets[emissions.symbol] - emissions.value_offsets[:-1], sizes)
    totals = emissions.totals()[begins + np.arange(len(emissions.values))]
    changed = replace(
        grammar, tensors=grammar.tensors**power, emissions=replace(emissions, values=emissions.values / totals)
    )
    sums = inner_sums(changed)
    tensors = []
    for rule, (a, _, _) in enumerate(changed.rules):
        rows = sums[changed.state_offsets[a] : changed.state_offsets[a + 1]]
        tensors.append((changed.tensor(rule) / rows[:, None, None]).ravel())
    return replace(changed, tensors=np.concatenate(tensors)).validate()


def telling_grammar(seed: int) -> TensorGrammar:
    """Return a small random grammar with four states for each symbol that make a difference."""
    rng = np.random.default_rng(seed)
    return sharpened(random_grammar(rng, interminals=1, preterminals=2, words=8, states=(4, 4), density=0.4), 4)
