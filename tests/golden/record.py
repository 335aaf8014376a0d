"""Recorder of the digests in `digests.json`: `PYTHONPATH=src python tests/golden/record.py`.

Record only what is meant to change, and say so in the commit: `record.py NAME ...` records single entries. To find out
what differs, write the values themselves in two working copies and compare them: `record.py --show NAME > one.json`.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from golden import recipes, values

RECORDED = Path(__file__).with_name("digests.json")


def main() -> None:
    """Record all entries, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="entries to record instead of all")
    parser.add_argument("--show", action="store_true", help="print the values instead")
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - recipes.ENTRIES.keys():
        parser.error(f"no entries of these names: {', '.join(sorted(unknown))}")
    with tempfile.TemporaryDirectory() as folder:
        bench = recipes.Bench(Path(folder))
        found = {name: recipes.value(name, bench) for name in arguments.names or recipes.ENTRIES}
    if arguments.show:
        print(json.dumps(found, indent=1))
        return
    known = json.loads(RECORDED.read_text())["digests"] if arguments.names else {}
    content = {
        "digests": known | {name: values.digest(content) for name, content in found.items()},
        "environment": recipes.environment(),
    }
    RECORDED.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
