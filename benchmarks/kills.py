"""Whether a language model is the same, byte for byte, however often its training is killed.

    python benchmarks/kills.py TEXT [--kills 50] [--method mix] [--states 32] [--seed 0]

The last tenth of the lines is held out. `sapwood lm train --resume` is killed (SIGKILL) at random moments of the time
that the whole training takes, from its start on, until that has happened often enough; every model that is finished in
between is compared with that of a training left in peace, and so are their logs. Checkpoints are written after every
iteration, as often as can be, so that many kills fall into the middle of writing.

With 400 lines of the Brown corpus, `--states 8`, on two busy cores: a training of 4.9 s, 50 kills, 46 of them with a
checkpoint, and the model in the end the same, byte for byte.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _requirements import require
from sapwood.runtime.log import read_log
from sapwood.storage.files import read_lines

# The command, writing checkpoints whenever it can.
_EAGER = (
    "from sapwood.runtime import checkpoint as c; c._PAUSE, c._SHARE = 0.0, 1e9; "
    "from sapwood.cli.main import run; run()"
)


class Training:
    """A training of one text, in one directory."""

    def __init__(self, folder: Path, text: Path, method: str, states: int) -> None:
        lines = [line for _, line in read_lines(text)]
        cut = len(lines) * 9 // 10
        for name, part in (("train.txt", lines[:cut]), ("dev.txt", lines[cut:])):
            (folder / name).write_text("".join(part), "utf-8")
        self.folder = folder
        self.command = [sys.executable, "-c", _EAGER, "lm", "train", "train.txt", "--dev", "dev.txt", "--threads", "1"]
        self.command += ["-q", "--method", method, "--states", str(states)]

    def run(self, model: str, seconds: float | None = None) -> bool:
        """Make a model, or be killed after so many seconds; returns whether it was made."""
        paths = ["--log", f"{model}.log", "-o", model]
        process = subprocess.Popen([*self.command, *paths, "--resume"], cwd=self.folder, stdout=subprocess.DEVNULL)
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return False
        if code:
            raise SystemExit(f"exit code {code}")
        return True

    def result(self, model: str) -> object:
        """Return the bytes of a model, and its log without times; nothing else is left."""
        log = [{**line, "seconds": 0} for line in read_log(self.folder / f"{model}.log")]
        return (self.folder / model).read_bytes(), log


def main() -> None:
    """Kill, and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=Path)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--method", default="mix")
    parser.add_argument("--states", type=int, default=32)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    require(files=[options.text])
    rng = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        training = Training(folder, options.text, options.method, options.states)
        began = time.perf_counter()
        training.run("whole")
        seconds = time.perf_counter() - began
        kills = behind = models = different = 0
        finished = False
        while kills < options.kills or not finished:
            finished = training.run("m", rng.random() * seconds if kills < options.kills else None)
            if finished:
                models += 1
                different += training.result("m") != training.result("whole")
                left = sorted(path.name for path in folder.iterdir())
                if left != ["dev.txt", "m", "m.log", "train.txt", "whole", "whole.log"]:
                    raise SystemExit(f"left behind: {left}")
                for path in ("m", "m.log"):
                    (folder / path).unlink()
            else:
                kills += 1
                behind += (folder / "m.checkpoint").exists()
    print(
        f"a training of {seconds:.1f} s: {kills} kills, {behind} of them with a checkpoint; {models} models, "
        f"{different} of them different"
    )
    if different:
        sys.exit(1)


if __name__ == "__main__":
    main()
