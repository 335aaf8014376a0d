"""Matrix products that keep to one thread."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def one_blas_thread() -> contextlib.AbstractContextManager[object]:
    """Keep matrix products to one thread each: with our own threads around them more would only be in the way.

    Results of the same product can differ in the last bit by the number of threads, too.
    """
    from threadpoolctl import threadpool_limits

    return threadpool_limits(limits=1, user_api="blas")


def with_one_blas_thread(call: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function that shall give the same bits however many threads matrix products could have."""

    @wraps(call)
    def limited(*arguments: P.args, **settings: P.kwargs) -> R:
        with one_blas_thread():
            return call(*arguments, **settings)

    return limited
