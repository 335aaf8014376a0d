"""What dies, or has no room: the same bytes all the same, or an error that says so."""

from __future__ import annotations

import contextlib
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
import scipy.sparse

import sapwood
from helpers.clusters import COMMAND, DEV, TREES, contents, saved, small_shards, texts, written  # noqa: F401
from sapwood.errors import ClusterError
from sapwood.evaluate.dev_set import DevSet
from sapwood.inference.batch import parse_files
from sapwood.lm import AggregateMarkov, Vocabulary
from sapwood.lm import train as train_lm
from sapwood.lm.io import save_model
from sapwood.runtime.dask import client as connection
from sapwood.runtime.dask.executor import DaskCluster
from sapwood.runtime.executor import Threads
from sapwood.runtime.progress import Silent

distributed = pytest.importorskip("distributed", reason="distributed is not installed: pip install distributed")
pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # of Dask's, about its own sockets and loops
    pytest.mark.usefixtures("small_shards"),
]


class Killer(threading.Thread):
    """Kills worker processes now and then: one, all, one after the other."""

    def __init__(self, cluster: DaskCluster, times: int, pause: tuple[float, float], seed: int) -> None:
        super().__init__(daemon=True)
        self.cluster, self.times, self.left, self.pause, self.killed = cluster, times, times, pause, 0
        self.random, self.over = random.Random(seed), threading.Event()

    def run(self) -> None:
        while self.left and not self.over.wait(self.random.uniform(*self.pause)):
            processes = list(self.cluster._connection._own.workers.values())
            if self.killed != 1:  # the second time it is all of them
                processes = self.random.sample(processes, min(1, len(processes)))
            for process in processes:
                with contextlib.suppress(ProcessLookupError, TypeError):  # between two lives it has no number
                    os.kill(process.pid, signal.SIGKILL)
                    self.killed += 1
            self.left = max(0, self.times - self.killed)


@contextlib.contextmanager
def killing(
    cluster: DaskCluster, times: int, pause: tuple[float, float] = (0.2, 0.8), seed: int = 0
) -> Iterator[Killer]:
    killer = Killer(cluster, times, pause, seed)
    killer.start()
    try:
        yield killer
    finally:
        killer.over.set()
        killer.join()


@pytest.mark.slow  # benchmarks/cluster_kills.py does it more often, with more data
def test_workers_that_die_are_replaced(tmp_path: Path) -> None:
    train, _ = texts(tmp_path)
    with DaskCluster("local:2") as cluster:
        options: dict[str, Any] = {"method": "split-merge", "cycles": 2, "iterations": 15, "smoothing_iterations": 5}
        here = saved(sapwood.train(TREES, **options), tmp_path / "here")
        with killing(cluster, 4) as killer:
            assert saved(sapwood.train(TREES, workers=cluster, **options), tmp_path / "there") == here
        assert killer.killed
        model: dict[str, Any] = {"method": "em", "states": 4, "iterations": 12}
        save_model(train_lm(train, **model), tmp_path / "here")
        with killing(cluster, 3) as killer:
            save_model(train_lm(train, workers=cluster, **model), tmp_path / "there")
        assert (tmp_path / "there").read_bytes() == (tmp_path / "here").read_bytes()
        assert killer.killed
        crawl = written(tmp_path / "crawl", 200, 8)
        grammar = sapwood.PCFG().fit(sapwood.PCFG.prepare(TREES))
        parse_files(sapwood.Parser(grammar), crawl, tmp_path / "here.d")
        with killing(cluster, 3, (0.1, 0.4)) as killer:
            parse_files(sapwood.Parser(grammar, workers=cluster), crawl, tmp_path / "there.d")
        with contextlib.suppress(ProcessLookupError, TypeError):
            os.kill(next(iter(cluster._connection._own.workers.values())).pid, signal.SIGKILL)
        assert cluster.sees(tmp_path)  # whoever is still there
        # One that dies after the end may leave what it had begun to write again; the next run clears that away.
        assert all(one.skipped for one in parse_files(sapwood.Parser(grammar), crawl, tmp_path / "there.d"))
        assert contents(tmp_path / "there.d") == contents(tmp_path / "here.d")
        assert len((tmp_path / "there.d" / "manifest.jsonl").read_text().splitlines()) == 201
        assert killer.killed


