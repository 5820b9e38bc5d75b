// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>

#include "lower/lowering.h"

/// Work that vendors' libraries could do in place of a kernel: its description, and the steps that call them.
namespace weft {

struct Product;
struct Window;

/// A candidate of a decision.
struct LibraryOffer {
  std::string name;  ///< "cudnn fused"
  LibraryCall call = {};
  bool does_epilogue = false;
};

/// Offers for a product whose operands need no conversion, with fixed sizes and one stride between batches.
std::vector<LibraryOffer> product_offers(const Lowering& lowering, const Region& region, const Product& p, DType type);
/// The library leaves the sums in f32; a kernel of Weft computes the epilogue.
void lower_library_product(Lowering& lowering, const Region& region, const Product& p, const LibraryOffer& offer);

/// The epilogue of a convolution that libraries support: a bias for each channel, then a tensor of the result's sizes,
/// then relu.
struct ConvolutionEpilogue {
  Value bias = {}, other = {};
  bool has_relu = false;
};

/// A convolution whose operands need no conversion.
struct DirectConvolution {
  DType type;
  View x, weights;  ///< weights as [channel out][taps][channel in of a group]
};
/// Offers for the convolution alone, and with its epilogue if the library supports that.
std::vector<LibraryOffer> convolution_offers(Lowering& lowering, const Region& region, const Window& window,
                                             const DirectConvolution& convolution);
/// The epilogue as a part of a problem's text: "bias other relu"; "kernel" if libraries do not support it; empty if
/// there is none.
std::string epilogue_text(Lowering& lowering, const Region& region);
/// Adds the call, and a kernel for the rest. `spare` makes the step with the same result as the call, for open sizes
/// that the library turns out not to support; it computes the given region.
void lower_library_convolution(Lowering& lowering, const Region& region, const DirectConvolution& convolution,
                               const LibraryOffer& offer, const std::function<PlanStep(const Region&)>& spare);

}  // namespace weft
