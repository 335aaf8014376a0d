"""Conformance of the service to the description of its API, tested with schemathesis.

    python benchmarks/conformance.py 10000

It serves a grammar of each kind, a language model, a treebank and a log, and has schemathesis send requests that the
description allows and requests that it does not, with one seed after another until there were enough. Every answer
must have a status, a type and a body as described, none may be a 5xx but 503, and requests that contradict the
description must be rejected. (Described requests can be rejected, too: a tag that the grammar does not have, an invalid
pattern. Streams are left out, since schemathesis does not support NDJSON.) It prints the number of requests by status,
and stops at the first seed for which schemathesis reports a failure.
"""

from __future__ import annotations

import argparse
import logging
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import _records
from _requirements import require

CHECKS = (
    "not_a_server_error", "status_code_conformance", "content_type_conformance", "response_schema_conformance",
    "response_headers_conformance", "negative_data_rejection", "unsupported_method", "missing_required_header",
)  # fmt: skip


class Tally(logging.Handler):
    """Counts answers by what the log says of them."""

    def __init__(self) -> None:
        super().__init__()
        self.statuses: Counter[int] = Counter()

    def emit(self, record: logging.LogRecord) -> None:
        """Count the answer, if it is one."""
        if "status" in (fields := getattr(record, "fields", {})):
            self.statuses[fields["status"]] += 1


def main(arguments: Sequence[str] | None = None) -> int | None:
    """Send requests until there were enough, or an answer was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("requests", type=int)
    parser.add_argument("--seed", type=int, default=1, help="first seed of schemathesis")
    parser.add_argument("--examples", type=int, default=60, help="of each operation, for each seed")
    parser.add_argument("--records", action="store_true", help="write the figures as a record")
    options = parser.parse_args(arguments)
    require(packages="schemathesis selenium")
    # Not `python -m schemathesis`: packages may be shared with another environment, which has the command.
    command = shutil.which("schemathesis", path=str(Path(sys.executable).parent)) or shutil.which("schemathesis")
    asked = [command] if command else [sys.executable, "-c", "from schemathesis.cli import schemathesis as s; s()"]
    sys.path.insert(0, str(_records.REPOSITORY / "tests"))
    from helpers.browser import serving
    from helpers.screenshots import make_service
    from sapwood.web.api.stream import PATH

    asked += ["run", "--phases", "examples,coverage,fuzzing", "--checks", ",".join(CHECKS), "--warnings", "off"]
    asked += ["--no-color", "--generation-database", "none", "--exclude-path", PATH]
    # The server answers within 30 s, if late; on a busy machine the 10 s of schemathesis are too few.
    asked += ["--max-examples", str(options.examples), "--request-timeout", "60"]
    tally, log = Tally(), logging.getLogger("sapwood.web")
    before = log.level, log.propagate
    log.addHandler(tally)
    log.setLevel(logging.INFO)
    log.propagate = False
    seeds, failed = 0, False
    try:
        with tempfile.TemporaryDirectory() as folder, serving(make_service(Path(folder))) as address:
            while tally.statuses.total() < options.requests and not failed:
                seed = options.seed + seeds
                run = [*asked, f"{address}api/openapi.json", "--seed", str(seed)]
                failed = subprocess.run(run, cwd=folder).returncode != 0
                seeds += 1
                print(f"seeds {options.seed} to {seed}: {dict(sorted(tally.statuses.items()))}", flush=True)
    finally:
        log.removeHandler(tally)
        log.setLevel(before[0])
        log.propagate = before[1]
    if options.records:
        write_record(options, tally.statuses, seeds, failed)
    return 1 if failed else None


def write_record(options: argparse.Namespace, statuses: Counter[int], seeds: int, failed: bool) -> None:
    """Write the numbers of requests as a record."""
    figures = {
        "requests": statuses.total(),
        "runs": seeds,
        "answered": statuses[200],
        "rejected": sum(count for status, count in statuses.items() if 400 <= status < 500),
        "busy": statuses[503],
        "server_errors": sum(count for status, count in statuses.items() if status >= 500 and status != 503),
        "failed_seeds": int(failed),
    }
    asked = f"{options.requests} --seed {options.seed} --examples {options.examples}"
    command = f"python benchmarks/conformance.py {asked} --records"
    note = f"schemathesis {version('schemathesis')}"
    record = _records.measured(
        "service/conformance", figures, seed=options.seed, command=command, data="none", describes=None, note=note
    )
    _records.add(record)


if __name__ == "__main__":
    sys.exit(main())
