#include "hip_runtime.h"

#include <dlfcn.h>

namespace octave {
namespace {

constexpr const char* kNames[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"};

void* open_runtime() {
  for (const char* name : kNames) {
    if (void* handle = dlopen(name, RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD)) return handle;
  }
  std::string names, reasons;
  for (const char* name : kNames) {
    if (void* handle = dlopen(name, RTLD_LAZY | RTLD_LOCAL)) return handle;
    const char* said = dlerror();
    const std::string reason = said ? said : "";
    names += (names.empty() ? "" : ", ") + std::string(name);
    // One that is there but lacks a library of its own has a reason worth telling.
    if (reason != std::string(name) + ": cannot open shared object file: No such file or directory") {
      reasons += (reasons.empty() ? ": " : "; ") + reason;
    }
  }
  throw failure("there is no HIP runtime: none of " + names + " can be loaded" + reasons,
                "install ROCm, or a torch built for ROCm, and see that the loader finds its libraries");
}

template <class Function>
void find(void* handle, const char* name, Function& function) {
  void* symbol = dlsym(handle, name);
  if (!symbol) {
    throw failure(std::string("the HIP runtime has no ") + name, "install ROCm 5 or newer");
  }
  function = reinterpret_cast<Function>(symbol);
}

HipRuntime load() {
  void* handle = open_runtime();
  HipRuntime hip;
  find(handle, "hipGetDeviceCount", hip.GetDeviceCount);
  find(handle, "hipGetDevice", hip.GetDevice);
  find(handle, "hipDeviceGetName", hip.DeviceGetName);
  find(handle, "hipModuleLoadData", hip.ModuleLoadData);
  find(handle, "hipModuleGetFunction", hip.ModuleGetFunction);
  find(handle, "hipModuleLaunchKernel", hip.ModuleLaunchKernel);
  find(handle, "hipGetErrorString", hip.GetErrorString);
  return hip;
}

}  // namespace

const HipRuntime& HipRuntime::get() {
  static const HipRuntime hip = load();  // tried again by the next call when it throws
  return hip;
}

int HipRuntime::current_device() const {
  int count = 0;
  const hipError_t status = GetDeviceCount(&count);
  if (status != kHipSuccess || count == 0) {
    throw failure(std::string("there is no AMD GPU: ") + (status ? GetErrorString(status) : "HIP counts 0 devices"),
                  "run on a machine with a supported GPU; rocminfo lists the ones that the driver shows");
  }
  int device = 0;
  check(GetDevice(&device), "hipGetDevice");
  return device;
}

std::string HipRuntime::device_name(int device) const {
  char name[256] = "";
  const bool known = DeviceGetName(name, sizeof name - 1, device) == kHipSuccess && name[0];
  return "device " + std::to_string(device) + (known ? std::string(" (") + name + ")" : "");
}

void HipRuntime::check(hipError_t status, const std::string& call) const {
  if (status == kHipSuccess) return;
  throw failure(call + " failed: " + GetErrorString(status) + " (" + std::to_string(status) + ")",
                "AMD_LOG_LEVEL=3 makes the HIP runtime say more");
}

}  // namespace octave
