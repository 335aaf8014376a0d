"""Numbers of states for each symbol: the same for all, by singular values, and by search.

    python benchmarks/state_search.py DIRECTORY [DIRECTORY ...] [--rows "spectral 16" ...] [--seeds 0 1 2]
        [--searched 40] [--results FILE.jsonl] [--checkpoints DIRECTORY]

Each directory has train.mrg, dev.mrg and test.mrg; dev chooses smoothing, where `auto` cuts singular values, and what a
search takes. Means and standard deviations over seeds. `settings` is how many numbers of states were measured on dev;
seconds are the processor's, these measurements included, reading left out. `states` is the sum over all symbols. Below
the table are the most frequent symbols' numbers of states, for each seed. Results are appended one by one, and not
computed again; with `--checkpoints` an interrupted search goes on.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from _requirements import require
from _treebank import Treebank
from sapwood.learn import Spectral

ROWS: dict[str, dict[str, Any]] = {
    "spectral 16": {"states": 16},
    "spectral 24": {"states": 24},
    "spectral 32": {"states": 32},
    "spectral auto": {"states": "auto"},
    "spectral search": {"states": "search"},
    "spectral search, beam 2": {"states": "search", "beam": 2},
}
USUAL = [row for row in ROWS if row != "spectral search, beam 2"]
_SHOWN = 12


class _Measured:
    """Counts what is measured on dev, and keeps the time that it took in a file, for a run that goes on."""

    def __init__(self, path: Path | None) -> None:
        self.path, self.began = path, time.process_time()
        kept = path.read_text().split() if path is not None and path.exists() else ["0", "0"]
        self.before, self.count = float(kept[0]), int(kept[1])

    @property
    def seconds(self) -> float:
        return self.before + time.process_time() - self.began

    def write(self, event: str, *, step: int, seconds: float | None = None, **figures: Any) -> None:  # noqa: ARG002
        self.count += event == "dev"
        if self.path is not None:
            self.path.write_text(f"{self.seconds} {self.count}")


def measure(treebank: Treebank, row: str, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """Train one grammar, and return what it is worth."""
    learner = Spectral(**ROWS[row], searched=options.searched, random_state=seed, threads=1)
    checkpoint = None
    if options.checkpoints and learner.states == "search":
        checkpoint = options.checkpoints / f"{treebank.directory.name}.{learner.beam}.{seed}.checkpoint"
    log = _Measured(checkpoint and checkpoint.with_suffix(".seconds"))
    grammar = learner.fit(treebank.corpus, dev=treebank.parts["dev"], log=log, checkpoint=checkpoint)
    seconds, settings = log.seconds, log.count
    scores = {part: treebank.score([grammar], part, 1) for part in ("dev", "test")}
    records = sorted(grammar.info["spectral"]["symbols"], key=lambda record: -record["count"])
    return {
        "treebank": treebank.directory.name, "row": row, "seed": seed, "searched": options.searched, "seconds": seconds,
        "settings": settings, "dev": scores["dev"]["f1"], "test": scores["test"]["f1"],
        "exact": scores["test"]["exact"], "speed": scores["test"]["speed"],
        "states": int(grammar.states.sum()), "weights": int(grammar.tensors.size),
        "symbols": {record["symbol"]: record["states"] for record in records},
    }  # fmt: skip


def _spread(values: Sequence[float], digits: int = 2) -> str:
    mean = f"{statistics.fmean(values):,.{digits}f}"
    return mean if len(values) < 2 else f"{mean} ± {statistics.stdev(values):,.{digits}f}"


def table(results: Sequence[dict[str, Any]]) -> str:
    """Return the table in Markdown, and the numbers of states below it."""
    heads = ("treebank", "method", "dev F1", "test F1", "exact", "states", "weights", "sentences/s", "settings", "s")
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    cells: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for result in results:
        cells.setdefault((result["treebank"], result["row"]), []).append(result)
    for (name, row), cell in cells.items():
        digits = {"dev": 2, "test": 2, "exact": 1, "states": 0}
        shown = [_spread([one[figure] for one in cell], places) for figure, places in digits.items()]
        shown.append(f"{statistics.fmean(one['weights'] for one in cell) / 1e6:.1f} M")
        shown += [
            f"{statistics.fmean(one[figure] for one in cell):,.0f}" for figure in ("speed", "settings", "seconds")
        ]
        lines.append(f"| {name} | {row} | " + " | ".join(shown) + " |")
    lines.append("")
    for (name, row), cell in cells.items():
        for one in cell:
            symbols = ", ".join(f"{symbol} {states}" for symbol, states in list(one["symbols"].items())[:_SHOWN])
            lines.append(f"{name}, {row}, seed {one['seed']}: {symbols}")
    return "\n".join(lines)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", nargs="+", type=Path)
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=USUAL)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--searched", type=int, default=40, help="how many symbols are searched")
    parser.add_argument("--results", type=Path, help="append each result here, and use those that are there")
    parser.add_argument("--checkpoints", type=Path, help="keep unfinished searches here")
    options = parser.parse_args()
    require(treebanks=options.directory)
    results: list[dict[str, Any]] = []
    if options.results and options.results.exists():
        results = [json.loads(line) for line in options.results.read_text("utf-8").splitlines()]
    done = {(result["treebank"], result["row"], result["seed"]) for result in results}
    for directory in options.directory:
        wanted = [(row, s) for row in options.rows for s in options.seeds if (directory.name, row, s) not in done]
        treebank = Treebank(directory, 1, time.process_time) if wanted else None
        for row, seed in wanted:
            assert treebank is not None
            results.append(measure(treebank, row, seed, options))
            if options.results:
                with options.results.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(results[-1]) + "\n")
    print(table(results))


if __name__ == "__main__":
    main()
