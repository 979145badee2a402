"""stopgap"""
from __future__ import annotations
import flydsl.expr as fx
from octave_gen.kernels.flydsl.unstable import Value, intrinsic

def mfma_f16(a: Value, b: Value, c: Value) -> Value:
    z = fx.Int32(0)
    return intrinsic(fx.Float32x4, "llvm.amdgcn.mfma.f32.16x16x16f16", a.bitcast(fx.Float16), b.bitcast(fx.Float16), c, z, z, z)

def mfma_bf16(a: Value, b: Value, c: Value) -> Value:
    z = fx.Int32(0)
    return intrinsic(fx.Float32x4, "llvm.amdgcn.mfma.f32.16x16x16bf16.1k", a.bitcast(fx.Int16), b.bitcast(fx.Int16), c, z, z, z)

def mfma_i8(a: Value, b: Value, c: Value) -> Value:
    z = fx.Int32(0)
    return intrinsic(fx.Int32x4, "llvm.amdgcn.mfma.i32.16x16x32.i8", a.bitcast(fx.Int64)[0], b.bitcast(fx.Int64)[0], c, z, z, z)
