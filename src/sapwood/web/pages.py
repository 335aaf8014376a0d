"""Pages: files of the package, read once and looked up by name, so that no path sent by a client is ever opened."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterator, Mapping
from importlib import resources
from importlib.resources.abc import Traversable

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import BaseRoute, Match
from starlette.types import Receive, Scope, Send

_TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
}


class Pages(BaseRoute):
    """The route of files.

    Parameters
    ----------
    files
        Content type and bytes by path.
    """

    def __init__(self, files: Mapping[str, tuple[str, bytes]]) -> None:
        self._files = {
            path: (kind, body, gzip.compress(body, mtime=0), f'W/"{hashlib.sha256(body).hexdigest()[:32]}"')
            for path, (kind, body) in files.items()
        }

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Return whether there is a file with that path."""
        return Match.FULL if scope["type"] == "http" and _path(scope) in self._files else Match.NONE, {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with the file of a path, or with 304 if the client has it."""
        if scope["method"] not in ("GET", "HEAD"):
            raise HTTPException(405, headers={"allow": "GET, HEAD"})
        kind, body, squeezed, tag = self._files[_path(scope)]
        given, headers = Headers(scope=scope), {"etag": tag, "vary": "accept-encoding"}
        if given.get("if-none-match") == tag:
            response = Response(status_code=304, headers=headers)
        elif "gzip" in given.get("accept-encoding", "") and len(squeezed) < len(body):
            response = Response(squeezed, headers={**headers, "content-encoding": "gzip"}, media_type=kind)
        else:
            response = Response(body, headers=headers, media_type=kind)
        await response(scope, receive, send)


def _path(scope: Scope) -> str:
    """Return the path of a request below that of its application."""
    path: str = scope["path"].removeprefix(scope.get("root_path", ""))
    return path


def explorer_pages() -> dict[str, tuple[str, bytes]]:
    """Return the explorer's files by path; `parse.html` is also served at the root, and the annotator's page is not."""
    pages = read_pages(resources.files("sapwood.web") / "static")
    del pages["/annotate"]
    pages["/"] = pages["/parse"]
    pages["/favicon.ico"] = pages["/static/icon.svg"]
    return pages


def read_pages(folder: Traversable) -> dict[str, tuple[str, bytes]]:
    """Return the files of a folder by path: pages at the root under their names, all else under `/static`."""
    found: dict[str, tuple[str, bytes]] = {}
    for path, file in _files(folder):
        name, _, kind = path.rpartition(".")
        if kind in _TYPES:
            found[f"/{name}" if kind == "html" else f"/static/{path}"] = (_TYPES[kind], file.read_bytes())
    return found


def _files(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, Traversable]]:
    """Yield the files in a folder of the package, and in its sub-folders, with their paths."""
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _files(entry, f"{prefix}{entry.name}/")
        else:
            yield f"{prefix}{entry.name}", entry
