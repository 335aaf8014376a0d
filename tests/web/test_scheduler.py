"""Work is shared fairly, bounded, and dropped when nobody waits for it."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from sapwood.web.scheduler import Busy, ClientGone, Plan, RequestJob, WorkerPool


@pytest.fixture
def workers():
    made = []

    def make(threads=2, queue=10):
        made.append(WorkerPool(threads, queue))
        return made[-1]

    yield make
    for one in made:
        one.close()


def settled(workers: WorkerPool) -> bool:
    """Whether all jobs are off the books, soon."""
    end = time.monotonic() + 5
    while workers.jobs and time.monotonic() < end:
        time.sleep(0.005)
    return not workers.jobs


def squares(count: int):
    return lambda job: Plan([lambda n=n: n * n for n in range(count)], lambda results: results)


@pytest.mark.parametrize("count", [0, 1, 2, 50])
def test_results_come_in_the_order_of_the_steps(workers, count):
    some = workers(3)
    assert asyncio.run(some.run(squares(count), 10)) == [n * n for n in range(count)]
    assert settled(some)


def test_many_jobs_at_once(workers):
    some = workers(4, 100)

    async def all_of_them():
        return await asyncio.gather(*(some.run(squares(n), 10) for n in range(60)))

    assert asyncio.run(all_of_them()) == [[k * k for k in range(n)] for n in range(60)]
    assert settled(some)


def test_errors_are_those_of_the_request(workers):
    some = workers()

    def broken(job):
        return Plan([lambda: 1 // 0, lambda: 1], sum)

    for prepare, error in ((broken, ZeroDivisionError), (lambda job: [][0], IndexError)):
        with pytest.raises(error):
            asyncio.run(some.run(prepare, 10))
    assert asyncio.run(some.run(squares(3), 10)) == [0, 1, 4]
    assert settled(some)


def test_too_many_are_told_to_come_back(workers):
    some, go = workers(1, 3), threading.Event()
    found = []
    for _ in range(3):
        some.submit(
            RequestJob(lambda job: Plan([go.wait], lambda results: results), 10, lambda *one: found.append(one))
        )
    with pytest.raises(Busy, match="too many requests"):
        some.submit(RequestJob(squares(1), 10, lambda *one: None))
    go.set()
    assert settled(some)
    assert found == [([True], None)] * 3


def blocked(pool: WorkerPool) -> threading.Event:
    """Occupy the only thread of a pool until the event is set."""
    begun, go = threading.Event(), threading.Event()
    pool.submit(
        RequestJob(lambda job: (begun.set(), go.wait(10), Plan([], list))[-1], 10, lambda *one: None, "blocker")
    )
    assert begun.wait(10)
    return go


def test_clients_take_turns(workers):
    """One request of a client waits for one of another client, not for its forty."""
    some = workers(1, 100)
    go, order = blocked(some), []
    for client in [*["many"] * 40, "few", "few", "one"]:
        some.submit(RequestJob(squares(1), 10, lambda *_, client=client: order.append(client), client))
    go.set()
    assert settled(some)
    assert order[:3] == ["many", "few", "one"]
    assert len(order) == 43


def test_those_who_took_the_least_time_come_first(workers):
    """Cheap requests wait for one expensive request of each other client, not for all of them."""
    some = workers(1, 100)
    go, order = blocked(some), []

    def burn(job):
        end = time.thread_time() + 0.05
        while time.thread_time() < end:
            pass
        return Plan([], list)

    def submit(client: str, prepare) -> None:
        some.submit(RequestJob(prepare, 30, lambda *_: order.append(client), client))

    for _ in range(4):
        for client in ("a", "b"):
            submit(client, burn)
    for _ in range(5):
        submit("light", squares(1))
    go.set()
    while len(order) < 7:
        time.sleep(0.005)
    assert order[:7] == ["a", "b", *["light"] * 5]
    # Somebody who comes back has not been forgotten.
    submit("light", squares(1))
    assert settled(some)
    assert order.index("light", 7) <= 9
    assert order.count("a") == order.count("b") == 4


def test_a_full_queue_has_room_for_other_clients(workers):
    some = workers(1, 6)
    go, found = blocked(some), []

    def submit(client: str, name: str) -> None:
        some.submit(RequestJob(squares(1), 10, lambda result, error: found.append((name, error)), client))

    for number in range(5):
        submit("many", f"many {number}")
    with pytest.raises(Busy, match="too many requests"):
        submit("many", "one more")
    submit("few", "few 0")
    submit("few", "few 1")
    # Both have about as many now.
    with pytest.raises(Busy, match="too many requests"):
        submit("few", "few 2")
    assert [name for name, _ in found] == ["many 4", "many 3"]
    assert all(isinstance(error, Busy) for _, error in found)
    assert some.jobs == 6
    go.set()
    assert settled(some)
    assert not some._jobs_of
    assert sorted(name for name, error in found if error is None) == ["few 0", "few 1", "many 0", "many 1", "many 2"]


def test_those_that_waited_too_long_are_not_begun(workers):
    some, go = workers(1), threading.Event()
    some.submit(RequestJob(lambda job: Plan([go.wait], list), 10, lambda *one: None))
    found = []
    some.submit(RequestJob(squares(1), 0.01, lambda *one: found.append(one)))
    time.sleep(0.05)
    go.set()
    assert settled(some)
    [(result, error)] = found
    assert result is None
    assert isinstance(error, Busy)


def test_one_large_job_does_not_hold_the_others(workers):
    """Its many steps leave a thread for others, and take turns with them."""
    some = workers(2, 10)
    order = []

    def slow(job):
        return Plan([lambda: (time.sleep(0.02), order.append("large"))] * 40, len)

    async def both():
        large = asyncio.ensure_future(some.run(slow, 30))
        await asyncio.sleep(0.05)
        began = time.monotonic()
        await some.run(lambda job: Plan([lambda: order.append("small")] * 3, len), 30)
        waited = time.monotonic() - began
        await large
        return waited

    assert asyncio.run(both()) < 0.4
    assert order.index("small") < 12


def test_steps_of_a_cancelled_job_are_not_done(workers):
    some, begun = workers(1), []

    async def give_up():
        task = asyncio.ensure_future(
            some.run(lambda job: Plan([lambda: (begun.append(1), time.sleep(0.05))] * 50, len), 30)
        )
        await asyncio.sleep(0.08)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(give_up())
    assert settled(some)
    assert 1 <= len(begun) < 6
    assert asyncio.run(some.run(squares(2), 10)) == [0, 1]


@pytest.mark.parametrize("early", [True, False])
def test_jobs_that_nobody_wants_are_dropped(workers, early):
    some, begun = workers(1), []

    async def leave():
        until = asyncio.get_running_loop().create_future()
        if early:
            until.set_result(None)
        else:
            asyncio.get_running_loop().call_later(0.08, until.set_result, None)
        steps = [lambda: (begun.append(1), time.sleep(0.05))] * 50
        with pytest.raises(ClientGone):
            await some.run(lambda job: Plan(steps, len), 30, until)
        # One that is done comes to its result; what happens to `until` later is of no interest.
        until = asyncio.get_running_loop().create_future()
        result = await some.run(squares(2), 10, until)
        until.cancel()
        await asyncio.sleep(0)
        return result

    assert asyncio.run(leave()) == [0, 1]
    assert settled(some)
    assert len(begun) < 6
