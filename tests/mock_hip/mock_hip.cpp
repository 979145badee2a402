// A stand-in for the HIP runtime, for tests of the launch path on machines without a GPU: it takes modules and launches
// as libamdhip64 does, runs nothing, and remembers what it was asked.
//
// The environment, read at every call, makes it behave:
//   MOCK_HIP_DEVICES       number of devices (default 1)
//   MOCK_HIP_CURRENT       the current device (default 0)
//   MOCK_HIP_ARCH          target id of all devices (default gfx942:sramecc+:xnack-)
//   MOCK_HIP_MISSING       a symbol that no module has
//   MOCK_HIP_LAUNCH_ERROR  status of hipModuleLaunchKernel
// mock_hip_record() returns as JSON what happened since the last mock_hip_reset().

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

namespace {

constexpr int kSuccess = 0, kInvalidValue = 1, kNoDevice = 100, kInvalidImage = 200, kNoBinaryForGpu = 209,
              kNotFound = 500;

struct Module {
  int device;
  std::string code_object;
};

struct Function {
  const Module* module;
  std::string symbol;
};

std::mutex mutex;
std::vector<std::string> loads, launches;

std::string setting(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value && *value ? value : otherwise;
}

int number(const char* name, const char* otherwise) { return std::atoi(setting(name, otherwise).c_str()); }

std::string quoted(const std::string& text) { return '"' + text + '"'; }

std::string joined(const std::vector<std::string>& items) {
  std::string text;
  for (const std::string& item : items) text += (text.empty() ? "" : ",") + item;
  return '[' + text + ']';
}

std::string triple(unsigned x, unsigned y, unsigned z) {
  return joined({std::to_string(x), std::to_string(y), std::to_string(z)});
}

std::string hex(const void* data, size_t size) {
  std::string text;
  for (size_t i = 0; i < size; ++i) {
    const unsigned byte = static_cast<const unsigned char*>(data)[i];
    text += {"0123456789abcdef"[byte / 16], "0123456789abcdef"[byte % 16]};
  }
  return text;
}

// Every feature that the entry names has the device's setting.
bool runs(const std::string& entry, const std::string& device) {
  std::string rest = entry;
  const std::string padded = ':' + device + ':';
  while (!rest.empty()) {
    const size_t end = rest.find(':');
    const std::string part = rest.substr(0, end);
    if (padded.find(':' + part + ':') == std::string::npos) return false;
    rest = end == std::string::npos ? "" : rest.substr(end + 1);
  }
  return true;
}

uint64_t u64(const char* at) {
  uint64_t value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

}  // namespace

extern "C" {

int hipGetDeviceCount(int* count) {
  *count = number("MOCK_HIP_DEVICES", "1");
  return *count > 0 ? kSuccess : kNoDevice;
}

int hipGetDevice(int* device) {
  *device = number("MOCK_HIP_CURRENT", "0");
  return kSuccess;
}

int hipDeviceGetName(char* name, int size, int) {
  std::strncpy(name, ("Mock " + setting("MOCK_HIP_ARCH", "gfx942:sramecc+:xnack-")).c_str(), size);
  return kSuccess;
}

const char* hipGetErrorString(int status) {
  switch (status) {
    case kSuccess:
      return "no error";
    case kNoDevice:
      return "no ROCm-capable device is detected";
    case kNoBinaryForGpu:
      return "no kernel image is available for execution on the device";
    case kNotFound:
      return "named symbol not found";
    default:
      return "mock error";
  }
}

int hipModuleLoadData(void** module, const void* image) {
  const std::lock_guard<std::mutex> lock(mutex);
  const char* data = static_cast<const char*>(image);
  if (std::memcmp(data, "__CLANG_OFFLOAD_BUNDLE__", 24) != 0) return kInvalidImage;
  const std::string prefix = "hipv4-amdgcn-amd-amdhsa--", device = setting("MOCK_HIP_ARCH", "gfx942:sramecc+:xnack-");
  std::vector<std::string> entries;
  std::string code_object;
  const char* at = data + 32;
  for (uint64_t i = 0; i < u64(data + 24); ++i) {
    const std::string name(at + 24, u64(at + 16));
    entries.push_back(quoted(name));
    if (name.rfind(prefix, 0) == 0 && runs(name.substr(prefix.size()), device)) {
      code_object.assign(data + u64(at), u64(at + 8));
    }
    at += 24 + name.size();
  }
  const int current = number("MOCK_HIP_CURRENT", "0");
  loads.push_back("{\"device\":" + std::to_string(current) + ",\"entries\":" + joined(entries) +
                  ",\"code_object_bytes\":" + std::to_string(code_object.size()) + "}");
  if (code_object.compare(0, 4,
                          "\x7f"
                          "ELF") != 0)
    return kNoBinaryForGpu;
  *module = new Module{current, code_object};
  return kSuccess;
}

int hipModuleGetFunction(void** function, void* module, const char* symbol) {
  const Module* loaded = static_cast<Module*>(module);
  const std::string descriptor = std::string(1, '\0') + symbol + ".kd" + std::string(1, '\0');
  if (setting("MOCK_HIP_MISSING", "") == symbol || loaded->code_object.find(descriptor) == std::string::npos) {
    return kNotFound;
  }
  *function = new Function{loaded, symbol};
  return kSuccess;
}

int hipModuleLaunchKernel(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                          unsigned block_y, unsigned block_z, unsigned lds_bytes, void* stream, void** parameters,
                          void** extra) {
  const int status = number("MOCK_HIP_LAUNCH_ERROR", "0");
  if (status) return status;
  const Function* launched = static_cast<Function*>(function);
  if (parameters || !extra || extra[0] != reinterpret_cast<void*>(1) || extra[2] != reinterpret_cast<void*>(2) ||
      extra[4] != reinterpret_cast<void*>(3)) {
    return kInvalidValue;
  }
  const std::lock_guard<std::mutex> lock(mutex);
  launches.push_back("{\"symbol\":" + quoted(launched->symbol) + ",\"device\":" +
                     std::to_string(launched->module->device) + ",\"grid\":" + triple(grid_x, grid_y, grid_z) +
                     ",\"block\":" + triple(block_x, block_y, block_z) + ",\"lds_bytes\":" + std::to_string(lds_bytes) +
                     ",\"stream\":" + std::to_string(reinterpret_cast<uintptr_t>(stream)) +
                     ",\"kernargs\":" + quoted(hex(extra[1], *static_cast<size_t*>(extra[3]))) + "}");
  return kSuccess;
}

const char* mock_hip_record() {
  static std::string text;
  const std::lock_guard<std::mutex> lock(mutex);
  text = "{\"loads\":" + joined(loads) + ",\"launches\":" + joined(launches) + "}";
  return text.c_str();
}

void mock_hip_reset() {
  const std::lock_guard<std::mutex> lock(mutex);
  loads.clear();
  launches.clear();
}

}  // extern "C"
