"""The treebank that is served, and what is found out about it once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

from sapwood.trees.tree import Tree

T = TypeVar("T")


class Gold:
    """Gold trees under a name.

    Attributes
    ----------
    name
        The file's name.
    trees
        The trees, as they stand there.
    """

    def __init__(self, name: str, trees: Sequence[Tree]) -> None:
        self.name, self.trees = name, trees
        self._kept: dict[Hashable, Any] = {}
        self._lock = threading.Lock()

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return what is kept under a key, made at the first time."""
        with self._lock:
            if key not in self._kept:
                self._kept[key] = make()
            found: T = self._kept[key]
            return found
