// The op `launch` of this library, in a namespace of its own. Its schema is defined in Python:
//   launch(Tensor kernargs, str symbol, int[] grid, int threads, int stream) -> ()
// kernargs: uint8 on the CPU, the packed arguments; grid: workgroups in x, y and z; threads: of a workgroup;
// stream: a hipStream_t of the device that is current. Throws std::runtime_error (a RuntimeError in Python):
// see octave::failure.

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "hip_runtime.h"
#include "kernels.h"

namespace octave {
namespace {

using torch::stable::Tensor;

void check_request(const Tensor& kernargs, const std::string& symbol, const std::vector<int64_t>& grid,
                   int64_t threads) {
  const char* remedy = "launch through octave_gen.runtime, which packs what the kernel takes";
  const auto wanted = static_cast<int64_t>(Kernels::get().find(symbol).argument_bytes);
  if (!kernargs.is_cpu() || kernargs.scalar_type() != torch::headeronly::ScalarType::Byte ||
      !kernargs.is_contiguous()) {
    throw failure("the arguments of " + symbol + " are not a contiguous uint8 tensor on the CPU", remedy);
  }
  if (kernargs.numel() != wanted) {
    throw failure(
        symbol + " takes " + std::to_string(wanted) + " bytes of arguments, not " + std::to_string(kernargs.numel()),
        remedy);
  }
  bool sizes_fit = grid.size() == 3 && threads >= 1 && threads <= 1024;
  for (const int64_t workgroups : grid) sizes_fit = sizes_fit && workgroups >= 1 && workgroups <= INT32_MAX;
  if (!sizes_fit) {
    throw failure("the grid of " + symbol + " is not three counts from 1, with 1 to 1024 threads each", remedy);
  }
}

void launch(const Tensor& kernargs, const std::string& symbol, const std::vector<int64_t>& grid, int64_t threads,
            int64_t stream) {
  check_request(kernargs, symbol, grid, threads);
  const HipRuntime& hip = HipRuntime::get();
  const int device = hip.current_device();
  const hipFunction_t function = Kernels::get().load(hip, device, symbol);
  size_t size = static_cast<size_t>(kernargs.numel());
  void* extra[] = {kLaunchParamBufferPointer, const_cast<void*>(kernargs.const_data_ptr()), kLaunchParamBufferSize,
                   &size, kLaunchParamEnd};
  const auto extent = [&grid](size_t axis) { return static_cast<unsigned>(grid[axis]); };
  const hipError_t status =
      hip.ModuleLaunchKernel(function, extent(0), extent(1), extent(2), static_cast<unsigned>(threads), 1, 1, 0,
                             reinterpret_cast<hipStream_t>(static_cast<intptr_t>(stream)), nullptr, extra);
  hip.check(status, "hipModuleLaunchKernel for " + symbol + " on " + hip.device_name(device));
}

void implement(torch::stable::detail::StableLibrary& library) { library.impl("launch", TORCH_BOX(&launch)); }

// What STABLE_TORCH_LIBRARY_IMPL expands to, but with a namespace that is known when the library is linked, so that
// this file is compiled once for all libraries.
const torch::stable::detail::StableTorchLibraryInit registration(torch::stable::detail::StableLibrary::Kind::IMPL,
                                                                 &implement, octave_namespace, "CPU", __FILE__,
                                                                 __LINE__);

}  // namespace
}  // namespace octave
