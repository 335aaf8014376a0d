"""Splits of a treebank into training, development and test sets.

The unit is a whole tree or, with several documents, a whole document: neighbouring sentences share words and topics,
so a test set drawn from the same documents as the training set overestimates accuracy. Units are ordered by a hash of
the seed and their number, which does not depend on the version of any library.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from sapwood.errors import InputError, UsageError
from sapwood.storage.files import explained, open_output
from sapwood.trees.formats.brackets import format_tree
from sapwood.trees.formats.discbracket import format_discbracket
from sapwood.trees.tree import Tree

# Size of a part: a number of trees (int) or a share of all trees (float).
Amount: TypeAlias = int | float
Part: TypeAlias = Literal["train", "dev", "test"]
PARTS: tuple[Part, ...] = ("train", "dev", "test")


class SplitPart(NamedTuple):
    """A part of a split: the file, and the numbers of its trees and of the documents they come from."""

    path: str
    trees: int
    documents: int


def assign_parts(
    sizes: Sequence[int], *, dev: Amount = 0.1, test: Amount = 0.1, seed: int = 0, whole_documents: bool | None = None
) -> list[list[Part]]:
    """Return the part of each tree of each document.

    Parameters
    ----------
    sizes
        Number of trees in each document.
    dev, test
        Size of the development and test sets: a number of trees (int) or a share of all trees (float); 0 for none.
    seed
        Random seed.
    whole_documents
        Whether documents stay whole; the sizes of the parts are then approximate. Default: if there are several.

    Examples
    --------
    >>> assign_parts([6], dev=1, test=1)
    [['train', 'train', 'dev', 'train', 'test', 'train']]
    >>> assign_parts([3, 3, 3, 3], dev=0.25, test=0.25)
    [['train', 'train', 'train'], ['dev', 'dev', 'dev'], ['test', 'test', 'test'], ['train', 'train', 'train']]
    """
    total = sum(sizes)
    wanted = {"test": _count(test, total, "test"), "dev": _count(dev, total, "dev")}
    if sum(wanted.values()) >= total:
        raise UsageError(
            f"dev and test would take {sum(wanted.values()):,} of {total:,} trees and leave none for training"
        )
    if whole_documents if whole_documents is not None else len(sizes) > 1:
        chosen = _whole(sizes, wanted, seed)
        return [[part] * size for part, size in zip(chosen, sizes, strict=True)]
    order = iter(_shuffled(total, seed))
    parts: list[Part] = ["train"] * total
    for part in ("test", "dev"):
        for _ in range(wanted[part]):
            parts[next(order)] = "test" if part == "test" else "dev"
    rest = iter(parts)
    return [[next(rest) for _ in range(size)] for size in sizes]


def split_treebank(
    documents: Sequence[Iterable[Tree]],
    folder: str | Path = ".",
    *,
    dev: Amount = 0.1,
    test: Amount = 0.1,
    seed: int = 0,
    whole_documents: bool | None = None,
) -> dict[Part, SplitPart]:
    """Split documents into `train.mrg`, `dev.mrg` and `test.mrg`, written atomically, and describe these files.

    Trees keep their order and are written as read, one per line in brackets; if any has gaps, in discbracket, in files
    that end in `.dbr`. Existing files are never replaced.

    Parameters
    ----------
    documents
        The trees of each document.
    folder
        Folder of the new files; it is created if missing.
    dev, test, seed, whole_documents
        As for `assign_parts`.
    """
    trees_of = [list(trees) for trees in documents]
    has_gaps = any(tree.has_gaps for trees in trees_of for tree in trees)
    paths = split_paths(folder, dev=dev, test=test, suffix="dbr" if has_gaps else "mrg")
    write = format_discbracket if has_gaps else format_tree
    texts = [[write(tree) for tree in trees] for trees in trees_of]
    if not any(texts):
        raise InputError("no trees in it")
    parts = assign_parts(list(map(len, texts)), dev=dev, test=test, seed=seed, whole_documents=whole_documents)
    with explained(folder, "write"):
        Path(folder).mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        # Each file appears when its block ends; a failure before that leaves none.
        streams = {part: stack.enter_context(open_output(path)) for part, path in paths.items()}
        for lines, places in zip(texts, parts, strict=True):
            for line, part in zip(lines, places, strict=True):
                streams[part].write(line + "\n")
    return {
        part: SplitPart(str(path), sum(places.count(part) for places in parts), sum(part in places for places in parts))
        for part, path in paths.items()
    }


def split_paths(folder: str | Path, *, dev: Amount, test: Amount, suffix: str = "mrg") -> dict[Part, Path]:
    """Return the files of a split, with this suffix; raises `UsageError` if one of them exists."""
    given: dict[Part, Amount] = {"train": 1, "dev": dev, "test": test}
    paths = {part: Path(folder, f"{part}.{suffix}") for part in PARTS if given[part]}
    if len(paths) == 1:
        raise UsageError("there is nothing to split off; give --dev, --test or both")
    for path in paths.values():
        if path.exists() or path.is_symlink():
            raise UsageError(f"{path}: exists already; remove it, or name another folder (-o)")
    return paths


def _count(amount: Amount, total: int, part: str) -> int:
    """Return the number of trees of a part; at least one, unless it is not wanted."""
    if isinstance(amount, float) and not 0 <= amount < 1:
        raise UsageError(f"{part}: a share of the trees must be at least 0 and below 1, not {amount:g}")
    if amount < 0:
        raise UsageError(f"{part}: the number of trees must not be negative, but is {amount}")
    count = round(amount * total) if isinstance(amount, float) else amount
    return max(count, 1) if amount else 0


def _shuffled(count: int, seed: int) -> list[int]:
    return sorted(range(count), key=lambda number: hashlib.sha256(f"{seed} {number}".encode()).digest())


def _whole(sizes: Sequence[int], wanted: dict[str, int], seed: int) -> list[Part]:
    """Return the part of each document, in sizes as close as a single pass over the shuffled documents gets."""
    parts: list[Part] = ["train"] * len(sizes)
    order = [document for document in _shuffled(len(sizes), seed) if sizes[document]]
    for part in ("test", "dev"):
        found = 0
        for document in order:
            size, missing = sizes[document], wanted[part] - found
            if parts[document] == "train" and missing > 0 and abs(missing - size) < missing:
                parts[document] = "test" if part == "test" else "dev"
                found += size
        if wanted[part] and not found:
            raise UsageError(
                f"no document is small enough for a {part} set of {wanted[part]:,} trees; ask for more trees, or split "
                "documents (--by trees)"
            )
    if not any(parts[document] == "train" for document in order):
        raise UsageError("no document is left for training; ask for smaller sets, or split documents (--by trees)")
    return parts
