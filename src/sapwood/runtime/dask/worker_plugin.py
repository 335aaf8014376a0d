"""Worker plugin: prepares each worker when the client connects or the worker joins.

Dask keeps it on the scheduler and sets it up on every worker before that runs anything, also on those that join later
or are restarted. It limits BLAS to one thread, and compares versions.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from distributed.diagnostics.plugin import WorkerPlugin

from sapwood.errors import ClusterError
from sapwood.runtime.blas import one_blas_thread
from sapwood.runtime.dask.versions import difference, versions


class PreparedWorker(WorkerPlugin):
    """Plugin of one connection.

    A worker that cannot give the same results leaves the cluster, and its log says why.

    Parameters
    ----------
    name
        Name of the plugin.
    here
        Versions of the client.
    folder
        Folder that all workers must see, if the client exchanges files with them.

    Attributes
    ----------
    problem
        Reason to leave; empty if there is none.
    """

    def __init__(self, name: str, here: dict[str, str], folder: str | None) -> None:
        self.name, self.here, self.folder, self.problem = name, here, folder, ""

    def setup(self, worker: Any) -> None:
        """Prepare a worker, or make it leave."""
        self.problem = difference(self.here, versions(), worker.address)
        if not self.problem and self.folder is not None and not Path(self.folder).is_dir():
            self.problem = f"worker {worker.address} does not see {self.folder}, which the others see"
        if self.problem:
            worker.loop.add_callback(worker.close, reason=self.problem)
            raise ClusterError(self.problem)
        # Limits apply to libraries that are loaded.
        importlib.import_module("scipy.linalg")
        one_blas_thread()
