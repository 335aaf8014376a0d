"""Clusters: the same bytes as on threads, with real processes, whatever dies on the way."""

from __future__ import annotations

import contextlib
import gzip
import importlib
import itertools
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sapwood
from sapwood.errors import ClusterError, InputError, UsageError
from sapwood.inference import observed
from sapwood.inference.parse_files import parse_files
from sapwood.lm import count_shards, count_text
from sapwood.lm import train as train_lm
from sapwood.lm.models import save_model
from sapwood.run import cluster as module
from sapwood.run.cluster import Cluster
from sapwood.trees.formats import read_trees

pytest.importorskip("distributed", reason="distributed is not installed: pip install '.[cluster]'")
pytestmark = pytest.mark.filterwarnings("ignore")  # of Dask's, about its own sockets and loops

DATA = Path(__file__).parent.parent / "data"
TREES = list(itertools.islice(read_trees(DATA / "train.mrg"), 120))
DEV = list(itertools.islice(read_trees(DATA / "dev.mrg"), 10))
LEARNERS: dict[str, dict[str, Any]] = {
    "pcfg": {},
    "em": {"states": 3, "iterations": 3},
    "split-merge": {"cycles": 2, "iterations": 2, "settle": 1},
    "spectral": {"states": 4, "support": 5},
    "cluster": {"states": 4, "support": 5, "iterations": 1},
    "pivot": {"states": 4, "support": 5},
    "pivot+em": {"states": 4, "support": 5, "iterations": 1},
}
MODELS: dict[str, dict[str, Any]] = {
    "em": {"states": 5, "iterations": 3},
    "pivot+em": {"states": 5, "iterations": 2, "anchor_count": 5},
    "mix": {"states": 4, "iterations": 2, "anchor_count": 5, "lags": 2},
}


@pytest.fixture(scope="module", params=[2])
def cluster() -> Iterator[Cluster]:
    with Cluster("local:2") as found:
        yield found


