"""Recorder of the digests in `digests.json`: `PYTHONPATH=src python tests/golden/record.py`.

The file has one record per environment, and only that of this machine is written: without names all entries, with
`--missing` those that it lacks, and otherwise the named ones. Where a recorded digest changes, those of other
environments are out of date and removed. Record only what is meant to change, and say so in the commit. To find out
what differs, write the values themselves in two working copies and compare them: `record.py --show NAME > one.json`.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypedDict

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from golden import recipes, values

RECORDED = Path(__file__).with_name("digests.json")


class Record(TypedDict):
    """Digests of one environment."""

    digests: dict[str, str]
    environment: dict[str, str]


def read(path: Path = RECORDED) -> list[Record]:
    """Return the records of all environments."""
    found: list[Record] = json.loads(path.read_text())
    return found


def matching(records: Sequence[Record], environment: Mapping[str, str]) -> Record | None:
    """Return the record of an environment, if there is one."""
    return next((record for record in records if record["environment"] == environment), None)


def closest(records: Sequence[Record], environment: Mapping[str, str]) -> list[str]:
    """Return what differs between an environment and the recorded one that is most like it."""
    different = [
        [name for name in sorted({*recorded, *environment}) if recorded.get(name) != environment.get(name)]
        for recorded in (record["environment"] for record in records)
    ]
    return min(different, key=len, default=[])


def updated(
    records: Sequence[Record], environment: Mapping[str, str], found: Mapping[str, str], entries: Sequence[str]
) -> list[Record]:
    """Return the records with the digests `found` in an environment; those that are no longer `entries` are removed."""
    before = (matching(records, environment) or {"digests": {}})["digests"]
    changed = {name for name, digest in found.items() if before.get(name, digest) != digest}
    others: list[Record] = [
        {
            "digests": {
                name: digest for name, digest in record["digests"].items() if name in entries and name not in changed
            },
            "environment": record["environment"],
        }
        for record in records
        if record["environment"] != environment
    ]
    digests = {name: digest for name, digest in {**before, **found}.items() if name in entries}
    this: Record = {"digests": digests, "environment": dict(environment)}
    return sorted([*others, this], key=lambda record: sorted(record["environment"].items()))


def main() -> None:
    """Record all entries, those that are missing, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="entries to record instead of all")
    parser.add_argument("--missing", action="store_true", help="record entries that this machine's record lacks")
    parser.add_argument("--show", action="store_true", help="print the values instead")
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - recipes.ENTRIES.keys():
        parser.error(f"no entries of these names: {', '.join(sorted(unknown))}")
    records, environment = read(), recipes.environment()
    names = arguments.names or list(recipes.ENTRIES)
    if arguments.missing:
        record = matching(records, environment)
        names = [name for name in names if record is None or name not in record["digests"]]
    shown = {}
    with tempfile.TemporaryDirectory() as folder:
        bench = recipes.Bench(Path(folder))
        for name in names:
            found = recipes.value(name, bench)
            if arguments.show:
                shown[name] = found
                continue
            # One by one, so that an interrupted run keeps what it has: `--missing` continues.
            records = updated(records, environment, {name: values.digest(found)}, list(recipes.ENTRIES))
            RECORDED.write_text(json.dumps(records, indent=1, sort_keys=True) + "\n")
    if arguments.show:
        print(json.dumps(shown, indent=1))


if __name__ == "__main__":
    main()
