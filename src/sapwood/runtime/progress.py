"""Progress reporting of long tasks.

A learner or a reader calls `report.step()`; the caller decides whether that draws a bar in a terminal or does nothing.
Bars go to standard error, show rate and time left, and appear only after a second, so that quick tasks stay silent. In
a notebook they are shown below the cell.
"""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Iterable, Iterator
from numbers import Integral, Real
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
# Bars with and without a known end; `counted`, `whole` and `speed` are rounded.
_KNOWN_TOTAL = "{desc}: {percentage:3.0f}%|{bar}| {counted}/{whole} [{elapsed}<{remaining}, {speed}{postfix}]"
_UNKNOWN_TOTAL = "{desc}: {counted}{unit} [{elapsed}, {speed}{postfix}]"


class Progress(Protocol):
    """Progress reporter of a long task."""

    def stage(self, name: str, total: int | None = None, unit: str = "it") -> contextlib.AbstractContextManager[Stage]:
        """Begin a stage of known or unknown length; use it in a `with` block."""
        ...

    def note(self, message: str) -> None:
        """Report a message (a warning, a figure)."""
        ...


class Stage(Protocol):
    """One stage of the work."""

    def step(self, amount: int = 1, **figures: object) -> None:
        """Advance by `amount`; `figures` (likelihood, F1) are shown next to the bar."""
        ...


class _SilentStage:
    def step(self, amount: int = 1, **figures: object) -> None:
        """Do nothing."""


class Silent:
    """Reporter that discards everything: the default of every library call."""

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
            self.bar.set_postfix_str(
                ", ".join(f"{name}={rounded(value)}" for name, value in figures.items()), refresh=False
            )
        self.bar.update(amount)


class Bars:
    """Progress bars on standard error, only if that is a terminal, or in a notebook; notes are printed either way."""

    @contextlib.contextmanager
    def stage(self, name: str, total: int | None = None, unit: str = "it") -> Iterator[Stage]:
        """Begin a stage with a bar."""
        # If the total is unknown, tqdm shows count, rate and elapsed time.
        options: dict[str, Any] = {"total": total, "desc": name, "unit": f" {unit}", "delay": 1, "leave": False}
        if in_notebook():
            bars: Any = _notebook_bars()
        else:
            from tqdm import tqdm as bars

            options |= {"file": sys.stderr, "disable": not sys.stderr.isatty()}
        options["bar_format"] = _KNOWN_TOTAL if total is not None else _UNKNOWN_TOTAL
        with _with_rounded_numbers(bars)(**options) as bar:
            yield _BarStage(bar)

    def note(self, message: str) -> None:
        """Print the message on standard error."""
        from tqdm import tqdm

        tqdm.write(message, file=sys.stderr)


class WithoutNotes:
    """Reporter that shows stages and drops messages."""

    def __init__(self, progress: Progress) -> None:
        self.stage = progress.stage

    def note(self, message: str) -> None:
        """Drop the message."""


def rounded(value: object) -> str:
    """Return a figure for display: with separators of thousands, and few decimals.

    >>> rounded(1234567), rounded(-20512.123456), rounded(86.5234), rounded(0.00012345), rounded("x")
    ('1,234,567', '-20,512', '86.52', '0.00012', 'x')
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        return str(value)
    number = float(value)
    if not math.isfinite(number) or isinstance(value, Integral) or number == round(number):
        return f"{value:,}" if isinstance(value, Integral) else f"{number:,.0f}"
    if abs(number) >= 1000:
        return f"{number:,.0f}"
    return f"{number:.2f}" if abs(number) >= 0.1 else f"{number:.2g}"


def _with_rounded_numbers(bars: Any) -> Any:
    """Return a class of bars of tqdm that shows counts and rates rounded."""

    class RoundedBars(bars):  # type: ignore[misc]
        @property
        def format_dict(self) -> dict[str, Any]:
            values = super().format_dict
            done = values["n"] - values.get("initial", 0)
            rate = values.get("rate") or (done / values["elapsed"] if values["elapsed"] else None)
            unit = values["unit"].strip()
            speed = "?" if not rate else f"{rounded(rate)} {unit}/s" if rate >= 1 else f"{rounded(1 / rate)} s per step"
            whole = "?" if values["total"] is None else _count(values["total"])
            return {**values, "counted": _count(values["n"]), "whole": whole, "speed": speed}

    return RoundedBars


def _count(number: float) -> str:
    return f"{number:,.0f}" if float(number).is_integer() else f"{number:,.1f}"


def _notebook_bars() -> Any:
    """Return tqdm's notebook bars or, without the package ipywidgets, its plain ones."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about missing ipywidgets
        from tqdm.auto import tqdm
    return tqdm


def track(items: Iterable[T], progress: Progress, name: str, total: int | None = None, unit: str = "it") -> Iterator[T]:
    """Yield the items and report each one."""
    with progress.stage(name, total, unit) as stage:
        for item in items:
            yield item
            stage.step()


def in_notebook() -> bool:
    """True in the kernel of a Jupyter notebook, where output is shown in a browser."""
    module = sys.modules.get("IPython")
    shell = None if module is None else module.get_ipython()
    return shell is not None and "IPKernelApp" in shell.config
