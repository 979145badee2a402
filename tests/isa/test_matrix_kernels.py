"""Matrix instructions as the compiler emits them, executed from code objects: VGPRs, AGPRs, constants, EXEC."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from matrix_tables import Array, placed, shapes, taken

from octave_gen import isa
from octave_gen.arch import MATRIX_LAYOUTS
from octave_gen.build import compile, toolchain
from octave_gen.errors import OctaveError

CodeObject = Callable[[str, str], isa.CodeObject]

TYPES = """\
template <class T, int kCount>
using vec = T __attribute__((ext_vector_type(kCount)));
using uint = unsigned;
using half = _Float16;
using i8x16 = vec<int, 4>;
template <class To, class From>
static inline __attribute__((device, always_inline)) To as(From x) { return __builtin_bit_cast(To, x); }
#define PIN(x) asm volatile("" : "+v"(x))
"""

MFMA = "__builtin_amdgcn_mfma_{0}(as<{1}>(a), as<{1}>(b), {2}, {3}, 0, {4})"
WMMA = "__builtin_amdgcn_wmma_{0}_w32(as<vec<{1}, 16>>(a), as<vec<{1}, 16>>(b), {2})"
IU8 = "__builtin_amdgcn_wmma_i32_16x16x16_iu8_w32({}, as<i8x16>(a), {}, as<i8x16>(b), as<vec<int, 8>>(c), {})"
F16 = "__builtin_amdgcn_wmma_f16_16x16x16_f16_w32(as<vec<half, 16>>(a), as<vec<half, 16>>(b), as<vec<half, 16>>(c), {})"
AGPRS = '({ asm volatile("v_mfma_f32_32x32x8_f16 %0, %1, %2, %0" : "+a"(c) : "a"(a), "v"(b)); c; })'


def mfma(name: str, operand: str, c: str, cbsz: int = 0, blgp: int = 0) -> str:
    return MFMA.format(name, operand, c, cbsz, blgp)


# kernel: instruction, the value of D; a, b and c are the lane's registers of A, B and C
KERNELS: dict[str, tuple[str, str]] = {
    "i8_16": ("v_mfma_i32_16x16x32_i8", mfma("i32_16x16x32_i8", "long", "as<vec<int, 4>>(c)")),
    "i8_32": ("v_mfma_i32_32x32x16_i8", mfma("i32_32x32x16_i8", "long", "as<vec<int, 16>>(c)")),
    "f16_16": ("v_mfma_f32_16x16x16_f16", mfma("f32_16x16x16f16", "vec<half, 4>", "as<vec<float, 4>>(c)")),
    "f16_32": ("v_mfma_f32_32x32x8_f16", mfma("f32_32x32x8f16", "vec<half, 4>", "as<vec<float, 16>>(c)")),
    "bf16_16": ("v_mfma_f32_16x16x16_bf16", mfma("f32_16x16x16bf16_1k", "vec<short, 4>", "as<vec<float, 4>>(c)")),
    "bf16_32": ("v_mfma_f32_32x32x8_bf16", mfma("f32_32x32x8bf16_1k", "vec<short, 4>", "as<vec<float, 16>>(c)")),
    "agprs": ("v_mfma_f32_32x32x8_f16", AGPRS),
    "i8_wide_16": ("v_mfma_i32_16x16x64_i8", mfma("i32_16x16x64_i8", "i8x16", "as<vec<int, 4>>(c)")),
    "i8_wide_32": ("v_mfma_i32_32x32x32_i8", mfma("i32_32x32x32_i8", "i8x16", "as<vec<int, 16>>(c)")),
    "f16_wide_16": ("v_mfma_f32_16x16x32_f16", mfma("f32_16x16x32_f16", "vec<half, 8>", "as<vec<float, 4>>(c)")),
    "f16_wide_32": ("v_mfma_f32_32x32x16_f16", mfma("f32_32x32x16_f16", "vec<half, 8>", "as<vec<float, 16>>(c)")),
    "bf16_wide_16": ("v_mfma_f32_16x16x32_bf16", mfma("f32_16x16x32_bf16", "vec<__bf16, 8>", "as<vec<float, 4>>(c)")),
    "bf16_wide_32": ("v_mfma_f32_32x32x16_bf16", mfma("f32_32x32x16_bf16", "vec<__bf16, 8>", "as<vec<float, 16>>(c)")),
    "wmma_f16": ("v_wmma_f32_16x16x16_f16", WMMA.format("f32_16x16x16_f16", "half", "as<vec<float, 8>>(c)")),
    "wmma_bf16": ("v_wmma_f32_16x16x16_bf16", WMMA.format("f32_16x16x16_bf16", "short", "as<vec<float, 8>>(c)")),
    "wmma_low": ("v_wmma_f16_16x16x16_f16", F16.format("false")),
    "wmma_high": ("v_wmma_f16_16x16x16_f16", F16.format("true")),
    "iu8_uu": ("v_wmma_i32_16x16x16_iu8", IU8.format("false", "false", "false")),
    "iu8_us": ("v_wmma_i32_16x16x16_iu8", IU8.format("false", "true", "false")),
    "iu8_su": ("v_wmma_i32_16x16x16_iu8", IU8.format("true", "false", "false")),
    "iu8_ss": ("v_wmma_i32_16x16x16_iu8", IU8.format("true", "true", "false")),
}
PLUS_ONE: dict[str, tuple[str, str]] = {
    "one": ("v_mfma_f32_16x16x16_f16", mfma("f32_16x16x16f16", "vec<half, 4>", "vec<float, 4>(1.0f)")),
    "one_i8": ("v_mfma_i32_16x16x32_i8", mfma("i32_16x16x32_i8", "long", "vec<int, 4>(1)")),
}
REFUSED: dict[str, tuple[str, str, str]] = {
    "cbsz": ("v_mfma_i32_16x16x32_i8", mfma("i32_16x16x32_i8", "long", "as<vec<int, 4>>(c)", cbsz=1), "cbsz:1"),
    "blgp": ("v_mfma_i32_16x16x32_i8", mfma("i32_16x16x32_i8", "long", "as<vec<int, 4>>(c)", blgp=3), "blgp:3"),
    "saturates": ("v_wmma_i32_16x16x16_iu8", IU8.format("true", "true", "true"), "clamp"),
}


def kernel(name: str, mnemonic: str, value: str, condition: str = "") -> str:
    """A kernel of one wave that loads each lane's registers of A, B and C and stores those of D."""
    layout = MATRIX_LAYOUTS[mnemonic]
    size = layout.wave_size
    operand, result = f"vec<uint, {layout.operand_registers}>", f"vec<uint, {layout.result_registers}>"
    return f"""
extern "C" __attribute__((global, amdgpu_flat_work_group_size({size}, {size})))
void {name}(const {operand}* pa, const {operand}* pb, const {result}* pc, {result}* pd) {{
  const int lane = __builtin_amdgcn_workitem_id_x();
  {operand} a = pa[lane], b = pb[lane];
  {result} c = pc[lane];
  PIN(a); PIN(b); PIN(c);
  {condition} pd[lane] = as<{result}>({value});
}}
"""


