// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/loops.h"

#include "frontends/onnx/importer.h"

namespace weft::onnx {
namespace {

Values built(Call& c, LoopForm form, const TripBody& body) {
  form.body = [&c, &body](Scope& scope, const Dim& trip, const Values& carried) {
    Call inner(c.importer(), scope, c.node(), c.opset(), {});
    return body(inner, trip, carried);
  };
  return build_loop(c, std::move(form));
}

}  // namespace

Values loop_over(Call& c, const Dim& trips, Values carried, size_t rows, const TripBody& body) {
  return built(c, {.trips = trips, .carried = std::move(carried), .rows = rows}, body);
}

Values loop_while(Call& c, const Dim& trips, Values carried, size_t rows, const TripBody& body) {
  return built(c, {.trips = trips, .gives_condition = true, .carried = std::move(carried), .rows = rows}, body);
}

Expr inside(Call& body, Value outer) {
  bool is_here = outer.def->parent == &body.module();
  return {&body, is_here ? outer : Importer::capture(body.scope(), outer)};
}

Expr row_at(Expr x, int64_t axis, const Dim& trip) {
  Dims dims = x.dims();
  dims.erase(dims.begin() + axis);
  return reshape(slice(x, axis, trip, 1), dims);
}

}  // namespace weft::onnx