@pytest.fixture(autouse=True)
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make several shards of little data."""
    monkeypatch.setattr(observed, "_SHARD_NODES", 600)
    monkeypatch.setattr(observed, "_PART", 300)
    monkeypatch.setattr(count_shards.cut_shards, "__defaults__", (2000,))


def saved(grammars: sapwood.learn.run.Trained, path: Path) -> bytes:
    grammars.save(path)
    return path.read_bytes()


def texts(folder: Path) -> tuple[Path, Path]:
    for name, trees in (("train.txt", TREES), ("dev.txt", DEV)):
        (folder / name).write_text("".join(" ".join(tree.words()) + "\n" for tree in trees), encoding="utf-8")
    return folder / "train.txt", folder / "dev.txt"


def written(folder: Path, number: int, lines: int = 3) -> list[Path]:
    """Write a crawl."""
    sentences = itertools.cycle(" ".join(tree.words()) + "\n" for tree in DEV if len(tree.words()) < 12)
    folder.mkdir(exist_ok=True)
    paths = [folder / f"{file:03d}.txt.gz" for file in range(number)]
    for path in paths:
        path.write_bytes(gzip.compress("".join(itertools.islice(sentences, lines)).encode(), mtime=0))
    return paths


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def check_all(cluster: Cluster, folder: Path, learners: list[str], models: list[str]) -> None:
    """Compare all that runs on a cluster with what threads give."""
    for method in learners:
        options = {"method": method, "dev": DEV, **LEARNERS[method]}
        here = saved(sapwood.train(TREES, **options), folder / "here")
        assert saved(sapwood.train(TREES, workers=cluster, **options), folder / "there") == here, method
    train, dev = texts(folder)
    for order, boundaries in ((3, "sentence"), (2, "stream")):
        options = {"order": order, "boundaries": boundaries}
        count_text(train, **options).save(folder / "here")
        count_text(train, workers=cluster, **options).save(folder / "there")
        assert (folder / "there").read_bytes() == (folder / "here").read_bytes()
    for method in models:
        for name, place in (("here", {"threads": 2}), ("there", {"workers": cluster})):
            save_model(train_lm(train, method=method, dev=dev, **MODELS[method], **place), folder / name)
        assert (folder / "there").read_bytes() == (folder / "here").read_bytes(), method
    grammar = sapwood.PCFG().fit(sapwood.PCFG.prepare(TREES))
    sentences = [tree.words() for tree in DEV]
    parsers = sapwood.Parser(grammar, threads=2), sapwood.Parser(grammar, workers=cluster)
    one, other = (list(parser.parse(sentences)) for parser in parsers)
    assert one == other
    crawl = written(folder / "crawl", 5)
    for name, parser in zip(("here", "there"), parsers, strict=True):
        parse_files(parser, crawl, folder / f"{name}.d")
    assert contents(folder / "there.d") == contents(folder / "here.d")
    assert len(contents(folder / "here.d")) == 6


def test_the_same_bytes_on_two_processes(cluster: Cluster, tmp_path: Path) -> None:
    check_all(cluster, tmp_path, ["split-merge", "spectral"], ["em"])


@pytest.mark.slow
@pytest.mark.parametrize("number", [1, 2, 3])
def test_the_same_bytes_on_any_number_of_processes(tmp_path: Path, number: int) -> None:
    with Cluster(f"local:{number}") as cluster:
        assert cluster.count == number
        check_all(cluster, tmp_path, list(LEARNERS), list(MODELS))


def test_members_of_an_ensemble_are_trained_whole(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observed, "_SHARD_NODES", 1 << 16)  # as it is on the workers
    options: dict[str, Any] = {"method": "em", "dev": DEV, "ensemble": 3, "states": 2, "iterations": 2}
    here = saved(sapwood.train(TREES, log=tmp_path / "here.log", **options), tmp_path / "here")
    found = sapwood.train(TREES, workers=cluster, log=tmp_path / "there.log", **options)
    assert saved(found, tmp_path / "there") == here
    one, other = (
        [{name: value for name, value in line.items() if name != "seconds"} for line in sapwood.run.log.read_log(path)]
        for path in (tmp_path / "here.log", tmp_path / "there.log")
    )
    assert one == other


def test_arrays_go_through_files_or_by_post(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(cluster.columns({"a": np.arange(5)}), sapwood.run.columns.FileColumns)
    monkeypatch.setattr(Cluster, "sees", lambda self, path: False)
    assert isinstance(cluster.columns({"a": np.arange(5)}), sapwood.run.columns.Rows)
    options: dict[str, Any] = {"method": "em", **LEARNERS["em"]}
    here = saved(sapwood.train(TREES, **options), tmp_path / "here")
    assert saved(sapwood.train(TREES, workers=cluster, **options), tmp_path / "there") == here


def test_errors_of_calls_are_their_own(cluster: Cluster, tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        list(cluster.map(divmod, [1, 1], [1, 0]))
    (tmp_path / "bad.txt").write_bytes(b"good\n" * 700 + b"bad \xff\n")
    with pytest.raises(InputError, match=r"bad\.txt:701:5: not valid UTF-8"):
        count_text(tmp_path / "bad.txt", workers=cluster)
    with pytest.raises(InputError, match="does not see it"):
        cluster.check_visible(tmp_path / "nowhere")


def test_workers_with_other_versions_are_refused(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = module.metadata.version
    monkeypatch.setattr(module.metadata, "version", lambda name: "0.1" if name == "numpy" else honest(name))
    monkeypatch.setattr(cluster._client, "run", lambda call, *more, **how: {"tcp://w": honest(*more)})
    with pytest.raises(ClusterError, match=r"worker tcp://w has numpy [0-9.]+, and here it is 0\.1; .*same versions"):
        cluster._check_workers()


def test_workers_without_sapwood_are_named(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = module.metadata.PackageNotFoundError("sapwood")
    monkeypatch.setattr(cluster._client, "run", lambda call, *more, **how: {"tcp://w": missing})
    with pytest.raises(ClusterError, match=r"worker tcp://w has no sapwood; install sapwood \S+ with its extra"):
        cluster._check_workers()


def test_no_scheduler_no_dask_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ClusterError, match=r"tcp://127\.0\.0\.1:9: no scheduler there .*dask scheduler"):
        Cluster("tcp://127.0.0.1:9", patience=1)
    for wrong in ("local:0", "local:x", "local:-1", "local:99999"):
        with pytest.raises(UsageError, match="local:N is N processes"):
            Cluster(wrong)
    monkeypatch.setattr(importlib, "import_module", lambda name: (_ for _ in ()).throw(ModuleNotFoundError(name)))
    with pytest.raises(UsageError, match=r"needs Dask: pip install 'sapwood\[cluster\]'"):
        Cluster("local:1")


@pytest.mark.parametrize("protocol", [4, 5])
def test_what_is_sent_arrives_in_place(protocol: int) -> None:
    sealed = module.Sealed({"a": np.arange(1000.0), "b": [np.arange(3, dtype=np.int32), "text"]})
    assert sys.getsizeof(sealed) > 8000
    make, (rest, *arrays) = sealed.__reduce_ex__(protocol)
    # As they come out of a message: anywhere.
    odd = [np.frombuffer(b"x" + bytes(memoryview(array)), np.uint8)[1:] for array in arrays]
    found = make(rest, *odd).value
    assert np.array_equal(found["a"], np.arange(1000.0))
    assert found["a"].flags.aligned
    assert found["b"][0].flags.aligned


def test_temporary_files_vanish(cluster: Cluster) -> None:
    columns = cluster.columns({"a": np.arange(5)})
    folder = Path(columns.folder)
    assert columns.part(1, 3).load()["a"].tolist() == [1, 2]
    del columns
    assert not folder.exists()


# What dies.


class Killer(threading.Thread):
    """Kills a worker process now and then."""

    def __init__(self, cluster: Cluster, times: int, pause: tuple[float, float], seed: int) -> None:
        super().__init__(daemon=True)
        self.cluster, self.left, self.pause, self.killed = cluster, times, pause, 0
        self.random, self.over = random.Random(seed), threading.Event()

    def run(self) -> None:
        while self.left and not self.over.wait(self.random.uniform(*self.pause)):
            with contextlib.suppress(Exception):
                pids = list(self.cluster._client.run(os.getpid).values())
                os.kill(self.random.choice(pids), signal.SIGKILL)
                self.left -= 1
                self.killed += 1


@contextlib.contextmanager
def killing(cluster: Cluster, times: int, pause: tuple[float, float], seed: int = 0) -> Iterator[Killer]:
    killer = Killer(cluster, times, pause, seed)
    killer.start()
    try:
        yield killer
    finally:
        killer.over.set()
        killer.join()


@pytest.mark.slow
def test_a_worker_that_dies_is_replaced(tmp_path: Path) -> None:
    options: dict[str, Any] = {"method": "split-merge", "cycles": 2, "iterations": 4, "settle": 3}
    here = saved(sapwood.train(TREES, **options), tmp_path / "here")
    with Cluster("local:1") as cluster, killing(cluster, 1, (0.3, 0.5)) as killer:
        assert saved(sapwood.train(TREES, workers=cluster, **options), tmp_path / "there") == here
    assert killer.killed == 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_ten_workers_that_die(tmp_path: Path, seed: int) -> None:
    train, _ = texts(tmp_path)
    with Cluster("local:2") as cluster:
        options: dict[str, Any] = {"method": "split-merge", "cycles": 3, "iterations": 20, "settle": 10}
        here = saved(sapwood.train(TREES, **options), tmp_path / "here")
        with killing(cluster, 10, (0.5, 3), seed) as killer:
            assert saved(sapwood.train(TREES, workers=cluster, **options), tmp_path / "there") == here
        assert killer.killed
        model: dict[str, Any] = {"method": "em", "states": 4, "iterations": 60}
        save_model(train_lm(train, **model), tmp_path / "here")
        with killing(cluster, 10, (0.5, 3), seed) as killer:
            save_model(train_lm(train, workers=cluster, **model), tmp_path / "there")
        assert (tmp_path / "there").read_bytes() == (tmp_path / "here").read_bytes()
        assert killer.killed
        crawl = written(tmp_path / "crawl", 200, 8)
        grammar = sapwood.PCFG().fit(sapwood.PCFG.prepare(TREES))
        parse_files(sapwood.Parser(grammar), crawl, tmp_path / "here.d")
        with killing(cluster, 10, (0.2, 1), seed) as killer:
            parse_files(sapwood.Parser(grammar, workers=cluster), crawl, tmp_path / "there.d")
        assert contents(tmp_path / "there.d") == contents(tmp_path / "here.d")
        assert killer.killed


@contextlib.contextmanager
def own_cluster(folder: Path) -> Iterator[tuple[Path, subprocess.Popen]]:
    """Start a scheduler and a worker as people do; yield the scheduler's file and process."""
    file, quiet = folder / "scheduler.json", {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    command = [sys.executable, "-m", "dask"]
    scheduler = subprocess.Popen(
        [*command, "scheduler", "--scheduler-file", str(file), "--port", "0", "--no-dashboard"], **quiet
    )
    worker = subprocess.Popen(
        [*command, "worker", "--scheduler-file", str(file), "--nthreads", "1", "--no-dashboard",
         "--local-directory", str(folder), "--death-timeout", "20"], **quiet,
    )  # fmt: skip
    try:
        while not file.exists():
            time.sleep(0.1)
        yield file, scheduler
    finally:
        for process in (worker, scheduler):
            process.kill()
            process.wait()


@pytest.mark.slow
def test_the_scheduler_dies_and_the_run_goes_on(tmp_path: Path) -> None:
    (tmp_path / "train.mrg").write_text("".join(f"{tree}\n" for tree in TREES), encoding="utf-8")
    options = ["train.mrg", "--method", "split-merge", "--cycles", "3", "--iterations", "40", "--threads", "1"]

    def sapwood_train(*more: str) -> subprocess.Popen:
        command = [sys.executable, "-m", "sapwood", "train", *options, *more]
        return subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)

    with own_cluster(tmp_path) as (file, scheduler):
        process = sapwood_train("-o", "there", "--cluster", str(file))
        while not (tmp_path / "there.checkpoint").exists():
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.1)
        scheduler.kill()
        message = process.communicate(timeout=120)[1]
    assert process.returncode == 5
    assert "the scheduler is gone" in message
    assert "--resume goes on from there" in message
    assert "Traceback" not in message
    for more in (("-o", "there", "--resume"), ("-o", "here")):
        process = sapwood_train(*more, "-q")
        assert process.wait(timeout=300) == 0, process.stderr.read()
    assert (tmp_path / "there").read_bytes() == (tmp_path / "here").read_bytes()


