"""axe-core, which finds what people with a screen reader or a keyboard cannot use on a page.

It comes with the package `axe-core-python`; `SAPWOOD_AXE` names the file of another version (`axe.min.js`).
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any


def _find() -> Path | None:
    if given := os.environ.get("SAPWOOD_AXE"):
        return Path(given)
    package = find_spec("axe_core_python")
    return Path(str(package.origin)).with_name("axe.min.js") if package else None


AXE = _find()
WHY_NOT = "" if AXE and AXE.is_file() else "axe-core is missing: pip install axe-core-python, or set SAPWOOD_AXE"
_RUN = """
const done = arguments[0];
const rules = { "label-content-name-mismatch": { enabled: true } };
const options = { resultTypes: ["violations"], rules, elementRef: false };
axe.run(document, options).then(({ violations }) => done(violations
  .filter(({ impact }) => ["serious", "critical"].includes(impact))
  .map(({ id, impact, nodes }) => `${impact}: ${id}: ${nodes[0].html.slice(0, 200)} (${nodes.length})`)));
"""


def findings(driver: Any) -> list[str]:
    """Return the critical and serious findings about the page that a browser shows."""
    assert AXE is not None
    before = _complaints(driver)
    driver.execute_script(AXE.read_text(encoding="utf-8"))
    found: list[str] = driver.execute_async_script(_RUN)
    # axe-core reads its own canvas, about which browsers warn.
    return found + before + [message for message in _complaints(driver) if "Canvas2D" not in message]


def _complaints(driver: Any) -> list[str]:
    return [entry["message"] for entry in driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]