@pytest.fixture(scope="module")
def code_object(tmp_path_factory: pytest.TempPathFactory) -> CodeObject:
    """Compiles kernels for a chip at -O3."""
    compiler = toolchain.find("ziglang")

    def build(arch: str, kernels: str) -> isa.CodeObject:
        folder = tmp_path_factory.mktemp("matrix")
        compile.write_linker(folder, compiler)
        (folder / "kernels.hip").write_text(TYPES + kernels)
        command = compile.call(compiler, arch, folder, "kernels")
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return isa.load((folder / "kernels.hsaco").read_bytes())

    return build


@pytest.fixture(scope="module")
def kernels(code_object: CodeObject) -> dict[str, isa.CodeObject]:
    """The code object that holds each chip's kernels."""
    texts: dict[str, str] = {"gfx942": "", "gfx950": "", "gfx1100": ""}
    for name, (mnemonic, value) in {**KERNELS, **PLUS_ONE}.items():
        for arch in MATRIX_LAYOUTS[mnemonic].archs:
            texts[arch] += kernel(name, mnemonic, value)
    for name, mnemonic in (("i8_16", "v_mfma_i32_16x16x32_i8"), ("wmma_f16", "v_wmma_f32_16x16x16_f16")):
        texts[MATRIX_LAYOUTS[mnemonic].archs[0]] += kernel(f"{name}_some", mnemonic, KERNELS[name][1], "if (lane < 9)")
    return {arch: code_object(arch, text) for arch, text in texts.items()}