@pytest.mark.slow
def test_a_cluster_that_grows_and_shrinks(tmp_path: Path) -> None:
    options: dict[str, Any] = {"method": "split-merge", "cycles": 2, "iterations": 15, "smoothing_iterations": 5}
    here = saved(sapwood.train(TREES, **options), tmp_path / "here")
    crawl = written(tmp_path / "crawl", 60, 8)
    grammar = sapwood.PCFG().fit(sapwood.PCFG.prepare(TREES))
    parse_files(sapwood.Parser(grammar), crawl, tmp_path / "here.d")
    numbers, over = set[int](), threading.Event()
    settings = {"threads_per_worker": 1, "dashboard_address": None, "silence_logs": 50}
    with distributed.LocalCluster(n_workers=1, **settings) as processes:

        def change() -> None:
            for number in (3, 1, 2, 1, 3, 2) * 50:
                if over.wait(1.5):
                    return
                processes.scale(number)
                numbers.add(len(processes.scheduler.workers))

        changes = threading.Thread(target=change)
        changes.start()
        try:
            with DaskCluster(processes.scheduler_address) as cluster:
                assert saved(sapwood.train(TREES, workers=cluster, **options), tmp_path / "there") == here
                parse_files(sapwood.Parser(grammar, workers=cluster), crawl, tmp_path / "there.d")
        finally:
            over.set()
            changes.join()
    assert len(numbers) > 1
    assert contents(tmp_path / "there.d") == contents(tmp_path / "here.d")


@contextlib.contextmanager
def own_cluster(folder: Path) -> Iterator[tuple[Path, subprocess.Popen]]:
    """Start a scheduler and a worker as people do; yield the scheduler's file and process."""
    file, quiet = folder / "scheduler.json", {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    command = [sys.executable, "-m", "dask"]
    scheduler = subprocess.Popen(
        [*command, "scheduler", "--scheduler-file", str(file), "--port", "0", "--no-dashboard"], **quiet
    )
    worker = subprocess.Popen(
        [*command, "worker", "--scheduler-file", str(file), "--nthreads", "1", "--no-nanny", "--no-dashboard",
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


def begun(folder: Path, output: str, *more: str, **how: Any) -> subprocess.Popen:
    """Begin a training whose everything is sent."""
    (folder / "train.mrg").write_text("".join(f"{tree}\n" for tree in TREES), encoding="utf-8")
    command = [*COMMAND, "train", "train.mrg", "-o", output, "--threads", "1", *more]
    return subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True, **how)


def finished(folder: Path, output: str, *more: str) -> bytes:
    """Run it to its end."""
    process = begun(folder, output, *more, "-q")
    message = process.communicate(timeout=300)[1]
    assert process.returncode == 0, message
    return (folder / output).read_bytes()


def awaited(path: Path, process: subprocess.Popen) -> None:
    """Wait for a file that shows how far a training is."""
    while not path.exists():
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.02)


SPLIT_MERGE = ("--method", "split-merge", "--cycles", "2", "--iterations", "15")


@pytest.fixture(scope="module")
def in_peace(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return finished(tmp_path_factory.mktemp("here"), "here", *SPLIT_MERGE)


@pytest.mark.slow
def test_the_scheduler_dies_and_the_run_goes_on(tmp_path: Path, in_peace: bytes) -> None:
    with own_cluster(tmp_path) as (file, scheduler):
        process = begun(tmp_path, "there", *SPLIT_MERGE, "--cluster", str(file))
        awaited(tmp_path / "there.checkpoint", process)
        scheduler.kill()
        message = process.communicate(timeout=120)[1]
    assert process.returncode == 5, message
    assert "the scheduler is gone" in message
    assert "--resume continues from there" in message
    assert "Traceback" not in message
    assert finished(tmp_path, "there", *SPLIT_MERGE, "--resume") == in_peace


class Gone(Threads):
    """Workers of a scheduler that is gone."""

    is_local = False

    def submit(self, call: Any, *columns: Any) -> list[Any]:
        raise ClusterError("the scheduler is gone")


def test_what_is_finished_is_measured_here_if_the_scheduler_is_gone() -> None:
    corpus, notes = sapwood.PCFG.prepare(TREES), list[str]()
    grammar = sapwood.PCFG().fit(corpus)
    progress = Silent()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Silent, "note", lambda self, text: notes.append(text))
        found = DevSet(DEV, corpus, workers=Gone(2)).score([grammar], progress)
    assert found == DevSet(DEV, corpus).score([grammar])
    assert notes == ["the scheduler is gone; evaluating locally"]
    with pytest.raises(ClusterError):  # a training does not go on without its workers
        DevSet(DEV, corpus, workers=Gone(2))(grammar)


@pytest.mark.slow
def test_an_interrupt_leaves_what_resume_needs(tmp_path: Path, in_peace: bytes) -> None:
    process = begun(
        tmp_path, "there", *SPLIT_MERGE, "--cluster", "local:2",
        # A shell may have told what it runs in the background to ignore interrupts.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL), start_new_session=True,
    )  # fmt: skip
    awaited(tmp_path / "there.checkpoint", process)
    os.killpg(process.pid, signal.SIGINT)  # workers get it, too, as from a terminal
    message = process.communicate(timeout=120)[1]
    assert process.returncode == 130, message
    assert "--resume continues from there" in message
    # With another number of workers, and to the same bytes.
    assert finished(tmp_path, "there", *SPLIT_MERGE, "--resume", "--cluster", "local:1") == in_peace


# Room.


@pytest.mark.slow
def test_a_worker_out_of_memory_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_DEATHS", 1)
    with (
        DaskCluster("local:1", memory=200_000_000) as cluster,
        pytest.raises(ClusterError, match=r"several workers died.*give each more"),
    ):
        list(cluster.map(_grow, [None]))


def _grow(_: None) -> None:
    kept = []
    while True:
        kept.append(np.ones(1 << 21))
        time.sleep(0.01)


def test_a_worker_without_room_for_long_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_LOOK_FOR_ROOM", 0.1)
    monkeypatch.setattr(connection, "_NO_ROOM", 0.3)
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, memory_limit=0, dashboard_address=None, silence_logs=50
        ) as others,
        DaskCluster(others.scheduler_address) as cluster,
    ):
        assert list(cluster.map(abs, [-1])) == [1]
        cluster._client.run(_pause)
        with pytest.raises(ClusterError, match=r"worker .* is out of memory: it has had no room .*give each more"):
            list(cluster.map(abs, [-1]))


