"""stopgap"""
from __future__ import annotations
import flydsl.expr as fx
from octave_gen.kernels.flydsl.unstable import Value, intrinsic, inline_asm, effect, barrier_of_lds

def schedule_barrier() -> None:
    effect("llvm.amdgcn.sched.barrier", fx.Int32(0))

def workgroup_barrier() -> None:
    barrier_of_lds()

def uniform(value: Value) -> Value:
    return intrinsic(type(value), "llvm.amdgcn.readfirstlane.i32", value)

def lane_xor(value: Value, mask: int, lane: Value) -> Value:
    bits = value.bitcast(fx.Int32) if not isinstance(value, fx.Int32) else value
    if mask == 16:
        moved = intrinsic(fx.Int32, "llvm.amdgcn.ds.swizzle", bits, fx.Int32((16 << 10) | 0x1F))
    else:
        moved = intrinsic(fx.Int32, "llvm.amdgcn.ds.bpermute", (lane ^ mask) << 2, bits)
    return moved if isinstance(value, fx.Int32) else moved.bitcast(type(value))

def ballot(condition: Value) -> Value:
    return intrinsic(fx.Int64, "llvm.amdgcn.ballot.i64", condition)

def exp2(x: Value) -> Value:
    return intrinsic(fx.Float32, "llvm.amdgcn.exp2.f32", x)

def log2(x: Value) -> Value:
    return intrinsic(fx.Float32, "llvm.amdgcn.log.f32", x)

def larger(a: Value, b: Value) -> Value:
    return intrinsic(fx.Float32, "llvm.maxnum.f32", a, b)

def permute_bytes(high: Value, low: Value, selector: Value) -> Value:
    return intrinsic(fx.Int32, "llvm.amdgcn.perm", high, low, selector)

def in_agpr(value: Value) -> Value:
    return inline_asm(fx.Int32, "", "=a,0", value)
