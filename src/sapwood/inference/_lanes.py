"""Comparing sixteen numbers at once: vector instructions that the compiler does not find by itself."""

from __future__ import annotations

from typing import Any

from numba.core import types
from numba.extending import intrinsic

LANES = 16


@intrinsic
def lanes_above(typing_context: Any, values: Any, factors: Any, begin: Any, limit: Any) -> Any:  # noqa: ARG001
    """Return a uint64 with bit `x` set where `values[begin + x] * factors[begin + x] > limit`, for `x` below 16.

    Both are contiguous vectors of the limit's type that have so many elements.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        from llvmlite import ir

        number = context.get_value_type(signature.args[3])
        vector = ir.VectorType(number, LANES)

        def load(kind: Any, array: Any) -> Any:
            data = context.make_array(kind)(context, builder, array).data
            pointer = builder.bitcast(builder.gep(data, [arguments[2]]), vector.as_pointer())
            return builder.load(pointer, align=4)

        product = builder.fmul(load(signature.args[0], arguments[0]), load(signature.args[1], arguments[1]))
        first = builder.insert_element(ir.Constant(vector, ir.Undefined), arguments[3], ir.Constant(ir.IntType(32), 0))
        zeros = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
        limits = builder.shuffle_vector(first, ir.Constant(vector, ir.Undefined), zeros)
        above = builder.fcmp_ordered(">", product, limits)
        return builder.zext(builder.bitcast(above, ir.IntType(LANES)), ir.IntType(64))

    return types.uint64(values, factors, types.int64, values.dtype), generate
