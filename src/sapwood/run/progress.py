"""Progress: one small object that long work reports to.

A learner or a reader calls `report.step()`; whether that draws a bar in a terminal or does nothing
is the caller's choice. Bars go to standard error, show rate and time left, and appear only after a
second, so that quick work stays silent. In a notebook they are the browser's, below the cell.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Iterator
from typing import Any, Protocol, TypeVar

from sapwood.run.notebook import in_notebook

T = TypeVar("T")


class Progress(Protocol):
    """What long work needs to say of itself."""

    def stage(self, name: str, total: int | None = None, unit: str = "it") -> contextlib.AbstractContextManager[Stage]:
        """Begin a stage of known or unknown length; use it in a `with` block."""
        ...

    def note(self, message: str) -> None:
        """Say something worth knowing (a warning in words, a figure)."""
        ...


class Stage(Protocol):
    """One stage of the work."""

    def step(self, amount: int = 1, **figures: object) -> None:
        """Advance by `amount`; `figures` (likelihood, F1) are shown beside the bar."""
        ...


class _SilentStage:
    def step(self, amount: int = 1, **figures: object) -> None:
        """Do nothing."""


class Silent:
    """Reports nothing: the default of every library call."""

    @contextlib.contextmanager
    def stage(self, name: str, total: int | None = None, unit: str = "it") -> Iterator[Stage]:  # noqa: ARG002
        """Begin a stage that is not shown."""
        yield _SilentStage()

    def note(self, message: str) -> None:
        """Drop the message."""


class _BarStage:
    def __init__(self, bar: Any) -> None:
        self.bar = bar

    def step(self, amount: int = 1, **figures: object) -> None:
        """Advance the bar."""
        if figures:
            self.bar.set_postfix(figures, refresh=False)
        self.bar.update(amount)


class Bars:
    """Progress bars on standard error, only if that is a terminal, or in a notebook; notes are printed either way."""

    @contextlib.contextmanager
    def stage(self, name: str, total: int | None = None, unit: str = "it") -> Iterator[Stage]:
        """Begin a stage with a bar."""
        # With a total unknown until the end tqdm shows count, rate and time spent.
        options: dict[str, Any] = {"total": total, "desc": name, "unit": f" {unit}", "delay": 1, "leave": False}
        if in_notebook():
            bars: Any = _notebook_bars()
        else:
            from tqdm import tqdm as bars

            options |= {"file": sys.stderr, "disable": not sys.stderr.isatty()}
        with bars(**options) as bar:
            yield _BarStage(bar)

    def note(self, message: str) -> None:
        """Print the message on standard error."""
        from tqdm import tqdm

        tqdm.write(message, file=sys.stderr)


class WithoutNotes:
    """Shows the stages of the work and drops its messages."""

    def __init__(self, progress: Progress) -> None:
        self.stage = progress.stage

    def note(self, message: str) -> None:
        """Drop the message."""


def _notebook_bars() -> Any:
    """Return tqdm's bars for notebooks or, without the package ipywidgets, its plain ones."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there is no ipywidgets
        from tqdm.auto import tqdm
    return tqdm


def track(items: Iterable[T], progress: Progress, name: str, total: int | None = None, unit: str = "it") -> Iterator[T]:
    """Yield the items and report each one."""
    with progress.stage(name, total, unit) as stage:
        for item in items:
            yield item
            stage.step()
