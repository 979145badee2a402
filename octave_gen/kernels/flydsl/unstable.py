"""Every name of flydsl that its pinned version has, but that its ``__all__`` lists do not promise.

No other module uses such a name: not ``flydsl._mlir``, no raw builder of ``flydsl.expr.rocdl``, no private attribute.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter, Signature
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl._mlir import ir
from flydsl._mlir.dialects import gpu, llvm
from flydsl.compiler.jit_function import _create_mlir_context
from flydsl.compiler.protocol import construct_from_ir_values, extract_to_ir_values

Value = Any
"""A value of a kernel that is traced, such as fx.Int32."""
Kernel = Any
"""What ``@flyc.kernel`` makes."""

# --- for kernels ---


def intrinsic(result: Any, name: str, *operands: Value) -> Value:
    """The result of LLVM's intrinsic ``name``; ``result``: its type, such as fx.Int32."""
    raw = [operand.ir_value() for operand in operands]
    return result(llvm.call_intrinsic(result.ir_type, name, raw, [], []))


# --- for the compile ---

_ANY_GRID = (1, 1, 1)


@dataclass(frozen=True)
class Compiled:
    """code_object: an ELF file; traced: per symbol its function before any pass, as text without source locations."""

    code_object: bytes
    traced: Mapping[str, str]


def compile_kernels(kernels: Sequence[tuple[Kernel, int]], pointers: Sequence[Any], waves_per_simd: int) -> Compiled:
    """Compiles kernels with the same parameters into one code object.

    kernels: each with its threads; pointers: for each parameter its type, in a list where it is a pointer to such;
    waves_per_simd: that must fit.
    """
    placeholders = [flyc.from_c_void_p(t[0], None) if isinstance(t, list) else t(0) for t in pointers]
    annotations = [fx.Pointer if isinstance(t, list) else t for t in pointers]

    def launcher(**arguments: Value) -> None:
        for kernel, threads in kernels:
            launched = kernel(*arguments.values(), value_attrs={"rocdl.waves_per_eu": str(waves_per_simd)})
            launched.launch(grid=_ANY_GRID, block=(threads, 1, 1))

    launcher.__signature__ = Signature(  # type: ignore[attr-defined]
        [Parameter(f"p{i}", Parameter.POSITIONAL_OR_KEYWORD, annotation=a) for i, a in enumerate(annotations)]
    )
    made = flyc.compile(flyc.jit(launcher), *placeholders)._keepalive
    with _create_mlir_context():
        objects = [
            gpu.ObjectAttr(item).object
            for operation in ir.Module.parse(made._ir_text).body.operations
            if operation.operation.name == "gpu.binary"
            for item in ir.ArrayAttr(operation.operation.attributes["objects"])
        ]
        if len(objects) != 1:
            raise RuntimeError(f"flydsl made {len(objects)} code objects, not 1")
        return Compiled(bytes(objects[0]), dict(_functions(ir.Module.parse(made._source_ir))))


def _functions(module: Any) -> Iterator[tuple[str, str]]:
    for operation in module.body.operations:
        if operation.operation.name == "gpu.module":
            for inside in operation.regions[0].blocks[0].operations:
                text = inside.operation.get_asm(enable_debug_info=False, assume_verified=True)
                yield ir.StringAttr(inside.operation.attributes["sym_name"]).value, text


# --- for prefill ---


def inline_asm(result: Any, text: str, constraints: str, *operands: Value) -> Value:
    """The result of a line of assembly without side effects; ``result``: its type, such as fx.Int32."""
    raw = [operand.ir_value() for operand in operands]
    return result(llvm.inline_asm(result.ir_type, raw, text, constraints, has_side_effects=False))


def effect(name: str, *operands: Value) -> None:
    """Calls LLVM's intrinsic ``name``, which has no result."""
    llvm.call_intrinsic(None, name, [operand.ir_value() for operand in operands], [], [])


def barrier_of_lds() -> None:
    """All waves of the workgroup arrive, and see each other's LDS writes; nothing waits for global memory."""
    gpu.barrier(address_spaces=ir.ArrayAttr.get([ir.Attribute.parse("#gpu.address_space<workgroup>")]))


def values_of(parts: Any) -> list[Any]:
    """The traced values in nested lists, tuples and objects, flat."""
    return list(extract_to_ir_values(parts))


def rebuilt(parts: Any, values: Sequence[Any]) -> Any:
    """``parts`` with ``values`` in the places of those that :func:`values_of` finds."""
    return construct_from_ir_values(type(parts), parts, list(values))
