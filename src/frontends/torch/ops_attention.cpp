// SPDX-License-Identifier: Apache-2.0
// Imports attention operators; each becomes one attention instruction.
#include "frontends/common/attention.h"

#include <cmath>

#include "frontends/torch/call.h"
#include "ops/dot.h"

namespace weft::torch {
namespace {

using frontend::Heads;

/// Reshapes [..., heads, tokens, size] to four axes: merges the axes in front of the heads.
Expr four_axes(const frontend::Builder& c, Expr x) {
  if (x.rank() < 3) {
    if (x.rank() < 2) c.fail("E140", cat("needs [..., tokens, size], has ", x.value.shape()));
    return with_rank(x, 4);
  }
  Dims dims = x.dims();
  Dim batch = 1;
  for (size_t a = 0; a + 3 < dims.size(); ++a) batch = batch * dims[a];
  return reshape(x, {batch, dims[dims.size() - 3], dims[dims.size() - 2], dims.back()});
}

/// Returns the mask with four axes that broadcast to the scores. If q or the mask has more than four axes, the mask is
/// first broadcast to q's axes in front of the tokens.
Expr mask_of(Expr mask, Expr q) {
  if (mask.rank() < 2) mask = with_rank(mask, 2);
  if (mask.rank() <= 4 && q.rank() <= 4) return with_rank(mask, 4);
  Dims dims(q.dims().begin(), q.dims().end() - 2);
  dims.insert(dims.end(), mask.dims().end() - 2, mask.dims().end());
  return four_axes(*mask.at, broadcast(mask, dims));
}

Expr attended(Call& c, bool causal, double scale, bool shares_heads) {
  Expr query = c.tensor("query"), key = c.tensor("key"), value = c.tensor("value");
  Heads heads{four_axes(c, query), four_axes(c, key), four_axes(c, value)};
  if (scale == 0) scale = frontend::default_scale(heads.q);
  shares_heads = shares_heads || c.flag("enable_gqa") || known_equal(heads.k.dims()[1], 1);
  if (!shares_heads) c.require_same(heads.q.dims()[1], heads.k.dims()[1], "heads of query and key");
  Values in = {heads.q, heads.k, heads.v};
  if (auto mask = c.optional(c.has("attn_bias") ? "attn_bias" : "attn_mask")) {
    Expr four = mask_of(*mask, query);
    in.push_back(four.dtype() == DType::boolean ? four : convert(four, query.dtype()));
  }
  Expr y = c.make(Attention{.scale = scale, .causal = causal}, in);
  Dims dims = query.dims();
  dims.back() = value.dims().back();
  return reshape(y, dims);
}

double scale_of(Call& c) {
  if (!c.has("scale")) return 0;
  double scale = c.number("scale");
  if (!std::isfinite(scale) || scale == 0) c.fail("E155", cat("scale must be finite and not 0, is ", scale));
  return scale;
}

Values attention(Call& c, bool shares_heads) {
  c.require_default("dropout_p", c.number("dropout_p", 0) == 0);
  return {attended(c, c.flag("is_causal"), scale_of(c), shares_heads)};
}

/// Imports torch's fused attention operators for different devices. Results after the first are needed by gradients
/// only. Grouped queries are allowed.
Values fused_attention(Call& c) {
  c.ignore({"return_debug_mask", "compute_log_sumexp"});
  return attention(c, true);
}

/// Imports flash attention. Its causal mask is aligned with the last key, but `attention` aligns the mask with the
/// first key. The two masks are equal only if there are as many queries as keys, so this is required.
Values flash_attention(Call& c) {
  Expr query = c.tensor("query"), key = c.tensor("key");
  bool is_causal = c.flag("is_causal") && query.rank() == 4 && key.rank() == 4;
  if (is_causal) c.require_same(query.dims()[2], key.dims()[2], "tokens of query and key");
  return fused_attention(c);
}

constexpr Operator attention_rows[] = {
    {"aten.scaled_dot_product_attention.default", [](Call& c) { return attention(c, false); }},
    {"aten._scaled_dot_product_flash_attention_for_cpu.default", fused_attention},
    {"aten._scaled_dot_product_flash_attention.default", flash_attention},
    {"aten._scaled_dot_product_efficient_attention.default", fused_attention},
    {"aten._scaled_dot_product_cudnn_attention.default", fused_attention},
    {"aten._scaled_dot_product_fused_attention_overrideable.default", fused_attention},
};

}  // namespace

std::span<const Operator> attention_operators() { return attention_rows; }

}  // namespace weft::torch
