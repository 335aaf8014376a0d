"""Several processes of one server, forked when everything is loaded, so that they share its memory.

Each has a listening socket of its own on the same port, among which the kernel distributes connections. A process that
ends unexpectedly is replaced; its socket stays open meanwhile, so that connections wait for the next one.
"""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Callable
from types import FrameType

LOG = logging.getLogger("sapwood.web")
# A process that ends sooner has a reason that others would have, too: after some of them, the server gives up.
_SECONDS_TO_LIVE, _MOST_FAILURES = 5.0, 5


def run_processes(number: int, run: Callable[[int], None]) -> None:
    """Run a function in several processes, each with its number, until this one is asked to stop."""
    running: dict[int, tuple[int, float]] = {}
    stopping = False
    failures = 0

    def start(index: int) -> None:
        child = os.fork()
        if child:
            running[child] = (index, time.monotonic())
            return
        status = 1
        try:
            for one in (signal.SIGTERM, signal.SIGINT):
                signal.signal(one, signal.SIG_DFL)
            run(index)
            status = 0
        except BaseException:
            LOG.exception("process %d failed", os.getpid())
        finally:
            os._exit(status)  # the rest of the program belongs to the parent

    def stop(received: int, frame: FrameType | None) -> None:  # noqa: ARG001
        nonlocal stopping
        stopping = True
        for child in running:
            os.kill(child, signal.SIGTERM)

    before = {one: signal.signal(one, stop) for one in (signal.SIGTERM, signal.SIGINT)}
    try:
        for index in range(number):
            start(index)
        while running:
            child, status = os.wait()
            index, began = running.pop(child)
            if stopping:
                continue
            LOG.error("process %d ended with status %d; another takes its place", child, status)
            failures = failures + 1 if time.monotonic() - began < _SECONDS_TO_LIVE else 0
            if failures == _MOST_FAILURES:
                LOG.error("%d processes in a row have ended at once; the server stops", failures)
                stop(signal.SIGTERM, None)
            else:
                start(index)
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
