// SPDX-License-Identifier: Apache-2.0
#include "host/run.h"

#include <algorithm>

#include "host/functions.h"

namespace weft {

std::string_view operands_of(HostFn fn) {
  switch (fn) {
    case HostFn::same: return "v";
    case HostFn::collect: return "v*";
    case HostFn::length:
    case HostFn::join:
    case HostFn::map_values:
    case HostFn::map_vector: return "c";
    case HostFn::item:
    case HostFn::item_sizes: return "cn";
    case HostFn::insert: return "cv?n";
    case HostFn::erase: return "c?n";
    case HostFn::split: return "x?n";
    case HostFn::to_text: return "x";
    case HostFn::from_text:
    case HostFn::split_text:
    case HostFn::normalize_text:
    case HostFn::split_rows:
    case HostFn::hash_text:
    case HostFn::match_text: return "t";
    case HostFn::concat_text: return "tt";
    case HostFn::ngrams_text: return "tn";
    case HostFn::decode_image:
    case HostFn::zip_map: return "n";
  }
  return "";
}

bool takes_operands(HostFn fn, size_t count) {
  std::string_view wanted = operands_of(fn);
  if (wanted.ends_with('*')) return true;
  size_t all = wanted.size(), least = std::min(wanted.find('?'), all);
  return count == least || (least < all && count == all - 1);
}

namespace {

/// Checks the kinds of operands, on which the functions rely; a damaged plan may hold any call.
void check_operands(HostFn fn, std::span<const Tensor> in) {
  std::string_view wanted = operands_of(fn);
  bool fits = takes_operands(fn, in.size());
  for (size_t i = 0, at = 0; fits && i < in.size() && at < wanted.size(); ++i, ++at) {
    if (wanted[at] == '?') ++at;
    bool is_text = in[i].is_tensor() && in[i].dtype == DType::string;
    char kind = wanted[at];
    fits = kind == 'v' || kind == '*' || (kind == 'c' && !in[i].is_tensor()) || (kind == 't' && is_text) ||
           (kind == 'n' && in[i].is_tensor() && !is_text) || (kind == 'x' && in[i].is_tensor());
  }
  check(fits, "a function of the host gets the kinds of operands that it takes");
}

}  // namespace

std::vector<Tensor> run_host(const HostCall& call, std::vector<Tensor> in) {
  using namespace host;
  check_operands(call.fn, in);
  switch (call.fn) {
    case HostFn::same: return in;
    case HostFn::collect: return collect(call, in);
    case HostFn::length: return length(in);
    case HostFn::item: return item(in);
    case HostFn::item_sizes: return item_sizes(call, in);
    case HostFn::insert: return insert(std::move(in));
    case HostFn::erase: return erase(std::move(in));
    case HostFn::split: return split(call, in);
    case HostFn::join: return join(call, in);
    case HostFn::to_text: return to_text(in);
    case HostFn::from_text: return from_text(call, in);
    case HostFn::concat_text: return concat_text(in);
    case HostFn::split_text: return split_text(call, in);
    case HostFn::normalize_text: return normalize_text(call, in);
    case HostFn::match_text: return match_text(call, in);
    case HostFn::zip_map: return zip_map(call, in);
    case HostFn::map_values: return map_values(call, in);
    case HostFn::map_vector: return map_vector(call, in);
    case HostFn::decode_image: return decode_image(call, in);
    case HostFn::split_rows: return split_rows(call, in);
    case HostFn::ngrams_text: return ngrams_text(call, in);
    case HostFn::hash_text: return hash_text(call, in);
  }
  internal_error("a host function that does not exist");
}

}  // namespace weft
