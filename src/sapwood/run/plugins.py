"""What other installed packages add by their entry points: formats, decoders, learners, features, tokenisers.

A package offers something by naming it in its own `pyproject.toml`:

    [project.entry-points."sapwood.decoders"]
    my-decoder = "my_package.decoding:decode"

Nothing is looked for at import, and a plugin's code runs only when its name is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from sapwood.errors import SapwoodError, UsageError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")


class _Plugins(Mapping[str, Any]):
    """Entry points by name; getting one loads it."""

    def __init__(self, group: str) -> None:
        from importlib.metadata import entry_points  # takes its time

        self._group = group
        self._found: dict[str, list[EntryPoint]] = {}
        for entry in entry_points(group=group):
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
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else "an unknown package"


def plugins(group: str) -> Mapping[str, Any]:
    """Return what installed packages offer to a group of entry points, each loaded when it is looked up.

    Looking up one that cannot be loaded raises a `SapwoodError` that names its package and what went wrong.

    Examples
    --------
    >>> dict(plugins("sapwood.nothing-of-that-kind"))
    {}
    """
    return _Plugins(group)


def named(name: str, own: Mapping[str, T], group: str, kind: str) -> T:
    """Return the thing of that name, of sapwood's own or else of the group's plugins.

    Raises `UsageError` with all names there are, if there is none; `kind` says in that message what was looked for.

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
