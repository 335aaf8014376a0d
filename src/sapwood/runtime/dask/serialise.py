"""Serialisation between processes: pickled once, with arrays out of band or in a memory-mapped file.

Dask sends arrays through sockets and copies each of them several times, for every process. Processes of
one machine avoid that: arrays go to a file in a shared folder, which receivers map. A file exists as long as some
object in the process that wrote it refers to it; receivers that have mapped it do not need its name. A missing file is
an `OSError` at the receiver, which Dask treats as a lost worker: its contents are recomputed. Values that a worker
spills to disk include their arrays: no object in the process refers to the file then.
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

from sapwood.runtime.dask.array_store import remove, write_all

# Minimum size of arrays in bytes to be written to a file, and to be mapped rather than read: a map takes a descriptor.
_WORTH, _MAPPED = 1 << 17, 1 << 20
# Alignment of arrays in bytes.
_ALIGNMENT = 64
# Files mapped by this process, while in use; the contents of a file never change.
_mapped: weakref.WeakValueDictionary[str, mmap.mmap] = weakref.WeakValueDictionary()


class MappedFile:
    """File of arrays written by this process, deleted with the last object that refers to it."""

    known: ClassVar[weakref.WeakValueDictionary[str, MappedFile]] = weakref.WeakValueDictionary()

    def __init__(self, folder: str, arrays: Sequence[memoryview]) -> None:
        # The name is never reused by any process, so a mapped file is identified by it.
        self.path = str(Path(folder, uuid.uuid4().hex))
        # A process that exits leaves its files to the receivers; the folder is deleted with the cluster.
        weakref.finalize(self, remove, self.path).atexit = False
        with Path(self.path).open("xb", buffering=0) as stream:
            for array, begin in zip(arrays, _begins([array.nbytes for array in arrays]), strict=False):
                stream.seek(begin)
                write_all(stream, array)
        self.known[self.path] = self


class Serialised:
    """Serialised value, sent or received.

    Kernels require aligned arrays, while Dask does not align them; and Dask needs the size of objects to decide when to
    spill them to disk.

    Parameters
    ----------
    value
        Anything that can be pickled.
    folder
        Folder for files that receivers can map, if they can.
    """

    __slots__ = ("__weakref__", "_arrays", "_file", "_folder", "_mapped_file", "_rest", "_value")

    def __init__(self, value: Any, folder: str | None = None) -> None:
        self._value, self._folder = [value], folder
        # Name of the file with the arrays, and the object that keeps it alive if it is ours.
        self._file: str | None = None
        self._mapped_file: MappedFile | None = None
        arrays: list[pickle.PickleBuffer] = []
        try:
            self._rest = pickle.dumps(value, protocol=5, buffer_callback=arrays.append)
        except (pickle.PicklingError, AttributeError, TypeError):  # e.g. functions defined by the caller
            arrays.clear()
            dump = importlib.import_module("cloudpickle").dumps
            self._rest = dump(value, protocol=5, buffer_callback=arrays.append)
        self._arrays = [array.raw() for array in arrays]
        if "distributed" in sys.modules:
            _tell_dask()

    @classmethod
    def from_wire(cls, rest: bytes, arrays: Sequence[Any], file: str | None = None) -> Serialised:
        """Return a received value, unpickled on first access."""
        made = cls.__new__(cls)
        made._value, made._folder, made._file, made._rest = [], None, file, rest
        made._mapped_file = None if file is None else MappedFile.known.get(file)
        made._arrays = [memoryview(array) for array in arrays]
        if "distributed" in sys.modules:
            _tell_dask()
        return made

    @property
    def value(self) -> Any:
        """The value; arrays of a received one may be read-only."""
        if not self._value:
            self._value.append(pickle.loads(self._rest, buffers=self._arrays))  # noqa: S301
        return self._value[0]

    def __sizeof__(self) -> int:
        return len(self._rest) + sum(array.nbytes for array in self._arrays)

    def spill(self) -> bool:
        """Write the arrays to a file if they are large enough; return True if there is a file."""
        if self._folder is not None and self._file is None and self.__sizeof__() >= _WORTH:
            try:
                self._mapped_file = MappedFile(self._folder, self._arrays)
                self._file = self._mapped_file.path
            except OSError:  # e.g. disk full
                self._folder = None
        return self._file is not None and Path(self._file).exists()

    def __reduce_ex__(self, protocol: Any) -> tuple[Callable[..., Serialised], tuple[Any, ...]]:
        if self.spill():
            return _from_file, (self._rest, self._file, [array.nbytes for array in self._arrays])
        # Some messages have a protocol without out-of-band buffers.
        arrays = [pickle.PickleBuffer(array) if protocol >= 5 else array.tobytes() for array in self._arrays]
        return _from_message, (self._rest, *arrays)


@cache
def _tell_dask() -> None:
    """Register the serialisation with Dask, except for values that it spills to disk."""
    protocol = importlib.import_module("distributed.protocol")

    def dumps(sealed: Serialised, context: dict[str, Any] | None = None) -> tuple[dict[str, Any], list[Any]]:
        if context is not None and sealed.spill():  # only messages have a context
            return {"file": sealed._file, "sizes": [array.nbytes for array in sealed._arrays]}, [sealed._rest]
        return {}, [sealed._rest, *sealed._arrays]

    def loads(header: dict[str, Any], frames: list[Any]) -> Serialised:
        if "file" in header:
            return _from_file(bytes(frames[0]), header["file"], header["sizes"])
        return _from_message(bytes(frames[0]), *frames[1:])

    protocol.register_serialization(Serialised, dumps, loads)


def _from_message(rest: bytes, *arrays: Any) -> Serialised:
    return Serialised.from_wire(rest, [_aligned(array) for array in arrays])


def _aligned(buffer: Any) -> np.ndarray:
    array = np.frombuffer(buffer, np.uint8)
    return array.copy() if array.ctypes.data % _ALIGNMENT else array


def _from_file(rest: bytes, path: str, sizes: Sequence[int]) -> Serialised:
    whole = np.empty(0, np.uint8)
    with Path(path).open("rb", buffering=0) as stream:
        if sum(sizes) < _MAPPED:
            whole = np.fromfile(stream, np.uint8)
        else:
            # Kernels require writable arrays, though they do not write: no page is copied. Calls that use the same file
            # share its pages, which a second map would duplicate.
            mapped = _mapped.get(path) or mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_COPY)
            _mapped[path] = mapped
            whole = np.frombuffer(mapped, np.uint8)
    return Serialised.from_wire(rest, [whole[a : a + n] for a, n in zip(_begins(sizes), sizes, strict=False)], path)


def _begins(sizes: Sequence[int]) -> list[int]:
    """Return the offsets of arrays of these sizes in a file."""
    return list(accumulate((-(-size // _ALIGNMENT) * _ALIGNMENT for size in sizes), initial=0))
