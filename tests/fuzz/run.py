"""Read many files that are almost right: `python tests/fuzz/run.py --inputs 1000000`.

Every input follows from its target and its number. Inputs are used in forked children, many in each, so that a crash
costs one child and shows which input it was. Anything but success and our own errors is a failure: a signal, more than
ten seconds of processor time, more than two gigabytes, another exception. One input of each failure is kept, with what
went wrong beside it.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import math
import mmap
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
import zlib
from collections import Counter
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz.targets import TARGETS, Target
from sapwood.errors import SapwoodError

# Processor time of an input, and how many times as long it may take on a busy machine.
SECONDS, _BUSY = 10, 30
_BATCH, _MEMORY = 500, 2 << 30
# What a child shows while it runs: the input it is at, and how many it has used, had refused and failed at.
_AT, _USED, _REFUSED, _FAILED = range(4)


def make_input(name: str, target: Target, originals: list, number: int) -> bytes:
    """Return an input of a target."""
    rng = np.random.default_rng([zlib.crc32(name.encode()), number])
    return target.change(rng, originals[number % len(originals)])


def use_inputs(name: str, originals: list, numbers: range, shown: np.ndarray, keep: Path) -> None:
    """Use inputs one after the other; what goes wrong other than by a crash is written to `keep`."""
    target = TARGETS[name]
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    most = _address_space() + _MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        tempfile.tempdir = folder  # in memory, for what targets write
        path = Path(folder) / f"input{target.ending}"
        for number in numbers:
            shown[_AT] = number
            content = make_input(name, target, originals, number)
            path.write_bytes(content)
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            signal.alarm(_BUSY * SECONDS)
            try:
                target.use(path)
                shown[_USED] += 1
            except SapwoodError:
                shown[_REFUSED] += 1
            except Exception as error:
                shown[_FAILED] += 1
                place = traceback.extract_tb(error.__traceback__)[-1]
                where = f"{Path(place.filename).stem}-{place.lineno}"
                keep_failure(keep, f"{name}-{type(error).__name__}-{where}", number, content, traceback.format_exc())
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.alarm(0)


def _address_space() -> int:
    """Return the bytes of the address space that are in use; nothing where the system does not say."""
    status = Path("/proc/self/statm")
    return int(status.read_text().split()[0]) * resource.getpagesize() if status.exists() else 0


def keep_failure(keep: Path, title: str, number: int, content: bytes, what: str) -> None:
    """Keep the first input of a failure."""
    keep.mkdir(parents=True, exist_ok=True)
    if not (keep / title).exists():
        (keep / title).write_bytes(content)
        (keep / f"{title}.txt").write_text(f"input {number}\n{what}")


class Run:
    """Some inputs of each target, in so many children at a time."""

    def __init__(self, inputs: dict[str, int], jobs: int, keep: Path, first: int = 0) -> None:
        self.keep, self.jobs = keep, jobs
        self.originals: dict[str, list] = {}
        self.waiting = [
            (name, range(begin, min(begin + batch, first + count)))
            for name, count in inputs.items()
            # Smaller where inputs take long: a run that is short of time ends with the batches that have begun.
            for batch in (math.ceil(_BATCH * TARGETS[name].share),)
            for begin in range(first, first + count, batch)
        ]
        # All targets by turns, so that a run that is short of time has something of each.
        self.waiting.sort(key=lambda batch: batch[1].start)
        self.results: Counter[tuple[str, str]] = Counter()
        self.seconds: Counter[str] = Counter()
        self.shown = np.frombuffer(mmap.mmap(-1, 32 * jobs), np.int64).reshape(jobs, 4)
        self.running: dict[int, tuple[int, str, range]] = {}

    def go(self, seconds: float = math.inf) -> None:
        """Do it, or as much of it as can be begun in so many seconds."""
        free, begun = list(range(self.jobs)), time.monotonic()
        while self.waiting or self.running:
            if time.monotonic() - begun > seconds:
                self.waiting.clear()
                if not self.running:
                    break
            while self.waiting and free:
                self._start(free.pop())
            child, status, usage = os.wait4(-1, 0)
            slot, name, numbers = self.running.pop(child)
            self.seconds[name] += usage.ru_utime + usage.ru_stime
            free.append(slot)
            self._finish(slot, name, numbers, status)

    def _start(self, slot: int) -> None:
        name, numbers = self.waiting.pop(0)
        if name not in self.originals:
            self.originals[name] = list(TARGETS[name].originals())
        self.shown[slot] = [numbers.start, 0, 0, 0]
        child = os.fork()
        if child:
            self.running[child] = slot, name, numbers
            return
        try:
            use_inputs(name, self.originals[name], numbers, self.shown[slot], self.keep)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)

    def _finish(self, slot: int, name: str, numbers: range, status: int) -> None:
        at, used, refused, failed = self.shown[slot].tolist()
        self.results.update({(name, "used"): used, (name, "refused"): refused, (name, "failed"): failed})
        if status:
            what = (
                "hang" if status in (signal.SIGPROF, signal.SIGALRM) else f"signal-{status}" if status < 128 else "exit"
            )
            self.results[name, "crashed"] += 1
            title = f"{name}-{what}-{at}"
            keep_failure(self.keep, title, at, make_input(name, TARGETS[name], self.originals[name], at), what)
            if at + 1 < numbers.stop:
                self.waiting.insert(0, (name, range(at + 1, numbers.stop)))

    def report(self) -> str:
        """Return a table of what happened."""
        columns = ("used", "refused", "failed", "crashed")
        rows: list[tuple[str, list[float]]] = [
            (name, [*(self.results[name, column] for column in columns), self.seconds[name]]) for name in self.originals
        ]
        rows.append(("all", [sum(values) for values in zip(*(values for _, values in rows), strict=True)]))
        lines = [f"{'target':<24}" + "".join(f"{column:>10}" for column in (*columns, "CPU s"))]
        lines += [
            f"{name:<24}" + "".join(f"{value:>10,.0f}" for value in values) + f"{seconds:>10,.1f}"
            for name, (*values, seconds) in rows
        ]
        return "\n".join(lines)

    @property
    def failures(self) -> int:
        """How many inputs did something else than succeed or raise one of our errors."""
        return sum(count for (_, what), count in self.results.items() if what in ("failed", "crashed"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"which ones (default: all): {', '.join(TARGETS)}")
    parser.add_argument("--inputs", type=int, default=100_000, help="how many in all (default: 100,000)")
    parser.add_argument("--minutes", type=float, default=math.inf, help="how long, at most (default: until it is done)")
    parser.add_argument("--first", type=int, default=0, help="the number of the first input of each target")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many children at a time")
    parser.add_argument("--keep", type=Path, default=Path("fuzz-failures"), help="where failing inputs are kept")
    arguments = parser.parse_args()
    names = arguments.targets or list(TARGETS)
    if unknown := set(names) - TARGETS.keys():
        parser.error(f"no such target: {', '.join(sorted(unknown))}")
    share = arguments.inputs / sum(TARGETS[name].share for name in names)
    begun = time.monotonic()
    run = Run(
        {name: math.ceil(share * TARGETS[name].share) for name in names},
        arguments.jobs,
        arguments.keep,
        arguments.first,
    )
    run.go(60 * arguments.minutes)
    print(f"{run.report()}\n{time.monotonic() - begun:.0f} s")
    if run.failures:
        print(f"{run.failures:,} failures; see {arguments.keep}")
    return 1 if run.failures else 0


if __name__ == "__main__":
    sys.exit(main())
