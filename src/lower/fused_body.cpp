// SPDX-License-Identifier: Apache-2.0
#include "lower/fused_body.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/error.h"
#include "ir/core_ops.h"
#include "lower/rounding.h"
#include "ops/elementwise.h"
#include "ops/lookup.h"

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

void FusedBody::round_in_f32_first(NarrowViewOf narrow_view) { narrow_view_ = std::move(narrow_view); }

void FusedBody::add_access(std::vector<Access>& list, Value value, const ViewOf& view_of) {
  bool known = std::ranges::any_of(list, [&](const Access& a) { return a.value == value; });
  if (!known) list.push_back({value, view_of(value), {}});
}

/// Finds conversions that can round and clamp in one function, and drops the instructions that this makes unnecessary.
void FusedBody::absorb_roundings(const std::vector<Value>& outputs) {
  auto is_here = [&](const Instruction* i) {
    bool stored = std::ranges::any_of(outputs, [&](const Value& output) { return output.def == i; });
    return !stored && std::ranges::find(instructions_, i) != instructions_.end();
  };
  std::vector<const Instruction*> gone;
  for (const Instruction* i : instructions_) {
    std::vector<const Instruction*> inner;
    std::vector<Value> parts = rounding_parts(*i, inner);
    if (parts.empty() || !std::ranges::all_of(inner, is_here)) continue;
    roundings_[i] = parts;
    gone.insert(gone.end(), inner.begin(), inner.end());
  }
  std::erase_if(instructions_, [&](const Instruction* i) { return std::ranges::find(gone, i) != gone.end(); });
}

std::vector<Value> FusedBody::operands(const Instruction& i) const {
  if (i.is<Lookup>()) return {i.inputs[0]};  // the table is not loaded element by element
  auto found = roundings_.find(&i);
  return found == roundings_.end() ? i.inputs : found->second;
}

void FusedBody::plan(const std::vector<Instruction*>& instructions, const std::vector<Value>& outputs,
                     const std::vector<Value>& given, const std::vector<Value>& loads) {
  instructions_ = instructions;
  absorb_roundings(outputs);
  auto is_inside = [&](Value value) {
    return std::ranges::find(given, value) != given.end() ||
           std::ranges::find(instructions_, value.def) != instructions_.end();
  };
  for (const Instruction* i : instructions_) {
    for (const Value& input : operands(*i)) {
      if (!is_inside(input) && !literal_of(input)) add_access(loads_, input, load_view_);
    }
  }
  for (const Value& value : loads) {
    if (!is_inside(value) && !literal_of(value)) add_access(loads_, value, load_view_);
  }
  for (const Value& output : outputs) add_access(stores_, output, store_view_);
  if (narrow_view_ && is_quick()) plan_first_look();
  collapse();
}

/// For each sum that is only rounded, plans to subtract the bound of its f32 error first; the exact sum is then in
/// [result, result + 2 * bound]. The subtraction costs nothing if a term is a constant or a product.
void FusedBody::plan_first_look() {
  for (const auto& [rounding, parts] : roundings_) {
    Value sum = parts[0];
    bool is_here = std::ranges::find(instructions_, sum.def) != instructions_.end();
    if (is_here && sum.def->is<Elementwise>() && sum.def->users.size() == 1)
      lowered_[sum.def] = *quick_error(*rounding);
  }
  for (const Access& access : loads_) {
    if (access.view.dtype != DType::f64) continue;
    double less = 0;
    for (const auto& [sum, error] : lowered_) less = lowered_constant(*sum) == access.value ? error : less;
    quick_loads_.push_back({access.value, narrow_view_(access.value, less), {}});
  }
}

std::optional<double> FusedBody::quick_error(const Instruction& rounding) const {
  const std::vector<Value>& parts = roundings_.at(&rounding);
  double error = quick_rounding_error(parts[0], parts[1], parts[2]);
  return error > 0 ? std::optional(error) : std::nullopt;
}

