// Problems whose layer stays PyTorch's (cuDNN and cuBLAS are hard to beat) while what follows it becomes one Triton
// kernel over the layer's output, as one would write it by hand.
#include <fmt/format.h>

#include "dataset/special.h"

namespace tritonforge::dataset {
namespace {

using Choices = std::vector<std::pair<std::string_view, std::vector<std::string_view>>>;

struct Layer {
  std::string_view name, module;  // "conv2d", "Conv2d"
  std::string_view arguments;     // of Model.__init__ and of the layer
  std::string_view extra;         // further arguments of the layer, with their comma
  std::string_view attribute;     // what the module calls it
  std::string_view input;         // shape of the input
  Choices sizes;                  // lines "name = value" of the problem, in this order
};

const std::vector<Layer>& layers() {
  static const std::vector<std::string_view> batch{"4", "8", "16"}, channels{"3", "8", "16"}, wide{"16", "32", "64"},
      kernel{"3", "5"}, side{"32", "48", "64"}, length{"128", "256", "500"}, cube{"12", "16"};
  static const std::vector<Layer> table{
      {"conv1d",
       "Conv1d",
       "in_channels, out_channels, kernel_size",
       "",
       "conv",
       "batch_size, in_channels, length",
       {{"batch_size", batch},
        {"in_channels", channels},
        {"out_channels", wide},
        {"kernel_size", kernel},
        {"length", length}}},
      {"conv2d",
       "Conv2d",
       "in_channels, out_channels, kernel_size",
       "",
       "conv",
       "batch_size, in_channels, height, width",
       {{"batch_size", batch},
        {"in_channels", channels},
        {"out_channels", wide},
        {"kernel_size", kernel},
        {"height", side},
        {"width", side}}},
      {"conv2d_strided",
       "Conv2d",
       "in_channels, out_channels, kernel_size, stride, padding",
       "",
       "conv",
       "batch_size, in_channels, height, width",
       {{"batch_size", batch},
        {"in_channels", channels},
        {"out_channels", wide},
        {"kernel_size", kernel},
        {"stride", {"2"}},
        {"padding", {"1", "2"}},
        {"height", side},
        {"width", side}}},
      {"conv3d",
       "Conv3d",
       "in_channels, out_channels, kernel_size",
       "",
       "conv",
       "batch_size, in_channels, depth, height, width",
       {{"batch_size", {"2", "4"}},
        {"in_channels", {"3", "8"}},
        {"out_channels", {"8", "16"}},
        {"kernel_size", {"3"}},
        {"depth", cube},
        {"height", cube},
        {"width", cube}}},
      {"conv_transpose1d",
       "ConvTranspose1d",
       "in_channels, out_channels, kernel_size",
       "",
       "conv_transpose",
       "batch_size, in_channels, length",
       {{"batch_size", batch},
        {"in_channels", channels},
        {"out_channels", wide},
        {"kernel_size", kernel},
        {"length", length}}},
      {"conv_transpose2d",
       "ConvTranspose2d",
       "in_channels, out_channels, kernel_size",
       "",
       "conv_transpose",
       "batch_size, in_channels, height, width",
       {{"batch_size", batch},
        {"in_channels", channels},
        {"out_channels", wide},
        {"kernel_size", kernel},
        {"height", side},
        {"width", side}}},
      {"conv_transpose3d",
       "ConvTranspose3d",
       "in_channels, out_channels, kernel_size",
       "",
       "conv_transpose",
       "batch_size, in_channels, depth, height, width",
       {{"batch_size", {"2", "4"}},
        {"in_channels", {"3", "8"}},
        {"out_channels", {"8", "16"}},
        {"kernel_size", {"3"}},
        {"depth", cube},
        {"height", cube},
        {"width", cube}}},
      {"linear_layer",
       "Linear",
       "in_features, out_features",
       "",
       "linear",
       "batch_size, in_features",
       {{"batch_size", {"64", "128", "200"}},
        {"in_features", {"128", "256", "500"}},
        {"out_features", {"128", "300", "512"}}}},
      {"linear_no_bias",
       "Linear",
       "in_features, out_features",
       ", bias=False",
       "proj",
       "batch_size, in_features",
       {{"batch_size", {"64", "128", "200"}},
        {"in_features", {"128", "256", "500"}},
        {"out_features", {"128", "300", "512"}}}},
      {"group_norm_layer",
       "GroupNorm",
       "num_groups, num_channels",
       "",
       "norm",
       "batch_size, num_channels, height, width",
       {{"batch_size", batch},
        {"num_groups", {"4", "8"}},
        {"num_channels", {"16", "32", "64"}},
        {"height", side},
        {"width", side}}},
      {"max_pool2d",
       "MaxPool2d",
       "kernel_size, stride",
       "",
       "pool",
       "batch_size, channels, height, width",
       {{"batch_size", batch},
        {"channels", wide},
        {"kernel_size", {"2", "3"}},
        {"stride", {"1", "2"}},
        {"height", side},
        {"width", side}}},
      {"avg_pool2d",
       "AvgPool2d",
       "kernel_size",
       "",
       "pool",
       "batch_size, channels, height, width",
       {{"batch_size", batch}, {"channels", wide}, {"kernel_size", {"2", "3"}}, {"height", side}, {"width", side}}},
  };
  return table;
}

}  // namespace

std::vector<Special> layer_specials() {
  std::vector<Special> made;
  for (const auto& layer : layers()) {
    Special special{.name = std::string(layer.name), .choices = layer.sizes, .value = "x", .min_epilogue = 1};
    special.choices.insert(special.choices.end(),
                           {{"SUPER", {"", "Model, self"}},
                            {"BLOCK", {"512", "1024", "2048"}},
                            {"KERNEL", {"epilogue_kernel", "elementwise_kernel", "fused_kernel"}},
                            {"COUNT", {"n", "n_elements"}}});
    std::string sizes;
    for (const auto& [name, values] : layer.sizes) sizes += fmt::format("{0} = {{{0}}}\n", name);
    special.problem = fmt::format(R"py(class Model(nn.Module):
    """A layer and what follows it element by element."""

    def __init__(self, {0}):
        super({{SUPER}}).__init__()
        self.{1} = nn.{2}({0}{3})

    def forward(self, x):
        out = self.{1}(x)
{{epilogue}}        return out


{4}

def get_inputs():
    return [torch.randn({5})]


def get_init_inputs():
    return [{0}]
)py",
                                  layer.arguments, layer.attribute, layer.module, layer.extra, sizes, layer.input);
    special.solution = fmt::format(R"py(def {{KERNEL}}(x_ptr, out_ptr, {{COUNT}}, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < {{COUNT}}
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0)
{{epilogue}}    tl.store(out_ptr + offsets, x, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, {0}):
        super({{SUPER}}).__init__()
        self.{1} = nn.{2}({0}{3})

    def forward(self, x):
        x = self.{1}(x).contiguous()
        out = torch.empty_like(x)
        {{COUNT}} = x.numel()
        {{KERNEL}}[(triton.cdiv({{COUNT}}, {{BLOCK}}),)](x, out, {{COUNT}}, BLOCK={{BLOCK}})
        return out
)py",
                                   layer.arguments, layer.attribute, layer.module, layer.extra);
    made.push_back(std::move(special));
  }
  return made;
}

}  // namespace tritonforge::dataset
