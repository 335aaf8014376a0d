"""ONNX files: graphs are written, and cut at a tensor, without the `onnx` package.

A model is a protocol buffer: a sequence of fields, each with a number and a wire type. Only fields that a graph of
matrix products needs are written. Reading keeps all fields as they are, in bytes: cutting a graph removes whole nodes,
initializers and outputs, and changes nothing else. Fields are numbered as in `onnx.proto`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from sapwood.errors import InputError
from sapwood.storage.shapes import Array, Shaped

# A field: its number, and its value, an integer or bytes.
Field: TypeAlias = tuple[int, int | bytes]
# Fields of ModelProto, GraphProto, NodeProto, TensorProto, ValueInfoProto.
_MODEL_VERSION, _MODEL_GRAPH, _MODEL_OPSET = 1, 7, 8
_GRAPH_NODE, _GRAPH_NAME, _GRAPH_INITIALIZER, _GRAPH_INPUT, _GRAPH_OUTPUT = 1, 2, 5, 11, 12
_NODE_INPUT, _NODE_OUTPUT, _NODE_NAME, _NODE_TYPE, _NODE_ATTRIBUTE, _NODE_DOMAIN = 1, 2, 3, 4, 5, 7
_TENSOR_DIMS, _TENSOR_TYPE, _TENSOR_NAME, _TENSOR_RAW = 1, 2, 8, 9
_NAME = 1
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
# Types of tensors.
_TYPES = {"float32": 1, "uint8": 2, "int8": 3, "int32": 6, "int64": 7}
_ATTRIBUTE_FLOAT, _ATTRIBUTE_INT, _ATTRIBUTE_INTS = 1, 2, 7
# Version of the format, and of the operators.
_IR_VERSION, _OPSET, _CONTRIB = 9, 17, "com.microsoft"


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def encode(fields: Iterable[Field]) -> bytes:
    """Return a message with these fields.

    >>> encode([(1, 150), (2, b"to")]).hex()
    '0896011202746f'
    """
    found = bytearray()
    for number, value in fields:
        if isinstance(value, int):
            found += _varint(number << 3 | _VARINT) + _varint(value)
        else:
            found += _varint(number << 3 | _BYTES) + _varint(len(value)) + value
    return bytes(found)


class GraphBuilder:
    """Builder of a graph.

    Parameters
    ----------
    inputs
        Type and shape of each input; axes of any size have names.

    Examples
    --------
    >>> graph = GraphBuilder({"x": ("float32", [2])})
    >>> total = graph.add("Add", ["x", graph.constant("one", np.ones(2, np.float32))])
    >>> len(graph.model([total])) > 0
    True
    """

    def __init__(self, inputs: Mapping[str, tuple[str, Sequence[int | str]]]) -> None:
        self._inputs = [_value_info(name, *given) for name, given in inputs.items()]
        self._nodes: list[bytes] = []
        self._constants: dict[str, bytes] = {}

    def constant(self, name: str, values: Shaped[Array, "..."]) -> str:
        """Add an array, and return its name."""
        if name not in self._constants:
            fields: list[Field] = [(_TENSOR_DIMS, size) for size in values.shape]
            fields += [(_TENSOR_TYPE, _TYPES[values.dtype.name]), (_TENSOR_NAME, name.encode())]
            self._constants[name] = encode([*fields, (_TENSOR_RAW, np.ascontiguousarray(values).tobytes())])
        return name

    def add(
        self,
        kind: str,
        inputs: Sequence[str],
        *,
        name: str = "",
        contrib: bool = False,
        **attributes: float | Sequence[int],
    ) -> str:
        """Add a node, and return the name of its one output; `contrib`: of ONNX Runtime's own operators."""
        output = name or f"{kind}-{len(self._nodes)}"
        fields: list[Field] = [(_NODE_INPUT, name.encode()) for name in inputs]
        fields += [(_NODE_OUTPUT, output.encode()), (_NODE_NAME, output.encode()), (_NODE_TYPE, kind.encode())]
        fields += [(_NODE_ATTRIBUTE, _attribute(name, value)) for name, value in attributes.items()]
        self._nodes.append(encode([*fields, *([(_NODE_DOMAIN, _CONTRIB.encode())] if contrib else [])]))
        return output

    def model(self, outputs: Iterable[str]) -> bytes:
        """Return the content of a file with these outputs."""
        graph: list[Field] = [(_GRAPH_NODE, node) for node in self._nodes]
        graph += [(_GRAPH_NAME, b"sapwood")]
        graph += [(_GRAPH_INITIALIZER, values) for values in self._constants.values()]
        graph += [(_GRAPH_INPUT, value) for value in self._inputs]
        graph += [(_GRAPH_OUTPUT, _value_info(name)) for name in outputs]
        opsets = [encode([(1, domain), (2, version)]) for domain, version in ((b"", _OPSET), (_CONTRIB.encode(), 1))]
        model: list[Field] = [(_MODEL_VERSION, _IR_VERSION), (_MODEL_GRAPH, encode(graph))]
        return encode([*model, *((_MODEL_OPSET, opset) for opset in opsets)])


