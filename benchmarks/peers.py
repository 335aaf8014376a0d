"""Speed, accuracy, memory and training time of sapwood and other parsers, in one run on one core.

    python benchmarks/peers.py DATA/wsj-sample --models FOLDER [--berkeley BerkeleyParser-1.7.jar] \
        [--peer NAME TRAIN PARSE] [--rounds 3]

All parsers learn from train.mrg (cleaned as `sapwood train` does) and parse the words of test.mrg, a file with one
sentence per line, and write trees. Each is a command of its own, on one thread:

    sapwood               the default of `sapwood train`
    sequence-labelling    a bidirectional LSTM that labels words (`_sequence_labelling.py`); needs torch
    berkeleyparser        five cycles of split-merge; needs Java and the jar of `--berkeley`
    NAME                  any other parser: `--peer` gives the commands that train and parse, in which {train}, {dev},
                          {model}, {tokens} and {output} are replaced by paths, and {python} by this interpreter

A parser whose requirements are missing is skipped, and the output says why. Models are kept in the folder of
`--models`, so an interrupted run can be repeated; the time of training is kept next to them. To parse, the commands
take turns: in each round, every parser parses the test set once and nine times over. The difference of the fastest
runs is the time of a sentence without start-up. Processor seconds are those of all threads, as some runtimes have
several.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import _records
import sapwood
from _measuring import read_gold
from _requirements import PARTS, require

_HERE = Path(__file__).resolve().parent
_ENVIRONMENT = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


class Peer:
    """A parser: the commands that train it and parse with it, and whether it reads brackets as -LRB- and -RRB-."""

    def __init__(
        self, name: str, train: list[str], parse: list[str], missing: str | None = None, *, escaped: bool = True
    ) -> None:
        self.name, self.train, self.parse, self.missing, self.escaped = name, train, parse, missing, escaped

    def tokens(self, times: int) -> str:
        """Return the name of the file of tokens."""
        return f"tokens-{times}{'-escaped' if self.escaped else ''}.txt"


def run(command: list[str], paths: dict[str, Path]) -> dict[str, float]:
    """Run a command, and return its processor seconds, those of the clock, and its peak memory in gigabytes."""
    filled = [
        word.format(python=sys.executable, **{name: str(path) for name, path in paths.items()}) for word in command
    ]
    began = time.perf_counter()
    with tempfile.TemporaryFile() as errors, tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            filled, stdout=output, stderr=errors, stdin=subprocess.DEVNULL, env={**os.environ, **_ENVIRONMENT}
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            errors.seek(0)
            raise RuntimeError(f"{' '.join(filled)}: exit code {process.returncode}\n{errors.read()[-2000:].decode()}")
    return {
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "clock_s": time.perf_counter() - began,
        "gb": usage.ru_maxrss / 1e6,
    }


def contenders(options: argparse.Namespace) -> list[Peer]:
    """Return all parsers, with what each lacks."""
    labelling, command = [sys.executable, str(_HERE / "_sequence_labelling.py")], [sys.executable, "-m", "sapwood"]
    jar = options.berkeley
    java = ["java", "-XX:ActiveProcessorCount=1", "-cp", str(jar)]
    peers = [
        Peer(
            "sapwood",
            [*command, *["train", "{train}", "--dev", "{dev}", "-o", "{model}", "--threads", "1", "-q"]],
            [*command, *["parse", "{tokens}", "-m", "{model}", "-o", "{output}", "--threads", "1", "-q"]],
            escaped=False,
        ),
        Peer(
            "sequence-labelling",
            [*labelling, *["train", "{train}", "{dev}", "{model}"]],
            [*labelling, *["parse", "{model}", "{tokens}", "{output}"]],
            None if importlib.util.find_spec("torch") else "torch is not installed",
            escaped=False,
        ),
        Peer(
            "berkeleyparser",
            [*java, *["-Xmx4g", "edu.berkeley.nlp.PCFGLA.GrammarTrainer", "-path", "{train}"],
             *["-treebank", "SINGLEFILE", "-SMcycles", "5", "-out", "{model}"]],
            [*java, *["-Xmx2g", "edu.berkeley.nlp.PCFGLA.BerkeleyParser", "-gr", "{model}"],
             *["-inputFile", "{tokens}", "-outputFile", "{output}"]],
            "no jar: --berkeley" if jar is None else None if shutil.which("java") else "no java",
        ),
    ]  # fmt: skip
    return peers + [Peer(name, train.split(), parse.split()) for name, train, parse in options.peer]


def _escaped(line: str) -> str:
    """Return a line of tokens with brackets as in the Penn Treebank."""
    names = {"(": "-LRB-", ")": "-RRB-", "[": "-LSB-", "]": "-RSB-", "{": "-LCB-", "}": "-RCB-"}
    return " ".join(names.get(word, word) for word in line.split()) + "\n"


def train(peer: Peer, paths: dict[str, Path]) -> dict[str, float]:
    """Train a parser unless there is a model, and return what training took."""
    took = paths["model"].with_suffix(".json")
    if not (paths["model"].exists() and took.exists()):
        took.write_text(json.dumps(run(peer.train, paths)), encoding="utf-8")
    return json.loads(took.read_text(encoding="utf-8"))


def score(gold: list[sapwood.Tree], output: Path) -> dict[str, float]:
    """Return F1 and exact matches of a file of trees; a tree that is missing or has other words counts as flat."""
    clean, scorer, flat = sapwood.Normaliser(), sapwood.Scorer(), 0
    lines = output.read_text(encoding="utf-8").splitlines()
    for idx, tree in enumerate(gold):
        try:
            cleaned = clean(sapwood.Tree.parse(lines[idx].replace("( (", "(ROOT (", 1)))
        except (sapwood.errors.SapwoodError, ValueError, IndexError):
            cleaned = None
        if cleaned is None or cleaned.words() != tree.words():
            flat += 1
            cleaned = sapwood.Tree("ROOT", [sapwood.Tree("X", word=word) for word in tree.words()])
        scorer.add(tree, cleaned)
    result = scorer.result()
    return {"test_f1": result.f1, "test_exact": result.exact, "without_tree": flat}


def main() -> None:
    """Train what is not trained yet, then let all parsers take turns."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--models", type=Path, required=True, help="folder of the models")
    parser.add_argument("--berkeley", type=Path, help="BerkeleyParser-1.7.jar")
    parser.add_argument("--peer", nargs=3, action="append", default=[], metavar=("NAME", "TRAIN", "PARSE"))
    parser.add_argument("--only", nargs="+", help="names of parsers")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--store", type=Path, default=_records.STORE, help="file of the records")
    options = parser.parse_args()
    require(treebanks=[options.directory], files=[options.berkeley])
    options.models.mkdir(exist_ok=True)
    work = options.models / "data"
    work.mkdir(exist_ok=True)
    gold = {part: read_gold(options.directory / f"{part}.mrg") for part in PARTS}
    for part, trees in gold.items():
        (work / f"{part}.mrg").write_text("".join(f"{tree}\n" for tree in trees), encoding="utf-8")
    lines = [" ".join(tree.words()) + "\n" for tree in gold["test"]]
    for times in (1, 9):
        (work / f"tokens-{times}.txt").write_text("".join(lines * times), encoding="utf-8")
        (work / f"tokens-{times}-escaped.txt").write_text("".join(map(_escaped, lines * times)), encoding="utf-8")

    peers, trained, timed = [], {}, {}
    for peer in contenders(options):
        if peer.missing or (options.only and peer.name not in options.only):
            print(f"{peer.name}: skipped: {peer.missing or 'not in --only'}", flush=True)
            continue
        paths = {name: work / f"{name}.mrg" for name in ("train", "dev")}
        trained[peer.name] = train(peer, {**paths, "model": options.models / f"{peer.name}.model"})
        print(f"{peer.name}: trained in {trained[peer.name]['cpu_s']:.0f} CPU-s", flush=True)
        peers.append(peer)
        timed[peer.name] = []
    for _ in range(options.rounds):
        for peer in peers:
            took = {}
            for times in (1, 9):
                paths = {"model": options.models / f"{peer.name}.model", "tokens": work / peer.tokens(times)}
                took[times] = run(peer.parse, {**paths, "output": work / f"{peer.name}-{times}.mrg"})
            timed[peer.name].append(took)
    print(
        "| parser | F1 | exact | ms per sentence | start, s | GB | training, CPU-s | GB | model, MB |\n"
        + "|---" * 9
        + "|"
    )
    for peer in peers:
        # The fastest round of each, as other programs only slow them down.
        once, nine_times = (min(one[times]["cpu_s"] for one in timed[peer.name]) for times in (1, 9))
        per_sentence = (nine_times - once) / (8 * len(lines))
        figures = {
            **score(gold["test"], work / f"{peer.name}-1.mrg"),
            "parse_ms": 1000 * per_sentence,
            "start_s": once - len(lines) * per_sentence,
            "peak_gb": max(one[9]["gb"] for one in timed[peer.name]),
            "train_cpu_s": trained[peer.name]["cpu_s"],
            "train_peak_gb": trained[peer.name]["gb"],
            "file_mb": (options.models / f"{peer.name}.model").stat().st_size / 1e6,
        }
        figures["sentences_per_s"] = 1000 / figures["parse_ms"]
        print(
            f"| {peer.name} | "
            + " | ".join(
                f"{figures[key]:.{digits}f}"
                for key, digits in (
                    ("test_f1", 1), ("test_exact", 1), ("parse_ms", 2), ("start_s", 1), ("peak_gb", 2),
                    ("train_cpu_s", 0), ("train_peak_gb", 2), ("file_mb", 1),
                )
            ) + " |", flush=True,
        )  # fmt: skip
        describes = {"kind": "train", "n_trees": len(gold["train"])} if peer.name == "sapwood" else None
        record = _records.measured(
            f"{options.directory.name}/peer-{peer.name}", figures, seed=0,
            command=f"python benchmarks/peers.py DATA/{options.directory.name} --models FOLDER",
            data=_records.digest_files(options.directory / f"{part}.mrg" for part in PARTS), describes=describes,
        )  # fmt: skip
        _records.add(record, options.store)


if __name__ == "__main__":
    sys.exit(main())
