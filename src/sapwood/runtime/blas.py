"""BLAS threads: limit matrix products to one thread."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def one_blas_thread() -> contextlib.AbstractContextManager[object]:
    """Limit matrix products to one thread each: more would compete with our own threads.

    Results of the same product can also differ in the last bit with the number of threads.
    """
    from threadpoolctl import threadpool_limits

    return threadpool_limits(limits=1, user_api="blas")


def with_one_blas_thread(call: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function whose result must be bit-identical for any number of BLAS threads."""

    @wraps(call)
    def limited(*arguments: P.args, **settings: P.kwargs) -> R:
        with one_blas_thread():
            return call(*arguments, **settings)

    return limited
