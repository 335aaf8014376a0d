"""Recipes of docs/shards.md, as they are printed there, and options that do not fit shards."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "shards.md"


def block(heading: str, kind: str) -> str:
    """Return the first block of a kind under a heading."""
    _, _, section = PAGE.read_text(encoding="utf-8").partition(f"\n## {heading}\n")
    _, _, rest = section.partition(f"```{kind}\n")
    found, _, _ = rest.partition("```")
    assert found
    return found


def gnu_parallel() -> bool:
    found = shutil.which("parallel")
    if found is None:
        return False
    told = subprocess.run([found, "--version"], capture_output=True, text=True, check=False)
    return told.stdout.startswith("GNU parallel")  # another program has the same name


def run(script: str, folder: Path) -> None:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": str(folder)}
    subprocess.run(["bash", "-ec", script], cwd=folder, env=environment, check=True, capture_output=True)


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    lines = ["the museum has closed .", "it rained .", "", "dogs bark .", "she saw the dog .", "the dog slept ."] * 2
    (tmp_path / "tokens.txt").write_text("".join(f"{line}\n" for line in lines))
    return tmp_path


@pytest.mark.slow
@pytest.mark.skipif(not gnu_parallel(), reason="needs GNU parallel: apt-get install parallel")
def test_gnu_parallel(tokens: Path) -> None:
    recipe = block("GNU parallel", "shell")
    run(recipe, tokens)
    whole = """
        sapwood parse tokens.txt > whole.mrg; cmp whole.mrg trees.mrg
        sapwood lm count tokens.txt --order 3 -o whole.counts; cmp whole.counts tokens.counts
        sapwood search 'NP < NN' whole.mrg > whole.hits; cmp whole.hits hits.mrg; test -s hits.mrg
    """
    run(whole, tokens)
    # Jobs that failed run again, and only those.
    before = {path: path.stat().st_mtime_ns for path in tokens.glob("trees/tokens.*.mrg")}
    log = (tokens / "parse.log").read_text().splitlines(keepends=True)
    failed = log[3].split("\t")
    failed[6] = "1"
    (tokens / "parse.log").write_text("".join([*log[:3], "\t".join(failed), *log[4:]]))
    shard = failed[8].rpartition("--shard ")[2].split("/")[0]
    (tokens / f"trees/tokens.{shard}-of-8.mrg").unlink()
    run(recipe.splitlines()[0], tokens)
    changed = {path.name for path in before if path.stat().st_mtime_ns != before[path]}
    assert changed == {f"tokens.{shard}-of-8.mrg"}
    run("cat trees/tokens.*-of-8.mrg | cmp - whole.mrg", tokens)


@pytest.mark.slow
def test_array_tasks_of_slurm_that_are_killed_and_repeated(tokens: Path) -> None:
    run("mkdir crawl; split -l 2 --additional-suffix .txt tokens.txt crawl/", tokens)
    text = PAGE.read_text(encoding="utf-8")
    for name in ("parse.slurm", "count.slurm", "merge.slurm"):
        script = text.partition(f'file="{name}"\n')[2].partition("```")[0]
        (tokens / name).write_text(script.replace("--min-count 2", "--min-count 1"))
    run(
        """
        export SLURM_CPUS_PER_TASK=1
        SLURM_ARRAY_TASK_ID=2 timeout --signal KILL 1 bash parse.slurm || true
        for i in 3 1 2; do SLURM_ARRAY_TASK_ID=$i bash parse.slurm; SLURM_ARRAY_TASK_ID=$i bash count.slurm; done
        bash merge.slurm
        sapwood parse crawl/*.txt -o parsed/; sapwood parse crawl/*.txt -o whole/; diff -r whole parsed
        sapwood lm count crawl/*.txt --order 3 -o whole.counts; cmp whole.counts crawl.counts
        """,
        tokens,
    )


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ("parse sentences.txt --shard 1/2", "--shard requires a folder for the outputs of all shards: -o OUT/"),
        ("parse sentences.txt -o out/ --shard 1/2 --cluster local:2", "cannot be used with --shard, which needs no"),
        ("parse sentences.txt -o out/ --shard 3/2", "shard 3/2: with N shards, the first is 1/N and the last N/N"),
        ("parse sentences.txt -o out/ --shard third", "'third' is not a shard: write 3/8 for the third of eight"),
        ("parse sentences.txt -o out/ --raw --shard 1/2", "--lines sentences"),
        ("lm count sentences.txt -o c --shard 1/2 --min-count 2", "is for `sapwood lm merge`, which sees all shards"),
        ("lm count sentences.txt -o c --shard 1/2 --cluster local:2", "cannot be used with --shard"),
        ("lm count - -o c --shard 1/2", "shards of a stream would each read all of it"),
        ("search NP sentences.txt --shard 1/2", "there are 1; use at most 1 shards"),
        ("search NP sentences.txt --shard 1/1 --count", "cannot be used with --shard, whose outputs are joined"),
        ("search NP sentences.txt --shard 1/1 --to export", "--to export numbers all trees"),
        ("search NP<#NN sentences.txt --shard 1/1", "name them with --heads"),
    ],
)
def test_what_shards_cannot_do(folder: Path, sapwood: Any, arguments: str, complaint: str) -> None:
    found = sapwood([*arguments.split(), *(["-m", "m"] if arguments.startswith("parse") else [])])
    assert (found.code, complaint in found.err) == (2, True), found.err
    assert not (folder / "c").exists()


def test_counts_are_merged(folder: Path, sapwood: Any) -> None:
    for index in (2, 1):
        assert sapwood(["lm", "count", "sentences.txt", "--shard", f"{index}/2", "-o", f"{index}.counts"]).code == 0
    again = sapwood(["lm", "count", "sentences.txt", "--shard", "1/2", "-o", "1.counts"])
    assert (again.code, again.err) == (0, "1.counts: shard 1/2 was counted before\n")
    other = sapwood(["lm", "count", "sentences.txt", "--order", "3", "--shard", "1/2", "-o", "1.counts"])
    assert "tokens" in other.err
    found = sapwood(["lm", "merge", "1.counts", "2.counts", "-o", "c"])
    assert (found.code, "order and boundaries are the same" in found.err) == (2, True)
    sapwood(["lm", "count", "sentences.txt", "--shard", "1/2", "-o", "1.counts"])
    found = sapwood(["lm", "merge", "1.counts", "-o", "c"])
    assert (found.code, "shard 2/2 of a text is missing" in found.err) == (2, True)
    found = sapwood(["lm", "merge", "sentences.txt", "-o", "c"])
    assert (found.code, "sentences.txt: holds no counts; count it first" in found.err) == (3, True)
    assert sapwood(["lm", "merge", "1.counts", "2.counts", "--min-count", 2, "-o", "c"]).code == 0
    sapwood(["lm", "count", "sentences.txt", "--min-count", 2, "-o", "whole"])
    assert (folder / "c").read_bytes() == (folder / "whole").read_bytes()


def test_a_search_in_shards(folder: Path, sapwood: Any) -> None:
    text = (folder / "trees.mrg").read_text()
    for name in ("a.mrg", "b.mrg", "c.mrg"):
        (folder / name).write_text(text)
    for options in ([], ["-n"], ["--json", "--context", "1"], ["--subtrees"], ["--invert-match"]):
        whole = sapwood(["search", "NP", "a.mrg", "b.mrg", "c.mrg", *options]).out
        shards = [sapwood(["search", "NP", "a.mrg", "b.mrg", "c.mrg", *options, "--shard", f"{i}/2"]) for i in (1, 2)]
        assert "".join(shard.out for shard in shards) == whole
        assert all(shard.code == 0 for shard in shards)
