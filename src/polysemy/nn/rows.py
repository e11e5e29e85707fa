# mypy: ignore-errors
"""Rows of a float32 matrix as values inside numba kernels: a row is loaded, added, multiplied and stored in one line.

A matrix (n, dim) is handed to a kernel as ``as_rows(matrix)``, whose element type carries ``dim``: the compiler knows
the width, keeps whole rows in vector registers (sixteen numbers a register where the machine has AVX-512, eight or
four elsewhere) and needs no loop.  A kernel then reads like its equation: ``store(u, j, add(load(u, j), g, v))``.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

WIDTH = 16  # numbers a piece; LLVM splits a piece where registers are narrower
FLOAT, INT = ir.FloatType(), ir.IntType(32)


def as_rows(matrix: np.ndarray) -> np.ndarray:
    """(n, dim) float32, contiguous -> (n,) of rows, the same memory."""
    return matrix.view(np.dtype([("row", np.float32, (matrix.shape[1],))])).reshape(matrix.shape[0])


class Row(types.Type):
    """``dim`` numbers: full pieces of WIDTH and one narrower piece for what is left."""

    def __init__(self, dim: int) -> None:
        super().__init__(name=f"Row({dim})")
        self.widths = [WIDTH] * (dim // WIDTH) + [dim % WIDTH] * (dim % WIDTH > 0)


@register_model(Row)
class RowModel(models.PrimitiveModel):
    def __init__(self, manager, row: Row) -> None:
        super().__init__(manager, row, ir.LiteralStructType([ir.VectorType(FLOAT, w) for w in row.widths]))


def row_of(rows: types.Array) -> Row:
    """The type of one row of ``as_rows(matrix)``."""
    return Row(rows.dtype.size // 4)


@intrinsic
def load(context, rows, index):
    """Row ``index``."""
    row = row_of(rows)

    def generate(context, builder, signature, arguments):
        return _pack(builder, [builder.load(p, align=4) for p in _pointers(context, builder, signature, arguments)])

    return row(rows, types.int64), generate


@intrinsic
def store(context, rows, index, value):
    """Row ``index`` becomes ``value``."""

    def generate(context, builder, signature, arguments):
        pointers = _pointers(context, builder, signature, arguments)
        for pointer, piece in zip(pointers, _pieces(builder, arguments[2]), strict=True):
            builder.store(piece, pointer, align=4)
        return context.get_dummy_value()

    return types.void(rows, types.int64, row_of(rows)), generate


@intrinsic
def prefetch(context, rows, index):
    """Ask for row ``index`` to be brought near, to be written; a hint that changes no value."""

    def generate(context, builder, signature, arguments):
        byte = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [byte, INT, INT, INT])
        hint = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        write, keep, data = ir.Constant(INT, 1), ir.Constant(INT, 3), ir.Constant(INT, 1)
        for pointer in _pointers(context, builder, signature, arguments):
            builder.call(hint, [builder.bitcast(pointer, byte), write, keep, data])
        return context.get_dummy_value()

    return types.void(rows, types.int64), generate


@intrinsic
def zeros(context, rows):
    """A row of zeros, as wide as those of ``rows``."""
    row = row_of(rows)

    def generate(context, builder, signature, arguments):
        return _pack(builder, [ir.Constant(ir.VectorType(FLOAT, w), [0.0] * w) for w in row.widths])

    return row(rows), generate


@intrinsic
def add(context, x, scale, y):
    """x + scale y"""

    def generate(context, builder, signature, arguments):
        x, scale, y = arguments
        pairs = zip(_pieces(builder, x), _pieces(builder, y), strict=True)
        return _pack(builder, [_multiply_add(builder, _fill(builder, scale, b.type), b, a) for a, b in pairs])

    return x(x, types.float32, x), generate


@intrinsic
def dot(context, x, y):
    """The inner product, summed in a fixed order: the same bits every time."""

    def generate(context, builder, signature, arguments):
        x, y = (_pieces(builder, argument) for argument in arguments)
        sums = []  # two running sums, so that one addition need not wait for the last
        for a, b in zip(_widen(builder, x), _widen(builder, y), strict=True):
            product = builder.fmul(a, b) if len(sums) < 2 else _multiply_add(builder, a, b, sums.pop(0))
            sums.append(product)
        return _total(builder, builder.fadd(*sums) if len(sums) == 2 else sums[0])

    return types.float32(x, x), generate


def _pointers(context, builder, signature, arguments):
    """Where each piece of a row lies."""
    rows = context.make_array(signature.args[0])(context, builder, arguments[0])
    first = builder.bitcast(builder.gep(rows.data, [arguments[1]]), FLOAT.as_pointer())
    return [
        builder.bitcast(builder.gep(first, [ir.Constant(INT, WIDTH * k)]), ir.VectorType(FLOAT, width).as_pointer())
        for k, width in enumerate(row_of(signature.args[0]).widths)
    ]


def _pieces(builder, row):
    return [builder.extract_value(row, k) for k in range(len(row.type.elements))]


def _pack(builder, pieces):
    row = ir.Constant(ir.LiteralStructType([piece.type for piece in pieces]), ir.Undefined)
    for k, piece in enumerate(pieces):
        row = builder.insert_value(row, piece, k)
    return row


def _fill(builder, number, kind):
    """``number`` in every place of a vector."""
    empty = ir.Constant(kind, ir.Undefined)
    first = builder.insert_element(empty, number, ir.Constant(INT, 0))
    return builder.shuffle_vector(first, empty, ir.Constant(ir.VectorType(INT, kind.count), [0] * kind.count))


def _multiply_add(builder, x, y, z):
    """x y + z with one rounding"""
    kind = ir.FunctionType(x.type, [x.type] * 3)
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, f"llvm.fma.v{x.type.count}f32"), [x, y, z])


def _widen(builder, pieces):
    """The narrower last piece filled up with zeros."""
    for piece in pieces:
        count = piece.type.count
        places = ir.Constant(ir.VectorType(INT, WIDTH), [min(k, count) for k in range(WIDTH)])
        zero = ir.Constant(piece.type, [0.0] * count)
        yield piece if count == WIDTH else builder.shuffle_vector(piece, zero, places)


def _total(builder, vector):
    """The sum of a vector, halving it until one number is left."""
    while (half := vector.type.count // 2) > 0:
        empty = ir.Constant(vector.type, ir.Undefined)
        low = ir.Constant(ir.VectorType(INT, half), list(range(half)))
        high = ir.Constant(ir.VectorType(INT, half), list(range(half, 2 * half)))
        vector = builder.fadd(builder.shuffle_vector(vector, empty, low), builder.shuffle_vector(vector, empty, high))
    return builder.extract_element(vector, ir.Constant(INT, 0))
