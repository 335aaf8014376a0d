"""How much a run tries: the default run is for every change, the thorough one for every night (`.ci/nightly`).

Tests marked `slow` are left out of the default run, and properties are tried on a quarter of their examples. The
thorough run is `python -m pytest -m "slow or hypothesis" --hypothesis-profile thorough`.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings

# No deadlines: the machine may be busy. The same examples every time: a failure can be repeated.
settings.register_profile("thorough", deadline=None, derandomize=True)
settings.register_profile("default run", settings.get_profile("thorough"), max_examples=25)


def examples(number: int, **options: Any) -> settings:
    """Return settings for so many examples in the thorough run, and for a quarter of them in the default one."""
    share = settings().max_examples / settings.get_profile("thorough").max_examples
    return settings(max_examples=max(round(number * share), 1), **options)


def slow(*values: Any) -> Any:
    """Return parameters of a test for the slow run alone."""
    return pytest.param(*values, marks=pytest.mark.slow)
