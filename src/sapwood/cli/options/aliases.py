"""Former names of options and of their values: still accepted, but shown in no help."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

# The argument after which there are no more options.
_END = "--"


@dataclass(frozen=True)
class Aliases:
    """Former names of the options of a command.

    Parameters
    ----------
    options
        Present names by former ones, without dashes. `--no-NAME` follows `--NAME`.
    values
        Present values by former ones, for each option (by its present name).

    Examples
    --------
    >>> aliases = Aliases({"layer": "crf"}, {"text-use": {"read": "self-training"}})
    >>> aliases.rewrite(["a.mrg", "--no-layer", "--text-use", "read", "-o", "m"])
    ['a.mrg', '--no-crf', '--text-use', 'self-training', '-o', 'm']
    """

    options: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def __or__(self, other: Aliases) -> Aliases:
        """Return the aliases of both."""
        return Aliases({**self.options, **other.options}, {**self.values, **other.values})

    def rewrite(self, arguments: Sequence[str]) -> list[str]:
        """Return the arguments of a command line with present names and values."""
        found: list[str] = []
        last = None
        for place, argument in enumerate(arguments):
            if argument == _END:
                return [*found, *arguments[place:]]
            if last is not None:
                found.append(self.value(last, argument))
                last = None
            elif argument.startswith("--"):
                name, equals, value = argument[2:].partition("=")
                name = self._present(name)
                found.append(f"--{name}{equals}{self.value(name, value)}")
                last = None if equals or name not in self.values else name
            else:
                found.append(argument)
        return found

    def value(self, name: str, value: str) -> str:
        """Return the present value of an option."""
        return self.values.get(name, {}).get(value, value)

    def setting(self, name: str) -> str:
        """Return the present name of a setting, with underscores, as in `--set NAME=VALUE`."""
        return self._present(name.replace("_", "-")).replace("-", "_")

    def _present(self, name: str) -> str:
        if name.startswith("no-") and name[3:] in self.options:
            return f"no-{self.options[name[3:]]}"
        return self.options.get(name, name)


# Settings of learners.
LEARNERS = Aliases(
    {
        "combinations": "feature-triples",
        "every": "eval-every",
        "fading": "smoothing-half-count",
        "least": "min-feature-count",
        "rare": "rare-threshold",
        "settle": "smoothing-iterations",
        "strength": "rule-prior",
        "support": "min-support",
    },
    {"unaries": {"steps": "explicit"}},
)
INDUCE = Aliases({"hold": "warmup", "release": "warmup-decay"}, {"model": {"l-pcfg": "tensor-pcfg"}})
LM_TRAIN = Aliases({"batches": "stepwise-batches", "kappa": "anchor-shrinkage", "step-power": "stepwise-power"})
MINIMISE = Aliases(
    {
        "by": "method",
        "least": "min-probability",
        "open": "cell-recall",
        "weigh": "weighting",
        "work": "cost-of-states",
    }
)
MIN_COUNT = Aliases({"least": "min-count"})
IMPORT = Aliases({"least": "min-expected-count"})
PARSE = Aliases({"states": "show-states"})
