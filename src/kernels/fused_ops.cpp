#include "kernels/fused_ops.h"

#include <torch/csrc/autograd/custom_function.h>

#include "base/error.h"
#include "kernels/fused_rows.h"
#include "kernels/parallel.h"

namespace tritonforge::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kGrain = 16384;     // elements below which a thread is not worth waking
constexpr int64_t kPartialSums = 16;  // of a weight's gradient: fixed, so that threads do not change the sum

bool fused(const at::Tensor& x) {
  return x.is_cpu() && (x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16);
}

// Calls f.operator()<Element>() with the type that x's elements have in memory: float, or uint16_t for the bits of
// bfloat16.
template <typename F>
void for_element(const at::Tensor& x, const F& f) {
  if (x.scalar_type() == at::kFloat) f.template operator()<float>();
  else f.template operator()<uint16_t>();
}
template <typename Element>
Element* data(const at::Tensor& x) {
  return static_cast<Element*>(x.data_ptr());
}

// A block of rows [begin, end) at a time, over threads.
template <typename F>
void over_rows(int64_t rows, int64_t width, const F& f) {
  over_threads(rows, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, width)), f);
}

std::pair<at::Tensor, at::Tensor> rms_run(const at::Tensor& x, const at::Tensor& weight, double eps) {
  const int64_t d = x.size(-1), rows = x.numel() / std::max<int64_t>(1, d);
  at::Tensor y = at::empty_like(x), scale = at::empty({rows}, x.options().dtype(at::kFloat));
  for_element(x, [&]<typename Element>() {
    over_rows(rows, d, [&](int64_t begin, int64_t end) {
      rms_forward(data<Element>(x) + begin * d, data<Element>(weight), data<Element>(y) + begin * d,
                  scale.data_ptr<float>() + begin, end - begin, d, static_cast<float>(eps));
    });
  });
  return {y, scale};
}

struct RmsNorm : torch::autograd::Function<RmsNorm> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight, double eps) {
    auto [y, scale] = rms_run(x, weight, eps);
    context->save_for_backward({x, weight, scale});
    return y;
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &scale = saved[2];
    const at::Tensor grad = grads[0].contiguous();
    const int64_t d = x.size(-1), rows = x.numel() / std::max<int64_t>(1, d);
    at::Tensor grad_x = at::empty_like(x);
    at::Tensor sums = at::zeros({kPartialSums, d}, x.options().dtype(at::kFloat));
    for_element(x, [&]<typename Element>() {
      over_threads(kPartialSums, rows * d < kGrain ? kPartialSums : 1, [&](int64_t first, int64_t last) {
        for (int64_t part = first; part < last; ++part) {
          const int64_t begin = rows * part / kPartialSums, end = rows * (part + 1) / kPartialSums;
          rms_backward(data<Element>(grad) + begin * d, data<Element>(x) + begin * d, data<Element>(weight),
                       scale.data_ptr<float>() + begin, data<Element>(grad_x) + begin * d,
                       sums.data_ptr<float>() + part * d, end - begin, d);
        }
      });
    });
    return {grad_x, sums.sum(0).to(weight.scalar_type()), {}};
  }
};

at::Tensor rope_run(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, float sign) {
  const int64_t tokens = x.size(0), heads = x.size(1), d = x.size(2);
  at::Tensor y = at::empty_like(x);
  for_element(x, [&]<typename Element>() {
    over_rows(tokens, heads * d, [&](int64_t begin, int64_t end) {
      rope_rows(data<Element>(x) + begin * heads * d, cos.data_ptr<float>() + begin * (d / 2),
                sin.data_ptr<float>() + begin * (d / 2), data<Element>(y) + begin * heads * d, end - begin, heads, d,
                sign);
    });
  });
  return y;
}

struct Rope : torch::autograd::Function<Rope> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& cos,
                            const at::Tensor& sin) {
    context->save_for_backward({cos, sin});
    return rope_run(x, cos, sin, 1.0f);
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const auto saved = context->get_saved_variables();
    return {rope_run(grads[0].contiguous(), saved[0], saved[1], -1.0f), {}, {}};
  }
};

