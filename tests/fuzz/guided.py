"""Coverage-guided fuzzing of readers of text: `python tests/fuzz/guided.py --minutes 10`.

Needs the package atheris (`pip install atheris`), which is optional: without it nothing is done, with a message. Each
target is one process with the same share of the time, begins with the originals of the target, and keeps an input that
fails in `fuzz-failures`.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

# Readers in Python, whose branches atheris can see.
READERS = (
    "brackets",
    "partial",
    "export",
    "discbracket",
    "conllu",
    "weighted-grammar",
    "grammar-text",
    "pattern",
    "labels",
)
MODULES = ("sapwood.trees", "sapwood.grammar.io", "sapwood.automata.wcfg", "sapwood.storage")


def fuzz(name: str, corpus: Path, seconds: int, keep: Path) -> None:
    """Fuzz one target in this process, which ends with it."""
    import atheris

    with atheris.instrument_imports(include=list(MODULES)):
        from fuzz.targets import TARGETS
        from sapwood.errors import SapwoodError

    target = TARGETS[name]
    for number, original in enumerate(target.originals()):
        (corpus / str(number)).write_bytes(original)
    path = corpus.parent / f"input{target.ending}"

    def use(content: bytes) -> None:
        path.write_bytes(content)
        with contextlib.suppress(SapwoodError):
            target.use(path)

    options = [
        f"-max_total_time={seconds}",
        "-timeout=10",
        "-rss_limit_mb=4096",
        "-max_len=4096",
        "-print_final_stats=1",
    ]
    atheris.Setup([sys.argv[0], *options, f"-artifact_prefix={keep}/{name}-", str(corpus)], use)
    atheris.Fuzz()


def main() -> int:
    """Fuzz all targets, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", default=READERS, metavar="TARGET", help="default: readers of text")
    parser.add_argument("--minutes", type=float, default=10.0, help="time of all targets together")
    parser.add_argument("--keep", type=Path, default=Path("fuzz-failures"), help="folder of inputs that fail")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if importlib.util.find_spec("atheris") is None:
        print("skipped: the package atheris is not installed")
        return 0
    arguments.keep.mkdir(parents=True, exist_ok=True)
    seconds = max(1, int(60 * arguments.minutes / len(arguments.targets)))
    if arguments.one:
        with tempfile.TemporaryDirectory() as folder:
            corpus = Path(folder) / "corpus"
            corpus.mkdir()
            fuzz(arguments.targets[0], corpus, seconds, arguments.keep)
    failed = 0
    for name in arguments.targets:
        command = [
            sys.executable,
            __file__,
            "--one",
            "--keep",
            str(arguments.keep),
            "--minutes",
            str(seconds / 60),
            name,
        ]
        result = subprocess.run(
            command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONHASHSEED": "0"}
        )
        ran = [line.split()[-1] for line in result.stderr.splitlines() if "number_of_executed_units" in line]
        failed += result.returncode != 0
        print(
            f"{name:<24}{int(ran[0]) if ran else 0:>10,}  {'failed' if result.returncode else 'nothing found'}",
            flush=True,
        )
        if result.returncode:
            print(result.stderr[-2000:])
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
