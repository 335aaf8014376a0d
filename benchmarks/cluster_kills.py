"""Whether results are the same, byte for byte, whatever dies: workers at random moments, and the scheduler.

    python benchmarks/cluster_kills.py TREEBANK TEXT [--kills 10] [--workers 2] [--seed 0] [--trees 3000]
        [--sentences 4000] [--lines 20000] [--parts train lm parse scheduler]

TREEBANK is a directory with train.mrg, TEXT a text. Three commands run on `local:N` while worker processes are killed
(SIGKILL) at random moments from its first checkpoint on, until that has happened often enough; a command that ends
before that is run again. `train` is split-merge, `lm` is `lm train --method em`, and `parse` a crawl of 200
files; everything is sent, however small. Then a cluster's scheduler is killed at a random moment of each, and
`--resume`, or `parse` once more, goes on without a cluster.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from gzip import compress
from pathlib import Path

import psutil

from _requirements import require
from sapwood.storage.files import read_lines
from sapwood.trees.formats.registry import read_trees

# The command, with everything sent and checkpoints written whenever it can.
_EAGER = (
    "from sapwood.runtime import checkpoint as c; from sapwood.runtime.dask import executor as d; "
    "c._PAUSE, c._SHARE, d._WORTH_CALLING = 0.0, 1e9, 0.0; "
    "from sapwood.cli.main import run; run()"
)
FILES = 200


class Command:
    """A command, and what it leaves."""

    def __init__(self, folder: Path, name: str, arguments: list[str]) -> None:
        self.folder, self.name, self.arguments = folder, name, arguments

    def begin(self, output: str, *more: str) -> subprocess.Popen:
        """Start it."""
        if self.name == "parse":  # which needs nothing to go on, but a folder
            output, more = f"{output}/", tuple(each for each in more if each != "--resume")
        command = [sys.executable, "-c", _EAGER, *self.arguments, "-o", output, "-q", "--threads", "1", *more]
        return subprocess.Popen(command, cwd=self.folder, stderr=subprocess.PIPE, text=True)

    def run(self, output: str, *more: str) -> float:
        """Run it to its end, and return how long it took."""
        began = time.monotonic()
        process = self.begin(output, *more)
        message = process.communicate()[1]
        if process.returncode:
            raise SystemExit(f"{self.name}: exit code {process.returncode}: {message}")
        return time.monotonic() - began

    def content(self, output: str) -> dict[str, bytes]:
        """Return the bytes of what it wrote."""
        path = self.folder / output
        if path.is_file():
            return {"": path.read_bytes()}
        return {each.name: each.read_bytes() for each in sorted(path.iterdir())}

    def wait(self, output: str, process: subprocess.Popen) -> None:
        """Wait until it has done something, or is over."""
        sign = self.folder / (f"{output}/manifest.jsonl" if self.name == "parse" else f"{output}.checkpoint")
        while not sign.exists() and process.poll() is None:
            time.sleep(0.05)

    def clear(self, output: str) -> None:
        """Remove what it wrote."""
        for path in self.folder.glob(f"{output}*"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def workers_of(process: subprocess.Popen) -> list[psutil.Process]:
    """Return the worker processes of a command."""
    try:
        return [each for each in psutil.Process(process.pid).children() if "spawn_main" in " ".join(each.cmdline())]
    except psutil.Error:
        return []


def killed(process: subprocess.Popen, chance: random.Random, seconds: float, most: int) -> int:
    """Kill workers of a command at random moments until it ends or that has happened often enough."""
    count, over = 0, threading.Event()
    waiter = threading.Thread(target=lambda: (process.wait(), over.set()), daemon=True)
    waiter.start()
    while count < most and not over.wait(chance.uniform(0.1, seconds / most)):
        for victim in chance.sample(found := workers_of(process), min(1, len(found))):
            try:
                os.kill(victim.pid, signal.SIGKILL)
                count += 1
            except ProcessLookupError:
                pass
    with process.stderr:
        message = process.stderr.read()
    waiter.join()
    if process.returncode:
        raise SystemExit(f"exit code {process.returncode}: {message}")
    return count


def kill_workers(command: Command, options: argparse.Namespace, chance: random.Random) -> None:
    """Kill workers of a command often enough, and compare what it leaves."""
    place = ["--cluster", f"local:{options.workers}"]
    alone = command.run("here")
    whole = command.run("peace", *place)
    wanted, count, runs, began = command.content("here"), 0, 0, time.monotonic()
    if command.content("peace") != wanted:
        raise SystemExit(f"{command.name}: the cluster gives other bytes")
    while count < options.kills:
        command.clear("there")
        process = command.begin("there", *place)
        command.wait("there", process)
        count += killed(process, chance, whole, options.kills - count)
        runs += 1
        if command.content("there") != wanted:
            raise SystemExit(f"{command.name}: other bytes after {count} kills")
    seconds, size = time.monotonic() - began, sum(map(len, wanted.values()))
    print(
        f"{command.name}: {alone:.1f} s here, {whole:.1f} s on local:{options.workers}; {count} kills in {runs} run(s) "
        f"of {seconds:.1f} s: the same {len(wanted)} file(s), {size:,} bytes",
        flush=True,
    )


def kill_scheduler(command: Command, options: argparse.Namespace, chance: random.Random) -> None:
    """Kill the scheduler at a random moment, and go on without."""
    file, dask = command.folder / "scheduler.json", [sys.executable, "-m", "dask"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": command.folder}
    command.clear("there")
    file.unlink(missing_ok=True)
    scheduler = subprocess.Popen(
        [*dask, "scheduler", "--scheduler-file", str(file), "--port", "0", "--no-dashboard"], **quiet
    )
    there = [
        subprocess.Popen([*dask, "worker", "--scheduler-file", str(file), "--nthreads", "1", "--no-dashboard"], **quiet)
        for _ in range(options.workers)
    ]
    try:
        while not file.exists():
            time.sleep(0.1)
        process = command.begin("there", "--cluster", str(file))
        command.wait("there", process)
        time.sleep(chance.uniform(0.2, 2))
        scheduler.kill()
        message = process.communicate()[1].strip()
    finally:
        for each in (*there, scheduler):
            each.kill()
            each.wait()
    if process.returncode != 5 or "Traceback" in message:
        raise SystemExit(f"{command.name}: exit code {process.returncode}: {message}")
    command.run("there", "--resume")
    if command.content("there") != command.content("here"):
        raise SystemExit(f"{command.name}: other bytes after the end of the scheduler")
    print(f"{command.name}: exit code 5, then the same bytes. {message}", flush=True)


def main() -> None:
    """Kill what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("treebank", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--trees", type=int, default=3000)
    parser.add_argument("--sentences", type=int, default=4000)
    parser.add_argument("--lines", type=int, default=20_000)
    parser.add_argument("--parts", nargs="*", default=["train", "lm", "parse", "scheduler"])
    options = parser.parse_args()
    require(treebanks=[options.treebank], parts=["train"], files=[options.text], packages="distributed")
    with tempfile.TemporaryDirectory() as name:
        folder, crawl = Path(name), []
        trees = list(itertools.islice(read_trees(options.treebank / "train.mrg"), options.trees))
        (folder / "train.mrg").write_text("".join(f"{tree}\n" for tree in trees), "utf-8")
        lines = [line for _, line in itertools.islice(read_lines(options.text), options.lines)]
        (folder / "train.txt").write_text("".join(lines), "utf-8")
        sentences = itertools.cycle(" ".join(tree.words()) + "\n" for tree in trees)
        (folder / "crawl").mkdir()
        for number in range(FILES):
            crawl.append(f"crawl/{number:03d}.txt.gz")
            part = "".join(itertools.islice(sentences, options.sentences // FILES))
            (folder / crawl[-1]).write_bytes(compress(part.encode(), mtime=0))
        commands = {
            "train": ["train", "train.mrg", "--method", "split-merge", "--cycles", "4"],
            "lm": ["lm", "train", "train.txt", "--method", "em", "--states", "16", "--iterations", "20"],
            "parse": ["parse", *crawl],
        }
        for kill, part in itertools.product((kill_workers, kill_scheduler), commands):
            if part in options.parts and (kill is kill_workers or "scheduler" in options.parts):
                place = folder / part
                if not place.exists():
                    place.mkdir()
                    for each in ("train.mrg", "train.txt", "crawl"):
                        (place / each).symlink_to(folder / each)
                kill(Command(place, part, commands[part]), options, random.Random(options.seed))


if __name__ == "__main__":
    main()
