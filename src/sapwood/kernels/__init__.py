"""The compiled inner loops, written in C++ (`src/native`), for the processor at hand.

`_plain` runs everywhere; `_avx2` is the same source compiled for x86 processors with AVX2 and FMA instructions, and is
taken where they are. The environment variable `SAPWOOD_KERNELS` (`plain`, `avx2`, or `checked`, whose kernels check
every index and are only there if they were built) chooses another; results can then differ by rounding.

Kernels are used as `from sapwood.kernels import name`. They trust their arguments: whoever calls one has checked them.
"""

from __future__ import annotations

import importlib
import os
from types import ModuleType
from typing import Any


def _load(name: str) -> ModuleType:
    try:
        return importlib.import_module(f"sapwood.kernels._{name}")
    except ModuleNotFoundError as error:
        raise ImportError(
            f"the compiled part of sapwood ({name}) is not there: install the package (`pip install .`, or "
            "`pip install -e .` to work on it) instead of importing its source"
        ) from error


def _choose() -> ModuleType:
    wanted = os.environ.get("SAPWOOD_KERNELS")
    if wanted:
        return _load(wanted)
    plain = _load("plain")
    return _load("avx2") if plain.has_avx2() else plain


_module = _choose()
variant = _module.__name__.rpartition("_")[2]


def __getattr__(name: str) -> Any:
    try:
        return getattr(_module, name)
    except AttributeError:
        raise AttributeError(f"no kernel {name!r}; if the source has one, build again: `pip install -e .`") from None