def _attribute(name: str, value: float | Sequence[int]) -> bytes:
    if isinstance(value, float):
        number = np.float32(value).tobytes()
        # A field of four bytes, which `encode` has no use for otherwise.
        return encode([(1, name.encode()), (20, _ATTRIBUTE_FLOAT)]) + _varint(2 << 3 | _FIXED32) + number
    if isinstance(value, int):
        return encode([(1, name.encode()), (3, value), (20, _ATTRIBUTE_INT)])
    return encode([(1, name.encode()), *((8, each) for each in value), (20, _ATTRIBUTE_INTS)])


def _value_info(name: str, dtype: str = "", shape: Sequence[int | str] = ()) -> bytes:
    """Return the description of a tensor; without a type, its name alone."""
    if not dtype:
        return encode([(_NAME, name.encode())])
    dims = [encode([(1, size) if isinstance(size, int) else (2, size.encode())]) for size in shape]
    tensor = encode([(1, _TYPES[dtype]), (2, encode([(1, dim) for dim in dims]))])
    return encode([(_NAME, name.encode()), (2, encode([(1, tensor)]))])


def decode(message: bytes | memoryview, source: str) -> Iterator[tuple[int, memoryview, memoryview]]:
    """Yield number, value and whole bytes of each field of a message.

    The value of a field that has no length is empty. Raises an `InputError` that names the source if it is not one.
    """
    view, at = memoryview(message), 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            if at >= len(view) or shift > 63:
                raise InputError(f"{source}: not an ONNX model, or damaged; download it again")
            byte = view[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(view):
        begin = at
        key = varint()
        number, kind = key >> 3, key & 7
        value = view[at:at]
        if kind == _VARINT:
            varint()
        elif kind in (_FIXED64, _FIXED32):
            at += 8 if kind == _FIXED64 else 4
        elif kind == _BYTES:
            size = varint()
            value = view[at : at + size]
            at += size
        else:
            at = len(view) + 1
        if at > len(view):
            raise InputError(f"{source}: not an ONNX model, or damaged; download it again")
        yield number, value, view[begin:at]


class OnnxGraph:
    """The graph of a model file, whose nodes can be cut off.

    Parameters
    ----------
    content
        Content of the file.
    source
        Its name, for messages.
    """

    def __init__(self, content: bytes, source: str) -> None:
        self._source = source
        fields = list(decode(content, source))
        graphs = [value for number, value, _ in fields if number == _MODEL_GRAPH]
        if len(graphs) != 1:
            raise InputError(f"{source}: not an ONNX model, or damaged; download it again")
        self._others = [whole for number, _, whole in fields if number != _MODEL_GRAPH]
        self._fields = list(decode(graphs[0], source))
        # Inputs, outputs and name of each node, in the order of the file, which is that of computation.
        self.nodes: list[tuple[list[str], list[str], str]] = []
        for number, value, _ in self._fields:
            if number == _GRAPH_NODE:
                parts = list(decode(value, source))
                names = [[_text(part) for kind, part, _ in parts if kind == wanted] for wanted in (1, 2, 3)]
                self.nodes.append((names[0], names[1], "".join(names[2])))

    @property
    def outputs(self) -> list[str]:
        """Names of the outputs."""
        return [self._name(value, _NAME) for number, value, _ in self._fields if number == _GRAPH_OUTPUT]

    def cut(self, outputs: Sequence[str]) -> bytes:
        """Return the content of a file with these tensors as its outputs, and no node that they do not need."""
        needed, kept = {*outputs}, [False] * len(self.nodes)
        for place in reversed(range(len(self.nodes))):
            inputs, made, _ = self.nodes[place]
            if needed.intersection(made):
                kept[place] = True
                needed.update(inputs)
        places = iter(kept)
        graph = bytearray()
        for number, value, whole in self._fields:
            if number == _GRAPH_OUTPUT:
                continue
            if number == _GRAPH_NODE and not next(places):
                continue
            if number == _GRAPH_INITIALIZER and self._name(value, _TENSOR_NAME) not in needed:
                continue
            graph += whole
        graph += encode([(_GRAPH_OUTPUT, _value_info(output)) for output in outputs])
        return b"".join(self._others) + encode([(_MODEL_GRAPH, bytes(graph))])

    def _name(self, message: memoryview, field: int) -> str:
        return next((_text(value) for number, value, _ in decode(message, self._source) if number == field), "")


def _text(value: memoryview) -> str:
    return bytes(value).decode("utf-8", "replace")
