"""Records of measured figures, from which `benchmarks/figures.py` fills in the pages.

`benchmarks/results.jsonl` has one JSON object per line, sorted by id and seed. Fields of a record:

    id        treebank and configuration: `gum/default`
    seeds     the seeds it covers: one, or several where only their mean was kept
    figures   numbers by name; of several seeds `{"mean": ..., "sd": ...}` or `{"low": ..., "high": ...}`
    command   the command that measures it, with `DATA` for the folder of the treebanks; null if there is none
    commit    the commit of the code, with `+` after it if the code had changes
    date, machine, load, data
              when and where it was measured, the load of the machine at the end, a digest of the data
    describes defaults that the figures describe (`benchmarks/_defaults.py`), and a digest of their values
    source    for figures that were imported: where they come from
    decides   defaults that were chosen by these figures, and the part of the treebank they are of
    note      anything else

Figures of several seeds are means and standard deviations, which are computed when a page is rendered.
"""

from __future__ import annotations

import datetime
import fcntl
import hashlib
import json
import os
import platform
import subprocess
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from _defaults import digest_of
from _machine import reference_seconds

REPOSITORY = Path(__file__).resolve().parents[1]
STORE = REPOSITORY / "benchmarks" / "results.jsonl"
FIELDS = (
    "id", "seeds", "figures", "command", "commit", "date", "machine", "load", "data", "describes", "source", "decides",
    "note",
)  # fmt: skip
REQUIRED = ("id", "seeds", "figures", "command", "commit", "date", "machine", "data", "describes")
Record: TypeAlias = dict[str, Any]


def read(store: Path = STORE) -> list[Record]:
    """Return all records; a line that is not one raises a `ValueError` that names it."""
    found = []
    for number, line in enumerate(store.read_text(encoding="utf-8").splitlines() if store.exists() else [], 1):
        try:
            found.append(json.loads(line))
            check(found[-1])
        except ValueError as error:
            raise ValueError(f"{store.name}:{number}: {error}") from error
    return found


def check(record: Record) -> None:
    """Raise a `ValueError` unless a record has the fields it needs."""
    if missing := [name for name in REQUIRED if name not in record]:
        raise ValueError(f"the record has no {missing[0]!r}")
    if unknown := sorted(set(record) - set(FIELDS)):
        raise ValueError(f"{record['id']}: {unknown[0]!r} is not a field of records")
    if record["commit"] is None and not record.get("source"):
        raise ValueError(f"{record['id']}: neither a commit nor a source says where the figures come from")
    for name, value in record["figures"].items():
        if isinstance(value, dict) and set(value) not in ({"mean", "sd"}, {"low", "high"}):
            raise ValueError(f"{record['id']}: {name} has neither mean and sd nor low and high")


def add(record: Record, store: Path = STORE) -> None:
    """Write a record, in place of those with the same id that share a seed with it.

    The file is replaced as a whole, under a lock: an interrupted or concurrent run loses nothing.
    """
    check(record)
    with (store.parent / f".{store.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        kept = [one for one in read(store) if one["id"] != record["id"] or not {*one["seeds"]} & {*record["seeds"]}]
        lines = [
            json.dumps({name: one[name] for name in FIELDS if name in one}, ensure_ascii=False) + "\n"
            for one in sorted([*kept, record], key=lambda one: (one["id"], one["seeds"]))
        ]
        new = store.with_name(f".{store.name}.new")
        new.write_text("".join(lines), encoding="utf-8")
        new.replace(store)


def measured(
    name: str,
    figures: Mapping[str, float],
    *,
    seed: int,
    command: str,
    data: str,
    describes: Mapping[str, Any] | None,
    **more: Any,
) -> Record:
    """Return the record of a run that has just ended on this machine.

    Parameters
    ----------
    name, seed, figures
        The id of the record, the seed of the run, and what it gave.
    command
        The command that measures it, with `DATA` for the folder of the treebanks.
    data
        Digest of its data (`digest_files`).
    describes
        The defaults it describes, by name and arguments (`benchmarks/_defaults.py`).
    more
        Other fields.
    """
    return {
        "id": name,
        "seeds": [seed],
        "figures": {key: float(f"{value:.6g}") for key, value in figures.items()},
        "command": command,
        "commit": commit(),
        "date": datetime.date.today().isoformat(),
        "machine": machine(),
        "load": round(os.getloadavg()[0], 1),
        "data": data,
        "describes": None if describes is None else {**describes, "digest": digest_of(describes)},
        **more,
    }


def is_current(records: Iterable[Record], name: str, seed: int, data: str) -> bool:
    """Return True if a run of these defaults on this data has been measured by its script."""
    return any(
        one["id"] == name and one["seeds"] == [seed] and one["data"] == data
        and "source" not in one and not is_stale(one)
        for one in records
    )  # fmt: skip


def is_stale(record: Record) -> bool:
    """Return True if a default has changed since a record was measured that describes it."""
    described = record["describes"]
    return described is not None and described["digest"] != digest_of(described)


def digest_files(paths: Iterable[Path]) -> str:
    """Return a digest of the contents of files."""
    found = hashlib.sha256()
    for path in paths:
        found.update(path.read_bytes())
    return found.hexdigest()[:12]


@cache
def machine() -> str:
    """Return processor and cores of this machine, and the time of a fixed workload."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    processor = names[0] if names else platform.processor() or platform.machine()
    return f"{processor}, {os.cpu_count()} cores, fixed workload {reference_seconds():.3f} s"


def commit() -> str | None:
    """Return the commit of the source, with `+` if the package has changes; None outside of a repository."""

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", *arguments], cwd=REPOSITORY, check=True, capture_output=True, text=True
        ).stdout.strip()  # fmt: skip

    try:
        return git("rev-parse", "--short=9", "HEAD") + ("+" if git("status", "--porcelain", "--", "src") else "")
    except (OSError, subprocess.CalledProcessError):
        return None
