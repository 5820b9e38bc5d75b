// SPDX-License-Identifier: Apache-2.0
#include "host/run.h"

#include <algorithm>

#include "host/functions.h"

namespace weft {

std::string_view operands_of(HostFn fn) {
  switch (fn) {
#define HOST_FN(name, operands, result) \
  case HostFn::name: return operands;
#include "host/functions.def"
  }
  return "";
}

bool takes_operands(HostFn fn, size_t count) {
  std::string_view wanted = operands_of(fn);
  if (wanted.ends_with('*')) return true;
  size_t all = wanted.size(), least = std::min(wanted.find('?'), all);
  return count == least || (least < all && count == all - 1);
}

/// Throws for operands of wrong kinds: a damaged plan may contain any call, and the functions do not check operands.
static void check_operands(HostFn fn, std::span<const Tensor> in) {
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

std::vector<Tensor> run_host(const HostCall& call, std::vector<Tensor> in) {
  using namespace host;
  check_operands(call.fn, in);
  switch (call.fn) {
#define HOST_FN(name, operands, result) \
  case HostFn::name: return result;
#include "host/functions.def"
  }
  internal_error("a host function that does not exist");
}

}  // namespace weft