def small_integers(mnemonic: str, signed: tuple[bool, bool] = (True, True)) -> tuple[Array, Array, Array]:
    draw = np.random.default_rng(11)
    left, right, result = shapes(mnemonic, 1)
    high = 4 if MATRIX_LAYOUTS[mnemonic].result != "i32" else 256
    a, b = (
        draw.integers(-(high // 2) if sign else 0, high // 2 if sign else high, shape)
        for sign, shape in zip(signed, (left, right), strict=True)
    )
    return a, b, draw.integers(-8, 9, result)


def execute(code: isa.CodeObject, symbol: str, *registers: Array, **options: Any) -> Array:
    """D [registers, 1, lanes]: A, B, C and the D that was there before, likewise, go through memory lane by lane."""
    memory = isa.Memory()
    images = [np.ascontiguousarray(block[:, 0].T).view(np.uint8).reshape(-1) for block in registers]
    addresses = [memory.add(name, image, writable=name == "D") for name, image in zip("ABCD", images, strict=True)]
    isa.execute(
        code,
        symbol,
        grid=(1, 1, 1),
        threads=registers[0].shape[2],
        kernargs=struct.pack("<4Q", *addresses),
        memory=memory,
        options=isa.Options(**options),
    )
    d = images[3].view(np.uint32).reshape(registers[0].shape[2], -1)
    return d.T[:, None, :]


def operands(mnemonic: str, a: Array, b: Array, c: Array, high: bool = False) -> tuple[Array, Array, Array, Array]:
    layout = MATRIX_LAYOUTS[mnemonic]
    addend = placed(c, mnemonic, "D", layout.result) << np.uint32(16 if high else 0)
    left, right = placed(a, mnemonic, "A", layout.element), placed(b, mnemonic, "B", layout.element)
    return left, right, addend, np.full_like(addend, 0xAAAAAAAA)


@pytest.mark.parametrize(
    ("arch", "name"),
    [(arch, name) for name, (mnemonic, _) in KERNELS.items() for arch in MATRIX_LAYOUTS[mnemonic].archs],
)
def test_a_compiled_matrix_instruction_multiplies(kernels: dict[str, isa.CodeObject], arch: str, name: str) -> None:
    mnemonic, _ = KERNELS[name]
    code = kernels[arch]
    assert any(instruction.base == mnemonic for instruction in code.instructions.values())
    assert isa.uncovered(code) == []
    signed = (name[-2] == "s", name[-1] == "s") if name.startswith("iu8") else (True, True)
    a, b, c = small_integers(mnemonic, signed)
    high = name == "wmma_high"
    d = execute(code, name, *operands(mnemonic, a, b, c, high)) >> np.uint32(16 if high else 0)
    assert np.array_equal(taken(d, mnemonic), a @ b + c)


@pytest.mark.parametrize("name", PLUS_ONE)
def test_c_may_be_a_constant(kernels: dict[str, isa.CodeObject], name: str) -> None:
    mnemonic, _ = PLUS_ONE[name]
    a, b, c = small_integers(mnemonic)
    d = execute(kernels["gfx942"], name, *operands(mnemonic, a, b, c))
    assert np.array_equal(taken(d, mnemonic), a @ b + 1)


def test_mfma_takes_all_lanes_whatever_exec_says(kernels: dict[str, isa.CodeObject]) -> None:
    mnemonic = "v_mfma_i32_16x16x32_i8"
    a, b, c = small_integers(mnemonic)
    left, right, addend, before = operands(mnemonic, a, b, c)
    d = execute(kernels["gfx942"], "i8_16_some", left, right, addend, before)
    whole = execute(kernels["gfx942"], "i8_16", left, right, addend, before.copy())
    assert np.array_equal(d[:, :, :9], whole[:, :, :9])
    assert np.array_equal(d[:, :, 9:], before[:, :, 9:])


def test_wmma_with_partial_exec_is_a_fault(kernels: dict[str, isa.CodeObject]) -> None:
    mnemonic = "v_wmma_f32_16x16x16_f16"
    with pytest.raises(OctaveError, match="lanes switched off") as caught:
        execute(kernels["gfx1100"], "wmma_f16_some", *operands(mnemonic, *small_integers(mnemonic)))
    assert "v_wmma_f32_16x16x16_f16" in str(caught.value)
    assert "wmma_f16_some" in str(caught.value)


def test_unequal_half_waves_are_a_fault_unless_relaxed(kernels: dict[str, isa.CodeObject]) -> None:
    mnemonic, code = "v_wmma_f32_16x16x16_f16", kernels["gfx1100"]
    a, b, c = small_integers(mnemonic)
    left, right, addend, before = operands(mnemonic, a, b, c)
    for lane in range(32):
        if lane % 2 != lane // 16:
            left[:, :, lane] = np.uint32(0x7BCD7BCD)
    with pytest.raises(OctaveError, match=r"of A differs between lanes 0 and 16"):
        execute(code, "wmma_f16", left, right, addend, before)
    d = execute(code, "wmma_f16", left, right, addend, before, relaxed_half_waves=True)
    assert np.array_equal(taken(d, mnemonic), a @ b + c)
    right[0, 0, 3] ^= np.uint32(1)
    with pytest.raises(OctaveError, match=r"register 0 of B differs between lanes 3 and 19"):
        execute(code, "wmma_f16", left, right, addend, before, relaxed_half_waves=True)


@pytest.mark.parametrize("name", REFUSED)
def test_modifiers_without_semantics_are_not_covered(code_object: CodeObject, name: str) -> None:
    mnemonic, value, modifier = REFUSED[name]
    code = code_object(MATRIX_LAYOUTS[mnemonic].archs[0], kernel(name, mnemonic, value))
    (line,) = isa.uncovered(code)
    assert mnemonic in line
    assert modifier in line
    with pytest.raises(OctaveError, match=mnemonic):
        execute(code, name, *operands(mnemonic, *small_integers(mnemonic)))
