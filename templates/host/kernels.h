// The kernels that this library carries, and those of them that are loaded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "hip_runtime.h"

// Given by embed.S: text and bytes that the build put into the library.
extern "C" {
extern const char octave_namespace[];
extern const char octave_arch[];
extern const char octave_index[];
extern const char octave_index_end[];
extern const unsigned char octave_bundles[];
}

namespace octave {

// Where the blob of bundles holds a kernel, and the bytes of its packed arguments.
struct Kernel {
  size_t offset = 0;
  size_t size = 0;
  size_t argument_bytes = 0;
};

class Kernels {
 public:
  static Kernels& get();

  // The kernel of a symbol. Throws when the library does not carry it.
  const Kernel& find(const std::string& symbol) const;

  // The kernel, ready for launches on `device`, which is current. A code object is loaded once per device, by the first
  // launch of one of its kernels: that launch cannot be part of a graph capture.
  hipFunction_t load(const HipRuntime& hip, int device, const std::string& symbol);

 private:
  Kernels();

  std::unordered_map<std::string, Kernel> index_;
  std::mutex mutex_;  // guards the two maps below; keys begin with the device
  std::unordered_map<std::string, hipModule_t> modules_;
  std::unordered_map<std::string, hipFunction_t> functions_;
};

}  // namespace octave
