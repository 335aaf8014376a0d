"""Command `sapwood`, also `python -m sapwood`: handles an interrupt quietly even during startup."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

_INTERRUPTED = 130


def _leave(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
    sys.stderr.write("sapwood: interrupted\n")
    sys.stderr.flush()
    os._exit(_INTERRUPTED)


def run() -> None:
    """Run the command and exit the process."""
    usual = signal.getsignal(signal.SIGINT)
    if usual is signal.default_int_handler:  # not if ignored, as in the background
        signal.signal(signal.SIGINT, _leave)
    from sapwood.cli.main import run as run_command

    signal.signal(signal.SIGINT, usual)
    run_command()


if __name__ == "__main__":
    run()
