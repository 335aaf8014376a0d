"""Annotator: the application of an annotation project, with the look and the protection of the explorer."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cached_property
from importlib import resources
from typing import Any

from starlette.applications import Starlette

from sapwood.annotation.session import AnnotationSession
from sapwood.web.api.annotation import ENDPOINTS
from sapwood.web.application import make_application
from sapwood.web.endpoints import JSON, route
from sapwood.web.messages import encode
from sapwood.web.openapi import DESCRIPTION, describe
from sapwood.web.pages import Pages, read_pages
from sapwood.web.scheduler import WorkerPool
from sapwood.web.service import Limits


@dataclass(eq=False)
class AnnotationService:
    """Resources of the annotator.

    Attributes
    ----------
    session
        The project and what works on it.
    limits
        Limits on requests.
    threads
        Number of threads that work on requests.
    token
        Bearer token that clients must send, if any.
    """

    session: AnnotationSession
    limits: Limits = field(default_factory=Limits)
    threads: int = 2
    token: str | None = field(default=None, repr=False)

    @cached_property
    def crew(self) -> WorkerPool:
        """The threads that work on requests."""
        return WorkerPool(self.threads, self.limits.queue)

    def close(self) -> None:
        """Stop the threads; the session is closed by who opened it."""
        if "crew" in vars(self):
            self.crew.close()


def make_annotator(
    service: AnnotationService, *, hosts: Collection[str] | None = None, log_texts: bool = False
) -> Starlette:
    """Return the application of an annotation project; parameters are those of `make_explorer`."""
    static = read_pages(resources.files("sapwood.web") / "static")
    pages = {path: page for path, page in static.items() if path.startswith("/static/")}
    pages["/"] = static["/annotate"]
    pages["/favicon.ico"] = static["/static/icon.svg"]
    pages[DESCRIPTION] = (JSON, encode(describe_annotator(service)))
    routes = [*(route(endpoint, service, log_texts=log_texts) for endpoint in ENDPOINTS), Pages(pages)]
    return make_application(routes, hosts=hosts, token=service.token, stop=service.close)


def describe_annotator(service: AnnotationService) -> dict[str, Any]:
    """Return the description of the annotator's API."""
    return describe(ENDPOINTS, names={}, token=service.token is not None)
