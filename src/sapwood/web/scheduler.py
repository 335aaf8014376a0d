"""Worker threads for requests: fair scheduling with time limits.

A request is a *job*: a preparation that yields independent *steps*, and a function that combines their results.
Threads take one step at a time, of the client that has used the least time, round-robin over its jobs, so that neither
a client of a hundred requests nor a job of a thousand sentences delays a single sentence of somebody else; and no job
occupies all threads, if there are several. (This is start-time fair queueing, Goyal, Vin and Cheng 1996: the clock of
a client who has been away starts with that of the last one who was served, so that nobody can save time up.) If the
queue is full, the client with the most jobs loses one to a client with fewer. A job whose client has disconnected is
removed from the queue at once; running steps enforce their own limits (`RequestJob.remaining`).
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from sapwood.errors import SapwoodError, TimedOut

# Number of clients whose use of time is remembered when they have no jobs.
_MOST_KNOWN = 10_000


class Busy(SapwoodError):
    """The queue is full, or a request has spent its time limit waiting."""


class ClientGone(Exception):
    """The client has gone, and with it the need for the result of a job."""


@dataclass(frozen=True)
class Plan:
    """The steps of a job, and the function that combines their results."""

    steps: Sequence[Callable[[], Any]]
    finish: Callable[[list[Any]], Any]


class RequestJob:
    """The work of one request; see the module docstring.

    Parameters
    ----------
    prepare
        Returns the plan; also runs on a worker.
    seconds
        Time limit of the whole job, including waiting.
    done
        Called on a worker with result and error, one of which is None.
    client
        Address of the client.
    """

    def __init__(
        self,
        prepare: Callable[[RequestJob], Plan],
        seconds: float,
        done: Callable[[Any, BaseException | None], None],
        client: str = "",
    ) -> None:
        self.client = client
        self.deadline = time.monotonic() + seconds
        self.cancelled = False
        self._prepare, self._done = prepare, done
        self._results: list[Any] = []
        self._unfinished = 0
        self._finish: Callable[[list[Any]], Any] = lambda results: results
        self._lock = threading.Lock()
        # State managed by `WorkerPool`, under its lock.
        self.steps: deque[Callable[[], None]] = deque([self._begin])
        self.running, self.queued, self.begun = 0, False, False

    @property
    def remaining(self) -> float:
        """Remaining seconds, always positive, so that they can be divided among steps."""
        return max(self.deadline - time.monotonic(), 1e-3)

    @property
    def expired(self) -> bool:
        """Whether the time limit has passed."""
        return time.monotonic() >= self.deadline

    def check_time(self) -> None:
        """Raise `TimedOut` if the time limit has passed."""
        if self.expired:
            raise TimedOut("the request takes longer than its time limit; send it in parts")

    def perform(self, step: Callable[[], None]) -> None:
        """Run a step; its errors are those of the request."""
        try:
            step()
        except BaseException as error:
            self.fail(error)

    def fail(self, error: BaseException) -> None:
        """End the job with an error, unless it has ended."""
        self._hand_over(None, error)

    def _begin(self) -> None:
        if self.expired:
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
            self.cancelled = True  # no further steps
        self._done(result, error)


class WorkerPool:
    """A pool of threads that run jobs.

    Parameters
    ----------
    threads
        Number of threads.
    queue
        Maximum number of waiting and running jobs; further ones are refused (`Busy`).
    note
        Called with the number of jobs when it changes.
    """

    def __init__(self, threads: int, queue: int, note: Callable[[int], None] = lambda jobs: None) -> None:  # noqa: ARG005
        self._note = note
        self._most, self._width = queue, max(1, threads - 1)
        # Jobs with steps to run, by client; of those who have used as much time, the first is the next to be served.
        self._ready: dict[str, deque[RequestJob]] = {}
        self._jobs_of: Counter[str] = Counter()
        # Seconds that each client has used, on a clock that is never behind that of the last client who was served.
        self._used: dict[str, float] = {}
        self._clock = 0.0
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
        self,
        prepare: Callable[[RequestJob], Plan],
        seconds: float,
        until: asyncio.Future[Any] | None = None,
        client: str = "",
    ) -> Any:
        """Run a job of a client and return its result; cancelling this cancels the job.

        If `until` is done first, the job is cancelled, too (`ClientGone`).
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

        job = RequestJob(prepare, seconds, done, client)
        self.submit(job)

        def leave(_: object) -> None:
            settle(None, ClientGone("nobody waits for the result"))

        if until is not None:
            until.add_done_callback(leave)
        try:
            return await future
        finally:
            if until is not None:
                until.remove_done_callback(leave)
            self.cancel(job)

    def submit(self, job: RequestJob) -> None:
        """Queue a job; raises `Busy` if there are too many."""
        too_many = Busy("the server is busy: too many requests are waiting; try again later")
        displaced = None
        with self._changed:
            if self.jobs >= self._most and not self._closed:
                displaced = self._displaced_by(job)
            if (self.jobs >= self._most and displaced is None) or self._closed:
                raise too_many
            if displaced is not None:
                self._dequeue(displaced)
            self.jobs += 1
            self._note(self.jobs)
            self._jobs_of[job.client] += 1
            self._used[job.client] = max(self._used.get(job.client, 0.0), self._clock)
            self._enqueue(job)
        if displaced is not None:
            displaced.fail(too_many)

    def _displaced_by(self, job: RequestJob) -> RequestJob | None:
        """Return the latest job that has not begun of the client with the most jobs, if `job`'s client has fewer."""
        waiting = [client for client, jobs in self._ready.items() if not all(one.begun for one in jobs)]
        most = max(waiting, key=self._jobs_of.__getitem__, default=job.client)
        if self._jobs_of[most] <= self._jobs_of[job.client] + 1:
            return None
        return next(one for one in reversed(self._ready[most]) if not one.begun)

    def cancel(self, job: RequestJob) -> None:
        """Run no further steps of a job."""
        with self._changed:
            job.cancelled = True
            if job.queued:
                self._dequeue(job)

    def close(self) -> None:
        """Stop the threads after their current steps."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(timeout=5.0)

    def _enqueue(self, job: RequestJob) -> None:
        self._ready.setdefault(job.client, deque()).append(job)
        job.queued = True
        self._changed.notify()

    def _dequeue(self, job: RequestJob) -> None:
        self._ready[job.client].remove(job)
        if not self._ready[job.client]:
            del self._ready[job.client]
        job.queued = False
        if not job.running:
            self._forget(job)

    def _next(self) -> RequestJob:
        """Take the next job of the next client, who goes to the end of the queue."""
        client = min(self._ready, key=self._used.__getitem__)
        self._clock = max(self._clock, self._used[client])
        jobs = self._ready.pop(client)
        job = jobs.popleft()
        if jobs:
            self._ready[client] = jobs
        job.queued, job.begun = False, True
        return job

    def _forget(self, job: RequestJob) -> None:
        self.jobs -= 1
        self._note(self.jobs)
        self._jobs_of[job.client] -= 1
        if not self._jobs_of[job.client]:
            del self._jobs_of[job.client]
            if len(self._used) > _MOST_KNOWN:
                self._used = {client: self._used[client] for client in self._jobs_of}

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._ready and not self._closed:
                    self._changed.wait()
                if self._closed:
                    return
                job = self._next()
                step = job.steps.popleft()
                job.running += 1
                if job.steps and job.running < self._width:
                    self._enqueue(job)
            begun = time.thread_time()
            job.perform(step)
            with self._changed:
                self._used[job.client] += time.thread_time() - begun
                job.running -= 1
                if job.queued:
                    continue
                if job.steps and not job.cancelled:
                    self._enqueue(job)
                elif not job.running:
                    self._forget(job)
