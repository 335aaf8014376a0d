"""Clusters: the same bytes as on threads, with real processes, whatever dies on the way."""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import itertools
import logging
import os
import subprocess
import sys
import tempfile
import time
import types
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sapwood
from helpers.clusters import DEV, TREES, contents, saved, small_shards, texts, written  # noqa: F401
from sapwood.errors import ClusterError, InputError, UsageError
from sapwood.inference.batch import parse_files
from sapwood.inference.estep import base as observations
from sapwood.inference.estep import trees as observed
from sapwood.learn.components.forest_crf import ForestCRFTrainer
from sapwood.learn.components.span_scorer import SpanScorerTrainer
from sapwood.lm import count_text
from sapwood.lm import train as train_lm
from sapwood.lm.io import save_model
from sapwood.runtime.dask import client as connection
from sapwood.runtime.dask import executor as module
from sapwood.runtime.dask.executor import DaskCluster
from sapwood.runtime.dask.versions import versions
from sapwood.trees.partial import PartialTree

LocalCluster = pytest.importorskip(
    "distributed", reason="distributed is not installed: pip install distributed"
).LocalCluster
pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # of Dask's, about its own sockets and loops
    pytest.mark.usefixtures("small_shards"),
]

LEARNERS: dict[str, dict[str, Any]] = {
    "pcfg": {},
    "em": {"states": 3, "iterations": 2},
    "split-merge": {"cycles": 2, "iterations": 1, "smoothing_iterations": 1},
    "spectral": {"states": 4, "min_support": 5},
    "cluster": {"states": 4, "min_support": 5, "iterations": 1},
    "pivot": {"states": 4, "min_support": 5},
    "pivot+em": {"states": 4, "min_support": 5, "iterations": 1},
}
MODELS: dict[str, dict[str, Any]] = {
    "em": {"states": 5, "iterations": 2},
    "pivot+em": {"states": 5, "iterations": 1, "anchor_count": 5},
    "mix": {"states": 4, "iterations": 1, "anchor_count": 5, "lags": 2},
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[DaskCluster]:
    with DaskCluster("local:2") as found:
        yield found


@contextlib.contextmanager
def from_afar(cluster: DaskCluster) -> Iterator[DaskCluster]:
    """Yield the same workers as they are seen by who does not know that they are on this machine."""
    with DaskCluster(cluster._client.scheduler.address) as found:
        assert (found.shares_memory, cluster.shares_memory) == (False, True)
        yield found


@cache
def trained_here(method: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        return saved(
            sapwood.train(TREES, method=method, dev=held_out(method), **LEARNERS[method]), Path(folder, "here")
        )


def held_out(method: str) -> list[sapwood.Tree] | None:
    """Return trees to choose the best grammar by, for one of all methods: it takes most of the time."""
    return DEV if method == "em" else None


def check_all(cluster: DaskCluster, folder: Path, learners: list[str], models: list[str]) -> None:
    """Compare all that runs on a cluster with what threads give."""
    for method in learners:
        found = sapwood.train(TREES, method=method, dev=held_out(method), workers=cluster, **LEARNERS[method])
        assert saved(found, folder / "there") == trained_here(method), method
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


def test_the_same_bytes_on_two_processes(cluster: DaskCluster, tmp_path: Path) -> None:
    check_all(cluster, tmp_path, ["split-merge"], ["em"])


def test_the_same_bytes_over_a_network(cluster: DaskCluster, tmp_path: Path) -> None:
    with from_afar(cluster) as far:
        assert far._client.direct_to_workers
        check_all(far, tmp_path, ["split-merge"], ["em"])
        far._client.direct_to_workers = False
        assert list(far.map(abs, range(-5, 5))) == [abs(number) for number in range(-5, 5)]


@pytest.mark.slow
@pytest.mark.parametrize("number", [1, 2, 3])
def test_the_same_bytes_on_any_number_of_processes(tmp_path: Path, number: int) -> None:
    with DaskCluster(f"local:{number}") as cluster:
        assert cluster.count == number
        check_all(cluster, tmp_path, list(LEARNERS), list(MODELS) if number == 2 else ["em", "pivot+em"])
        if number == 3:
            with from_afar(cluster) as far:
                check_all(far, tmp_path, ["pivot+em"], ["pivot+em"])


def test_short_calls_are_made_together(cluster: DaskCluster) -> None:
    sent, names = cluster._messages, []
    honest = cluster._collect
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cluster, "_collect", lambda call, rows: names.extend(found := honest(call, rows)) or found)
        assert list(cluster.map(pow, range(1000), itertools.repeat(2))) == [number**2 for number in range(1000)]
    assert len(names) < 200
    assert cluster._messages - sent < 20
    kept = cluster.submit(abs, range(20))
    assert list(cluster.map(pow, kept, itertools.repeat(2))) == [number**2 for number in range(20)]
    assert list(cluster.map(pow, range(0), range(0))) == []


def test_shards_are_on_all_workers(cluster: DaskCluster) -> None:
    with from_afar(cluster) as far:
        for workers in (cluster, far):
            shared = workers.broadcast(np.arange(100_000))
            kept = workers.persist(_process, range(2), itertools.repeat(shared))
            assert len(set(workers.gather(kept))) == 2
            assert list(workers.map(np.sum, [shared])) == [np.arange(100_000).sum()]


def _process(_: int, shared: np.ndarray) -> int:
    assert len(shared) == 100_000
    time.sleep(0.05)
    return os.getpid()


def test_small_work_stays_here(cluster: DaskCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_WORTH_CALLING", 0.07)
    assert cluster.if_worthwhile(0.2, 2) is cluster
    assert cluster.if_worthwhile(0.1, 2).is_local
    sent = cluster._messages
    learner = sapwood.SplitMerge(**LEARNERS["split-merge"])
    corpus = learner.prepare(TREES)
    assert learner.replace(workers=cluster).fit(corpus) == learner.fit(corpus)
    assert cluster._messages == sent


def test_members_of_an_ensemble_are_trained_whole(
    cluster: DaskCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observations, "_SHARD_NODES", 1 << 16)  # as it is on the workers
    options: dict[str, Any] = {"method": "em", "dev": DEV, "ensemble": 3, "states": 2, "iterations": 2}
    here = saved(sapwood.train(TREES, log=tmp_path / "here.log", **options), tmp_path / "here")
    found = sapwood.train(TREES, workers=cluster, log=tmp_path / "there.log", **options)
    assert saved(found, tmp_path / "there") == here
    one, other = (
        [
            {name: value for name, value in line.items() if name != "seconds"}
            for line in sapwood.runtime.log.read_log(path)
        ]
        for path in (tmp_path / "here.log", tmp_path / "there.log")
    )
    assert one == other


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        # What is recommended for so few trees: three methods, a layer and a network, but smaller.
        {
            "crf": ForestCRFTrainer(folds=2, epochs=1),
            "span_scorer": SpanScorerTrainer(embedding=8, hidden=8, span_hidden=8, epochs=1),
        },
        {"method": "em", "states": 2, "iterations": 2, "text": [tree.words() for tree in DEV], "text_use": "em"},
        {"method": "em", "states": 2, "iterations": 2, "partial": [PartialTree.parse(str(tree)) for tree in DEV]},
    ],
    ids=["default", "text", "partial"],
)
def test_recipes_give_the_same_bytes(
    cluster: DaskCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    monkeypatch.setattr(observations, "_SHARD_NODES", 1 << 16)  # as it is on the workers
    here = saved(sapwood.train(TREES, **options), tmp_path / "here")
    sent = cluster._messages
    assert saved(sapwood.train(TREES, workers=cluster, **options), tmp_path / "there") == here
    assert cluster._messages > sent


@pytest.mark.slow
@pytest.mark.parametrize("held_out", [None, 8])
def test_folds_of_a_layer_are_trained_whole(
    cluster: DaskCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held_out: int | None
) -> None:
    monkeypatch.setattr(observations, "_SHARD_NODES", 1 << 16)  # as it is on the workers
    layer = ForestCRFTrainer(folds=2, epochs=1, held_out=held_out)
    options: dict[str, Any] = {"method": "em", "crf": layer, "states": 2, "iterations": 1}
    here = saved(sapwood.train(TREES, **options), tmp_path / "here")
    assert saved(sapwood.train(TREES, workers=cluster, **options), tmp_path / "there") == here


def test_arrays_go_through_files_or_by_post(
    cluster: DaskCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(cluster.columns({"a": np.arange(5)}), sapwood.runtime.dask.array_store.FileColumns)
    shared = np.arange(100_000)
    assert cluster.broadcast(shared).spill()
    monkeypatch.setattr(cluster._connection, "shared", None)
    kept = cluster.broadcast(shared)
    assert isinstance(kept, module.Name)
    assert list(cluster.map(np.sum, [kept])) == [shared.sum()]
    assert isinstance(cluster.columns({"a": np.arange(5)}), sapwood.runtime.dask.array_store.MemoryRows)
    options: dict[str, Any] = {"method": "em", **LEARNERS["em"]}
    here = saved(sapwood.train(TREES, **options), tmp_path / "here")
    assert saved(sapwood.train(TREES, workers=cluster, **options), tmp_path / "there") == here


def test_errors_of_calls_are_their_own(cluster: DaskCluster, tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        list(cluster.map(divmod, [1, 1], [1, 0]))
    (tmp_path / "bad.txt").write_bytes(b"good\n" * 700 + b"bad \xff\n")
    with pytest.raises(InputError, match=r"bad\.txt:701:5: not valid UTF-8"):
        count_text(tmp_path / "bad.txt", workers=cluster)
    with pytest.raises(InputError, match="does not see it"):
        cluster.check_visible(tmp_path / "nowhere")


@contextlib.contextmanager
def odd_worker(preamble: str, folder: Path) -> Iterator[str]:
    """Yield the address of a scheduler with a worker that has done something before it began."""
    with LocalCluster(n_workers=0, dashboard_address=None, silence_logs=50) as scheduler:
        code = f"{preamble}; from distributed.cli.dask_worker import main; main()"
        options = ["--no-nanny", "--nthreads", "1", "--no-dashboard", "--local-directory", str(folder)]
        worker = subprocess.Popen(
            [sys.executable, "-c", code, scheduler.scheduler_address, *options],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            yield scheduler.scheduler_address
        finally:
            worker.kill()
            worker.wait()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("preamble", "complaint"),
    [
        (
            "import sys; sys.modules['sapwood'] = None",
            r"worker .* has no sapwood; install sapwood .* where it runs",
        ),
        (
            "import importlib.metadata as m; v = m.version; m.version = lambda n: '0.1' if n == 'numpy' else v(n)",
            r"worker .* has numpy 0\.1, and here it is [0-9.]+; .*same versions",
        ),
    ],
)
def test_workers_with_other_software_are_refused(tmp_path: Path, preamble: str, complaint: str) -> None:
    with odd_worker(preamble, tmp_path) as address, pytest.raises(ClusterError, match=complaint):
        DaskCluster(address)


@pytest.mark.slow
@pytest.mark.parametrize("with_numpy", [True, False])
def test_workers_that_come_late_with_other_software_leave(tmp_path: Path, with_numpy: bool) -> None:
    preamble = "import importlib.metadata as m; v = m.version; m.version = lambda n: '0.1' if n == 'numpy' else v(n)"
    late = preamble if with_numpy else "import sys; sys.modules['sapwood'] = None"
    with odd_worker("pass", tmp_path) as address, DaskCluster(address) as cluster:
        good = set(cluster._client.nthreads())
        assert list(cluster.map(abs, [1])) == [1]
        options = ["--no-nanny", "--nthreads", "1", "--no-dashboard", "--local-directory", str(tmp_path / "late")]
        command = [sys.executable, "-c", f"{late}; from distributed.cli.dask_worker import main; main()", address]
        with (tmp_path / "log").open("wb") as log:
            worker = subprocess.Popen([*command, *options], stdout=log, stderr=log)
            try:
                while worker.poll() is None:
                    found = cluster.map(importlib.metadata.version, ["numpy"] * 8)
                    assert set(found) == {importlib.metadata.version("numpy")}
                    time.sleep(0.05)
            finally:
                worker.kill()
                worker.wait()
        assert set(cluster._client.nthreads()) == good
        assert ("has numpy 0.1" if with_numpy else "sapwood") in (tmp_path / "log").read_text()


def test_each_worker_is_prepared_before_it_runs_anything(cluster: DaskCluster) -> None:
    name = cluster._connection.plugin
    found = cluster._client.run(lambda dask_worker: (dask_worker.plugins[name].problem, blas_threads()))
    assert len(found) == 2
    assert set(found.values()) == {("", 1)}
    with from_afar(cluster) as far:
        assert set(cluster._client.run(lambda dask_worker: far_name(dask_worker, name)).values()) == {2}
        del far
    # The plugin of a connection leaves with it.
    assert set(cluster._client.run(lambda dask_worker: far_name(dask_worker, name)).values()) == {1}


def blas_threads() -> int:
    from threadpoolctl import threadpool_info

    return max(library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas")


def far_name(worker: Any, name: str) -> int:
    assert name in worker.plugins
    return sum(other.startswith("sapwood-") for other in worker.plugins)


def test_a_worker_that_cannot_give_the_same_results_leaves() -> None:
    from sapwood.runtime.dask.worker_plugin import PreparedWorker

    plugin = PreparedWorker("p", {**versions(), "numpy": "0.1"}, None)
    left: list[Any] = []
    loop = types.SimpleNamespace(add_callback=lambda *arguments, **_: left.append(arguments))
    worker = types.SimpleNamespace(address="tcp://w", loop=loop, close="close")
    with pytest.raises(ClusterError, match=r"worker tcp://w has numpy [0-9.]+, and here it is 0\.1; .*same versions"):
        plugin.setup(worker)
    with pytest.raises(ClusterError, match=r"worker tcp://w does not see /nowhere"):
        PreparedWorker("p", versions(), "/nowhere").setup(worker)
    assert left == [("close",)] * 2


def test_loggers_of_dask_are_quiet_while_connected(cluster: DaskCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    logger = logging.getLogger("distributed.comm")
    before = logger.level
    with connection._quiet():
        logger.setLevel(logging.INFO)
        with connection._quiet():
            assert not logger.isEnabledFor(logging.ERROR)
        assert logger.level == logging.INFO
    assert logger.level == before
    monkeypatch.setenv("SAPWOOD_DEBUG", "1")
    logger.setLevel(logging.INFO)
    with connection._quiet():
        assert logger.level == logging.INFO
    logger.setLevel(before)
    assert cluster.count == 2


def test_no_workers(cluster: DaskCluster) -> None:
    with (
        LocalCluster(n_workers=0, dashboard_address=None, silence_logs=50) as scheduler,
        pytest.raises(ClusterError, match="the scheduler has no workers; start some"),
    ):
        DaskCluster(scheduler.scheduler_address, patience=0.5)


def test_no_scheduler_no_dask_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ClusterError, match=r"tcp://127\.0\.0\.1:9: no scheduler there .*dask scheduler"):
        DaskCluster("tcp://127.0.0.1:9", patience=1)
    for wrong in ("local:0", "local:x", "local:-1", "local:99999"):
        with pytest.raises(UsageError, match="local:N is N processes"):
            DaskCluster(wrong)
    monkeypatch.setattr(importlib, "import_module", lambda name: (_ for _ in ()).throw(ModuleNotFoundError(name)))
    with pytest.raises(UsageError, match=r"needs Dask: pip install distributed"):
        DaskCluster("local:1")


def test_tables_are_not_used_again_when_a_worker_was_lost(
    cluster: DaskCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look() -> str:
        table = cluster.table(1000)
        assert table.array.shape == (1000,)
        assert table.sound
        return table.path

    first = look()
    assert look() == first
    learner = sapwood.EM(**LEARNERS["em"])
    trees = observed.TreeEStep(learner.prepare(TREES), workers=cluster)
    grammar = sapwood.PCFG().fit(trees.corpus)
    lexical = observed.lexical_table(grammar, trees.corpus)
    once = [trees.expectations(grammar, lexical=lexical).tensors.tobytes() for _ in range(2)]
    sent, answers = cluster._messages, iter([False, True])  # after the table has been chosen
    monkeypatch.setattr(cluster._connection, "lost", lambda: next(answers, True))
    assert [trees.expectations(grammar, lexical=lexical).tensors.tobytes()] * 2 == once
    assert cluster._messages == sent + 2
    assert trees.expectations(grammar, lexical=lexical).tensors.tobytes() == once[0]
    assert cluster._messages == sent + 3
    paths = {look() for _ in range(3)}
    assert len(paths) == 3
    assert not any(Path(path).exists() for path in (first, *paths))


def test_temporary_files_vanish(cluster: DaskCluster) -> None:
    columns = cluster.columns({"a": np.arange(5)})
    folder = Path(columns.folder)
    assert columns.part(1, 3).load()["a"].tolist() == [1, 2]
    del columns
    assert not folder.exists()
