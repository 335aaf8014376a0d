"""Hyper-parameters, each declared once: its meaning, its valid values, and whether it affects results.

A learner or trainer is a frozen dataclass whose fields are made by the functions below. These declarations define the
validation of values, the options of `sapwood train`, `induce` and `lm train`, the keys of their configuration files,
and the settings stored in checkpoints and models.

>>> from dataclasses import dataclass
>>> @dataclass(frozen=True)
... class Steps:
...     steps: int = integer(3, "How many steps.", low=1)
>>> check(Steps(steps=0))
Traceback (most recent call last):
    ...
sapwood.errors.UsageError: steps must be at least 1, not 0
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from numbers import Real
from typing import Any, Literal, Self

from sapwood.errors import UsageError
from sapwood.runtime.config import are_usable
from sapwood.runtime.executor import Executor, Threads

# Bound of numbers: more than any setting can be, and fits into 64 bits.
_LARGEST = 1 << 63

Kind = Literal["integer", "number", "numbers", "choice", "other"]
_KEY = "sapwood.setting"


@dataclass(frozen=True)
class Param:
    """Declaration of a setting.

    Attributes
    ----------
    help
        A sentence or two.
    kind
        Kind of its values; `other` ones cannot be given on a command line.
    low, high
        Bounds of numbers, exclusive with `low_open` and `high_open`.
    options
        Words that are valid, too; for a `choice` the only valid ones.
    optional
        True if None is valid.
    affects_result
        True if the result depends on it, unlike on the number of workers.
    types
        Valid types of kind `other`.
    by_symbol
        True if a mapping from symbols to values is valid, too.
    """

    help: str
    kind: Kind
    low: float = -math.inf
    high: float = math.inf
    low_open: bool = False
    high_open: bool = False
    options: tuple[str, ...] = ()
    optional: bool = False
    affects_result: bool = True
    types: tuple[type, ...] = ()
    by_symbol: bool = False

    def problem(self, value: object) -> str:
        """Return the error in a value, or an empty string if it is valid."""
        if (value is None and self.optional) or (isinstance(value, str) and value in self.options):
            return ""
        if self.kind == "choice":
            return f"must be one of {', '.join(self.options)}, not {value!r}"
        if self.kind == "other":
            fits = not self.types or isinstance(value, self.types)
            return "" if fits else f"must be {' or '.join(one.__name__ for one in self.types)}, not {value!r}"
        if isinstance(value, Mapping) and self.by_symbol:
            return next((f"of {name} {found}" for name, one in value.items() if (found := self.problem(one))), "")
        values = value if self.kind == "numbers" and isinstance(value, Sequence) else [value]
        for one in values:
            if isinstance(one, bool) or not isinstance(one, Real):
                return f"must be {' or '.join(['a number', *map(repr, self.options)])}, not {one!r}"
            if not are_usable([one]):
                return "must be a finite number" + (" of at most 64 bits" if isinstance(one, int) else "")
            if not self._within(float(one)):
                return f"{self._bounds()}, not {one}"
            if self.kind == "integer" and not float(one).is_integer():
                return f"must be a whole number, not {one}"
        return "" if len(values) else "must have at least one value"

    def _within(self, value: float) -> bool:
        above = value > self.low if self.low_open else value >= self.low
        return above and (value < self.high if self.high_open or self.high == math.inf else value <= self.high)

    def _bounds(self) -> str:
        low = f"must be {'above' if self.low_open else 'at least'} {self.low:g}"
        if self.high < math.inf:
            if self.low_open and self.high_open:
                return f"must lie between {self.low:g} and {self.high:g}"
            return f"{low} and {'below' if self.high_open else 'at most'} {self.high:g}"
        return "must be 0 or more" if self.low == 0 and not self.low_open else low


def integer(
    default: int | None,
    help: str,
    *,
    low: int = 0,
    high: float = math.inf,
    options: tuple[str, ...] = (),
    optional: bool = False,
    by_symbol: bool = False,
) -> Any:
    """Declare an integer from `low` to `high`, or None if that is `optional`, or one for each symbol."""
    return _declare(default, Param(help, "integer", low, high, options=options, optional=optional, by_symbol=by_symbol))


def number(
    default: float,
    help: str,
    *,
    low: float = 0.0,
    above: float | None = None,
    high: float | None = None,
    below: float = math.inf,
) -> Any:
    """Declare a number of at least `low`, or `above` it, and at most `high`, or `below` it."""
    low, high_open = low if above is None else above, high is None
    return _declare(default, Param(help, "number", low, below if high is None else high, above is not None, high_open))


def numbers(default: tuple[float, ...], help: str, *, low: float = 0.0) -> Any:
    """Declare a number, or several of which the best is chosen."""
    return _declare(default, Param(help, "numbers", low))


def choice(default: str, help: str, options: Sequence[str]) -> Any:
    """Declare one of several words."""
    return _declare(default, Param(help, "choice", options=tuple(options)))


def opaque(default: Any, help: str, *types: type) -> Any:
    """Declare a value that no option can set: an instance of one of these types, or None if that is the default."""
    return _declare(default, Param(help, "other", optional=default is None, types=types))


def execution(default: Any, help: str, *types: type) -> Any:
    """Declare an execution setting, which does not affect the result."""
    setting = Param(help, "other", optional=default is None, affects_result=False, types=types)
    return field(default=default, compare=False, repr=False, metadata={_KEY: setting})


def _declare(default: Any, setting: Param) -> Any:
    return field(default=default, metadata={_KEY: setting})


def params_of(learner: object) -> dict[str, Param]:
    """Return the settings of a learner, or of its class, by name."""
    return {one.name: one.metadata[_KEY] for one in fields(learner) if _KEY in one.metadata}  # type: ignore[arg-type]


def defaults(cls: type) -> dict[str, Any]:
    """Return the default of each setting of a learner's class."""
    return {one.name: one.default for one in fields(cls) if one.default is not MISSING}


