"""`sapwood parse FILE... -o OUT/`, and `--cluster`, as people call them."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

needs_dask = pytest.mark.skipif(
    importlib.util.find_spec("distributed") is None, reason="needs distributed: pip install '.[cluster]'"
)


@pytest.fixture
def crawl(folder: Path) -> Path:
    (folder / "crawl").mkdir()
    lines = (folder / "sentences.txt").read_text().splitlines(keepends=True)
    for number, line in enumerate(lines * 2):
        (folder / "crawl" / f"{number}.txt").write_text(line)
    return folder


def names(crawl: Path) -> list[str]:
    return [f"crawl/{path.name}" for path in sorted((crawl / "crawl").iterdir())]


def test_files_are_parsed_into_a_folder(crawl: Path, sapwood: Any) -> None:
    found = sapwood(["parse", "-m", "m", *names(crawl), "-o", "out/"])
    assert (found.code, found.out) == (0, "")
    assert f"out/: {len(names(crawl))} files" in found.err
    for name in names(crawl):
        alone = sapwood(["parse", "-m", "m", name, "-q"])
        assert (crawl / "out" / Path(name).name).with_suffix(".mrg").read_text() == alone.out
    again = sapwood(["parse", "-m", "m", *names(crawl), "-o", "out"])
    assert f"{len(names(crawl))} file(s) were done before" in again.err
    assert sapwood(["parse", "-m", "m", names(crawl)[0], "-o", "new/", "--json", "-q"]).code == 0
    assert json.loads((crawl / "new" / "0.jsonl").read_text())["status"]


def test_bad_lines_are_told_and_the_rest_is_done(crawl: Path, sapwood: Any) -> None:
    (crawl / "crawl" / "0.txt").write_bytes(b"fine\nbad \xff\n" * 4)
    found = sapwood(["parse", "-m", "m", *names(crawl), "-o", "out/"])
    assert found.code == 3
    assert "crawl/0.txt:2:5: not valid UTF-8" in found.err
    assert "4 line(s) could not be read" in found.err
    assert len(list((crawl / "out").glob("*.mrg"))) == len(names(crawl))
    # It is not forgotten by running it again.
    assert sapwood(["parse", "-m", "m", *names(crawl), "-o", "out/", "-q"]).code == 3


def test_neither_input_nor_model_is_replaced(crawl: Path, sapwood: Any) -> None:
    before = (crawl / "crawl" / "0.txt").read_text()
    found = sapwood(["parse", "-m", "m", "crawl/0.txt", "-o", "crawl/", "--to", "tokens"])
    assert (found.code, "is one of the input files and would be overwritten" in found.err) == (2, True)
    (crawl / "crawl" / "0.mrg").write_bytes((crawl / "m").read_bytes())
    found = sapwood(["parse", "-m", "crawl/0.mrg", "crawl/0.txt", "-o", "crawl/"])
    assert (found.code, "is one of the input files and would be overwritten" in found.err) == (2, True)
    assert (crawl / "crawl" / "0.txt").read_text() == before
    assert (crawl / "crawl" / "0.mrg").read_bytes() == (crawl / "m").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ("crawl/0.txt crawl/1.txt", "several files are parsed into a folder: -o OUT/"),
        ("crawl/0.txt crawl/1.txt -o one.mrg", "several files are parsed into a folder: -o OUT/"),
        ("-o out/", "-o out/: an output folder requires input files"),
        ("- -o out/", "is not a regular file"),
        ("-s text -o out/", "requires input files"),
        ("sentences.txt --cluster local:0", "local:N is N processes"),
    ],
)
def test_wrong_calls(crawl: Path, sapwood: Any, arguments: str, complaint: str) -> None:
    if "--cluster" in arguments and importlib.util.find_spec("distributed") is None:
        pytest.skip("needs distributed: pip install '.[cluster]'")
    found = sapwood(["parse", "-m", "m", *arguments.split()])
    assert found.code == 2
    assert complaint in found.err


@needs_dask
@pytest.mark.filterwarnings("ignore")
def test_no_scheduler_is_an_error_of_its_own(crawl: Path, sapwood: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from sapwood.runtime.dask.executor import DaskCluster

    monkeypatch.setitem(DaskCluster.__init__.__kwdefaults__, "patience", 1.0)
    for command in (
        "parse sentences.txt -m m",
        "eval trees.mrg -m m",
        "train trees.mrg -o n",
        "lm count sentences.txt -o c",
    ):
        found = sapwood([*command.split(), "--cluster", "tcp://127.0.0.1:9"])
        assert found.code == 5
        assert "--cluster tcp://127.0.0.1:9: no scheduler there" in found.err


@needs_dask
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_every_command_gives_the_same_on_a_cluster(crawl: Path, sapwood: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from distributed import LocalCluster

    monkeypatch.setattr("sapwood.runtime.dask.executor._WORTH_CALLING", 0.0)
    (crawl / "text.txt").write_text((crawl / "sentences.txt").read_text() * 30)
    made = {
        "train trees.mrg --method em --states 2 --iterations 2 -o {}": "a",
        "parse sentences.txt -m m -o {}": "b",
        "lm count text.txt --order 3 -o {}": "c",
        "lm train text.txt --method em --states 2 --iterations 3 -o {}": "d",
    }
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50) as cluster:
        there = ["--cluster", cluster.scheduler_address]
        for command, name in made.items():
            for more in ([], there):
                found = sapwood([*command.format(name + "2" * bool(more)).split(), "-q", *more])
                assert (found.code, found.out, found.err) == (0, "", "")
            assert (crawl / f"{name}2").read_bytes() == (crawl / name).read_bytes(), command
        one, other = (
            json.loads(sapwood(["eval", "trees.mrg", "-m", "m", "--json", "-q", *more]).out) for more in ([], there)
        )
    assert {**one, "seconds": 0} == {**other, "seconds": 0}
    # And with processes of its own.
    assert sapwood(["parse", "sentences.txt", "-m", "m", "-o", "b3", "-q", "--cluster", "local:1"]).code == 0
    assert (crawl / "b3").read_bytes() == (crawl / "b").read_bytes()
