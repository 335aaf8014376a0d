"""Whether the service does what its description says, asked by schemathesis: `python tests/helpers/described.py 10000`.

It serves something of each kind and has schemathesis (`pip install schemathesis`) send requests that the description
allows and requests that it does not, with one seed after the other until there were so many. Every answer must have a
status, a type and a body as described, none may be a 5xx but 503, and what is not described must be refused. (What is
described can be refused, too: a tag that the grammar has not, a pattern that is none. Streams are left out, since
schemathesis knows no NDJSON.) It prints how many requests got
which status.
"""

from __future__ import annotations

import argparse
import logging
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from helpers.browser import serving
from helpers.screenshots import make_service
from sapwood.web.api.stream import PATH

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


def main() -> None:
    """Ask until there were enough requests, or one had a wrong answer."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("requests", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--examples", type=int, default=60, help="of each operation, for each seed")
    options = parser.parse_args()
    command = shutil.which("schemathesis", path=str(Path(sys.executable).parent)) or shutil.which("schemathesis")
    if command is None:
        sys.exit("schemathesis is missing: pip install schemathesis")
    tally, log = Tally(), logging.getLogger("sapwood.web")
    log.addHandler(tally)
    log.setLevel(logging.INFO)
    log.propagate = False
    seed, failed = options.seed, False
    with tempfile.TemporaryDirectory() as folder, serving(make_service(Path(folder))) as address:
        while tally.statuses.total() < options.requests and not failed:
            asked = [
                command, "run", f"{address}api/openapi.json", "--phases", "examples,coverage,fuzzing",
                "--checks", ",".join(CHECKS), "--max-examples", str(options.examples), "--seed", str(seed),
                "--warnings", "off", "--no-color", "--generation-database", "none", "--exclude-path", PATH,
            ]  # fmt: skip
            failed = subprocess.run(asked, cwd=folder).returncode != 0
            seed += 1
            print(f"seeds {options.seed} to {seed - 1}: {dict(sorted(tally.statuses.items()))}", flush=True)
    sys.exit(int(failed))


if __name__ == "__main__":
    main()