def check(learner: object) -> None:
    """Raise `UsageError` if a setting has an invalid value."""
    for name, setting in params_of(learner).items():
        if problem := setting.problem(getattr(learner, name)):
            raise UsageError(f"{name} {problem}")


def as_json(value: Any) -> Any:
    """Return a setting's value for JSON: functions by name, grammars by digest."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, Mapping):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [as_json(item) for item in value]
    if callable(digest := getattr(value, "digest", None)):
        return digest()
    if isinstance(name := getattr(value, "name", getattr(value, "__name__", None)), str):
        return name
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: as_json(getattr(value, one.name)) for one in fields(value)}
    return value.item() if hasattr(value, "item") else repr(value)


@dataclass(frozen=True, kw_only=True, repr=False)
class HasParams:
    """Base class of learners and trainers, which consist of their settings alone."""

    def __post_init__(self) -> None:
        check(self)

    @property
    def display_name(self) -> str:
        """Display name."""
        return type(self).__name__

    def __repr__(self) -> str:
        """Show the settings that differ from their defaults."""
        own = [
            f"{one.name}={getattr(self, one.name)!r}"
            for one in fields(self)
            if one.repr and getattr(self, one.name) != one.default
        ]
        return f"{type(self).__name__}({', '.join(own)})"

    def settings(self) -> dict[str, Any]:
        """Return everything besides the data that determines the result, as JSON values."""
        return {
            name: as_json(getattr(self, name)) for name, setting in params_of(self).items() if setting.affects_result
        }

    def replace(self, **settings: Any) -> Self:
        """Return a copy with other settings."""
        unknown = sorted(set(settings) - set(params_of(self)))
        if unknown:
            raise UsageError(
                f"{self.display_name} has no setting {unknown[0]!r}; it has {', '.join(sorted(params_of(self)))}"
            )
        return replace(self, **settings)


@dataclass(frozen=True, kw_only=True, repr=False)
class HasExecutor(HasParams):
    """Base class of those whose computations over the data run in threads or on a cluster.

    Parameters
    ----------
    threads
        Threads of this process.
    workers
        Executor that processes the data instead: a `sapwood.runtime.dask.executor.DaskCluster`. Results depend on
        neither.
    """

    threads: int = execution(1, "Number of threads.", int)
    workers: Executor | None = execution(None, "Executor of passes over the data, instead of threads.", Executor)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.threads < 1:
            raise UsageError(f"threads must be at least 1, not {self.threads}")

    @property
    def executor(self) -> Executor:
        """Executor for computations over the data."""
        return self.workers if self.workers is not None else Threads(self.threads)
