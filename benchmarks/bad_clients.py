"""Service under attack: the latency of good clients while many bad ones do all they can.

    python benchmarks/bad_clients.py --bad 2000 --seconds 60

Bad clients, on 16 addresses of the loopback network or on that of the good ones (`--same-address`), each repeat one of
these: open a connection and send nothing; send the head of a request, or its body, a byte at a time; request a large
answer and read nothing; send a flood of pipelined requests; send rubbish, or a head of a megabyte; reset the connection
in the middle of a request. Good clients open a connection, have a sentence parsed, and close it. A good request that
fails for whatever reason counts as the longest. It prints statuses and latencies of good clients, and the memory, the
file descriptors and the processor time of the server.

Latencies say little while other programs need the processor. Figures of the event loop, which all connections share,
say more: every 0.02 seconds the server measures how late the loop is (lag), and how much processor time it took
since the last time (busy). On an idle machine, connections wait for no longer than it is busy.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import math
import random
import re
import resource
import signal
import socket
import struct
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import _records
from _requirements import require

HEAD = b"POST /api/%b HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
GOOD = json.dumps({"text": "She saw the man with the telescope."}).encode()
_TREES = b'{"trees": "(S ' + b"(N a)" * 6_000 + b')", "to": "svg"}'
LARGE = HEAD % (b"format", len(_TREES)) + _TREES
KINDS = ("silent", "slow head", "slow body", "deaf", "flood", "rubbish", "large head", "reset")
# Seconds between two measurements of the event loop.
TICK = 0.02
_ADDRESSES = [f"127.0.1.{number}" for number in range(1, 17)]


async def opened(port: int, source: str) -> socket.socket:
    """Return a connection from an address."""
    connection = socket.socket()
    connection.setblocking(False)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.bind((source, 0))
    await asyncio.get_running_loop().sock_connect(connection, ("127.0.0.1", port))
    return connection


async def misbehave(kind: str, connection: socket.socket, rng: random.Random) -> None:
    """Do one bad thing until the server ends it."""
    loop = asyncio.get_running_loop()
    if kind in ("slow head", "slow body"):
        slow = b"GET / HTTP/1.1\r\nX: " if kind == "slow head" else HEAD % (b"parse", 5000)
        await loop.sock_sendall(connection, slow)
        for _ in range(60):
            await asyncio.sleep(1)
            await loop.sock_sendall(connection, b"a")
    elif kind == "deaf":
        await loop.sock_sendall(connection, LARGE)
        await asyncio.sleep(30)
    elif kind == "flood":
        await loop.sock_sendall(connection, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 500)
    elif kind == "rubbish":
        await loop.sock_sendall(connection, rng.randbytes(5000))
    elif kind == "large head":
        await loop.sock_sendall(connection, b"GET / HTTP/1.1\r\nX: " + b"a" * 1_000_000)
    elif kind == "reset":
        await loop.sock_sendall(connection, (HEAD % (b"parse", len(GOOD)) + GOOD)[: rng.randrange(1, 150)])
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return
    while await loop.sock_recv(connection, 1 << 16):
        pass


async def bad_client(port: int, number: int, same_address: bool, end: float, done: Counter[str]) -> None:
    """Repeat one kind of bad connection."""
    rng, kind = random.Random(number), KINDS[number % len(KINDS)]
    source = "127.0.0.1" if same_address else _ADDRESSES[number // len(KINDS) % len(_ADDRESSES)]
    await asyncio.sleep(rng.random())
    while (left := end - time.perf_counter()) > 0:
        with contextlib.suppress(OSError, TimeoutError):
            connection = await opened(port, source)
            try:
                done[kind] += 1
                await asyncio.wait_for(misbehave(kind, connection, rng), left)
            finally:
                connection.close()
        await asyncio.sleep(0.5 + rng.random())


async def good_client(port: int, end: float, seen: list[tuple[str, float]]) -> None:
    """Have sentences parsed, each over a connection of its own."""
    while time.perf_counter() < end:
        began = time.perf_counter()
        status = "failed"
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(HEAD % (b"parse", len(GOOD)) + GOOD)
            head = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
            await reader.readexactly(int(length[1]) if length else 0)
            status = head[9:12].decode()
            writer.close()
        seen.append((status, time.perf_counter() - began if status == "200" else math.inf))
        await asyncio.sleep(0.1)


async def attack(port: int, bad: int, same_address: bool, seconds: float) -> Counter[str]:
    """Return the number of bad connections of each kind."""
    done: Counter[str] = Counter()
    end = time.perf_counter() + seconds
    await asyncio.gather(*(bad_client(port, number, same_address, end, done) for number in range(bad)))
    return done


def serve_measured(arguments: Sequence[str]) -> None:
    """Run `sapwood serve`, and print the figures of its event loop and its processor time when it ends."""
    import uvicorn

    from sapwood.cli.main import main as run_command

    lags: list[float] = []
    busy: list[float] = []
    startup = uvicorn.Server.startup

    async def watch() -> None:
        while True:
            clock, used = time.perf_counter(), time.thread_time()
            await asyncio.sleep(TICK)
            lags.append(max(0.0, time.perf_counter() - clock - TICK))
            busy.append(time.thread_time() - used)

    async def measured_startup(server: uvicorn.Server, *given: Any, **more: Any) -> None:
        await startup(server, *given, **more)
        server.watching = asyncio.create_task(watch())  # type: ignore[attr-defined]

    uvicorn.Server.startup = measured_startup  # type: ignore[method-assign]
    sys.argv = ["sapwood", "serve", *arguments]
    try:
        run_command()
    finally:
        used = resource.getrusage(resource.RUSAGE_SELF)
        found = {"server_cpu_seconds": used.ru_utime + used.ru_stime, "loop_cpu_seconds": sum(busy)}
        for name, values in (("lag", sorted(lags)), ("busy", sorted(busy))):
            if values:
                found |= {f"loop_{name}_p99_seconds": values[len(values) * 99 // 100]}
                found |= {f"loop_{name}_longest_seconds": values[-1]}
        print(json.dumps(found), flush=True)


async def measure(port: int, process: int, good: int, seconds: float) -> dict[str, Any]:
    """Return what good clients have seen."""
    seen: list[tuple[str, float]] = []
    memory = files = 0
    end = time.perf_counter() + seconds
    work = [asyncio.create_task(good_client(port, end, seen)) for _ in range(good)]
    while time.perf_counter() < end:
        resident = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
        memory = max(memory, int(resident[1]) if resident else 0)
        files = max(files, len(list(Path(f"/proc/{process}/fd").iterdir())))
        await asyncio.sleep(0.5)
    await asyncio.gather(*work)
    times = sorted(taken for _, taken in seen)
    return {
        "good_requests": dict(Counter(status for status, _ in seen)),
        "p50_seconds": times[len(times) // 2],
        "p99_seconds": times[len(times) * 99 // 100],
        "longest_seconds": times[-1],
        "memory_mb": memory / 1024,
        "files": files,
    }


def run_attack(*given: Any) -> Counter[str]:
    """Attack, in a process."""
    return asyncio.run(attack(*given))


def main(arguments: Sequence[str] | None = None) -> None:
    """Attack a server of its own, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bad", type=int, default=2000, help="number of bad clients")
    parser.add_argument("--good", type=int, default=5, help="number of good clients")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--same-address", action="store_true", help="bad clients have the address of the good ones")
    parser.add_argument("--serve", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    parser.add_argument("--records", action="store_true", help="write the figures as a record")
    options = parser.parse_args(arguments)
    if options.serve is not None:
        serve_measured(options.serve)
        return
    require(connections=options.bad + options.good)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    command = [sys.executable, __file__, "--serve", "-q", "--port", "0", "--threads", str(options.threads)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        port = re.search(r":(\d+)/", server.stdout.readline())
        assert port is not None
        try:
            # In a process of their own, so that they delay good clients at the server only.
            with ProcessPoolExecutor(1) as pool:
                bad = pool.submit(run_attack, int(port[1]), options.bad, options.same_address, options.seconds)
                figures = asyncio.run(measure(int(port[1]), server.pid, options.good, options.seconds))
                figures["bad_connections"] = dict(bad.result())
        finally:
            server.send_signal(signal.SIGINT)
        said, messages = server.communicate()
        # A server that ended by itself, or was killed, says nothing.
        figures |= json.loads(said.strip().splitlines()[-1]) if said.strip() else {}
        figures["messages_of_the_server"] = messages[-2000:]
    print(json.dumps(figures, indent=1))
    if options.records:
        requests = figures["good_requests"]
        kept = {name: value for name, value in figures.items() if isinstance(value, int | float)}
        kept |= {"answered": requests.get("200", 0), "requests": sum(requests.values())}
        kept["bad_connections"] = sum(figures["bad_connections"].values())
        command = (
            f"python benchmarks/bad_clients.py --bad {options.bad} --good {options.good} --seconds {options.seconds:g} "
            f"--threads {options.threads}{' --same-address' if options.same_address else ''} --records"
        )
        name = f"service/{options.bad}-bad-clients{'-of-one-address' if options.same_address else ''}"
        _records.add(_records.measured(name, kept, seed=0, command=command, data="none", describes=None))


if __name__ == "__main__":
    main()
