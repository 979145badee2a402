"""Every name of flydsl that its pinned version has, but that its ``__all__`` lists do not promise.

No other module uses such a name: not ``flydsl._mlir``, no raw builder of ``flydsl.expr.rocdl``, no private attribute.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter, Signature
from typing import Any, ClassVar, TypeVar, cast

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl._mlir import ir
from flydsl._mlir.dialects import fly, gpu, llvm
from flydsl.compiler.ast_rewriter import ASTRewriter
from flydsl.compiler.jit_function import _create_mlir_context
from flydsl.compiler.protocol import construct_from_ir_values, extract_to_ir_values

Value = Any
"""A value of a kernel that is traced, such as fx.Int32."""
Kernel = Any
"""What ``@flyc.kernel`` makes."""
Function = TypeVar("Function", bound=Callable[..., Any])

# --- for kernels ---


def device(function: Function) -> Function:
    """A helper function with ``if`` and ``while`` on values of the kernel, which only the kernel itself may have
    otherwise."""
    return cast(Function, ASTRewriter.transform(function))


def intrinsic(result: Any, name: str, *operands: Value) -> Value:
    """The result of LLVM's intrinsic ``name``; ``result``: its type, such as fx.Int32, or None."""
    raw = [fx.as_ir_value(operand) for operand in operands]
    made = llvm.call_intrinsic(None if result is None else result.ir_type, name, raw, [], [])
    return None if result is None else result(made)


def inline_asm(result: Any, text: str, constraints: str, *operands: Value, volatile: bool = False) -> Value:
    """Assembly with operands; ``result``: its type, or None. Operands are numbered behind the result."""
    raw = [fx.as_ir_value(operand) for operand in operands]
    kind = None if result is None else result.ir_type
    made = llvm.inline_asm(kind, raw, text, constraints, has_side_effects=volatile)
    return None if result is None else result(made)


def matrix_multiply(result: Any, atom: Value, a: Value, b: Value, c: Value) -> Value:
    """c plus the product of a and b by an MMA atom, on values in registers; ``result``: the type of c."""
    return result(fly.mma_atom_call_ssa([result.ir_type], atom, [fx.as_ir_value(a)], [fx.as_ir_value(b)], c))


def load_invariant(pointer: Value) -> Value:
    """A load of what nothing writes while the kernel runs."""
    kind = pointer.element_type
    return kind(llvm.LoadOp(kind.ir_type, pointer.llvm_ptr, alignment=pointer.alignment, invariant=True).result)


def local_barrier() -> None:
    """All waves of the workgroup arrive, and see each other's LDS writes; loads from memory are not waited for."""
    fx.gpu.barrier(address_spaces=ir.ArrayAttr.get([ir.Attribute.parse("#gpu.address_space<workgroup>")]))


class Carried:
    """An object of a kernel that its run-time loops and branches carry: the fields that ``carried`` names change there,
    all others are the same throughout."""

    carried: ClassVar[tuple[str, ...]] = ()

    def _parts(self) -> list[Any]:
        return [getattr(self, name) for name in self.carried]

    def __extract_to_ir_values__(self) -> list[Any]:
        return list(extract_to_ir_values(self._parts()))

    @classmethod
    def __construct_from_ir_values__(cls, values: Sequence[Any], exemplar: Carried) -> Carried:
        made = copy.copy(exemplar)
        parts = exemplar._parts()
        for name, part in zip(cls.carried, construct_from_ir_values(type(parts), parts, list(values)), strict=True):
            setattr(made, name, part)
        return made


# --- for the compile ---

_ANY_GRID = (1, 1, 1)


@dataclass(frozen=True)
class Entry:
    """A kernel to compile. parameters: the type of each, in a list where it is a pointer to such; waves_per_simd: as
    many must fit."""

    kernel: Kernel
    threads: int
    waves_per_simd: int
    parameters: Sequence[Any]


@dataclass(frozen=True)
class Traced:
    """A kernel before any pass: its text, without places in sources, and the count of each operation."""

    text: str
    operations: Mapping[str, int]


@dataclass(frozen=True)
class Compiled:
    """code_object: an ELF file; traced: by symbol."""

    code_object: bytes
    traced: Mapping[str, Traced]


def compile_kernels(entries: Sequence[Entry]) -> Compiled:
    """Compiles kernels into one code object, for the chip that FLYDSL_GPU_ARCH names."""
    types = [t for entry in entries for t in entry.parameters]
    placeholders = [flyc.from_c_void_p(t[0], None) if isinstance(t, list) else t(0) for t in types]
    annotations = [fx.Pointer if isinstance(t, list) else t for t in types]

    def launcher(**arguments: Value) -> None:
        values = iter(arguments.values())
        for entry in entries:
            own = [next(values) for _ in entry.parameters]
            launched = entry.kernel(*own, value_attrs={"rocdl.waves_per_eu": str(entry.waves_per_simd)})
            launched.launch(grid=_ANY_GRID, block=(entry.threads, 1, 1))

    # Its parameters differ from unit to unit; flydsl asks inspect for them.
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
        return Compiled(bytes(objects[0]), dict(_traced(ir.Module.parse(made._source_ir))))


def _traced(module: Any) -> Iterator[tuple[str, Traced]]:
    for operation in module.body.operations:
        if operation.operation.name == "gpu.module":
            for function in operation.regions[0].blocks[0].operations:
                text = function.operation.get_asm(enable_debug_info=False, assume_verified=True)
                symbol = ir.StringAttr(function.operation.attributes["sym_name"]).value
                yield symbol, Traced(text, Counter(_operations(function.operation)))


def _operations(operation: Any) -> Iterator[str]:
    for region in operation.regions:
        for block in region.blocks:
            for inside in block.operations:
                attributes = inside.operation.attributes
                called = f" {ir.StringAttr(attributes['intrin']).value}" if "intrin" in attributes else ""
                yield inside.operation.name + called
                yield from _operations(inside.operation)
