"""Plugins: entry points of other installed packages for formats, decoders, learners, features, tokenisers.

A package registers a plugin in its own `pyproject.toml`:

    [project.entry-points."sapwood.decoders"]
    my-decoder = "my_package.decoding:decode"

Nothing is looked up at import, and a plugin's code runs only when its name is used.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from sapwood.errors import SapwoodError, UsageError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")
# Characters of a field of metadata.
_LONGEST = 300


class _Plugins(Mapping[str, Any]):
    """Entry points by name; getting one loads it."""

    def __init__(self, group: str) -> None:
        self._group = group
        self._found: dict[str, list[EntryPoint]] = {}
        for entry in installed_entries(group):
            self._found.setdefault(entry.name, []).append(entry)

    def __getitem__(self, name: str) -> Any:
        entries = self._found[name]
        if len({entry.value for entry in entries}) > 1:
            raise SapwoodError(
                f"several packages have a {name!r} for {self._group}: {', '.join(map(_package, entries))}; "
                "uninstall all but one"
            )
        try:
            return entries[0].load()
        except Exception as error:
            raise SapwoodError(
                f"cannot load {name!r} of {self._group} from {_package(entries[0])} ({entries[0].value}): "
                f"{type(error).__name__}: {error}; repair or uninstall that package"
            ) from error

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._found))

    def __len__(self) -> int:
        return len(self._found)


def _package(entry: EntryPoint) -> str:
    known = package_field(entry, "Name")
    return f"{known} {package_field(entry, 'Version')}" if known else "an unknown package"


def installed_entries(group: str) -> list[EntryPoint]:
    """Return the entry points of a group, without those of packages whose entry points cannot be read."""
    from importlib.metadata import distributions, entry_points  # slow to import

    # Metadata can be wrong in any way, and the reader of the standard library has no error of its own.
    with contextlib.suppress(Exception):
        return list(entry_points(group=group))
    found: dict[str, list[EntryPoint]] = {}
    for package in distributions():
        with contextlib.suppress(Exception):
            # The first package of a name on the path is the one that is imported.
            found.setdefault(package.name, list(package.entry_points.select(group=group)))
    return [entry for entries in found.values() for entry in entries]


def package_field(entry: EntryPoint, field: str) -> str:
    """Return metadata of an entry point's package: one line of printable characters; empty if it has none."""
    text = ""
    with contextlib.suppress(Exception):
        if entry.dist is not None and field in entry.dist.metadata:
            text = str(entry.dist.metadata[field])[:_LONGEST]
    return "".join(letter if letter.isprintable() else " " for letter in text).strip()


def plugins(group: str) -> Mapping[str, Any]:
    """Return the plugins of a group of entry points, each loaded when it is looked up.

    Looking up one that cannot be loaded raises a `SapwoodError` with its package and the reason.

    Examples
    --------
    >>> dict(plugins("sapwood.nothing-of-that-kind"))
    {}
    """
    return _Plugins(group)


def named(name: str, own: Mapping[str, T], group: str, kind: str) -> T:
    """Return the object of that name, built-in or else from the group's plugins.

    If there is none, raises `UsageError` with all available names; `kind` is the kind of object in that message.

    Examples
    --------
    >>> named("double", {"double": 2}, "sapwood.numbers", "number")
    2
    """
    if name in own:
        return own[name]
    others = plugins(group)
    if name in others:
        return others[name]
    raise UsageError(f"no {kind} {name!r}; choose from {', '.join(dict.fromkeys([*own, *others]))}")