def _pause(dask_worker: Any) -> None:
    dask_worker.status = distributed.Status.paused


@pytest.mark.slow
def test_what_workers_have_no_room_for_goes_to_disk_and_back() -> None:
    with DaskCluster("local:1", memory=700_000_000) as cluster:
        kept = cluster.submit(np.full, [2_500_000] * 36, range(36))  # 20 MB each
        assert [float(each) for each in cluster.gather(cluster.submit(np.max, kept))] == list(range(36))
        assert sum(cluster._client.run(_on_disk).values()) > 0
        assert [float(each) for each in cluster.gather(cluster.submit(np.min, kept))] == list(range(36))
        assert not cluster._connection.lost()


def _on_disk(dask_worker: Any) -> int:
    return len(dask_worker.data.slow)


def most_memory() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux says how much memory there was")
def test_counts_larger_than_a_worker(tmp_path: Path) -> None:
    words, entries, limit = 40_000, 450, 205_000_000
    columns = np.arange(entries) * 60 + np.arange(words)[:, None] % 60
    matrix = scipy.sparse.csr_array(
        (1 + columns.ravel() % 5, columns.ravel().astype(np.int32), np.arange(0, words * entries + 1, entries)),
        (words, words),
    )
    vocabulary = Vocabulary(["<unk>", "<s>", "</s>", *map(str, range(words - 3))], np.ones(words, np.int64))
    learner = AggregateMarkov(states=4, iterations=1, threads=1)
    save_model(learner.fit(matrix, vocabulary=vocabulary), tmp_path / "here")
    with DaskCluster("local:3", memory=limit) as cluster:
        learner = AggregateMarkov(states=4, iterations=1, workers=cluster)
        save_model(learner.fit(matrix, vocabulary=vocabulary), tmp_path / "there")
        most = cluster._client.run(most_memory)
        assert not cluster._connection.lost()
    assert (tmp_path / "there").read_bytes() == (tmp_path / "here").read_bytes()
    assert len(most) == 3
    # Counts take 12 bytes a bigram, and shards 8: what a third of that leaves is for the program and the model.
    assert max(most.values()) < 0.95 * limit < limit < 12 * matrix.nnz
