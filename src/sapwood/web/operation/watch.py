"""Replaced model files: a thread looks at the files of a service, and loads those that have changed.

The new model takes the place of the old one when it is ready. Requests that have begun end with the old one, so none is
dropped. A file that cannot be used is reported, and the old model stays.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from sapwood.errors import SapwoodError

if TYPE_CHECKING:
    from sapwood.web.service import Service

LOG = logging.getLogger("sapwood.web")
# Seconds between two looks.
SECONDS = 2.0
Signature = tuple[int, int, int]


class ModelWatch:
    """The files of a service, and what they were like at the last look.

    A file that has been replaced since the service read it is loaded at the first look: a process that takes the place
    of another one begins with the models of its parent, which does not look.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._loaded = {path: service.signatures[name] for name, path in service.sources.items()}
        self._seen = {path: signature(path) for path in self._loaded}

    def look(self) -> list[str]:
        """Load the models whose files have changed, and have not since the look before; returns their names."""
        now = {path: signature(path) for path in self._loaded}
        settled = {path for path, found in now.items() if found and found == self._seen[path] != self._loaded[path]}
        self._seen = now
        names = []
        for name, path in self._service.sources.items():
            if path in settled:
                try:
                    self._service.reload(name)
                    names.append(name)
                    LOG.info("%s: loaded again", name)
                except (SapwoodError, MemoryError) as error:
                    LOG.error("%s: cannot be loaded again, so the earlier model stays: %s", name, error)
        self._loaded |= {path: now[path] for path in settled}
        return names

    def run(self, end: threading.Event) -> None:
        """Look every few seconds until the end."""
        while not end.wait(SECONDS):
            try:
                self.look()
            except Exception:
                LOG.exception("a bug in sapwood; please report it")


@contextlib.contextmanager
def watching(service: Service) -> Iterator[None]:
    """Watch the files of a service in a thread, after a first look."""
    end, watch = threading.Event(), ModelWatch(service)
    watch.look()
    thread = threading.Thread(target=watch.run, args=(end,), name="sapwood-watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join(5.0)


def signature(path: Path) -> Signature | None:
    """Return what changes when a file is replaced or written; None if it is not there."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
