// SPDX-License-Identifier: Apache-2.0
#include "ops/host.h"

#include "host/run.h"
#include "ir/control.h"
#include "ir/core_ops.h"
#include "ops/build.h"
#include "ops/check.h"
#include "ops/elementwise.h"
#include "ops/indexed.h"
#include "ops/views.h"
#include "ops/wide.h"

namespace weft {

Types HostOp::infer(Operands in) const {
  if (!takes_operands(fn, in.size())) shape_rule::refuse("E140", enum_name(fn), " has ", in.size(), " operands");
  return types;
}

std::vector<Wide> HostOp::evaluate(std::span<const Wide> in) const {
  std::vector<Tensor> operands;
  for (const Wide& value : in) operands.push_back(to_tensor(value));
  std::vector<Wide> results;
  for (const Tensor& result : run_host(call(), std::move(operands))) results.push_back(to_wide(result));
  return results;
}

bool takes_strings(const Op& op) {
  if (const auto* elementwise = op.as<Elementwise>()) return info(elementwise->fn).accepts == FnInfo::Accepts::any;
  const auto* elements = op.as<ScatterElements>();
  const auto* slices = op.as<ScatterNd>();
  if (elements || slices) return (elements ? elements->fn : slices->fn) == ScatterFn::replace;
  return op.is<HostOp>() || op.is<Parameter>() || op.is<Constant>() || op.is<Reshape>() || op.is<Transpose>() ||
         op.is<Broadcast>() || op.is<Slice>() || op.is<Concat>() || op.is<Gather>() || op.is<GatherElements>() ||
         op.is<GatherNd>() || op.is<If>() || op.is<Loop>() || op.is<CpuPart>();
}

Values host_all(Module& module, HostOp op, Values inputs) {
  Value first = module.append(std::move(op), std::move(inputs));
  Values results;
  for (uint32_t i = 0; i < first.def->types.size(); ++i) results.push_back({first.def, i});
  return results;
}

Value collect(Module& module, const Type& type, Values items) {
  return host(module, {.fn = HostFn::collect, .numbers = {static_cast<int64_t>(type.kind)}, .types = {type}},
              std::move(items));
}

std::optional<Values> known_items(Value container) {
  const auto* op = container.def->as<HostOp>();
  return op && op->fn == HostFn::collect ? std::optional(container.def->inputs) : std::nullopt;
}

/// Returns the number in an i64 scalar if it is known.
static std::optional<int64_t> known_number(Value value) {
  auto contents = known_contents(value);
  return contents && contents->size() == 1 ? (*contents)[0].constant() : std::nullopt;
}

/// Returns the sizes of an item; binds sizes that the container's type leaves open.
static Dims item_sizes(Module& module, Value container, Value index) {
  Dims dims = container.type().element->shape.dims;
  if (all_constant(dims)) return dims;
  if (is_placeholder(dims, any_rank) || is_placeholder(dims, no_element)) {
    throw Error({.kind = ErrorKind::unsupported,
                 .code = "E134",
                 .what = cat("the rank of an item of ", container.type(), " is not known")});
  }
  auto rank = static_cast<int64_t>(dims.size());
  Value sizes = host(module, {.fn = HostFn::item_sizes, .numbers = {rank}, .types = {Shape{DType::i64, {rank}}}},
                     {container, index});
  Dims bound = bind_sizes(module, sizes);
  for (size_t i = 0; i < dims.size(); ++i) {
    if (!dims[i].is_constant()) dims[i] = bound[i];
  }
  return dims;
}

Value item_of(Module& module, Value container, Value index) {
  auto items = known_items(container);
  auto at = known_number(index);
  if (items && at) {
    auto count = std::ssize(*items);
    if (*at < -count || *at >= count) shape_rule::refuse("E143", "there is no item ", *at, ", only ", count);
    return (*items)[*at < 0 ? *at + count : *at];
  }
  Type element = *container.type().element;
  if (element.is_tensor()) element.shape.dims = item_sizes(module, container, index);
  return host(module, {.fn = HostFn::item, .types = {element}}, {container, index});
}

Value item_of(Module& module, Value container, int64_t index) {
  return item_of(module, container, constant(module, scalar_tensor(DType::i64, static_cast<double>(index))));
}

Value length_of(Module& module, Value container) {
  if (auto items = known_items(container))
    return constant(module, scalar_tensor(DType::i64, static_cast<double>(items->size())));
  return host(module, {.fn = HostFn::length, .types = {Shape{DType::i64, {}}}}, {container});
}

Value insert_item(Module& module, Value sequence, Value x, std::optional<Value> at) {
  auto element = common_element(*sequence.type().element, x.type());
  if (!element) shape_rule::refuse("E141", x.type(), " does not go into ", sequence.type());
  Type type = Type::sequence(*element);
  auto items = known_items(sequence);
  constexpr size_t max_known = 1024;  // a limit, because each insertion copies the list of items
  if (items && items->size() >= max_known) items.reset();
  auto place = at ? known_number(*at) : items ? std::optional(std::ssize(*items)) : std::nullopt;
  if (!items || !place) {
    Values inputs = {sequence, x};
    if (at) inputs.push_back(*at);
    return host(module, {.fn = HostFn::insert, .types = {type}}, std::move(inputs));
  }
  auto count = std::ssize(*items);
  if (*place < -count || *place > count) shape_rule::refuse("E143", "position ", *place, " of ", count, " items");
  items->insert(items->begin() + (*place < 0 ? *place + count : *place), x);
  return collect(module, type, std::move(*items));
}

void check_text_pattern(const std::string& pattern) { check_pattern(pattern); }

}  // namespace weft
