#include "dataset/source_families.h"

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace tritonforge::dataset {
namespace {

// clang-format off
const std::vector<std::pair<std::string_view, std::vector<std::string_view>>>& table() {  // all in lower case
  static const std::vector<std::pair<std::string_view, std::vector<std::string_view>>> families = {
      {"matmul", {"torch.matmul", "torch.mm(", "torch.bmm", "torch.einsum", "nn.linear", "f.linear", " @ "}},
      {"convolution", {"nn.conv", "f.conv"}},
      {"attention", {"attention", "scaled_dot_product"}},
      {"recurrent", {"nn.lstm", "nn.gru", "nn.rnn"}},
      {"normalization", {"batchnorm", "layernorm", "groupnorm", "instancenorm", "rmsnorm", "_norm(", ".norm("}},
      {"pooling", {"maxpool", "avgpool", "max_pool", "avg_pool"}},
      {"softmax", {"softmax"}},
      {"activation", {"relu", "gelu", "sigmoid", "tanh", "softplus", "softsign", "silu", "swish", "mish", "nn.elu", "f.elu"}},
      {"reduction", {"torch.sum", "torch.mean", "torch.max(", "torch.min(", "torch.prod", "argmax", "argmin", "logsumexp", ".sum(", ".mean("}},
      {"scan", {"cumsum", "cumprod"}},
      {"loss", {"loss", "cross_entropy", "kl_div"}},
  };
  return families;
}
// clang-format on

// The code alone: a docstring may speak of anything.
std::string code_of(std::string_view source) {
  std::string code;
  bool docstring = false;
  while (!source.empty()) {
    const size_t end = std::min(source.find('\n'), source.size());
    std::string_view line = source.substr(0, end);
    source.remove_prefix(std::min(end + 1, source.size()));
    size_t quotes = 0;
    for (size_t at = line.find("\"\"\""); at != std::string_view::npos; at = line.find("\"\"\"", at + 3)) ++quotes;
    const bool text = docstring || quotes > 0;
    if (quotes % 2 == 1) docstring = !docstring;
    if (text) continue;
    code += lowered(line.substr(0, line.find('#')));
    code += '\n';
  }
  return code;
}

}  // namespace

std::vector<std::string> families_of_calls(std::string_view source) {
  const std::string code = code_of(source);
  std::vector<std::string> found;
  for (const auto& [family, names] : table()) {
    if (std::any_of(names.begin(), names.end(), [&](auto name) { return code.find(name) != std::string::npos; }))
      found.emplace_back(family);
  }
  if (found.empty()) found.emplace_back("other");
  return found;
}

}  // namespace tritonforge::dataset
