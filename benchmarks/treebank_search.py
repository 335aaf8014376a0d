"""Processor time and memory of searching, counting and rewriting a treebank, written as records.

    python benchmarks/treebank_search.py DIRECTORY [--parts search counts rewrite] [--again]

The directory has train.mrg.gz. Each pattern, key and file of rules is a command in a process of its own, with one
thread: `sapwood search PATTERN FILE --count` for a pattern with each operator of the table in docs/tree-search.md,
`sapwood search ... --count-by KEY` for each key, `sapwood corpus` for each statistic, and `sapwood rewrite`. Rules are
also applied with two threads, and the files compared. The records have the median and the maximum of processor seconds,
with reading and writing, and the maximum of memory.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import _records
from _measuring import run_measured
from _requirements import require
from sapwood.treebank.keys import KEYS
from sapwood.treebank.statistics import STATISTICS

# A pattern for each operator of the table, with labels that most treebanks have.
PATTERNS = (
    "@NP < PP", "PP > @NP", "@NP << PP", "PP >> @NP", "@NP <2 PP", "@NP <-2 PP", "PP >2 @NP", "PP >-2 @NP",
    "@NP <, @D", "@NP <- @N", "@NP <` @N", "@D >, @NP", "@N >- @NP", "@NP <: @N", "@N >: @NP", "IP-MAT <<, CONJ",
    "@NP <<- @N", "@NP <<` @N", "@NP <<: @N", "CONJ >>, IP-MAT", "@N >>- @NP", "@N >>: @NP", "@NP <...{@D ; @N}",
    "@NP <= PP", "@NP <+(NP|PP) @N", "@N >+(NP|PP) @NP", "PP <# P", "IP-MAT <<# /^V/", "P ># PP", "/^V/ >># IP-MAT",
    "@NP . PP", "@NP .. PP", "PP , @NP", "PP ,, @NP", "P .+(@D) @N", "@N ,+(@D) P", "@NP $ PP", "@NP $+ PP",
    "@NP $++ PP", "@NP $. PP", "@NP $.. PP", "PP $- @NP", "PP $-- @NP", "PP $, @NP", "PP $,, @NP",
    "@NP=x < (PP == (PP > =x))", "@NP : CP", "@NP !< PP", "@NP ?< PP=x", "@NP < @D < @N", "@NP [< @D | < @N]",
    "@NP=x << (PP < (@NP !== =x))", "@NP < (@NP=x $.. ~x)", "/^(.*)-(.*)/#1%v $ /^(.*)-(.*)/#1%v", "__ < @NP",
    "NP|PP|CP < @N", "@NP < @N", "!@NP < @N", "/^NP-/i", "NP-SBJ=a $.. (VP|IP-INF=b << (NP-OB1=c !<< =b)) !$.. =c",
)  # fmt: skip
# Rules of docs/rewriting.md, for the labels of the treebank: each changes words of most trees, or many nodes.
RULES = {
    "functions": "/^NP-(.*)/#1%function=phrase\nrelabel phrase %{function}\n",
    "n-bars": "@NP <1 (D=det $+ __=first) <-1 __=last !< NB\ncreateSubtree NB first last\n",
    "heads": "__ <# (__=head < __ !== /-HD$/) !< /-HD$/\nrelabel head ={head}-HD\n",
    "flat": "NP=x <: (NP=y)\nexcise x x\n",
    "punctuation": "/^[.,]$/=mark $- (@NP=phrase <- (__ < __))\nmove mark >-1 phrase\n",
}  # fmt: skip


def summarised(runs: Iterable[tuple[str, dict[str, float]]]) -> dict[str, float]:
    """Print measurements, and return what is recorded of them."""
    found = []
    for name, run in runs:
        found.append(run)
        print(f"| {name} | {run['cpu_seconds']:.2f} | {run['megabytes'] / 1000:.2f} |", flush=True)
    seconds = [run["cpu_seconds"] for run in found]
    return {
        "runs": len(found),
        "median_cpu_s": statistics.median(seconds),
        "most_cpu_s": max(seconds),
        "most_gb": max(run["megabytes"] for run in found) / 1000,
    }


def search(path: Path) -> dict[str, float]:
    """Count the matches of each pattern."""
    return summarised((pattern, run_measured(["search", pattern, str(path), "--count"])) for pattern in PATTERNS)


def counts(path: Path) -> dict[str, float]:
    """Count by each key, and compute each statistic."""
    commands = [["search", "/^NP/", str(path), "--count-by", key] for key in KEYS]
    commands += [["corpus", name, str(path)] for name in STATISTICS]
    return summarised((" ".join([command[0], command[-1]]), run_measured(command)) for command in commands)


def rewrite(path: Path) -> dict[str, float]:
    """Rewrite by each file of rules, on one thread and on two."""

    def runs() -> Iterable[tuple[str, dict[str, float]]]:
        with tempfile.TemporaryDirectory() as folder:
            rules, one, two = (Path(folder) / name for name in ("rules.txt", "one.mrg", "two.mrg"))
            for name, text in RULES.items():
                rules.write_text(text, encoding="utf-8")
                command = ["rewrite", str(rules), str(path), "--quiet"]
                yield name, run_measured([*command, "--threads", "1", "-o", str(one)])
                run_measured([*command, "--threads", "2", "-o", str(two)])
                if one.read_bytes() != two.read_bytes():
                    raise SystemExit(f"{name}: the result depends on the number of threads")

    return summarised(runs())


PARTS = {"search": search, "counts": counts, "rewrite": rewrite}


def main() -> None:
    """Measure what has not been measured yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--again", action="store_true", help="repeat runs that have records")
    parser.add_argument("--store", type=Path, default=_records.STORE, help="file of the records")
    options = parser.parse_args()
    path = options.directory / "train.mrg.gz"
    require(files=[path])
    data = _records.digest_files([path])
    print("| command | CPU-s | GB |\n|---|---|---|")
    for part in options.parts:
        name = f"{options.directory.name}/treebank-{part}"
        if not options.again and _records.is_current(_records.read(options.store), name, 0, data):
            continue
        record = _records.measured(
            name, PARTS[part](path), seed=0, data=data, describes=None,
            command=f"python benchmarks/treebank_search.py DATA/{options.directory.name} --parts {part}",
        )  # fmt: skip
        _records.add(record, options.store)


if __name__ == "__main__":
    sys.exit(main())
