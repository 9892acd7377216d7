#include "evaluate/plan/gpu_driver.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstring>
#include <stdexcept>
#include <thread>
#include <utility>

#include "base/error.h"
#include "evaluate/ir/machine.h"

namespace tritonforge::evaluate {
namespace {

// Numbers and layouts of cuda.h, which stay as they are within a major version of the driver's interface.
constexpr int kSuccess = 0, kNotReady = 600;
enum FunctionAttribute { kStaticShared = 1, kLocalBytes = 3, kRegisters = 4, kMaxDynamicShared = 8, kNonPortable = 13 };
enum DeviceAttribute {
  kClockKhz = 13,
  kMultiprocessors = 16,
  kMemoryClockKhz = 36,
  kBusBits = 37,
  kL2Bytes = 38,
  kThreads = 39,
  kMajor = 75,
  kMinor = 76,
  kSharedOptin = 97,
  kPersistingL2 = 108
};
enum LaunchAttributeId { kCooperative = 2, kClusterDimension = 4, kClusterPolicy = 5, kDependent = 6 };
constexpr int kSpread = 1;

struct LaunchAttribute {
  int id = 0;
  char padding[4] = {};
  union {
    char bytes[64];
    int number;
    unsigned dimension[3];
  } value{};
};
struct LaunchConfig {
  unsigned grid[3], block[3], shared_bytes;
  void* stream;
  LaunchAttribute* attributes;
  unsigned attribute_count;
};

struct Api {
  int (*init)(unsigned);
  int (*error_string)(int, const char**);
  int (*context_device)(int*);
  int (*device_name)(char*, int, int);
  int (*device_uuid)(unsigned char*, int);
  int (*device_attribute)(int*, int, int);
  int (*device_memory)(size_t*, int);
  int (*module_load)(void**, const void*);
  int (*module_unload)(void*);
  int (*module_function)(void**, void*, const char*);
  int (*function_attribute)(int*, int, void*);
  int (*set_function_attribute)(void*, int, int);
  int (*parameter)(void*, size_t, size_t*, size_t*);
  int (*occupancy)(int*, void*, int, size_t);
  int (*launch)(const LaunchConfig*, void*, void**, void**);
  int (*event_create)(void**, unsigned);
  int (*event_destroy)(void*);
  int (*event_record)(void*, void*);
  int (*event_query)(void*);
  int (*event_elapsed)(float*, void*, void*);
  int (*synchronize)();
  int (*reset_persisting_l2)();
};

const Api& api() {
  static const Api opened = [] {
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) fail(ErrorKind::kMachine, "no GPU here: libcuda.so.1 cannot be loaded");
    Api found{};
    const auto take = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library, name));
      if (function == nullptr) fail(ErrorKind::kMachine, "the NVIDIA driver is too old: it lacks {}", name);
    };
    take(found.init, "cuInit");
    take(found.error_string, "cuGetErrorString");
    take(found.context_device, "cuCtxGetDevice");
    take(found.device_name, "cuDeviceGetName");
    take(found.device_uuid, "cuDeviceGetUuid_v2");
    take(found.device_attribute, "cuDeviceGetAttribute");
    take(found.device_memory, "cuDeviceTotalMem_v2");
    take(found.module_load, "cuModuleLoadData");
    take(found.module_unload, "cuModuleUnload");
    take(found.module_function, "cuModuleGetFunction");
    take(found.function_attribute, "cuFuncGetAttribute");
    take(found.set_function_attribute, "cuFuncSetAttribute");
    take(found.parameter, "cuFuncGetParamInfo");
    take(found.occupancy, "cuOccupancyMaxActiveBlocksPerMultiprocessor");
    take(found.launch, "cuLaunchKernelEx");
    take(found.event_create, "cuEventCreate");
    take(found.event_destroy, "cuEventDestroy_v2");
    take(found.event_record, "cuEventRecord");
    take(found.event_query, "cuEventQuery");
    take(found.event_elapsed, "cuEventElapsedTime");
    take(found.synchronize, "cuCtxSynchronize");
    take(found.reset_persisting_l2, "cuCtxResetPersistingL2Cache");
    if (const int status = found.init(0); status != kSuccess)
      fail(ErrorKind::kMachine, "no usable GPU: cuInit failed with error {}", status);
    return found;
  }();
  return opened;
}

