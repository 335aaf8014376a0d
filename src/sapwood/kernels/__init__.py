"""The compiled inner loops, written in C++ (`src/native`), for the processor at hand.

`_plain` runs everywhere; `_avx2` is the same source compiled for x86 processors with AVX2 and FMA instructions
(x86-64-v3). A wheel has both, and the better one that the processor runs is taken; an installation from source has
only the one for the machine that compiled it. The environment variable `SAPWOOD_KERNELS` (`plain`, `avx2`, or
`checked`, whose kernels check every index) chooses one of those that were built; results can then differ by rounding.

Kernels are used as `from sapwood.kernels import name`; the stub `__init__.pyi` has their types. Those that parse and
train raise ValueError if shapes of arrays do not fit together. They trust what is in the arrays: the caller has checked
it.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from types import ModuleType
from typing import Any

_ALL = "`pip install . -Ccmake.define.SAPWOOD_VARIANTS=all`"


def _is_built(name: str) -> bool:
    return importlib.util.find_spec(f"sapwood.kernels._{name}") is not None


def _choose(wanted: str | None) -> str:
    """Return the variant to load: `wanted`, or else the best one that was built and that the processor runs."""
    built = [name for name in ("avx2", "plain", "checked") if _is_built(name)]
    if not built or not _is_built("processor"):
        raise ImportError(
            "the compiled part of sapwood is not there: install the package (`pip install .`, or `pip install -e .` to "
            "work on it) instead of importing its source"
        )
    if wanted and wanted not in built:
        raise ImportError(
            f"SAPWOOD_KERNELS={wanted}, but the variants that were built are {', '.join(built)}: an installation from "
            f"source has only the one for its machine, and {_ALL} builds the others"
        )
    runs_avx2 = importlib.import_module("sapwood.kernels._processor").has_x86_64_v3()
    for name in [wanted] if wanted else ["avx2", "plain"]:
        if name in built and (name != "avx2" or runs_avx2):
            return name
    raise ImportError(
        "the compiled part of sapwood is for processors with AVX2 and FMA instructions (x86-64-v3), which this one "
        f"does not have: install sapwood on this machine, or build all variants ({_ALL})"
    )


variant = _choose(os.environ.get("SAPWOOD_KERNELS"))
_module: ModuleType = importlib.import_module(f"sapwood.kernels._{variant}")


def __getattr__(name: str) -> Any:
    try:
        return getattr(_module, name)
    except AttributeError:
        raise AttributeError(f"no kernel {name!r}; if the source has one, build again: `pip install -e .`") from None
