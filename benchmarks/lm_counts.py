"""How fast text becomes counts of bigrams: generated Zipfian text, by our kernels and by other engines.

    python benchmarks/lm_counts.py [--tokens 100_000_000] [--words 235_000] [--order 2] [--threads 1 2]
                                   [--memory 4_000_000_000] [--engines polars duckdb pyarrow]

The words of the text are drawn independently with probabilities `1 / (rank + 2.7)`, about 24 to a line, which gives
more distinct bigrams than prose of that length has. Times are from opening the text file (in the file cache) to the
sorted tables. The other engines, where they are installed, do the same by their own means, with
line ends left out of account: split, number the words by frequency, group pairs, sort; they run in this process, one
after the other, with as many threads as the most named.

On two cores that others were using too, 10 M tokens took 1.3 seconds of processor time with one thread of this package
and 1.5 with two, 4.7 with DuckDB 2.0, 8.1 with pyarrow 26 and 8.8 with polars 2.1, of which most went into grouping and
sorting the pairs; hence no engine is needed. 100 M tokens (49 M distinct bigrams) took 10.6 with one thread and 12.8
with two, and 13.9 out of core, in nine runs (`--memory 300_000_000`).
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from _requirements import require
from sapwood.lm import count_text


def _spell(ids: np.ndarray, arena: np.ndarray, starts: np.ndarray, line_ends: np.ndarray) -> bytes:
    """Return the words with a space or line end behind each."""
    lengths = np.diff(starts)[ids]
    ends = np.cumsum(lengths + 1)
    text = np.empty(ends[-1], np.uint8)
    text[ends - 1] = np.where(line_ends, 10, 32)
    letters = np.ones(len(text), bool)
    letters[ends - 1] = False
    # Letter by letter: those of a word stand behind each other in the arena.
    first = np.cumsum(lengths) - lengths
    text[letters] = arena[np.arange(lengths.sum()) + np.repeat(starts[ids] - first, lengths)]
    return text.tobytes()


def zipfian_text(path: Path, tokens: int, words: int, seed: int = 0, shape: float = 1.0) -> None:
    """Write a text of `tokens` words drawn by Zipf's law from `words` made-up ones; frequent ones are shorter."""
    rng = np.random.default_rng(seed)
    ranks = np.arange(words)
    lengths = 2 + rng.poisson(0.55 * np.log1p(ranks))
    starts = np.concatenate([[0], np.cumsum(lengths)])
    arena = rng.integers(ord("a"), ord("z") + 1, starts[-1]).astype(np.uint8)
    # Words that are the same as others are drawn again.
    taken: set[bytes] = set()
    for w in range(words):
        spelling = arena[starts[w] : starts[w + 1]]
        while spelling.tobytes() in taken:
            spelling[:] = rng.integers(ord("0"), ord("z") + 1, len(spelling))
        taken.add(spelling.tobytes())
    cumulated = np.cumsum(1.0 / (ranks + 2.7) ** shape)
    with path.open("wb") as stream:
        for begin in range(0, tokens, 4_000_000):
            size = min(4_000_000, tokens - begin)
            ids = np.searchsorted(cumulated, rng.random(size) * cumulated[-1], "right")
            line_ends = rng.random(size) < 1 / 24
            stream.write(_spell(np.minimum(ids, words - 1), arena, starts, line_ends))


def with_sapwood(path: Path, threads: int, order: int, memory: int) -> int:
    """Count with this package; return how many bigrams are distinct."""
    return len(count_text(path, order=order, threads=threads, memory=memory).table(order)[1])


def with_polars(path: Path) -> int:
    """Count with polars."""
    import polars as pl

    lines = pl.scan_csv(path, has_header=False, separator="\x01", quote_char=None, new_columns=["line"])
    words = lines.select(pl.col("line").str.split(" ").list.explode().alias("word")).collect(engine="streaming")
    seen = words.group_by("word").len().sort(["len", "word"], descending=[True, False]).with_row_index("id")
    ids = words.join(seen, on="word", how="left", maintain_order="left")["id"]
    pairs = pl.DataFrame({"first": ids[:-1], "second": ids[1:]})
    return len(pairs.group_by("first", "second").len().sort("first", "second"))


