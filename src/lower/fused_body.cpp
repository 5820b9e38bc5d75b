// SPDX-License-Identifier: Apache-2.0
#include "lower/fused_body.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ranges>

#include "base/error.h"
#include "ir/core_ops.h"
#include "ops/elementwise.h"
#include "ops/interval.h"
#include "ops/lookup.h"
#include "ops/quantize.h"

namespace weft {

std::optional<double> splat_of(Value value) {
  while (is_view_op(value.def->op)) value = value.def->inputs[0];
  const auto* constant = value.def->as<Constant>();
  return constant ? splat_value(constant->tensor) : std::nullopt;
}

std::optional<double> literal_of(Value value) {
  auto number = splat_of(value);
  if (!number) return std::nullopt;
  bool plain = std::abs(*number) <= 4 && *number * 2 == std::floor(*number * 2);
  return plain || !std::isfinite(*number) || std::abs(*number) == 128 || *number == 127 || *number == 255
             ? number
             : std::nullopt;
}

std::string number_text(DType type, double number) {
  std::string name = kernel_type(type);
  if (std::isnan(number)) return cat(name, "(__builtin_nan(\"\"))");
  if (std::isinf(number)) return cat(name, number < 0 ? "(-__builtin_inf())" : "(__builtin_inf())");
  if (!is_float(type))
    return number == -0x1p63 ? cat(name, "(-0x7fffffffffffffffll - 1)")
                             : cat(name, "(", static_cast<int64_t>(number), "ll)");
  char text[48];
  std::snprintf(text, sizeof text, "%a", number);
  return cat(name, "(", text, ")");
}

FusedBody::FusedBody(KernelBuilder& kernel, Iteration iteration, ViewOf load_view, ViewOf store_view)
    : kernel_(kernel),
      iteration_(std::move(iteration)),
      load_view_(std::move(load_view)),
      store_view_(std::move(store_view)) {}

void FusedBody::add_access(std::vector<Access>& list, Value value, const ViewOf& view_of) {
  bool known = std::ranges::any_of(list, [&](const Access& a) { return a.value == value; });
  if (!known) list.push_back({value, view_of(value), {}});
}

static bool is_guessed(const Instruction& i) { return i.is<Nearest>() && i.inputs.size() > 3; }

/// True if a Nearest rounds f64 numbers that fit an i32 after rounding and are never NaN.
static bool is_small(const Instruction& nearest) {
  return nearest.inputs[0].dtype() == DType::f64 && interval_of(nearest.inputs[0]).size() < 0x1p31 - 1;
}

/// Returns u8 or i8 if a Nearest of small numbers clamps to that range and its result has that type, perhaps after a
/// conversion.
static std::optional<DType> whole_bytes(const Instruction& nearest) {
  const auto* reader = nearest.users.size() == 1 ? nearest.users[0]->as<Convert>() : nullptr;
  DType to = reader ? reader->to : nearest.as<Nearest>()->to;
  double lowest = to == DType::u8 ? 0 : -128;
  bool is_whole = splat_of(nearest.inputs[1]) == lowest && splat_of(nearest.inputs[2]) == lowest + 255;
  return is_whole && is_small(nearest) && (to == DType::u8 || to == DType::i8) ? std::optional(to) : std::nullopt;
}

/// Returns the operands that are read element by element.
static std::vector<Value> operands(const Instruction& i) {
  if (i.is<Lookup>()) return {i.inputs[0]};
  std::vector<Value> list = i.inputs;
  if (i.is<Nearest>() && whole_bytes(i)) list.erase(list.begin() + 1, list.begin() + 3);  // the limits
  return list;
}

/// Finds the instructions that are needed only for the f64 sum of a Nearest that has a guess
/// (passes/guess_roundings.h). The kernel runs these instructions only if the guess is in doubt.
void FusedBody::find_late(const std::vector<Value>& outputs) {
  for (const Instruction* i : instructions_ | std::views::reverse) {
    Value value{const_cast<Instruction*>(i), 0};
    auto needs = [&](const Instruction* user) {
      bool is_behind = is_guessed(*user) && std::ranges::count(user->inputs, value) == 1 && user->inputs[0] == value;
      return !is_behind && !late_.contains(user);
    };
    if (std::ranges::find(outputs, value) == outputs.end() && std::ranges::none_of(i->users, needs)) late_.insert(i);
  }
}

void FusedBody::plan(const std::vector<Instruction*>& instructions, const std::vector<Value>& outputs,
                     const std::vector<Value>& given, const std::vector<Value>& loads) {
  instructions_ = instructions;
  find_late(outputs);
  auto is_inside = [&](Value value) {
    return std::ranges::find(given, value) != given.end() ||
           std::ranges::find(instructions_, value.def) != instructions_.end();
  };
  for (const Instruction* i : instructions_) {
    // With loads_early, the limits of a Nearest are loaded, so that layers with different limits share a kernel.
    bool is_literal = !i->is<Nearest>() || !iteration_.loads_early;
    for (const Value& input : operands(*i)) {
      if (!is_inside(input) && !(is_literal && literal_of(input))) add_access(loads_, input, load_view_);
    }
  }
  for (const Value& value : loads) {
    if (!is_inside(value) && !literal_of(value)) add_access(loads_, value, load_view_);
  }
  for (const Value& output : outputs) stores_.push_back({output, store_view_(output), {}});
  collapse();
}

void FusedBody::collapse() {
  std::vector<Dims> strides;
  for (const Access& access : loads_) strides.push_back(access.view.strides);
  for (const Access& access : stores_) strides.push_back(access.view.strides);
  size_t rank = iteration_.dims.size();
  std::vector<bool> limits(rank);
  for (size_t axis : iteration_.group_begin) {
    if (axis < rank) limits[axis] = true;
  }
  axes_ = iteration_.dims;
  bool is_free = iteration_.coordinates.empty();
  collapse_axes(axes_, strides, is_free ? std::vector<bool>{} : limits);
  size_t at = 0;
  for (Access& access : loads_) access.strides = std::move(strides[at++]);
  for (Access& access : stores_) access.strides = std::move(strides[at++]);
  if (!is_free) return;
  for (size_t i = 0; i < axes_.size(); ++i) axis_names_.push_back(cat("c", i));
}

bool FusedBody::last_coordinate_is_axis() const {
  if (iteration_.lanes > 0) return true;
  auto begin = iteration_.dims.begin() + static_cast<std::ptrdiff_t>(iteration_.group_begin.back());
  return known_equal(product({begin, iteration_.dims.end()}), axes_.back());
}

/// Emits code that splits each coordinate of the kernel into the axes of its group.
void FusedBody::emit_coordinates() {
  if (known_equal(product(iteration_.dims), 0)) {  // the code never runs
    axis_names_.assign(axes_.size(), "i64(0)");
    return;
  }
  size_t axis = 0;
  for (size_t g = 0; g < iteration_.group_begin.size(); ++g) {
    size_t end = g + 1 < iteration_.group_begin.size() ? iteration_.group_begin[g + 1] : iteration_.dims.size();
    Dims group(iteration_.dims.begin() + static_cast<std::ptrdiff_t>(iteration_.group_begin[g]),
               iteration_.dims.begin() + static_cast<std::ptrdiff_t>(end));
    if (group.empty()) continue;
    Dim total = product(group), covered = 1;
    size_t first = axis;
    do covered = covered * axes_[axis++];
    while (!known_equal(covered, total));
    std::string rest = iteration_.coordinates[g];
    std::vector<std::string> names(axis - first, rest);
    for (size_t a = axis - 1; a > first; --a) {
      std::string name = cat("c", a), size = kernel_.size(axes_[a]);
      if (iteration_.lanes > 0 && axes_[a].is_constant()) size = cat(axes_[a].value());  // division by shifts
      kernel_.line("  const i64 ", name, " = ", rest, " % ", size, ", r", a, " = ", rest, " / ", size, ";");
      names[a - first] = name;
      rest = cat("r", a);
    }
    names[0] = rest;
    axis_names_.insert(axis_names_.end(), names.begin(), names.end());
  }
}

void FusedBody::define(Value value, std::string name, DType type) {
  variables_[{value.def, value.index}] = {std::move(name), type};
}

std::string FusedBody::address(const Access& access, bool written) {
  std::string text = kernel_.buffer(access.view.buffer, access.view.dtype, written);
  text += cat(" + ", kernel_.number(access.view.offset));
  for (size_t a = 0; a < axes_.size(); ++a) {
    std::string stride = kernel_.size(access.strides[a]);
    if (stride == "0") continue;
    text += stride == "1" ? cat(" + ", axis_names_[a]) : cat(" + ", axis_names_[a], " * ", stride);
  }
  return text;
}

/// True if a GPU may load whole aligned vectors: the last coordinate is a multiple of the lanes, so the offset added to
/// it must be such a multiple too. (A GPU's vector has at most eight lanes; a CPU does not need this.)
bool FusedBody::is_whole(const Access& access) const {
  const int64_t lanes = iteration_.lanes > 0 ? iteration_.lanes : 8;
  bool whole = iteration_.whole_vectors && access.view.offset.is_multiple_of(lanes);
  for (size_t a = 0; a + 1 < axes_.size(); ++a) whole &= access.strides[a].is_multiple_of(lanes);
  return whole;
}

std::string FusedBody::load(const Access& access) {
  std::string at = address(access), stride = kernel_.size(access.strides.back());
  auto is_zero = [](const Dim& dim) { return known_equal(dim, 0); };
  if (iteration_.loads_early && std::ranges::all_of(access.strides, is_zero))
    return cat("splat<", kernel_type(access.view.dtype), ", W>(", kernel_.once(cat("load_uniform<1>(", at, ")")), ")");
  if (stride == "0") return cat("load_uniform<W>(", at, ")");
  if (stride == "1") return cat(is_whole(access) ? "load_whole<W>(" : "load<W>(", at, ", lanes)");
  return cat("load_strided<W>(", at, ", ", stride, ", lanes)");
}

std::string FusedBody::converted(const Variable& from, DType to) const {
  return from.type == to ? from.name : cat("convert<", kernel_type(to), ">(", from.name, ")");
}

std::string FusedBody::operand(Value value, DType type) {
  auto found = variables_.find({value.def, value.index});
  if (found == variables_.end()) {
    DType own = compute_type(value.dtype());
    auto access = std::ranges::find(loads_, value, &Access::value);
    auto number = access == loads_.end() ? literal_of(value) : std::nullopt;
    if (number) return cat("splat<", kernel_type(own), ", W>(", number_text(own, *number), ")");
    check(access != loads_.end(), "a fused operand is loaded or computed");
    std::string name = fresh();
    std::string text = load(*access);
    if (own != access->view.dtype && value.dtype() != DType::boolean)
      text = cat("convert<", kernel_type(own), ">(", text, ")");
    kernel_.line("  const auto ", name, " = ", text, ";");
    found = variables_.emplace(std::pair(static_cast<const Instruction*>(value.def), value.index), Variable{name, own})
                .first;
  }
  return converted(found->second, type);
}

std::string FusedBody::variable(Value value) { return operand(value, compute_type(value.dtype())); }

/// Returns the expression of a conversion. Narrow floats are rounded although they stay in f32 registers.
static std::string conversion_text(const std::string& x, const Convert& op) {
  if (op.to == DType::boolean) return cat("cast_to_bool(", x, ")");
  if (op.to == DType::f4e2m1) return cat("cast_to_f4(", x, ")");
  std::string wide = kernel_type(compute_type(op.to));
  if (is_packed_type(op.to)) return cat("cast_to_part<", bits(op.to), ", ", wide, ">(", x, ")");
  std::string to = kernel_type(op.to);
  if (compute_type(op.to) == op.to) return cat("cast<", to, ">(", x, ")");
  std::string function = !op.saturate && bits(op.to) == 8 ? "convert" : "cast";
  return cat("convert<", wide, ">(", function, "<", to, ">(", x, "))");
}

/// Returns the f32 value from before the rounding to 16 bits if `reader` is a sum, difference, product or quotient, so
/// that only the store rounds. Other functions, such as floor, could jump: they read the rounded value.
static Value unrounded(Value value, Fn reader, const std::vector<Instruction*>& here) {
  const auto* op = value.def->as<Convert>();
  bool is_rounding = op && is_float(op->to) && bits(op->to) == 16 && value.def->inputs[0].dtype() == DType::f32;
  bool is_smooth = reader == Fn::add || reader == Fn::sub || reader == Fn::mul || reader == Fn::div;
  return is_rounding && is_smooth && std::ranges::find(here, value.def) != here.end() ? value.def->inputs[0] : value;
}

/// Writes the late instructions (find_late) that a value needs.
void FusedBody::emit_late(Value value) {
  if (!late_.contains(value.def) || variables_.contains({value.def, value.index})) return;
  for (const Value& input : operands(*value.def)) emit_late(input);
  emit(*value.def);
}

/// Writes the function that rounds the exact operand of `i`; returns its name.
std::string FusedBody::exact_rounding(const Instruction& i) {
  std::string name = fresh();
  kernel_.line("  const auto ", name, " = [=]() WEFT_COLD {");
  auto known = variables_;
  emit_late(i.inputs[0]);
  kernel_.line("  return small_integers(", variable(i.inputs[0]), ");");
  kernel_.line("  };");
  variables_ = std::move(known);
  return name;
}

/// True if all readers convert the result of a Nearest to floats.
static bool is_read_as_float(const Instruction& nearest) {
  return std::ranges::all_of(nearest.users, [](const Instruction* user) {
    const auto* op = user->as<Convert>();
    return op && (op->to == DType::f32 || op->to == DType::f64);
  });
}

/// Emits code that rounds and clamps. Small numbers become bytes (see whole_bytes) or 32-bit integers, because most
/// readers convert the results back to floats. If a number has a guess, the code rounds the guess or, if a lane is in
/// doubt, the exact operand, which a cold function computes.
void FusedBody::emit_nearest(const Instruction& i) {
  DType result = compute_type(i.as<Nearest>()->to);
  std::string text;
  auto limits = [&] { return cat(", ", variable(i.inputs[1]), ", ", variable(i.inputs[2])); };
  bool guessed = is_small(i) && is_guessed(i);
  auto guess = [&] { return cat("(", variable(i.inputs[3]), ", ", variable(i.inputs[4])); };
  if (auto bytes = whole_bytes(i)) {
    text = guessed ? cat("doubts.rounded", guess(), ", ", exact_rounding(i), ")")
                   : cat("small_integers(", variable(i.inputs[0]), ")");
    text = cat("saturated<", kernel_type(result = *bytes), ">(", text, ")");
  } else if (guessed) {
    result = is_read_as_float(i) ? DType::f32 : DType::i32;
    text = cat("doubts.bounded", result == DType::f32 ? "_real" : "", guess(), limits(), ", ", exact_rounding(i), ")");
  } else if (is_small(i)) {
    text = cat("clamped<", kernel_type(result = DType::i32), ">(small_integers(", variable(i.inputs[0]), ")", limits(),
               ")");
  } else {
    bool is_number = i.inputs[0].dtype() == DType::f64 && std::isfinite(interval_of(i.inputs[0]).size());
    text = cat(is_number ? "nearest_number<" : "nearest<", kernel_type(result), ">(", variable(i.inputs[0]), limits(),
               ")");
  }
  std::string name = fresh();
  kernel_.name_part("round");
  kernel_.line("  const auto ", name, " = ", text, ";");
  variables_[{&i, 0}] = {name, result};
}

/// True for the minimum or maximum of a value and a number that is neither NaN nor zero.
static bool is_bound(const Instruction& i) {
  const auto* op = i.as<Elementwise>();
  if (!op || (op->fn != Fn::min && op->fn != Fn::max)) return false;
  auto number = splat_of(i.inputs[1]);
  return number && (*number < 0 || *number > 0);
}

/// Returns the name of a lookup's table, which is loaded at the start of the kernel.
std::string FusedBody::table(Value value) {
  std::string& name = tables_[value.def];
  if (!name.empty()) return name;
  View view = load_view_(value);
  check(known_equal(view.strides[0], 1), "the bytes of a table follow each other");
  std::string bytes = kernel_.buffer(view.buffer, view.dtype, false);
  return name = kernel_.once(cat("byte_table(raw(", bytes, ") + ", kernel_.number(view.offset), ")"));
}

void FusedBody::emit(const Instruction& i) {
  if (i.is<Nearest>()) return emit_nearest(i);
  std::string name = fresh(), text;
  DType result = compute_type(i.types[0].shape.dtype);
  if (const auto* op = i.as<Elementwise>()) {
    std::vector<std::string> parts;
    for (const Value& input : i.inputs)
      parts.push_back(operand(unrounded(input, op->fn, instructions_), compute_type(input.dtype())));
    if (op->fn == Fn::add || op->fn == Fn::mul) std::ranges::sort(parts);  // one kernel for both orders
    for (const std::string& part : parts) text += cat(text.empty() ? "" : ", ", part);
    text =
        cat(is_bound(i) ? (op->fn == Fn::min ? "bounded_above" : "bounded_below") : cat("fn::op_", info(op->fn).name),
            "(", text, ")");
    if (!late_.contains(&i)) kernel_.name_part(info(op->fn).name);
  } else if (const auto* op = i.as<Convert>()) {
    auto given = variables_.find({i.inputs[0].def, i.inputs[0].index});
    bool is_here = i.inputs[0].def->is<Nearest>() && given != variables_.end();
    text = conversion_text(operand(i.inputs[0], is_here ? given->second.type : compute_type(i.inputs[0].dtype())), *op);
  } else if (const auto* op = i.as<Bitcast>()) {
    DType from = i.inputs[0].dtype();
    std::string stored = cat("convert<", kernel_type(from), ">(", operand(i.inputs[0], compute_type(from)), ")");
    text =
        cat("convert<", kernel_type(result), ">(__builtin_bit_cast(Vec<", kernel_type(op->to), ", W>, ", stored, "))");
  } else if (i.is<Lookup>()) {
    text = cat("looked_up(", table(i.inputs[1]), ", ", operand(i.inputs[0], i.inputs[0].dtype()), ")");
    kernel_.name_part("lookup");
  } else {
    internal_error(cat(i.op.name(), " in a fused body"));
  }
  kernel_.line("  const auto ", name, " = ", text, ";");
  variables_[{&i, 0}] = {name, result};
}

void FusedBody::emit_store(const Access& access) {
  DType type = access.view.dtype;
  std::string value = variable(access.value);
  if (compute_type(access.value.dtype()) != type && type != DType::boolean)
    value = cat("convert<", kernel_type(type), ">(", value, ")");
  std::string at = address(access, true), stride = kernel_.size(access.strides.back());
  if (stride == "1" && is_whole(access)) kernel_.line("  store_whole(", at, ", ", value, ", lanes);");
  else if (stride == "1" || stride == "0") kernel_.line("  store(", at, ", ", value, ", lanes);");
  else kernel_.line("  store_strided(", at, ", ", stride, ", ", value, ", lanes);");
}

std::vector<BufferId> FusedBody::in_place() const {
  std::vector<BufferId> list;
  if (stores_.size() != 1) return list;
  const Access& to = stores_[0];
  auto is_same_place = [&](const Access& from) {
    bool same = bits(from.view.dtype) == bits(to.view.dtype) && known_equal(from.view.offset, to.view.offset);
    for (size_t a = 0; same && a < axes_.size(); ++a) same = known_equal(from.strides[a], to.strides[a]);
    return same;
  };
  for (const Access& from : loads_) {
    auto is_elsewhere = [&](const Access& other) {
      return other.view.buffer == from.view.buffer && !is_same_place(other);
    };
    if (std::ranges::none_of(loads_, is_elsewhere)) list.push_back(from.view.buffer);
  }
  return list;
}

void FusedBody::emit() {
  if (!iteration_.coordinates.empty()) emit_coordinates();
  if (!iteration_.after_loads.empty()) {
    for (const Access& access : loads_) variable(access.value);
    kernel_.line(iteration_.after_loads);
  }
  auto is_guess = [](const Instruction* i) { return i->is<Nearest>() && is_small(*i) && is_guessed(*i); };
  bool has_guess = std::ranges::any_of(instructions_, is_guess);
  bool together = has_guess && iteration_.loads_early && stores_.size() == 1 && iteration_.after_loads.empty();
  if (together) kernel_.line("  const auto values = [=]([[maybe_unused]] auto& doubts) WEFT_LAMBDA {");
  else if (has_guess) kernel_.line("  Exactly doubts;");
  for (const Instruction* i : instructions_) {
    if (!late_.contains(i)) emit(*i);
  }
  if (together) {
    Value value = stores_[0].value;
    kernel_.line("  return ", variable(value), ";");
    kernel_.line("  };");
    kernel_.line("  const auto result = without_doubts<W>(values);");
    variables_.at({value.def, value.index}).name = "result";
  }
  for (const Access& access : stores_) emit_store(access);
}

}  // namespace weft
