"""Work that requests ask for, done by a few threads, fairly and no longer than it may take.

A request is a *job*: something to prepare, which gives *steps* that do not depend on each other, and something to make
of their results. Threads take one step at a time, from one job after the other, so that a job of a thousand sentences
does not hold one of a single sentence; and no job has all threads at once, if there are several. A job whose client
has gone away is taken from the queue at once; steps that are under way see to their own limits (`Job.remaining`).
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from sapwood.errors import SapwoodError


class Busy(SapwoodError):
    """More work is waiting than may, or a request has waited for as long as it may take."""


class Unwanted(Exception):
    """Nobody waits for the result of a job any more."""


@dataclass(frozen=True)
class Plan:
    """The steps of a job, and what becomes of their results."""

    steps: Sequence[Callable[[], Any]]
    finish: Callable[[list[Any]], Any]


class Job:
    """One request's work; see the module's text.

    Parameters
    ----------
    prepare
        Returns the plan. It runs on a worker, too.
    seconds
        How long all of it may wait and take.
    done
        Called on a worker with result and error, one of them None.
    """

    def __init__(
        self, prepare: Callable[[Job], Plan], seconds: float, done: Callable[[Any, BaseException | None], None]
    ) -> None:
        self.deadline = time.monotonic() + seconds
        self.cancelled = False
        self._prepare, self._done = prepare, done
        self._results: list[Any] = []
        self._unfinished = 0
        self._finish: Callable[[list[Any]], Any] = lambda results: results
        self._lock = threading.Lock()
        # What `Crew` keep account of, under their lock.
        self.steps: deque[Callable[[], None]] = deque([self._begin])
        self.running, self.queued = 0, False

    @property
    def remaining(self) -> float:
        """Seconds that are left; never quite none, for those who divide what is left among steps."""
        return max(self.deadline - time.monotonic(), 1e-3)

    def perform(self, step: Callable[[], None]) -> None:
        """Do a step; what goes wrong belongs to the request."""
        try:
            step()
        except BaseException as error:
            self._hand_over(None, error)

    def _begin(self) -> None:
        if self.deadline <= time.monotonic():
            raise Busy("the server is busy: the request waited for as long as it may take; try again later")
        plan = self._prepare(self)
        self._finish, self._unfinished = plan.finish, len(plan.steps)
        self._results = [None] * len(plan.steps)
        if not plan.steps:
            self._hand_over(plan.finish([]), None)
        elif len(plan.steps) == 1:
            self._step(0, plan.steps[0])
        else:
            self.steps.extend(partial(self._step, number, step) for number, step in enumerate(plan.steps))

    def _step(self, number: int, step: Callable[[], Any]) -> None:
        self._results[number] = step()
        with self._lock:
            self._unfinished -= 1
            last = not self._unfinished
        if last:
            self._hand_over(self._finish(self._results), None)

    def _hand_over(self, result: Any, error: BaseException | None) -> None:
        with self._lock:
            if self.cancelled:
                return
            self.cancelled = True  # nothing more is to be done
        self._done(result, error)


class Crew:
    """Threads that do the work of jobs.

    Parameters
    ----------
    threads
        How many.
    queue
        Jobs that may wait or be under way at a time; more are refused (`Busy`).
    """

    def __init__(self, threads: int, queue: int) -> None:
        self._most, self._width = queue, max(1, threads - 1)
        self._ready: deque[Job] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self.jobs = 0
        self._threads = [
            threading.Thread(target=self._work, name=f"sapwood-worker-{number}", daemon=True)
            for number in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    async def run(
        self, prepare: Callable[[Job], Plan], seconds: float, until: asyncio.Future[Any] | None = None
    ) -> Any:
        """Do a job and return its result; cancelling this cancels the job.

        So does `until` when it is done first: then nobody wants the result (`Unwanted`).
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()

        def settle(result: Any, error: BaseException | None) -> None:
            if not future.done():
                if error is None:
                    future.set_result(result)
                else:
                    future.set_exception(error)

        def done(result: Any, error: BaseException | None) -> None:
            loop.call_soon_threadsafe(settle, result, error)

        job = Job(prepare, seconds, done)
        self.submit(job)
        if until is not None:
            until.add_done_callback(lambda _: settle(None, Unwanted("nobody waits for the result")))
        try:
            return await future
        finally:
            self.cancel(job)

    def submit(self, job: Job) -> None:
        """Put a job behind the others; raises `Busy` if there are too many."""
        with self._changed:
            if self.jobs >= self._most or self._closed:
                raise Busy("the server is busy: too many requests are waiting; try again later")
            self.jobs += 1
            self._enqueue(job)

    def cancel(self, job: Job) -> None:
        """Take no more steps of a job."""
        with self._changed:
            job.cancelled = True
            if job.queued:
                self._ready.remove(job)
                job.queued = False
                if not job.running:
                    self.jobs -= 1

    def close(self) -> None:
        """Let the threads end after the steps that they are doing."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(timeout=5.0)

    def _enqueue(self, job: Job) -> None:
        self._ready.append(job)
        job.queued = True
        self._changed.notify()

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._ready and not self._closed:
                    self._changed.wait()
                if self._closed:
                    return
                job = self._ready.popleft()
                job.queued = False
                step = job.steps.popleft()
                job.running += 1
                if job.steps and job.running < self._width:
                    self._enqueue(job)
            job.perform(step)
            with self._changed:
                job.running -= 1
                if job.queued:
                    continue
                if job.steps and not job.cancelled:
                    self._enqueue(job)
                elif not job.running:
                    self.jobs -= 1
