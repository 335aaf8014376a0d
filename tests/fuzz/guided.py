"""Coverage-guided fuzzing of readers: `python tests/fuzz/guided.py --minutes 10`.

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

# What is read in Python, whose branches atheris can see: texts, and files with arrays, checked by their schema.
TARGETS = (
    "brackets",
    "partial",
    "export",
    "discbracket",
    "conllu",
    "weighted-grammar",
    "grammar-text",
    "pattern",
    "labels",
    "tiger",
    "csv",
    "request",
    "model",
    "language-model",
    "counts",
)
MODULES = (
    "sapwood.trees",
    "sapwood.grammar",
    "sapwood.automata.wcfg",
    "sapwood.interop.csv_tables",
    "sapwood.lm.io",
    "sapwood.model",
    "sapwood.storage",
    "sapwood.web",
)
# The digest of all files: a file that was changed would be refused for its digest, and nothing else of it be read.
DIGEST = "0" * 64


def fuzz(name: str, corpus: Path, seconds: int, keep: Path) -> None:
    """Fuzz one target in this process, which ends with it."""
    import atheris

    with atheris.instrument_imports(include=list(MODULES)):
        from fuzz import mutations, targets
        from sapwood.errors import SapwoodError
        from sapwood.storage import arrays

    target = targets.TARGETS[name]
    originals = target.originals()
    for module in (arrays, mutations):
        module.content_digest = lambda *_: DIGEST  # type: ignore[attr-defined]
    contents = [one if isinstance(one, bytes) else mutations.file_of(one) for one in originals]
    for number, content in enumerate(contents):
        (corpus / str(number)).write_bytes(content)
    path = corpus.parent / f"input{target.ending}"

    def use(content: bytes) -> None:
        path.write_bytes(content)
        with contextlib.suppress(SapwoodError):
            target.use(path)

    options = [
        f"-max_total_time={seconds}",
        "-timeout=10",
        "-rss_limit_mb=4096",
        f"-max_len={max(4096, *(2 * len(content) for content in contents))}",
        "-print_final_stats=1",
    ]
    atheris.Setup([sys.argv[0], *options, f"-artifact_prefix={keep}/{name}-", str(corpus)], use)
    atheris.Fuzz()


def main() -> int:
    """Fuzz all targets, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", default=TARGETS, metavar="TARGET", help="default: all readers in Python")
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
