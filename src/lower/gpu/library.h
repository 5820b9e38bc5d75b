// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lower/lowering.h"

/// Calls of vendors' libraries in place of kernels: descriptions of the work, and the steps that make the calls.
namespace weft {

struct Product;
struct Window;

/// A library call that competes with Weft's kernels in a decision.
struct LibraryOffer {
  std::string name;  ///< "cudnn fused"
  LibraryCall call = {};
  bool does_epilogue = false;
};

/// Returns the library calls for a product with direct operands; none unless its sizes and strides are fixed.
std::vector<LibraryOffer> product_offers(const Lowering& lowering, const Region& region, const Product& p, DType type);
/// Adds the library call, which leaves sums in f32, and a kernel of Weft for the epilogue.
void lower_library_product(Lowering& lowering, const Region& region, const Product& p, const LibraryOffer& offer);

/// The epilogue that libraries support after a convolution: a bias per channel, then the addition of a tensor of the
/// result's sizes, then relu.
struct ConvolutionEpilogue {
  Value bias = {}, other = {};
  bool has_relu = false;
};

/// A convolution whose operands a library can read without conversion.
struct DirectConvolution {
  DType type;
  View x, weights;  ///< weights as [channel out][taps][channel in of a group]
};
/// Returns the possible library calls: for the convolution alone, and for the convolution with its epilogue.
std::vector<LibraryOffer> convolution_offers(Lowering& lowering, const Region& region, const Window& window,
                                             const DirectConvolution& convolution);
/// Returns the epilogue as part of the problem's text: " bias other relu"; " kernel" if libraries do not support it; ""
/// if there is none.
std::string epilogue_text(Lowering& lowering, const Region& region);
/// Adds the library call, and a kernel for the part of the epilogue that the library does not compute. `spare` makes a
/// step of Weft for the given region; this step replaces the call in runs with sizes that the library refuses.
void lower_library_convolution(Lowering& lowering, const Region& region, const DirectConvolution& convolution,
                               const LibraryOffer& offer, const std::function<PlanStep(const Region&)>& spare);

}  // namespace weft