at::Tensor swiglu_run(const at::Tensor& gate, const at::Tensor& up) {
  at::Tensor y = at::empty(gate.sizes(), gate.options());
  const int64_t d = gate.size(-1), rows = gate.numel() / std::max<int64_t>(1, d);
  const auto step = [d](const at::Tensor& x) { return x.is_contiguous() ? d : x.stride(0); };
  const int64_t gate_step = step(gate), up_step = step(up);
  for_element(gate, [&]<typename Element>() {
    over_rows(rows, d, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        swiglu_forward(data<Element>(gate) + row * gate_step, data<Element>(up) + row * up_step,
                       data<Element>(y) + row * d, d);
      }
    });
  });
  return y;
}

struct SwiGlu : torch::autograd::Function<SwiGlu> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& gate, const at::Tensor& up) {
    context->save_for_backward({gate, up});
    return swiglu_run(gate, up);
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &gate = saved[0], &up = saved[1];
    const at::Tensor grad = grads[0].contiguous();
    at::Tensor grad_gate = at::empty_like(gate), grad_up = at::empty_like(up);
    for_element(gate, [&]<typename Element>() {
      over_rows(gate.numel(), 1, [&](int64_t begin, int64_t end) {
        swiglu_backward(data<Element>(grad) + begin, data<Element>(gate) + begin, data<Element>(up) + begin,
                        data<Element>(grad_gate) + begin, data<Element>(grad_up) + begin, end - begin);
      });
    });
    return {grad_gate, grad_up};
  }
};

bool recorded(const at::Tensor& a, const at::Tensor& b) {
  return at::GradMode::is_enabled() && (a.requires_grad() || b.requires_grad());
}

// A part of a matrix's columns counts, too: the two halves of what one product gives are read where they lie.
bool whole_rows(const at::Tensor& x) { return x.is_contiguous() || (x.dim() == 2 && x.stride(1) == 1); }

}  // namespace

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  if (!fused(x) || weight.scalar_type() != x.scalar_type()) return rms_norm_reference(x, weight, eps);
  TF_CHECK(weight.dim() == 1 && weight.size(0) == x.size(-1), "a norm of {} over rows of {}", weight.numel(),
           x.size(-1));
  const at::Tensor rows = x.contiguous(), w = weight.contiguous();
  return recorded(rows, w) ? RmsNorm::apply(rows, w, eps) : rms_run(rows, w, eps).first;
}

at::Tensor rms_norm_reference(const at::Tensor& x, const at::Tensor& weight, double eps) {
  const at::Tensor wide = x.to(at::kFloat);
  const at::Tensor scale = at::rsqrt(wide.pow(2).mean(-1, /*keepdim=*/true) + eps);
  return weight * (wide * scale).to(x.scalar_type());
}

at::Tensor rope(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
  if (!fused(x) || cos.scalar_type() != at::kFloat) return rope_reference(x, cos, sin);
  TF_CHECK(x.dim() == 3 && cos.sizes() == sin.sizes() && cos.size(0) == x.size(0) && 2 * cos.size(1) == x.size(2),
           "rope tables do not fit: {} tokens of {} against {} of {}", x.size(0), x.size(2), cos.size(0), cos.size(1));
  const at::Tensor rows = x.contiguous(), c = cos.contiguous(), s = sin.contiguous();
  return recorded(rows, rows) ? Rope::apply(rows, c, s) : rope_run(rows, c, s, 1.0f);
}

at::Tensor rope_reference(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
  const auto halves = x.to(at::kFloat).chunk(2, -1);
  const at::Tensor c = cos.unsqueeze(1), s = sin.unsqueeze(1);
  return at::cat({halves[0] * c - halves[1] * s, halves[1] * c + halves[0] * s}, -1).to(x.scalar_type());
}

at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up) {
  if (!fused(gate) || up.scalar_type() != gate.scalar_type()) return swiglu_reference(gate, up);
  TF_CHECK(gate.sizes() == up.sizes(), "gate and up differ in shape");
  if (!recorded(gate, up) && whole_rows(gate) && whole_rows(up)) return swiglu_run(gate, up);
  const at::Tensor g = gate.contiguous(), u = up.contiguous();
  return recorded(g, u) ? SwiGlu::apply(g, u) : swiglu_run(g, u);
}

at::Tensor swiglu_reference(const at::Tensor& gate, const at::Tensor& up) { return at::silu(gate) * up; }

}  // namespace tritonforge::kernels
