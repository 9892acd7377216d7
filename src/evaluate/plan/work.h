#pragma once
// own_share: how much of a problem's work a candidate's own kernels do, the rest being left to torch. It is measured on
// what is replayed, from shapes and from the kernels' IR; nothing in it is the candidate's word.
//
// Work of a step = flops / 20 + bytes moved, in the unit of a byte: 20 is about what an H100 computes in float32 while
// it moves one byte (67 TFLOP/s, 3.35 TB/s).
//   aten steps  bytes of all tensors read and written; flops 2 M N K of products and convolutions (where these are
//               transposed, of their inputs; of causal attention the unmasked part), else one for each element
//               of the largest tensor; views, shapes and empty memory are free
//               a tensor that operands were broadcast to, (a[:, None] * b).sum(), counts by its operations and not by
//               its bytes: torch.mm does the same without writing it. Nor does what is made of it, unless with a
//               written operand as large, or what a launch broadcast to, a tensor larger than all others of it, where
//               the reference broadcasts to as many elements. In all a candidate is spared as many bytes as it
//               a recurrent layer's gates, which no tensor has, are written and read
//               what operands are broadcast to within a call, and the rows that bags add up, count, though no tensor
//               has them: cosines of all pairs and weighted bags are products
//               one call for what a formula spells out in several (gelu, softmax, a norm, attention, a pool's windows,
//               a search, a count, a product of a reference that makes none, a factor within a call, an order or a sum
//               up to each place where the reference goes over as many pairs) weighs as much as these, beyond the
//               elements that the reference has go through that call itself, or through one that it is a part of (the
//               means and variances of a batch norm); one that selects (topk, median, max) as the sort from which the
//               reference takes it. Products that the reference's in pieces cannot be, more than four times all of
//               these, weigh as their terms, and causal attention as all of it where the reference's mask is a tensor
//               what is given to a call twice is read once
//               numbers of narrower types than the reference's weigh as the reference's (a chain in half precision),
//               and so do bools that are computed with (a sum of them); as masks these are bytes
//               products whose sums are of other lengths than the reference's are pieces of these (Strassen's seven,
//               Winograd's tiles): what pieces saved of the reference's products counts as done by torch, up to four
//               times what they are. Parts of a result, whose sums are whole, save nothing and count as they are
//               a chain of products in another order than the reference's (A (B v) for (A B) v) is one that saves work:
//               what it saves counts as done by torch (plan/chains.h)
//               calls that no plan may have are a reference's alone: 5 n log2 n flops of a Fourier transform, two for
//               each place of a bilinear form, those of a matrix's decomposition; of others no formula is known, and
//               an operation for each element of the largest tensor stands for it. A complex number is two real ones
//   launches    bytes of all loads and stores; float operations of the IR, 2 M N K of a dot, 4 of a transcendental; of
//               machine code on a CPU the bytes of the tensors that it is given, each once: never too much
// Work that only moves data (fills, casts, copies, padding; a launch that leaves nothing but copies of what it was
// given, and launches one after the other that together do, weighing.h) is kept apart: it counts where the reference
// does nothing else, or nothing but look up, and where nobody computes. So a kernel that copies what torch computed
// does no work, and a cast before an honest kernel leaves none to torch. A cast to whole numbers computes, and so does
// a triangle where the reference spells its mask out.
#include <map>
#include <optional>
#include <set>
#include <string>

#include "evaluate/plan/chains.h"
#include "evaluate/plan/plan.h"

namespace tritonforge::evaluate {

constexpr double kFlopsPerByte = 20;

struct Work {
  double computing = 0, moving = 0;
  double of(bool all) const { return computing + (all ? moving : 0); }
  Work& operator+=(const Work& other) {
    computing += other.computing;
    moving += other.moving;
    return *this;
  }
};

// Operations of a plan's matrix products, convolutions and attentions: the least that its results take. What a mask
// takes away is not counted. Of causal attention that is known: half, where there are as many keys as queries. A
// product of which tril, triu, masked_fill, where or a factor with zeros takes parts, before or after, counts as none.
// `with_zeros`: values of which large parts are zeros (part_of_zeros).
double product_flops(const Plan& plan, const std::set<size_t>& with_zeros = {});
// Of a tensor's elements, over 4,096 of them.
double part_of_zeros(const TensorView& tensor);
constexpr double kLargePart = 0.125;
// Flops of products by the length of their sums: K of [M, K] x [K, N].
using Products = std::map<int64_t, double>;

// What a problem's own code has torch do.
struct ReferenceWork {
  Work work;
  // Its calls, without "aten::" and a last underscore, and those that they are made of: elements that they go over.
  std::map<std::string, double> calls;
  Products products;
  Chains chains = {};
  double spread = 0;     // elements of the largest tensor that operands were broadcast to
  double unwritten = 0;  // bytes of such tensors: not in `work`
  double width = 0;      // bytes of the widest type of its large tensors
};
ReferenceWork reference_work(const Plan& plan);
// Of a candidate's aten steps; `reference`: empty where it is not known. `heaviest`: set to the name of the call that
// computes most, to "" where none does.
Work aten_work(const Plan& plan, const ReferenceWork& reference, std::string* heaviest = nullptr);
// Of a launch. `copies`: what it left behind are copies of what it was given, within the comparison's tolerance.
Work launch_work(double flops, double bytes, bool copies);
// Of all launches of a plan whose kernels nobody can look into. `copied`: of each launch in order, as above.
Work bound_work(const Plan& plan, const std::vector<bool>& copied);

// In [0, 1]: the smaller of two shares, own / (own + aten) of the candidate's work, and 1 - aten / `reference` of the
// reference's. The second one cannot be raised by launches for show, the first one not by torch calls that are cheaper
// than the reference's. 1 where nothing is left to torch, 0 where nothing is launched. `reference`: what its own code
// has torch do; nullopt where that cannot be recorded (sparse tensors, operators that are not torch's): the first share
// alone counts.
double own_share(const Work& own, const Work& aten, const std::optional<Work>& reference);

}  // namespace tritonforge::evaluate
