// A library that a CUDA program loads by itself (CUDA_INJECTION64_PATH=libkernel_trace.so): every kernel and copy that
// runs, one line each in $KERNEL_TRACE as the program ends: begin and end in ns, "kernel" or "copy" and its kind, name
// or bytes. bench/trace/steps.py sums them by step. Built by
//   g++ -std=c++20 -O2 -fPIC -shared -I$CUDA/include kernel_trace.cpp $CUDA/lib/libcupti.so.13 -o libkernel_trace.so
// with CUDA=SITE-PACKAGES/nvidia/cu13 of the Python environment; libcupti.so.13 must be on LD_LIBRARY_PATH.
#include <cupti.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>

namespace {

constexpr size_t kBuffer = size_t{8} << 20;
std::FILE* out = nullptr;
std::mutex mutex;

void offer(uint8_t** buffer, size_t* size, size_t* most_records) {
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(8, kBuffer));
  *size = *buffer == nullptr ? 0 : kBuffer;
  *most_records = 0;
}

void take(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  const std::scoped_lock lock(mutex);
  CUpti_Activity* record = nullptr;
  while (out != nullptr && cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
    if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
      const auto* kernel = reinterpret_cast<const CUpti_ActivityKernel9*>(record);
      std::fprintf(out, "%llu %llu kernel %s\n", static_cast<unsigned long long>(kernel->start),
                   static_cast<unsigned long long>(kernel->end), kernel->name);
    } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
      const auto* copy = reinterpret_cast<const CUpti_ActivityMemcpy5*>(record);
      std::fprintf(out, "%llu %llu copy%u %llu\n", static_cast<unsigned long long>(copy->start),
                   static_cast<unsigned long long>(copy->end), static_cast<unsigned>(copy->copyKind),
                   static_cast<unsigned long long>(copy->bytes));
    }
  }
  std::free(buffer);
}

void end() {
  cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  const std::scoped_lock lock(mutex);
  std::fclose(out);
  out = nullptr;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  const char* path = std::getenv("KERNEL_TRACE");
  if (path == nullptr || (out = std::fopen(path, "w")) == nullptr) return 0;
  std::atexit(end);
  return cuptiActivityRegisterCallbacks(offer, take) == CUPTI_SUCCESS &&
         cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) == CUPTI_SUCCESS &&
         cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMCPY) == CUPTI_SUCCESS;
}