@pytest.mark.slow
def test_an_interrupt_leaves_what_resume_needs(tmp_path: Path) -> None:
    (tmp_path / "train.mrg").write_text("".join(f"{tree}\n" for tree in TREES), encoding="utf-8")
    command = [sys.executable, "-m", "sapwood", "train", "train.mrg", "--method", "split-merge", "--cycles", "3"]
    command += ["--iterations", "40", "--threads", "1"]
    process = subprocess.Popen(
        [*command, "-o", "there", "--cluster", "local:2"], cwd=tmp_path, stderr=subprocess.PIPE, text=True,
        # A shell may have told what it runs in the background to ignore interrupts.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    while not (tmp_path / "there.checkpoint").exists():
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    message = process.communicate(timeout=120)[1]
    assert process.returncode == 130, message
    assert "--resume goes on from there" in message
    # With another number of workers, and to the same bytes.
    for more in (["-o", "there", "--resume", "--cluster", "local:1"], ["-o", "here"]):
        subprocess.run([*command, *more, "-q"], cwd=tmp_path, check=True, timeout=300)
    assert (tmp_path / "there").read_bytes() == (tmp_path / "here").read_bytes()


@pytest.mark.slow
def test_a_worker_out_of_memory_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_DEATHS", 1)
    with (
        Cluster("local:1", memory=300_000_000) as cluster,
        pytest.raises(ClusterError, match=r"one worker after the other died.*give each more"),
    ):
        list(cluster.map(_grow, [None]))


def _grow(_: None) -> None:
    kept = []
    while True:
        kept.append(np.ones(1 << 21))
        time.sleep(0.01)