/// Returns a term of the sum that the kernel loads for this sum only, so that its load can subtract the error.
std::optional<Value> FusedBody::lowered_constant(const Instruction& sum) const {
  const auto* op = sum.as<Elementwise>();
  if (!op || op->fn != Fn::add) return std::nullopt;
  for (const Value& term : sum.inputs) {
    int64_t uses = 0;
    for (const Instruction* i : instructions_) uses += std::ranges::count(operands(*i), term);
    bool is_loaded = std::ranges::find(loads_, term, &Access::value) != loads_.end();
    if (is_loaded && uses == 1) return term;
  }
  return std::nullopt;
}

/// True if all f64 values are rounded at once and f32 is usually precise enough to decide the rounding.
bool FusedBody::is_quick() const {
  auto is_plain = [](DType type) { return is_integer(type) || type == DType::f64; };
  for (const Instruction* i : instructions_) {
    const auto* op = i->as<Elementwise>();
    DType to = i->types[0].shape.dtype;
    bool is_sum = to == DType::f64 && (i->is<Convert>() || (op && (op->fn == Fn::add || op->fn == Fn::mul)));
    bool is_whole = is_integer(to) && std::ranges::all_of(i->inputs, [](Value x) { return is_integer(x.dtype()); });
    bool is_rounding = roundings_.contains(i) && quick_error(*i);
    if (!is_rounding && !is_sum && !is_whole) return false;
  }
  auto is_integer_store = [&](const Access& access) { return is_integer(access.view.dtype); };
  return !roundings_.empty() && std::ranges::all_of(stores_, is_integer_store) &&
         std::ranges::all_of(loads_, [&](const Access& access) { return is_plain(access.view.dtype); });
}

void FusedBody::collapse() {
  std::vector<Dims> strides;
  for (const Access& access : loads_) strides.push_back(access.view.strides);
  for (const Access& access : stores_) strides.push_back(access.view.strides);
  for (const Access& access : quick_loads_) strides.push_back(access.view.strides);
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
  for (Access& access : quick_loads_) access.strides = std::move(strides[at++]);
  if (!is_free) return;
  for (size_t i = 0; i < axes_.size(); ++i) axis_names_.push_back(cat("c", i));
}

bool FusedBody::last_coordinate_is_axis() const {
  auto begin = iteration_.dims.begin() + static_cast<std::ptrdiff_t>(iteration_.group_begin.back());
  return known_equal(product({begin, iteration_.dims.end()}), axes_.back());
}