def with_duckdb(path: Path) -> int:
    """Count with DuckDB (whose join does not keep the order of the words: the pairs are others, but as many)."""
    import duckdb
    import pyarrow as pa

    base = duckdb.connect()
    base.execute(f"set threads={os.environ['POLARS_MAX_THREADS']}")
    columns = "delim='\x01', header=false, quote='', escape='', columns={'line': 'varchar'}, max_line_size=1000000"
    base.execute(
        f"create temp table words as select unnest(string_split(line, ' ')) as word from read_csv('{path}', {columns})"
    )
    base.execute(
        "create temp table seen as select word, row_number() over (order by count(*) desc, word) as id "
        "from words group by word"
    )
    ids = base.execute("select id from words join seen using (word)").fetchnumpy()["id"].astype(np.int32)
    base.register("pairs", pa.table({"first": ids[:-1], "second": ids[1:]}))
    grouped = base.execute("select first, second, count(*) from pairs group by all order by all").fetchnumpy()
    return len(grouped["first"])


def with_pyarrow(path: Path) -> int:
    """Count with pyarrow."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.csv

    pa.set_cpu_count(int(os.environ["POLARS_MAX_THREADS"]))
    table = pa.csv.read_csv(
        path,
        read_options=pa.csv.ReadOptions(column_names=["line"]),
        parse_options=pa.csv.ParseOptions(delimiter="\x01", quote_char=False),
    )
    words = pa.chunked_array([pc.list_flatten(pc.split_pattern(chunk, " ")) for chunk in table["line"].chunks])
    encoded = words.dictionary_encode().unify_dictionaries()
    ids = np.concatenate([chunk.indices.to_numpy() for chunk in encoded.chunks])
    pairs = pa.table({"first": ids[:-1], "second": ids[1:]})
    grouped = pairs.group_by(["first", "second"]).aggregate([([], "count_all")])
    return len(grouped.sort_by([("first", "ascending"), ("second", "ascending")]))


ENGINES: dict[str, Callable[[Path], int]] = {"polars": with_polars, "duckdb": with_duckdb, "pyarrow": with_pyarrow}


def measure(name: str, tokens: int, call: Callable[[], int]) -> None:
    """Run once and print what it took."""
    begin, processor = time.perf_counter(), time.process_time()
    distinct = call()
    seconds, processor = time.perf_counter() - begin, time.process_time() - processor
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"{name:22} {seconds:7.2f} s  {processor:7.2f} CPU-s  {tokens / seconds / 1e6:6.2f} M tokens/s  "
        f"{tokens / processor / 1e6:6.2f} M tokens/CPU-s  {distinct:,} distinct  (peak so far {peak:.1f} GiB)",
        flush=True,
    )


def main() -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=100_000_000)
    parser.add_argument("--words", type=int, default=235_000)
    parser.add_argument("--order", type=int, default=2)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--memory", type=int, default=4 << 30)
    parser.add_argument("--engines", nargs="*", default=[], choices=list(ENGINES))
    options = parser.parse_args()
    require(packages=" ".join(options.engines))
    os.environ["POLARS_MAX_THREADS"] = str(max(options.threads))
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "text.txt"
        zipfian_text(text, options.tokens, options.words)
        print(f"{options.tokens:,} tokens, {text.stat().st_size / 1e6:,.0f} MB, order {options.order}")
        for threads in options.threads:
            measure(
                f"sapwood, {threads} thread{'s' * (threads > 1)}",
                options.tokens,
                lambda threads=threads: with_sapwood(text, threads, options.order, options.memory),
            )
        for name in options.engines:
            measure(f"{name}, {max(options.threads)} threads", options.tokens, lambda name=name: ENGINES[name](text))


if __name__ == "__main__":
    main()
