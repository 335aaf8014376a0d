"""A map that runs on several workers and yields in order."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
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


def map_in_order(
    call: Callable[[T], R],
    items: Iterable[T],
    *,
    threads: int = 1,
    executor: Executor | None = None,
    window: int | None = None,
) -> Iterator[R]:
    """Yield `call(item)` for each item, in order, so that sums do not depend on how many workers there are.

    Parameters
    ----------
    call, items
        The work; items are taken only as they are needed.
    threads
        Worker threads, if no executor is given; with 1 everything happens in the calling thread.
    executor
        Any `concurrent.futures.Executor`: processes, a cluster.
    window
        How many items may be under way at once (default: two for each thread; all, with an executor).
    """
    if executor is None and threads == 1:
        yield from map(call, items)
        return
    with contextlib.ExitStack() as stack:
        pool = executor if executor is not None else stack.enter_context(ThreadPoolExecutor(threads))
        limit = window if window is not None else (2 * threads if executor is None else None)
        waiting: deque[Future[R]] = deque()
        try:
            for item in items:
                waiting.append(pool.submit(call, item))
                if limit is not None and len(waiting) >= limit:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
