"""Three hosts, as network namespaces: one is disconnected and returns, one is killed, and the bytes are the same."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from helpers.clusters import TREES

pytest.importorskip("distributed", reason="distributed is not installed: pip install distributed")

HOSTS = ("a", "b", "c")
# What is lost is noticed in seconds, not in minutes. (Dask accepts no less.)
SETTINGS = {
    "DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP": "12s",
    "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "5s",
    "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "5s",
}
# Small shards, all of which are sent, and checkpoints as often as can be.
EAGER = (
    "import sapwood.runtime.dask.executor as c, sapwood.runtime.checkpoint as k, sapwood.inference.estep.base as e; "
    "c._WORTH_CALLING, k._PAUSE, k._SHARE, e._SHARD_NODES = 0, 0, 1e9, 600; "
    "from sapwood.cli.main import run; run()"
)
COMMAND = [sys.executable, "-c", EAGER]
TRAIN = ("train", "train.mrg", "--method", "split-merge", "--cycles", "2", "--iterations", "60", "--threads", "1", "-q")


def ip(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["ip", *arguments], capture_output=True, text=True, check=True)


def refusal() -> str:
    """Return the reason why there can be no network namespaces here; empty if there is none."""
    if shutil.which("ip") is None:
        return "needs ip: apt-get install iproute2"
    name = f"sapwood-{uuid.uuid4().hex[:6]}"
    try:
        ip("netns", "add", name)
        try:
            ip("netns", "exec", name, "ip", "link", "add", "x", "type", "bridge")
        finally:
            ip("netns", "del", name)
    except subprocess.CalledProcessError as error:
        return f"network namespaces need the permissions of an administrator: {error.stderr.strip()}"
    return ""


class Hosts:
    """Hosts on one switch; each, and the switch, is a network namespace."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.prefix = folder, f"sw{uuid.uuid4().hex[:6]}-"
        self.switch = f"{self.prefix}switch"
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        ip("netns", "add", self.switch)
        ip("-n", self.switch, "link", "add", "bridge", "type", "bridge")
        ip("-n", self.switch, "link", "set", "bridge", "up")
        for number, host in enumerate(HOSTS, 1):
            space = f"{self.prefix}{host}"
            ip("netns", "add", space)
            ip("-n", space, "link", "set", "lo", "up")
            ip("-n", space, "link", "add", "eth0", "type", "veth", "peer", "name", f"to-{host}", "netns", self.switch)
            ip("-n", self.switch, "link", "set", f"to-{host}", "master", "bridge", "up")
            ip("-n", space, "address", "add", f"10.77.0.{number}/24", "dev", "eth0")
            ip("-n", space, "link", "set", "eth0", "up")

    def start(self, name: str, host: str, *command: str) -> subprocess.Popen[bytes]:
        """Start a process on a host; what it prints is in a file of its name."""
        with (self.folder / f"{name}.out").open("wb") as out:
            self.processes[name] = subprocess.Popen(
                ["ip", "netns", "exec", f"{self.prefix}{host}", *command],
                cwd=self.folder, stdout=out, stderr=out, env={**os.environ, **SETTINGS}, start_new_session=True,
            )  # fmt: skip
        return self.processes[name]

    def printed(self, name: str) -> str:
        return (self.folder / f"{name}.out").read_text()

    def connect(self, host: str, there: bool) -> None:
        """Plug the cable of a host in or out."""
        ip("-n", self.switch, "link", "set", f"to-{host}", "up" if there else "down")

    def kill(self, name: str) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.processes[name].pid, signal.SIGKILL)
        self.processes[name].wait()

    def close(self) -> None:
        for name in self.processes:
            self.kill(name)
        for host in HOSTS:
            ip("netns", "del", f"{self.prefix}{host}")
        ip("netns", "del", self.switch)


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Hosts]:
    if reason := refusal():
        pytest.skip(reason)
    found = Hosts(tmp_path)
    try:
        yield found
    finally:
        found.close()


@pytest.mark.slow
def test_a_host_is_disconnected_and_returns_and_another_is_killed(hosts: Hosts, tmp_path: Path) -> None:
    (tmp_path / "train.mrg").write_text("".join(f"{tree}\n" for tree in TREES), encoding="utf-8")
    address, dask = "tcp://10.77.0.1:8786", [sys.executable, "-m", "dask"]
    hosts.start("scheduler", "a", *dask, "scheduler", "--host", "10.77.0.1", "--port", "8786", "--no-dashboard")
    for host in HOSTS:
        options = ["--nthreads", "1", "--no-dashboard", "--local-directory", str(tmp_path / f"disk-{host}")]
        # A worker that has lost the scheduler ends, and is started again, as systemd does (Restart=always).
        again = ("bash", "-c", 'while :; do "$@"; sleep 0.5; done', "worker")
        hosts.start(host, host, *again, *dask, "worker", address, *options)

    def until(enough: Callable[[], bool], what: str) -> None:
        """Wait until something has happened, while all processes go on."""
        while not enough():
            for name, process in hosts.processes.items():
                assert process.poll() is None, f"{name} ended before {what}: {hosts.printed(name)}"
            time.sleep(0.05)

    until(lambda: hosts.printed("scheduler").count("Register worker") == 3, "all workers had come")
    training = hosts.start("command", "a", *COMMAND, *TRAIN, "-o", "there", "--cluster", address)
    checkpoint = tmp_path / "there.checkpoint"
    until(checkpoint.exists, "there was a checkpoint")

    def saved_again(times: int) -> None:
        for _ in range(times):
            before = checkpoint.stat().st_mtime_ns
            until(lambda before=before: checkpoint.stat().st_mtime_ns != before, "there were more checkpoints")

    saved_again(2)
    hosts.connect("b", there=False)
    until(lambda: "Remove worker" in hosts.printed("scheduler"), "b was lost")
    saved_again(2)  # the others go on
    hosts.connect("b", there=True)
    until(lambda: hosts.printed("scheduler").count("Register worker") >= 4, "b was back")
    saved_again(2)
    hosts.kill("c")
    assert training.wait(timeout=600) == 0, hosts.printed("command")
    subprocess.run([*COMMAND, *TRAIN, "-o", "here"], cwd=tmp_path, check=True)
    assert (tmp_path / "there").read_bytes() == (tmp_path / "here").read_bytes()
