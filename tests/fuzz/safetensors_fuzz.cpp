// libs: tf_model
// The header parser of safetensors: any bytes either give a directory whose every tensor can be read, or one Error.
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "model/weights.h"

namespace {
std::string file_of(const std::string& header, const std::string& data) {
  const uint64_t size = header.size();
  return std::string(reinterpret_cast<const char*>(&size), 8) + header + data;
}
}  // namespace

int fuzz_one(const uint8_t* data, size_t size) {
  static const tritonforge::TemporaryFolder folder("safetensors-fuzz");
  const auto path = folder.path() / "x.safetensors";
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  try {
    const tritonforge::model::SafetensorsFile file(path);
    for (const auto& name : file.names()) {
      const at::Tensor tensor = file.tensor(name);
      if (tensor.nbytes() > size) return 1;
      volatile uint8_t last = 0;  // touches the first and last byte: a wrong extent is a fault, or a sanitizer's report
      if (tensor.nbytes() > 0) {
        const auto* bytes = static_cast<const uint8_t*>(tensor.const_data_ptr());
        last = bytes[0] ^ bytes[tensor.nbytes() - 1];
      }
      (void)last;
    }
  } catch (const tritonforge::Error& error) {
    if (std::string(error.what()).find("x.safetensors") == std::string::npos) return 1;
  }
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  return {file_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"BF16","shape":[1,2],)"
                  R"("data_offsets":[8,12]}})",
                  "123456789012"),
          file_of(R"({"__metadata__":{"format":"pt"},"w":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}})", "abc"),
          file_of("{}", ""), file_of(R"({"a":{"dtype":"F64","shape":[],"data_offsets":[0,8]}})", "12345678")};
}
