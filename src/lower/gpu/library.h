// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>

#include "lower/lowering.h"

/// Work that vendors' libraries could do in place of a kernel: what they must know of it, and the steps that call them.
namespace weft {

struct Product;
struct Window;

/// A candidate of a decision.
struct LibraryOffer {
  std::string name;  ///< "cudnn fused"
  LibraryCall call = {};
  bool does_epilogue = false;
};

/// A product whose operands lie as they are multiplied, all sizes fixed, with one stride from batch to batch.
std::vector<LibraryOffer> product_offers(const Lowering& lowering, const Region& region, const Product& p, DType type);
/// The library leaves the sums in f32; a kernel of ours does what comes after them.
void lower_library_product(Lowering& lowering, const Region& region, const Product& p, const LibraryOffer& offer);

/// What follows a convolution, as far as libraries know it: a bias for each channel, then a tensor of the result's
/// sizes, then relu.
struct ConvolutionEpilogue {
  Value bias = {}, other = {};
  bool has_relu = false;
};

/// A convolution that lies as it is multiplied.
struct DirectConvolution {
  DType type;
  View x, weights;  ///< weights as [channel out][taps][channel in of a group]
};
/// The convolution with all that follows it, where the library knows that, and alone.
std::vector<LibraryOffer> convolution_offers(Lowering& lowering, const Region& region, const Window& window,
                                             const DirectConvolution& convolution);
/// "bias other relu", "kernel" where libraries do not know it, or nothing: a part of a problem's text.
std::string epilogue_text(Lowering& lowering, const Region& region);
/// The call and what it leaves to a kernel. `spare` gives the step that does the same as the call, for sizes that are
/// open and that the library then has no way for; it computes the region that it is given.
void lower_library_convolution(Lowering& lowering, const Region& region, const DirectConvolution& convolution,
                               const LibraryOffer& offer, const std::function<PlanStep(const Region&)>& spare);

}  // namespace weft