/// Emits code that splits each coordinate of the kernel into the axes of its group.
void FusedBody::emit_coordinates() {
  if (known_equal(product(iteration_.dims), 0)) {  // no axes are left, but the code never runs
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
/// it must be one too. (A GPU's vector has at most eight lanes; a CPU does not need this.)
bool FusedBody::is_whole(const Access& access) const {
  constexpr int64_t max_lanes = 8;
  bool whole = iteration_.whole_vectors && access.view.offset.is_multiple_of(max_lanes);
  for (size_t a = 0; a + 1 < axes_.size(); ++a) whole &= access.strides[a].is_multiple_of(max_lanes);
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

/// Returns the type in registers; the f32 path uses f32 for f64.
DType FusedBody::register_type(DType type) const {
  DType own = compute_type(type);
  return quick_ && own == DType::f64 ? DType::f32 : own;
}

std::string FusedBody::converted(const Variable& from, DType to) const {
  return from.type == to ? from.name : cat("convert<", kernel_type(to), ">(", from.name, ")");
}

std::string FusedBody::operand(Value value, DType type) {
  auto found = variables_.find({value.def, value.index});
  if (found == variables_.end()) {
    DType own = register_type(value.dtype());
    if (auto number = literal_of(value))
      return cat("splat<", kernel_type(own), ", W>(", number_text(own, *number), ")");
    std::vector<Access>& loads = quick_ && value.dtype() == DType::f64 ? quick_loads_ : loads_;
    auto access = std::ranges::find(loads, value, &Access::value);
    check(access != loads.end(), "a fused operand is loaded or computed");
    std::string name = fresh();
    std::string text = load(*access);
    if (own != access->view.dtype && value.dtype() != DType::boolean)
      text = cat("convert<", kernel_type(own), ">(", text, ")");
    if (less_ != 0)
      text = cat("fn::op_add(", text, ", splat<", kernel_type(own), ", W>(", number_text(own, -less_), "))");
    kernel_.line("  const auto ", name, " = ", text, ";");
    found = variables_.emplace(std::pair(static_cast<const Instruction*>(value.def), value.index), Variable{name, own})
                .first;
  }
  return converted(found->second, type);
}

std::string FusedBody::variable(Value value) { return operand(value, compute_type(value.dtype())); }

namespace {

/// Returns the expression of a conversion. Narrow floats are rounded although they stay in f32 registers.
std::string conversion_text(const std::string& x, const Convert& op) {
  if (op.to == DType::boolean) return cat("cast_to_bool(", x, ")");
  if (op.to == DType::f4e2m1) return cat("cast_to_f4(", x, ")");
  std::string wide = kernel_type(compute_type(op.to));
  if (is_packed_type(op.to)) return cat("cast_to_part<", bits(op.to), ", ", wide, ">(", x, ")");
  std::string to = kernel_type(op.to);
  if (compute_type(op.to) == op.to) return cat("cast<", to, ">(", x, ")");
  std::string function = !op.saturate && bits(op.to) == 8 ? "convert" : "cast";
  return cat("convert<", wide, ">(", function, "<", to, ">(", x, "))");
}

/// 16-bit arithmetic rounds once, at the store: a sum, product or quotient reads the f32 value from before the rounding
/// to 16 bits. Comparisons and steps (floor, sign) read the rounded value, since it can change their result.
Value unrounded(Value value, Fn reader, const std::vector<Instruction*>& here) {
  const auto* op = value.def->as<Convert>();
  bool is_rounding = op && is_float(op->to) && bits(op->to) == 16 && value.def->inputs[0].dtype() == DType::f32;
  bool is_smooth = reader == Fn::add || reader == Fn::sub || reader == Fn::mul || reader == Fn::div;
  return is_rounding && is_smooth && std::ranges::find(here, value.def) != here.end() ? value.def->inputs[0] : value;
}

}  // namespace

/// Returns the text of an f32 sum minus `error`. If one of two terms is a product, an FMA subtracts the error for free.
std::string FusedBody::quick_sum(const Instruction& sum, double error) {
  auto lowered = [&](const std::string& x) {
    return cat("fn::op_add(", x, ", splat<f32, W>(", number_text(DType::f32, -error), "))");
  };
  auto text = [&](Value value) { return operand(value, register_type(value.dtype())); };
  Fn fn = sum.as<Elementwise>()->fn;
  std::string function = cat("fn::op_", info(fn).name, "(");
  Value a = sum.inputs[0], b = sum.inputs[1];
  if (fn != Fn::add) return lowered(cat(function, text(a), ", ", text(b), ")"));
  if (lowered_constant(sum)) return cat(function, text(a), ", ", text(b), ")");
  const auto* first = a.def->as<Elementwise>();
  if (first && first->fn == Fn::mul) std::swap(a, b);
  return cat(function, text(a), ", ", lowered(text(b)), ")");
}

/// Returns the type to which the only reader converts a rounding, if the rounding clamps to the range of that type.
static std::optional<DType> whole_bytes(const Instruction& rounding, const std::vector<Value>& parts) {
  const auto* reader = rounding.users.size() == 1 ? rounding.users[0]->as<Convert>() : nullptr;
  DType to = reader ? reader->to : rounding.as<Convert>()->to;
  if (to != DType::u8 && to != DType::i8) return std::nullopt;
  double lowest = to == DType::u8 ? 0 : -128;
  bool all = splat_of(parts[1]) == lowest && splat_of(parts[2]) == lowest + 255;
  return all ? std::optional(to) : std::nullopt;
}

/// Rounds in f32 to a 32-bit integer, because most readers convert the result back to f32.
std::string FusedBody::quick_rounding(const Instruction& rounding) {
  std::vector<Value> parts = operands(rounding);
  double error = *quick_error(rounding);
  std::string x = operand(parts[0], DType::f32), end = cat(number_text(DType::f32, 2 * error), ", doubt)");
  if (!lowered_.contains(parts[0].def))
    x = cat("fn::op_add(", x, ", splat<f32, W>(", number_text(DType::f32, -error), "))");
  if (auto bytes = whole_bytes(rounding, parts)) return cat("quick_nearest<", kernel_type(*bytes), ">(", x, ", ", end);
  return cat("quick_nearest<i32>(", x, ", ", operand(parts[1], DType::f32), ", ", operand(parts[2], DType::f32), ", ",
             end);
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
  std::string name = fresh(), text;
  DType result = register_type(i.types[0].shape.dtype);
  auto lowered = lowered_.find(&i);
  if (quick_ && lowered != lowered_.end()) {
    text = quick_sum(i, lowered->second);
  } else if (quick_ && roundings_.contains(&i)) {
    text = quick_rounding(i);
    result = whole_bytes(i, operands(i)).value_or(DType::i32);
  } else if (const auto* op = i.as<Elementwise>()) {
    std::vector<std::string> parts;
    for (const Value& input : i.inputs)
      parts.push_back(operand(unrounded(input, op->fn, instructions_), register_type(input.dtype())));
    if (op->fn == Fn::add || op->fn == Fn::mul) std::ranges::sort(parts);  // one kernel for both orders
    for (const std::string& part : parts) text += cat(text.empty() ? "" : ", ", part);
    text =
        cat(is_bound(i) ? (op->fn == Fn::min ? "bounded_above" : "bounded_below") : cat("fn::op_", info(op->fn).name),
            "(", text, ")");
    if (!quick_) kernel_.name_part(info(op->fn).name);
  } else if (roundings_.contains(&i)) {
    std::vector<Value> parts = operands(i);
    DType type = register_type(parts[0].dtype());
    text = cat(rounding_function(parts[0]), "<", kernel_type(result), ">(", operand(parts[0], type), ", ",
               operand(parts[1], type), ", ", operand(parts[2], type), ")");
    kernel_.name_part("round");
  } else if (const auto* op = i.as<Convert>()) {
    Convert to{.to = quick_ && op->to == DType::f64 ? DType::f32 : op->to, .saturate = op->saturate};
    bool is_rounded = quick_ && roundings_.contains(i.inputs[0].def);
    DType from = is_rounded ? variables_.at({i.inputs[0].def, 0}).type : compute_type(i.inputs[0].dtype());
    text = conversion_text(operand(i.inputs[0], from), to);
  } else if (const auto* op = i.as<Bitcast>()) {
    DType from = i.inputs[0].dtype();
    std::string stored = cat("convert<", kernel_type(from), ">(", operand(i.inputs[0], compute_type(from)), ")");
    text =
        cat("convert<", kernel_type(result), ">(__builtin_bit_cast(Vec<", kernel_type(op->to), ", W>, ", stored, "))");
  } else if (i.is<Lookup>()) {
    text = cat("looked_up(", table(i.inputs[1]), ", ", operand(i.inputs[0], i.inputs[0].dtype()), ")");
    if (!quick_) kernel_.name_part("lookup");
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

void FusedBody::emit_first_look() {
  auto known = variables_;
  quick_ = true;
  kernel_.line("  {");
  kernel_.line("  Vec<i32, W> doubt(0);");
  for (const Instruction* i : instructions_) emit(*i);
  kernel_.line("  if (!any(doubt)) {");
  for (const Access& access : stores_) emit_store(access);
  kernel_.line("  return;");
  kernel_.line("  }");
  kernel_.line("  }");
  quick_ = false;
  variables_ = std::move(known);
}

void FusedBody::emit() {
  if (!iteration_.coordinates.empty()) emit_coordinates();
  if (!iteration_.after_loads.empty()) {
    for (const Access& access : loads_) operand(access.value, register_type(access.value.dtype()));
    kernel_.line(iteration_.after_loads);
  }
  if (!quick_loads_.empty()) emit_first_look();
  for (const Instruction* i : instructions_) emit(*i);
  for (const Access& access : stores_) emit_store(access);
}

}  // namespace weft
