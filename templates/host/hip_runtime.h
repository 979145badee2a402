// The few functions of the HIP runtime that a launch needs, found when they are first needed: a library that links no
// HIP can be loaded, and asked what it holds, on a machine without ROCm.
#pragma once

#include <stdexcept>
#include <string>

namespace octave {

// HIP's C interface, which has kept these names, types and values since ROCm 4.
using hipError_t = int;
using hipStream_t = void*;
using hipModule_t = void*;
using hipFunction_t = void*;

inline constexpr hipError_t kHipSuccess = 0;
inline constexpr hipError_t kHipErrorNoBinaryForGpu = 209;
inline constexpr hipError_t kHipErrorNotFound = 500;

// Markers of the list that hipModuleLaunchKernel takes as `extra`.
inline void* const kLaunchParamBufferPointer = reinterpret_cast<void*>(1);
inline void* const kLaunchParamBufferSize = reinterpret_cast<void*>(2);
inline void* const kLaunchParamEnd = reinterpret_cast<void*>(3);

// An error that the caller can act on; its text is what went wrong and, on a line of its own, what to do.
inline std::runtime_error failure(const std::string& what, const std::string& remedy) {
  return std::runtime_error(what + "\n  hint: " + remedy);
}

struct HipRuntime {
  hipError_t (*GetDeviceCount)(int*) = nullptr;
  hipError_t (*GetDevice)(int*) = nullptr;
  hipError_t (*DeviceGetName)(char*, int, int) = nullptr;
  hipError_t (*ModuleLoadData)(hipModule_t*, const void*) = nullptr;
  hipError_t (*ModuleGetFunction)(hipFunction_t*, hipModule_t, const char*) = nullptr;
  hipError_t (*ModuleLaunchKernel)(hipFunction_t, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                                   hipStream_t, void**, void**) = nullptr;
  const char* (*GetErrorString)(hipError_t) = nullptr;

  // The runtime of this process: one that is loaded already (torch's own), else the system's. Throws when there is
  // none.
  static const HipRuntime& get();

  // The device that is current in this thread. Throws when there is no GPU.
  int current_device() const;

  // The device as people call it, such as "device 0 (AMD Instinct MI300X)".
  std::string device_name(int device) const;

  // Throws when a call failed, naming it.
  void check(hipError_t status, const std::string& call) const;
};

}  // namespace octave
