// Runs Triton IR for tests: frames on stdin and stdout, u32 header bytes, JSON header, then the buffers' bytes.
//   in   {"ir", "grid", "seed", "buffers": [{"name", "bytes", "granule", "initialised"}], "arguments": [{"buffer",
//   "offset"} | {"integer"} | {"real"}]} in   {"strip": IR}, out {"text"}: the IR without its locations out  {"error"}
//   or {"findings", "flops", "bytes", "compile_us", "run_us"}, then the same buffers
#include <chrono>
#include <cstdio>
#include <vector>

#include "base/json.h"
#include "evaluate/ir/machine.h"

using namespace tritonforge;
using namespace tritonforge::evaluate;

namespace {

bool read(void* into, size_t bytes) { return std::fread(into, 1, bytes, stdin) == bytes; }

double microseconds(std::chrono::steady_clock::time_point from) {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - from).count();
}

Json run(const Json& request, std::vector<std::vector<std::byte>>& data) {
  if (request.contains("strip"))
    return {{"text", ir::without_locations(request["strip"].get_ref<const std::string&>())}};
  ir::Memory memory;
  size_t index = 0;
  for (const auto& buffer : request.at("buffers")) {
    memory.add(buffer.at("name"), data[index].data(), static_cast<int64_t>(data[index].size()), buffer.at("granule"),
               buffer.at("initialised"));
    ++index;
  }
  std::vector<ir::Argument> arguments;
  for (const auto& item : request.at("arguments")) {
    if (item.contains("buffer"))
      arguments.push_back({.form = ir::Argument::Form::kBuffer,
                           .buffer = item.at("buffer"),
                           .integer = item.value("offset", int64_t{0})});
    else if (item.contains("real")) arguments.push_back({.form = ir::Argument::Form::kFloat, .real = item.at("real")});
    else arguments.push_back({.form = ir::Argument::Form::kInteger, .integer = item.at("integer")});
  }
  auto start = std::chrono::steady_clock::now();
  const ir::Program program = ir::compile(ir::parse(request.at("ir").get_ref<const std::string&>()));
  const double compile_us = microseconds(start);
  ir::LaunchOptions options{.seed = request.value("seed", uint64_t{0}),
                            .work_limit = request.value("work_limit", int64_t{1} << 34)};
  for (size_t d = 0; d < 3; ++d) options.grid[d] = request.at("grid").at(d);
  start = std::chrono::steady_clock::now();
  const ir::Work work = ir::launch(program, memory, arguments, options);
  Json findings = Json::array();
  for (const auto& finding : memory.findings) findings.push_back({std::string(name_of(finding.kind)), finding.text});
  return {{"findings", findings},     {"flops", work.flops},           {"bytes", work.bytes},
          {"compile_us", compile_us}, {"run_us", microseconds(start)}, {"instructions", program.instructions}};
}

}  // namespace

int main() {
  uint32_t size = 0;
  while (read(&size, sizeof size)) {
    std::string text(size, '\0');
    if (!read(text.data(), size)) return 1;
    const Json request = Json::parse(text);
    std::vector<std::vector<std::byte>> data;
    for (const auto& buffer : request.at("buffers")) {
      data.emplace_back(buffer.at("bytes").get<size_t>());
      if (!data.back().empty() && !read(data.back().data(), data.back().size())) return 1;
    }
    Json reply;
    try {
      reply = run(request, data);
    } catch (const std::exception& error) {
      reply = {{"error", error.what()}};
    }
    const std::string out = reply.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    size = static_cast<uint32_t>(out.size());
    std::fwrite(&size, sizeof size, 1, stdout);
    std::fwrite(out.data(), 1, out.size(), stdout);
    for (const auto& buffer : data) std::fwrite(buffer.data(), 1, buffer.size(), stdout);
    std::fflush(stdout);
  }
  return 0;
}
