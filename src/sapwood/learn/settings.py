"""Settings of learners, each declared once: what it is, what it may be, and whether results depend on it.

A learner is a frozen dataclass whose fields are made by the functions below. From these declarations come the checks of
values, the options of `sapwood train`, the keys of its configuration files, and what checkpoints and models remember.

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
from sapwood.run.workers import Threads, Workers

Kind = Literal["integer", "number", "numbers", "choice", "other"]
_KEY = "sapwood.setting"


@dataclass(frozen=True)
class Setting:
    """What is known of a setting.

    Attributes
    ----------
    help
        A sentence or two.
    kind
        What its values are; `other` ones cannot be given on a command line.
    low, high
        The bounds of numbers, which `low_open` and `high_open` exclude.
    words
        Words that are values, too; of a `choice` the only ones.
    optional
        Whether None is a value.
    matters
        Whether the result depends on it: where the work is done does not.
    types
        What values of kind `other` are instances of.
    """

    help: str
    kind: Kind
    low: float = -math.inf
    high: float = math.inf
    low_open: bool = False
    high_open: bool = False
    words: tuple[str, ...] = ()
    optional: bool = False
    matters: bool = True
    types: tuple[type, ...] = ()

    def problem(self, value: object) -> str:
        """Return what is wrong with a value, nothing if it can be used."""
        if (value is None and self.optional) or (isinstance(value, str) and value in self.words):
            return ""
        if self.kind == "choice":
            return f"must be one of {', '.join(self.words)}, not {value!r}"
        if self.kind == "other":
            fits = not self.types or isinstance(value, self.types)
            return "" if fits else f"must be {' or '.join(one.__name__ for one in self.types)}, not {value!r}"
        if isinstance(value, Mapping):
            return next((f"of {name} {found}" for name, one in value.items() if (found := self.problem(one))), "")
        values = value if self.kind == "numbers" and isinstance(value, Sequence) else [value]
        for one in values:
            if isinstance(one, bool) or not isinstance(one, Real):
                return f"must be {' or '.join(['a number', *map(repr, self.words)])}, not {one!r}"
            if not self._within(float(one)):
                return f"{self._bounds()}, not {one}"
            if self.kind == "integer" and not float(one).is_integer():
                return f"must be a whole number, not {one}"
        return "" if len(values) else "must have at least one value"

    def _within(self, value: float) -> bool:
        above = value > self.low if self.low_open else value >= self.low
        return above and (value < self.high if self.high_open or self.high == math.inf else value <= self.high)

    def _bounds(self) -> str:
        if self.low_open and self.high < math.inf:
            return f"must lie between {self.low:g} and {self.high:g}"
        if self.high < math.inf:
            return f"must be at least {self.low:g} and {'below' if self.high_open else 'at most'} {self.high:g}"
        return "must be 0 or more" if self.low == 0 else f"must be at least {self.low:g}"


def integer(
    default: int | None, help: str, *, low: int = 0, words: tuple[str, ...] = (), optional: bool = False
) -> Any:
    """Declare a whole number, or None if that is `optional`."""
    return _declare(default, Setting(help, "integer", low, words=words, optional=optional))


def number(default: float, help: str, *, low: float = 0.0, above: float | None = None, below: float = math.inf) -> Any:
    """Declare a number of at least `low`, or `above` that, and `below` another."""
    opened = above is not None
    return _declare(default, Setting(help, "number", low if above is None else above, below, opened, True))


def numbers(default: tuple[float, ...], help: str, *, low: float = 0.0) -> Any:
    """Declare a number, or several of which the best is found."""
    return _declare(default, Setting(help, "numbers", low))


def choice(default: str, help: str, words: Sequence[str]) -> Any:
    """Declare one of several words."""
    return _declare(default, Setting(help, "choice", words=tuple(words)))


def other(default: Any, help: str, *types: type) -> Any:
    """Declare something that no option can give: an instance of one of these types, or None if that is the default."""
    return _declare(default, Setting(help, "other", optional=default is None, types=types))


def place(default: Any, help: str, *types: type) -> Any:
    """Declare something that says where or how fast the work is done, and does not change the result."""
    setting = Setting(help, "other", optional=default is None, matters=False, types=types)
    return field(default=default, compare=False, repr=False, metadata={_KEY: setting})


def _declare(default: Any, setting: Setting) -> Any:
    return field(default=default, metadata={_KEY: setting})


def declared(learner: object) -> dict[str, Setting]:
    """Return the settings of a learner, or of its class, by name."""
    return {one.name: one.metadata[_KEY] for one in fields(learner) if _KEY in one.metadata}  # type: ignore[arg-type]


def defaults(cls: type) -> dict[str, Any]:
    """Return the default of each setting of a learner's class."""
    return {one.name: one.default for one in fields(cls) if one.default is not MISSING}


def check(learner: object) -> None:
    """Raise `UsageError` for a value that a setting cannot have."""
    for name, setting in declared(learner).items():
        if problem := setting.problem(getattr(learner, name)):
            raise UsageError(f"{name} {problem}")


def as_json(value: Any) -> Any:
    """Return a setting's value as JSON has it: functions by their names, grammars by their digests."""
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
class Declared:
    """A way of learning that is its settings, and nothing else.

    Parameters
    ----------
    threads
        How many threads of this process work on the data.
    workers
        Where passes over the data run instead: a `sapwood.run.cluster.Cluster`. Results depend on neither.
    """

    threads: int = place(1, "How many threads work on the data.", int)
    workers: Workers | None = place(None, "Where passes over the data run instead of threads.", Workers)

    def __post_init__(self) -> None:
        check(self)
        if self.threads < 1:
            raise UsageError(f"threads must be at least 1, not {self.threads}")

    @property
    def called(self) -> str:
        """The name by which people know it."""
        raise NotImplementedError

    @property
    def where(self) -> Workers:
        """Where passes over the data run."""
        return self.workers if self.workers is not None else Threads(self.threads)

    def __repr__(self) -> str:
        """Show the settings that are not the usual ones."""
        own = [
            f"{one.name}={getattr(self, one.name)!r}"
            for one in fields(self)
            if one.repr and getattr(self, one.name) != one.default
        ]
        return f"{type(self).__name__}({', '.join(own)})"

    def settings(self) -> dict[str, Any]:
        """Return what the result depends on beside the data, as JSON values."""
        return {name: as_json(getattr(self, name)) for name, setting in declared(self).items() if setting.matters}

    def replace(self, **settings: Any) -> Self:
        """Return the same with other settings."""
        unknown = sorted(set(settings) - set(declared(self)))
        if unknown:
            raise UsageError(f"{self.called} has no setting {unknown[0]!r}; it has {', '.join(sorted(declared(self)))}")
        return replace(self, **settings)
