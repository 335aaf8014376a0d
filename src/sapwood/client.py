"""Client of `sapwood serve`: parses by a server, in a blocking and in an asynchronous form.

    from sapwood.client import Client
    with Client("http://localhost:8765", token="SECRET") as client:
        for result in client.parse_all(open("text.txt")):
            print(result["tree"])

Answers are the values of the API's JSON. A server that has too much to do says so (503); the request is then sent again
after the time that it names. So is one whose connection cannot be made or is lost, since no request changes anything.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from types import TracebackType
from typing import Any, TypeAlias

from sapwood.errors import SapwoodError, UsageError

try:
    import httpx2 as httpx
except ImportError:
    raise UsageError("the client needs a further package: pip install httpx2") from None

# A text, tokens (each a word or [word, tag]), or an object with tokens and constraints.
Given: TypeAlias = str | Sequence[Any] | dict[str, Any]
Result: TypeAlias = dict[str, Any]
# Longest time between two attempts, in seconds.
_LONGEST_WAIT = 30.0
_NOT_OURS = "the answer is not that of sapwood serve"


class ServiceError(SapwoodError):
    """A request that the server has refused, or that did not reach it.

    Attributes
    ----------
    status
        Status of the answer; 0 without an answer.
    """

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class _Attempts:
    """The attempts to get an answer: which outcome is final, and when to try again."""

    def __init__(self, retries: int) -> None:
        self._left, self._made = retries, 0

    def answer(self, outcome: httpx.Response | httpx.RequestError) -> Result | float:
        """Return the answer or, to try again, the seconds to wait; raises `ServiceError` if neither is possible."""
        self._made += 1
        is_busy = isinstance(outcome, httpx.Response) and outcome.status_code == 503
        temporary = is_busy or isinstance(outcome, httpx.TransportError)
        if temporary and self._left:
            self._left -= 1
            # Many clients that were refused at a time should not come back at one.
            return (_asked_for(outcome) + 0.1 * 2**self._made) * (0.5 + random.random())  # noqa: S311
        if isinstance(outcome, httpx.RequestError):
            problem = "the server cannot be reached" if temporary else _NOT_OURS
            raise ServiceError(f"{problem}: {outcome}") from outcome
        try:
            found = outcome.json()
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise ServiceError(_NOT_OURS, outcome.status_code)
        if outcome.status_code != 200:
            raise ServiceError(str(found.get("error", found)), outcome.status_code)
        return found


def _asked_for(outcome: httpx.Response | httpx.RequestError) -> float:
    """Return the seconds after which the server wants to see a request again."""
    asked = outcome.headers.get("retry-after", "0") if isinstance(outcome, httpx.Response) else "0"
    return min(float(asked), _LONGEST_WAIT) if asked.isascii() and asked.isdigit() else 0.0


@contextmanager
def _checked() -> Iterator[None]:
    """Turn errors of what cannot be sent into a `UsageError`."""
    try:
        yield
    except (httpx.InvalidURL, ValueError, TypeError) as error:
        raise UsageError(f"the request cannot be sent: {error}") from error


def _results(answer: Result) -> list[Result]:
    """Return the results of an answer; raises `ServiceError` if it has none."""
    found = answer.get("results")
    if not isinstance(found, list):
        raise ServiceError(_NOT_OURS, 200)
    return found


def _settings(url: str, token: str | None, timeout: float) -> dict[str, Any]:
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    return {"base_url": url.rstrip("/"), "headers": headers, "timeout": timeout, "follow_redirects": False}


def _body(given: Given | Sequence[Given], options: dict[str, Any]) -> dict[str, Any]:
    """Return the body for a text, or for sentences."""
    return {"text" if isinstance(given, str) else "sentences": given, **options}


def _batches(given: Iterable[Given], size: int) -> Iterator[list[Given]]:
    """Yield items in lists of a size, texts apart from sentences."""
    batch: list[Given] = []
    for one in given:
        if batch and (len(batch) == size or isinstance(one, str) or isinstance(batch[0], str)):
            yield batch
            batch = []
        batch.append(one)
    if batch:
        yield batch


def _of(batch: list[Given]) -> Given | list[Given]:
    return batch[0] if isinstance(batch[0], str) else batch


class Client:
    """A client that waits for each answer.

    Parameters
    ----------
    url
        Address of the server.
    token
        Its token, if it has one.
    timeout
        Time limit of an attempt in seconds.
    retries
        How often to try again.

    Examples
    --------
    >>> with Client("http://localhost:8765") as client:  # doctest: +SKIP
    ...     client.parse("It rained.")[0]["tree"]
    '(ROOT (S (NP (PRP It)) (VP (VBD rained)) (. .)))'
    """

    def __init__(self, url: str, *, token: str | None = None, timeout: float = 60.0, retries: int = 5) -> None:
        self._retries = retries
        with _checked():
            self._http = httpx.Client(**_settings(url, token, timeout))

    def ask(self, path: str, body: dict[str, Any] | None = None, **query: str | int) -> Result:
        """Return the answer to any request of the API: with a body, or with a query."""
        attempts = _Attempts(self._retries)
        method = "GET" if body is None else "POST"
        while True:
            try:
                with _checked():
                    outcome: httpx.Response | httpx.RequestError = self._http.request(
                        method, path, json=body, params=query
                    )
            except httpx.RequestError as error:
                outcome = error
            found = attempts.answer(outcome)
            if isinstance(found, dict):
                return found
            time.sleep(found)

    def parse(self, given: Given | Sequence[Given], **options: Any) -> list[Result]:
        """Return the parses of a text or of sentences; options are those of `/api/parse`."""
        return _results(self.ask("/api/parse", _body(given, options)))

    def parse_all(self, given: Iterable[Given], *, batch: int = 50, **options: Any) -> Iterator[Result]:
        """Yield the parses of any number of texts or sentences, sentences in requests of `batch` each."""
        for some in _batches(given, batch):
            yield from self.parse(_of(some), **options)

    def k_best(self, given: Given | Sequence[Given], count: int = 10, **options: Any) -> list[Result]:
        """Return the best trees of a text or of sentences."""
        return _results(self.ask("/api/k-best", _body(given, {"count": count, **options})))

    def marginals(self, given: Given | Sequence[Given], least: float = 0.01, **options: Any) -> list[Result]:
        """Return the phrases of a text or of sentences, with their posterior probabilities."""
        return _results(self.ask("/api/marginals", _body(given, {"least": least, **options})))

    def evaluate(self, gold: str, **options: Any) -> Result:
        """Return the scores of trees, or of the parses of a model; options are those of `/api/evaluate`."""
        return self.ask("/api/evaluate", {"gold": gold, **options})

    def info(self) -> Result:
        """Return the description of the service."""
        return self.ask("/api/info")

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncClient:
    """A client for asynchronous programs; parameters as of `Client`."""

    def __init__(self, url: str, *, token: str | None = None, timeout: float = 60.0, retries: int = 5) -> None:
        self._retries = retries
        with _checked():
            self._http = httpx.AsyncClient(**_settings(url, token, timeout))

    async def ask(self, path: str, body: dict[str, Any] | None = None, **query: str | int) -> Result:
        """Return the answer to any request of the API: with a body, or with a query."""
        attempts = _Attempts(self._retries)
        method = "GET" if body is None else "POST"
        while True:
            try:
                with _checked():
                    outcome: httpx.Response | httpx.RequestError = await self._http.request(
                        method, path, json=body, params=query
                    )
            except httpx.RequestError as error:
                outcome = error
            found = attempts.answer(outcome)
            if isinstance(found, dict):
                return found
            await asyncio.sleep(found)

    async def parse(self, given: Given | Sequence[Given], **options: Any) -> list[Result]:
        """Return the parses of a text or of sentences; options are those of `/api/parse`."""
        return _results(await self.ask("/api/parse", _body(given, options)))

    async def parse_all(
        self, given: Iterable[Given], *, batch: int = 50, at_once: int = 4, **options: Any
    ) -> AsyncIterator[Result]:
        """Yield the parses of any number of texts or sentences in order, with several requests at once."""
        batches = _batches(given, batch)
        waiting: deque[asyncio.Task[list[Result]]] = deque()

        def more(number: int) -> None:
            for some in islice(batches, number):
                waiting.append(asyncio.ensure_future(self.parse(_of(some), **options)))

        try:
            more(at_once)
            while waiting:
                results = await waiting.popleft()
                more(1)
                for result in results:
                    yield result
        finally:
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

    async def k_best(self, given: Given | Sequence[Given], count: int = 10, **options: Any) -> list[Result]:
        """Return the best trees of a text or of sentences."""
        return _results(await self.ask("/api/k-best", _body(given, {"count": count, **options})))

    async def marginals(self, given: Given | Sequence[Given], least: float = 0.01, **options: Any) -> list[Result]:
        """Return the phrases of a text or of sentences, with their posterior probabilities."""
        return _results(await self.ask("/api/marginals", _body(given, {"least": least, **options})))

    async def evaluate(self, gold: str, **options: Any) -> Result:
        """Return the scores of trees, or of the parses of a model; options are those of `/api/evaluate`."""
        return await self.ask("/api/evaluate", {"gold": gold, **options})

    async def info(self) -> Result:
        """Return the description of the service."""
        return await self.ask("/api/info")

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
