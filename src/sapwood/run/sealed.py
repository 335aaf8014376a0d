"""What goes from one process to another: pickled once, with its arrays beside it or in a file.

Dask sends arrays through sockets, which costs each of them several copies, and as many again for each further process
that wants them. Processes of one machine need none of that: arrays go to a file in a folder of theirs, which is mapped
by who wants them. A file is there as long as something in the process that wrote it stands for it; whoever has mapped
it does not need its name any more. A file that is gone is an `OSError` where it should arrive, which Dask takes for a
worker that is gone: what was in it is made again. What a worker writes to disk for want of memory has its arrays with
it: nothing is left in the process then that stands for a file.
"""

from __future__ import annotations

import importlib
import mmap
import pickle
import sys
import uuid
import weakref
from collections.abc import Callable, Sequence
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from sapwood.run.columns import remove, write_all

# Bytes of arrays from which on a file is worth it, and from which on it is mapped, not read: a map takes a descriptor.
_WORTH, _MAPPED = 1 << 17, 1 << 20
# Bytes between places where the processor likes arrays to begin.
_ALIGNMENT = 64
# Files that this process has mapped, as long as somebody looks at them; what is in a file does not change.
_mapped: weakref.WeakValueDictionary[str, mmap.mmap] = weakref.WeakValueDictionary()


class Letter:
    """A file of arrays that this process has written, and that vanishes with the last that stands for it."""

    known: ClassVar[weakref.WeakValueDictionary[str, Letter]] = weakref.WeakValueDictionary()

    def __init__(self, folder: str, arrays: Sequence[memoryview]) -> None:
        # A name that no process ever has again, so that who has mapped the file knows what is in it.
        self.path = str(Path(folder, uuid.uuid4().hex))
        # A process that ends leaves its files to those who know of them; the folder vanishes with the cluster.
        weakref.finalize(self, remove, self.path).atexit = False
        with Path(self.path).open("xb", buffering=0) as stream:
            for array, begin in zip(arrays, _begins([array.nbytes for array in arrays]), strict=False):
                stream.seek(begin)
                write_all(stream, array)
        self.known[self.path] = self


class Sealed:
    """A value that is sent, or that has arrived.

    Kernels want arrays where the processor likes them, while Dask puts them wherever there is room; and it asks what
    things take, to know when to write them to disk.

    Parameters
    ----------
    value
        Anything that can be pickled.
    folder
        Where to write files which those can map whom it is sent to, if they can.
    """

    __slots__ = ("__weakref__", "_arrays", "_file", "_folder", "_letter", "_rest", "_value")

    def __init__(self, value: Any, folder: str | None = None) -> None:
        self._value, self._folder = [value], folder
        # The name of the file with the arrays, and what keeps it there if it is ours.
        self._file: str | None = None
        self._letter: Letter | None = None
        arrays: list[pickle.PickleBuffer] = []
        try:
            self._rest = pickle.dumps(value, protocol=5, buffer_callback=arrays.append)
        except (pickle.PicklingError, AttributeError, TypeError):  # functions of the caller's own, say
            arrays.clear()
            dump = importlib.import_module("cloudpickle").dumps
            self._rest = dump(value, protocol=5, buffer_callback=arrays.append)
        self._arrays = [array.raw() for array in arrays]
        if "distributed" in sys.modules:
            _tell_dask()

    @classmethod
    def arrived(cls, rest: bytes, arrays: Sequence[Any], file: str | None = None) -> Sealed:
        """Return what has arrived; it is unpickled when it is looked at."""
        made = cls.__new__(cls)
        made._value, made._folder, made._file, made._rest = [], None, file, rest
        made._letter = None if file is None else Letter.known.get(file)
        made._arrays = [memoryview(array) for array in arrays]
        if "distributed" in sys.modules:
            _tell_dask()
        return made

    @property
    def value(self) -> Any:
        """The value; of one that has arrived, arrays may be read-only."""
        if not self._value:
            self._value.append(pickle.loads(self._rest, buffers=self._arrays))  # noqa: S301
        return self._value[0]

    def __sizeof__(self) -> int:
        return len(self._rest) + sum(array.nbytes for array in self._arrays)

    def post(self) -> bool:
        """Write the arrays to a file if that is worth it; returns whether there is one."""
        if self._folder is not None and self._file is None and self.__sizeof__() >= _WORTH:
            try:
                self._letter = Letter(self._folder, self._arrays)
                self._file = self._letter.path
            except OSError:  # no room, say
                self._folder = None
        return self._file is not None and Path(self._file).exists()

    def __reduce_ex__(self, protocol: Any) -> tuple[Callable[..., Sealed], tuple[Any, ...]]:
        if self.post():
            return _from_file, (self._rest, self._file, [array.nbytes for array in self._arrays])
        # Some messages are of a protocol that has no place for arrays but within.
        arrays = [pickle.PickleBuffer(array) if protocol >= 5 else array.tobytes() for array in self._arrays]
        return _from_message, (self._rest, *arrays)


@cache
def _tell_dask() -> None:
    """Have Dask do with values of its own what is done within others, but for those that it writes to disk."""
    protocol = importlib.import_module("distributed.protocol")

    def dumps(sealed: Sealed, context: dict[str, Any] | None = None) -> tuple[dict[str, Any], list[Any]]:
        if context is not None and sealed.post():  # a message has a context
            return {"file": sealed._file, "sizes": [array.nbytes for array in sealed._arrays]}, [sealed._rest]
        return {}, [sealed._rest, *sealed._arrays]

    def loads(header: dict[str, Any], frames: list[Any]) -> Sealed:
        if "file" in header:
            return _from_file(bytes(frames[0]), header["file"], header["sizes"])
        return _from_message(bytes(frames[0]), *frames[1:])

    protocol.register_serialization(Sealed, dumps, loads)


def _from_message(rest: bytes, *arrays: Any) -> Sealed:
    return Sealed.arrived(rest, [_aligned(array) for array in arrays])


def _aligned(buffer: Any) -> np.ndarray:
    array = np.frombuffer(buffer, np.uint8)
    return array.copy() if array.ctypes.data % _ALIGNMENT else array


def _from_file(rest: bytes, path: str, sizes: Sequence[int]) -> Sealed:
    whole = np.empty(0, np.uint8)
    with Path(path).open("rb", buffering=0) as stream:
        if sum(sizes) < _MAPPED:
            whole = np.fromfile(stream, np.uint8)
        else:
            # Kernels want arrays that can be written to, though they leave them alone: no page is copied.
            # Calls that want the same file share its pages: each further map would take them again.
            mapped = _mapped.get(path) or mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_COPY)
            _mapped[path] = mapped
            whole = np.frombuffer(mapped, np.uint8)
    return Sealed.arrived(rest, [whole[a : a + n] for a, n in zip(_begins(sizes), sizes, strict=False)], path)


def _begins(sizes: Sequence[int]) -> list[int]:
    """Return where arrays of so many bytes begin in a file."""
    return list(accumulate((-(-size // _ALIGNMENT) * _ALIGNMENT for size in sizes), initial=0))
