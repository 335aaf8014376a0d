"""A short run over all targets, and that what goes wrong in a child is seen."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fuzz import guided
from fuzz.targets import HOSTILE, TARGETS
from sapwood.errors import SapwoodError

FOLDER = Path(__file__).parent

BROKEN = """
import os, signal, sys
sys.path.insert(0, {tests!r})
from pathlib import Path
from fuzz import run
from fuzz.targets import Target
from sapwood.errors import ModelError

def use(path):
    number = int(path.read_text())
    if number == 3:
        os.kill(os.getpid(), signal.SIGSEGV)
    if number == 5:
        raise KeyError(number)
    if number == 7:
        while True:
            pass
    if number % 2:
        raise ModelError("refused")

run.SECONDS = 1
run.TARGETS["broken"] = Target(lambda: [0], None, use)
run.make_input = lambda name, target, originals, number: str(number).encode()
work = run.Run({{"broken": 10}}, 1, Path({keep!r}))
work.go()
print(work.report().splitlines()[1].split()[1:5], work.failures)
"""


def started(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=300)


def test_a_short_run(tmp_path):
    result = started(str(FOLDER / "run.py"), "--inputs", "1000", "--jobs", "2", "--keep", str(tmp_path / "kept"))
    assert result.returncode == 0, result.stdout + result.stderr
    assert not (tmp_path / "kept").exists()
    *rows, total, _ = result.stdout.splitlines()[1:]
    assert len(rows) > 20
    assert all(sum(map(int, row.replace(",", "").split()[1:5])) > 0 for row in rows)
    assert sum(map(int, total.replace(",", "").split()[1:5])) >= 1000


@pytest.mark.parametrize("name", sorted(HOSTILE.keys() - {"package", "pairs"} | {"request"}))
def test_the_corpus(name, tmp_path):
    target = TARGETS[name]
    for content in target.originals():
        (tmp_path / f"x{target.ending}").write_bytes(content)
        with contextlib.suppress(SapwoodError):
            target.use(tmp_path / f"x{target.ending}")


def test_what_goes_wrong_is_seen_and_kept(tmp_path):
    result = started("-c", BROKEN.format(tests=str(FOLDER.parent), keep=str(tmp_path)))
    # Of ten inputs five are used, two refused, one raises an error of another kind, one crashes and one hangs.
    assert result.stdout == "['5', '2', '1', '2'] 3\n", result.stderr
    kept = {path.name: path.read_text() for path in tmp_path.iterdir() if path.suffix != ".txt"}
    assert len(kept) == 3
    assert kept["broken-hang-7"] == "7"
    assert kept["broken-signal-11-3"] == "3"
    assert "5" in kept.values()


def test_every_night_all_is_fuzzed():
    nightly = FOLDER.parents[1].joinpath(".ci", "nightly").read_text()
    assert "tests/fuzz/nightly; }" in nightly
    assert "for step in ${*:-slow checked fuzz" in nightly
    assert set(guided.TARGETS) <= TARGETS.keys()


def test_the_last_run_is_recorded():
    """The command, and how many inputs of each target did what; the nightly run adds the commit."""
    record = FOLDER.joinpath("last-run.txt").read_text()
    assert "python tests/fuzz/run.py --inputs " in record
    assert re.search(r"\b\d{4}-\d\d-\d\d, Python 3\.", record)
    assert 'echo "commit $(git rev-parse' in FOLDER.joinpath("nightly").read_text()
    total = re.search(r"^all +([\d,]+) +([\d,]+) +([\d,]+) +([\d,]+)(?: +[\d,.]+)?$", record, re.MULTILINE)
    assert total is not None
    assert total.group(3, 4) == ("0", "0")


def test_requests_are_answered(tmp_path):
    """All originals fit the schemas, so that what is changed in them is near what is answered."""
    refused = []
    for content in TARGETS["request"].originals():
        (tmp_path / "x").write_bytes(content)
        try:
            TARGETS["request"].use(tmp_path / "x")
        except SapwoodError as error:
            refused.append(str(error))
    # The language model is of another kind.
    assert refused == ["an n-gram model, which has no hidden states; train one with method em, for instance"]
