// libs: tf_base
#include <cstdint>
#include <string>
#include <vector>

#include "../unit/base/gguf_builder.h"
#include "base/error.h"
#include "base/gguf.h"

using namespace tritonforge;

int fuzz_one(const uint8_t* data, size_t size) {
  static const TemporaryFolder folder("gguf-fuzz", fs::exists("/dev/shm") ? "/dev/shm" : fs::temp_directory_path());
  static const fs::path path = folder.path() / "x.gguf";
  if (FILE* file = std::fopen(path.c_str(), "wb")) {
    const size_t written = std::fwrite(data, 1, size, file);
    if (std::fclose(file) != 0 || written != size) return 1;
  } else {
    return 1;
  }
  try {
    const GgufFile file(path);
    for (const auto& tensor : file.tensors()) file.data(tensor, 64);
  } catch (const Error& error) {
    const bool expected = error.kind() == ErrorKind::kCorrupt || error.kind() == ErrorKind::kUnsupported;
    if (!expected || std::string(error.what()).find("x.gguf") == std::string::npos) return 1;
  }
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  testing::GgufBuilder b;
  b.header(3, 2, 4);
  b.key("general.alignment", 4).raw<uint32_t>(32);
  b.key("name", 8).text("hello");
  b.texts("tokens", {"a", "b", "ab"});
  b.integers("types", {1, 1, 3});
  b.tensor("w", {4, 2}, 0, 0).tensor("v", {8}, 1, 32).pad_to(32);
  for (int i = 0; i < 24; ++i) b.raw(i);
  return {b.bytes(), testing::GgufBuilder().header(2, 0, 0).bytes()};
}
