// SPDX-License-Identifier: Apache-2.0
#include "base/library_call.h"

#include "base/text.h"

namespace weft {

/// Calls `visit` for each size of a convolution. (Only convolutions have symbolic sizes.)
template <class Call, class Visit>
static void for_each_size(Call& call, const Visit& visit) {
  auto* c = std::get_if<LibraryConvolution>(&call.work);
  if (!c) return;
  for (auto* size : {&c->batch, &c->groups, &c->channels_in, &c->channels_out, &c->pixel}) visit(*size);
  for (auto* sizes : {&c->in, &c->out, &c->kernel, &c->stride, &c->dilation, &c->pad}) {
    for (auto& size : *sizes) visit(size);
  }
}

size_t LibraryCall::operands() const {
  const auto* c = std::get_if<LibraryConvolution>(&work);
  return size_t{3} + (c && c->has_bias) + (c && c->has_other);
}

bool LibraryCall::has_symbols() const {
  bool found = false;
  for_each_size(*this, [&](const Dim& size) { found |= !size.is_constant(); });
  return found;
}

LibraryCall LibraryCall::at(const std::function<int64_t(const Dim&)>& number) const {
  LibraryCall call = *this;
  call.is_open |= has_symbols();
  for_each_size(call, [&](Dim& size) { size = number(size); });
  return call;
}

std::string LibraryCall::text() const {
  std::string line = cat(library, is_open ? " open" : "");
  if (const auto* p = std::get_if<LibraryProduct>(&work)) {
    line += cat(" product ", p->type, " ", p->result);
    for (int64_t size : {p->batch, p->m, p->n, p->k, p->a_row, p->b_row, p->a_batch, p->b_batch})
      line += cat(" ", size);
  } else {
    const auto& c = std::get<LibraryConvolution>(work);
    line += cat(" convolution ", c.type, c.has_bias ? " bias" : "", c.has_other ? " other" : "",
                c.has_relu ? " relu" : "", " ", c.in.size(), " axes");
  }
  for_each_size(*this, [&](const Dim& size) { line += cat(" ", size); });
  return line;
}

}  // namespace weft
