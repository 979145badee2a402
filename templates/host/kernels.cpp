#include "kernels.h"

#include <sstream>

namespace octave {

Kernels& Kernels::get() {
  static Kernels kernels;
  return kernels;
}

Kernels::Kernels() {
  // A title, then a line `symbol offset size argument_bytes` for each kernel.
  std::istringstream lines(std::string(octave_index, octave_index_end));
  std::string line, symbol;
  std::getline(lines, line);
  while (std::getline(lines, line)) {
    std::istringstream fields(line);
    Kernel kernel;
    fields >> symbol >> kernel.offset >> kernel.size >> kernel.argument_bytes;
    index_.emplace(symbol, kernel);
  }
}

const Kernel& Kernels::find(const std::string& symbol) const {
  const auto found = index_.find(symbol);
  if (found == index_.end()) {
    throw failure("this library for " + std::string(octave_arch) + " holds no kernel " + symbol,
                  "its manifest lists what it holds; build the variant with `octave-gen build`");
  }
  return found->second;
}

hipFunction_t Kernels::load(const HipRuntime& hip, int device, const std::string& symbol) {
  const Kernel& kernel = find(symbol);
  const std::string on_device = std::to_string(device) + ":";
  const std::lock_guard<std::mutex> lock(mutex_);
  hipFunction_t& function = functions_[on_device + symbol];
  if (function) return function;
  hipModule_t& module = modules_[on_device + std::to_string(kernel.offset)];
  if (!module) {
    const hipError_t status = hip.ModuleLoadData(&module, octave_bundles + kernel.offset);
    if (status == kHipErrorNoBinaryForGpu) {
      module = nullptr;
      throw failure("this library is for " + std::string(octave_arch) + ", which " + hip.device_name(device) +
                        " does not run (" + hip.GetErrorString(status) + ")",
                    "load the library of the device's arch; `octave-gen build --arch ARCH` builds it");
    }
    if (status != kHipSuccess) module = nullptr;
    hip.check(status, "hipModuleLoadData for " + symbol + " on " + hip.device_name(device));
  }
  const hipError_t status = hip.ModuleGetFunction(&function, module, symbol.c_str());
  if (status != kHipSuccess) function = nullptr;
  if (status == kHipErrorNotFound) {
    throw failure("the code object that should hold the kernel " + symbol + " does not",
                  "the library is damaged: build it again with `octave-gen build`");
  }
  hip.check(status, "hipModuleGetFunction for " + symbol);
  return function;
}

}  // namespace octave
