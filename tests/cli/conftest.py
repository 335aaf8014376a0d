"""Running the command inside the test process, and a small model to run it with."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from sapwood.cli.main import run

TREES = """\
(ROOT (S (NP (DT the) (NN dog)) (VP (VBZ barks)) (. .)))
(ROOT (S (NP (DT a) (NN cat)) (VP (VBZ sees) (NP (DT the) (NN dog))) (. .)))
(ROOT (S (NP (NNS cats)) (VP (VBP sleep) (PP (IN under) (NP (DT the) (NN table)))) (. .)))
(ROOT (S (NP (NP (DT the) (NN dog)) (PP (IN with) (NP (NNS spots)))) (VP (VBZ sleeps)) (. !)))
(ROOT (S (NP (PRP she)) (VP (VBZ feeds) (NP (NP (DT the) (NNS cats)) (CC and) (NP (DT the) (NN dog)))) (. .)))
(ROOT (NP (NN dinner) (. .)))
"""
SENTENCES = "the dog barks .\ncats sleep\n\nshe sees a table with cats .\n"


@dataclass(frozen=True)
class Outcome:
    """What a run of the command left behind."""

    code: int
    out: str
    err: str


Sapwood = Callable[..., Outcome]


def _sapwood(arguments: Sequence[object], stdin: bytes | io.BufferedIOBase = b"") -> Outcome:
    """Run the command with these arguments and this standard input."""
    before = sys.stdin, sys.stdout, sys.stderr
    out, err = io.BytesIO(), io.BytesIO()
    source = io.BytesIO(stdin) if isinstance(stdin, bytes) else stdin
    sys.stdin, sys.stdout, sys.stderr = (io.TextIOWrapper(stream, encoding="utf-8") for stream in (source, out, err))
    try:
        with pytest.raises(SystemExit) as ended:
            run([str(argument) for argument in arguments])
        sys.stdout.flush()
        sys.stderr.flush()
        return Outcome(int(ended.value.code or 0), out.getvalue().decode(), err.getvalue().decode())
    finally:
        sys.stdin, sys.stdout, sys.stderr = before


@pytest.fixture(scope="session")
def sapwood() -> Sapwood:
    """Return the function that runs the command: `sapwood(["parse", ...], stdin=b"...")`."""
    return _sapwood


@pytest.fixture(scope="session")
def model_bytes(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Return the content of a small model file."""
    folder = tmp_path_factory.mktemp("model")
    (folder / "trees.mrg").write_text(TREES, encoding="utf-8")
    outcome = _sapwood(["train", folder / "trees.mrg", "--method", "pcfg", "-o", folder / "small.sapwood", "-q"])
    assert outcome == Outcome(0, "", "")
    return (folder / "small.sapwood").read_bytes()


@pytest.fixture
def folder(tmp_path: Path, model_bytes: bytes, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working directory, with `trees.mrg`, `sentences.txt` and the model `m` in it."""
    (tmp_path / "trees.mrg").write_text(TREES, encoding="utf-8")
    (tmp_path / "sentences.txt").write_text(SENTENCES, encoding="utf-8")
    (tmp_path / "m").write_bytes(model_bytes)
    monkeypatch.chdir(tmp_path)
    return tmp_path