std::string text_of(int status) {
  const char* text = nullptr;
  api().error_string(status, &text);
  return text ? text : fmt::format("error {}", status);
}

void check(int status, const char* call) {
  if (status != kSuccess) driver_failed(status, call);
}

int attribute_of(int device, DeviceAttribute attribute) {
  int value = 0;
  check(api().device_attribute(&value, attribute, device), "cuDeviceGetAttribute");
  return value;
}

}  // namespace

void driver_failed(int status, const char* call) {
  // What a kernel did before shows at whatever is called next.
  throw ir::Fault(fmt::format("{}: {}", call, text_of(status)));
}

GpuProperties gpu_properties() {
  int device = 0;
  check(api().context_device(&device), "cuCtxGetDevice");
  char name[256] = {};
  check(api().device_name(name, sizeof name - 1, device), "cuDeviceGetName");
  unsigned char bytes[16];
  check(api().device_uuid(bytes, device), "cuDeviceGetUuid");
  std::string uuid = "GPU-";
  for (int k = 0; k < 16; ++k)
    uuid += fmt::format("{}{:02x}", k == 4 || k == 6 || k == 8 || k == 10 ? "-" : "", bytes[k]);
  size_t memory = 0;
  check(api().device_memory(&memory, device), "cuDeviceTotalMem");
  const auto number = [&](DeviceAttribute attribute) { return attribute_of(device, attribute); };
  return {.name = name,
          .uuid = uuid,
          .major = number(kMajor),
          .minor = number(kMinor),
          .multiprocessors = number(kMultiprocessors),
          .threads = number(kThreads),
          .shared = number(kSharedOptin),
          .l2 = number(kL2Bytes),
          .memory = static_cast<int64_t>(memory),
          .bytes_per_s = 2.0 * number(kMemoryClockKhz) * 1e3 * number(kBusBits) / 8,
          .clock_hz = number(kClockKhz) * 1e3};
}

bool keeps_memory(std::span<const std::byte> cubin) {
  const auto number = [&]<typename T>(T, size_t at) {
    T value{};
    if (at > cubin.size() || cubin.size() - at < sizeof value) throw std::out_of_range("cubin");
    std::memcpy(&value, cubin.data() + at, sizeof value);
    return static_cast<size_t>(value);
  };
  // Elf64_Ehdr's e_shoff, e_shentsize, e_shnum, e_shstrndx; Elf64_Shdr's sh_name, sh_offset.
  const auto header = [&](size_t section) { return number(uint64_t{}, 0x28) + section * number(uint16_t{}, 0x3A); };
  try {
    const size_t names = number(uint64_t{}, header(number(uint16_t{}, 0x3E)) + 0x18);
    for (size_t k = 0; k < number(uint16_t{}, 0x3C); ++k) {
      const size_t name = names + number(uint32_t{}, header(k));
      if (name > cubin.size()) return true;
      const std::string_view rest(reinterpret_cast<const char*>(cubin.data()) + name, cubin.size() - name);
      if (rest.starts_with(".nv.global") || rest.starts_with(".nv.constant3")) return true;
    }
  } catch (const std::out_of_range&) {  // nobody knows: to load it anew is never wrong
    return true;
  }
  return false;
}

GpuKernel::GpuKernel(std::span<const std::byte> cubin, KernelShape shape)
    : cubin_(cubin), shape_(std::move(shape)), keeps_memory_(evaluate::keeps_memory(cubin)) {
  load();
}

void GpuKernel::renew() {
  if (!keeps_memory_) return;
  gpu_synchronize();
  check(api().module_unload(std::exchange(module_, nullptr)), "cuModuleUnload");
  load();
}

