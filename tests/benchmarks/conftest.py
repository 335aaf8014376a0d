"""One experiment's kernels need Numba, which comes later than a new Python does."""

from __future__ import annotations

import importlib.util

collect_ignore = [] if importlib.util.find_spec("numba") else ["test_cp.py", "test_topologies.py"]
