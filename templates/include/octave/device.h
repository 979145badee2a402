// The device vocabulary of the kernels, on clang's builtins alone: no ROCm header is needed.
// Given by the generated file: OCTAVE_WAVE_SIZE (lanes of a wave on the target).
#pragma once

using int8_t = __INT8_TYPE__;
using uint8_t = __UINT8_TYPE__;
using uint16_t = __UINT16_TYPE__;
using int32_t = __INT32_TYPE__;
using uint32_t = __UINT32_TYPE__;
using int64_t = __INT64_TYPE__;
using uint64_t = __UINT64_TYPE__;

#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))

#define OCTAVE_MEMBER inline __attribute__((device, always_inline))
#define OCTAVE_DEVICE static OCTAVE_MEMBER
// A kernel of exactly `threads` threads a workgroup, of which the chip must hold `occupancy` waves per SIMD.
#define OCTAVE_KERNEL(threads, occupancy) \
  __global__ __attribute__((amdgpu_flat_work_group_size(threads, threads), amdgpu_waves_per_eu(occupancy)))

namespace octave {

inline constexpr int kWaveSize = OCTAVE_WAVE_SIZE;

using float2 = float __attribute__((ext_vector_type(2)));
using float4 = float __attribute__((ext_vector_type(4)));
using int4 = int32_t __attribute__((ext_vector_type(4)));
using uint2 = uint32_t __attribute__((ext_vector_type(2)));
using uint4 = uint32_t __attribute__((ext_vector_type(4)));
using half2 = _Float16 __attribute__((ext_vector_type(2)));
using half4 = _Float16 __attribute__((ext_vector_type(4)));

// Of a query dtype: fp16, or bf16.
template <class Scalar>
OCTAVE_DEVICE constexpr bool is_half() {
  static_assert(__is_same(Scalar, _Float16) || __is_same(Scalar, __bf16), "what bf16 needs is done for bf16 alone");
  return __is_same(Scalar, _Float16);
}

OCTAVE_DEVICE int thread_index() { return static_cast<int>(__builtin_amdgcn_workitem_id_x()); }
OCTAVE_DEVICE int lane_index() { return thread_index() % kWaveSize; }
// Tells the compiler that a value is the same in all lanes of a wave.
OCTAVE_DEVICE int uniform(int value) { return __builtin_amdgcn_readfirstlane(value); }
OCTAVE_DEVICE int wave_index() { return uniform(thread_index() / kWaveSize); }
OCTAVE_DEVICE int workgroup_x() { return static_cast<int>(__builtin_amdgcn_workgroup_id_x()); }
OCTAVE_DEVICE int workgroup_y() { return static_cast<int>(__builtin_amdgcn_workgroup_id_y()); }
OCTAVE_DEVICE int workgroup_z() { return static_cast<int>(__builtin_amdgcn_workgroup_id_z()); }

// All waves of the workgroup arrive, and see each other's LDS writes.
OCTAVE_DEVICE void workgroup_barrier() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup", "local");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup", "local");
}

// Orders LDS writes of a wave before its own later reads; no other wave is waited for.
OCTAVE_DEVICE void wave_fence() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront", "local");
  __builtin_amdgcn_wave_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront", "local");
}

// The compiler moves no instruction across: what is written together stays so, such as like ones, which gfx11 issues in
// pairs.
OCTAVE_DEVICE void schedule_barrier() { __builtin_amdgcn_sched_barrier(0); }

// A kernel argument for which the others are waited for as well: one wait at the kernel's start instead of one where
// each is first used.
template <class... T>
OCTAVE_DEVICE int together(int argument, T... others) {
  (..., [&](T other) __attribute__((always_inline)) { asm("" : "+s"(argument) : "s"(other)); }(others));
  return argument;
}

template <class To, class From>
OCTAVE_DEVICE To bit_cast(From value) {
  return __builtin_bit_cast(To, value);
}

// A number that is the same in all lanes, in a scalar register; the compiler does not see which it is.
OCTAVE_DEVICE float scalar(float value) {
  int bits;
  asm("" : "=s"(bits) : "0"(uniform(bit_cast<int>(value))));
  return bit_cast<float>(bits);
}

// The same value in a vector register, of which the compiler does not know where it comes from.
template <class T>
OCTAVE_DEVICE T opaque(T value) {
  asm("" : "+v"(value));
  return value;
}

// A load from an address that need not be aligned to the type.
template <class T>
OCTAVE_DEVICE T load(const void* address) {
  T value;
  __builtin_memcpy(&value, address, sizeof(T));
  return value;
}

// Addresses in LDS as numbers.
OCTAVE_DEVICE uint32_t local_address(const void* shared) {
  return reinterpret_cast<uint32_t>((const __attribute__((address_space(3))) uint8_t*)shared);
}

template <class T>
OCTAVE_DEVICE T local_load(uint32_t address) {
  return *reinterpret_cast<const __attribute__((address_space(3))) T*>(address);
}

template <class T>
OCTAVE_DEVICE void local_store(uint32_t address, T value) {
  *reinterpret_cast<__attribute__((address_space(3))) T*>(address) = value;
}

OCTAVE_DEVICE constexpr int min(int a, int b) { return a < b ? a : b; }
OCTAVE_DEVICE constexpr int max(int a, int b) { return a > b ? a : b; }
OCTAVE_DEVICE constexpr int round_up(int a, int unit) { return (a + unit - 1) / unit * unit; }

inline constexpr float kInfinity = __builtin_inff();
inline constexpr float kLargestHalf = 65504.0f;
inline constexpr float kLog2E = 1.4426950408889634f;

// 2^x.
OCTAVE_DEVICE float exp2(float x) { return __builtin_amdgcn_exp2f(x); }

// c + Σ a_i·b_i over four signed bytes.
OCTAVE_DEVICE int32_t dot4(int32_t a, int32_t b, int32_t c) {
#if defined(__GFX11__)
  return __builtin_amdgcn_sudot4(true, a, true, b, c, false);
#else
  return __builtin_amdgcn_sdot4(a, b, c, false);
#endif
}

}  // namespace octave