void GpuKernel::load() {
  if (const int status = api().module_load(&module_, cubin_.data()); status != kSuccess)
    fail(ErrorKind::kUsage, "kernel {}: the driver does not load it: {}", shape_.entry, text_of(status));
  try {
    check(api().module_function(&function_, module_, shape_.entry.c_str()), "cuModuleGetFunction");
    parameters_.clear();
    for (size_t offset = 0, size = 0; api().parameter(function_, parameters_.size(), &offset, &size) == kSuccess;)
      parameters_.push_back(size);
    constexpr int64_t kWithoutAsking = 48 << 10;
    if (shape_.shared > kWithoutAsking)
      check(api().set_function_attribute(function_, kMaxDynamicShared, static_cast<int>(shape_.shared)),
            "cuFuncSetAttribute");
    if (shape_.ctas > 8) check(api().set_function_attribute(function_, kNonPortable, 1), "cuFuncSetAttribute");
    int registers = 0;  // to ask for it has a function loaded that the driver would load at its first, timed launch
    check(api().function_attribute(&registers, kRegisters, function_), "cuFuncGetAttribute");
  } catch (...) {
    api().module_unload(std::exchange(module_, nullptr));
    throw;
  }
}

GpuKernel::~GpuKernel() {
  if (module_) api().module_unload(module_);
}

KernelResources GpuKernel::resources() const {
  const auto attribute = [&](FunctionAttribute which) {
    int value = 0;
    check(api().function_attribute(&value, which, function_), "cuFuncGetAttribute");
    return value;
  };
  KernelResources found{.registers = attribute(kRegisters),
                        .spilled_bytes = attribute(kLocalBytes),
                        .shared = attribute(kStaticShared) + shape_.shared};
  int blocks = 0, device = 0;
  check(api().occupancy(&blocks, function_, 32 * shape_.warps, static_cast<size_t>(shape_.shared)), "cuOccupancy");
  check(api().context_device(&device), "cuCtxGetDevice");
  found.occupancy = static_cast<double>(blocks * 32 * shape_.warps) / attribute_of(device, kThreads);
  return found;
}

void GpuKernel::launch(const std::array<int64_t, 3>& grid, std::vector<void*>& arguments) const {
  if (grid[0] * grid[1] * grid[2] == 0) return;
  std::array<LaunchAttribute, 4> attributes;
  unsigned count = 0;
  if (shape_.dependent) {
    attributes[count].id = kDependent;
    attributes[count++].value.number = 1;
  }
  if (shape_.cooperative) {
    attributes[count].id = kCooperative;
    attributes[count++].value.number = 1;
  }
  if (shape_.ctas > 1) {
    attributes[count].id = kClusterDimension;
    attributes[count].value.dimension[0] = static_cast<unsigned>(shape_.ctas);
    attributes[count].value.dimension[1] = attributes[count].value.dimension[2] = 1;
    ++count;
    attributes[count].id = kClusterPolicy;
    attributes[count++].value.number = kSpread;
  }
  const auto threads = shape_.threads();
  const LaunchConfig config{.grid = {static_cast<unsigned>(grid[0] * shape_.ctas), static_cast<unsigned>(grid[1]),
                                     static_cast<unsigned>(grid[2])},
                            .block = {threads[0], threads[1], threads[2]},
                            .shared_bytes = static_cast<unsigned>(shape_.shared),
                            .stream = nullptr,
                            .attributes = attributes.data(),
                            .attribute_count = count};
  check(api().launch(&config, function_, arguments.data(), nullptr), "its launch");
}

GpuEvent::GpuEvent() { check(api().event_create(&event_, 0), "cuEventCreate"); }
GpuEvent::~GpuEvent() { api().event_destroy(event_); }
void GpuEvent::record() { check(api().event_record(event_, nullptr), "cuEventRecord"); }
bool GpuEvent::reached() const {
  const int status = api().event_query(event_);
  if (status == kNotReady) return false;
  check(status, "cuEventQuery");
  return true;
}
void GpuEvent::wait(Deadline deadline) const {
  while (!reached()) {
    if (deadline.expired()) throw ir::Fault("it did not end in time");
    std::this_thread::yield();
  }
}
double GpuEvent::ms_since(const GpuEvent& start) const {
  float ms = 0;
  check(api().event_elapsed(&ms, start.event_, event_), "cuEventElapsedTime");
  return static_cast<double>(ms);
}

void gpu_synchronize() { check(api().synchronize(), "its run"); }

void gpu_forget_persisting() {
  int device = 0;
  check(api().context_device(&device), "cuCtxGetDevice");
  if (attribute_of(device, kPersistingL2) > 0) check(api().reset_persisting_l2(), "cuCtxResetPersistingL2Cache");
}

}  // namespace tritonforge::evaluate
