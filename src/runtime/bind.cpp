// SPDX-License-Identifier: Apache-2.0
#include "runtime/bind.h"

#include <optional>

#include "base/error.h"
#include "base/random.h"

namespace weft {
namespace {

template <class... Args>
[[noreturn]] void refuse(const char* code, const Port& port, const Args&... args) {
  throw Error({.kind = ErrorKind::usage,
               .code = code,
               .what = cat("input '", printable(port.name), "': ", args...),
               .why = cat("it is declared ", port.type)});
}

/// Returns why a value cannot be an element of this type in a container; empty if it can.
std::string why_no_element(const Type& type, const Tensor& value) {
  if (type.kind != value.kind) return "a value of another kind is in it";
  if (!type.is_tensor()) {
    bool is_map = type.kind == Type::Kind::map;
    if (is_map && (value.items->size() != 2 || (*value.items)[0].dtype != type.key))
      return "its keys are of another type";
    for (size_t i = is_map ? 1 : 0; i < value.items->size(); ++i) {
      const Tensor& item = (*value.items)[i];
      std::string why = !is_map                                   ? why_no_element(*type.element, item)
                        : item.dtype != type.element->shape.dtype ? cat("its values are ", item.dtype)
                                                                  : "";
      if (!why.empty()) return why;
    }
    return {};
  }
  const Dims& dims = type.shape.dims;
  if (value.dtype != type.shape.dtype) return cat("an item is of ", value.dtype);
  if (is_placeholder(dims, any_rank)) return {};
  bool fits = dims.size() == value.dims.size();
  for (size_t i = 0; fits && i < dims.size(); ++i) fits = !dims[i].is_constant() || dims[i] == Dim(value.dims[i]);
  return fits ? "" : cat("an item has sizes ", value.dims);
}

void check_type_and_rank(const Port& port, const Tensor& tensor) {
  const Shape& wanted = port.type.shape;
  if (!port.type.is_tensor()) {
    std::string why = why_no_element(port.type, tensor);
    if (!why.empty()) refuse("E310", port, why);
    return;
  }
  if (!tensor.is_tensor()) refuse("E310", port, "a container was given, not a tensor");
  if (tensor.dtype != wanted.dtype) refuse("E310", port, "element type ", tensor.dtype, " is not ", wanted.dtype);
  if (tensor.dims.size() != wanted.dims.size())
    refuse("E310", port, "rank ", tensor.dims.size(), " is not ", wanted.dims.size());
  bool is_short = tensor.dtype != DType::string &&
                  static_cast<int64_t>(tensor.data.size()) < byte_size(tensor.dtype, tensor.elements());
  if (is_short) refuse("E310", port, tensor.data.size(), " bytes are too few for sizes ", tensor.dims);
}

void check_range(const Port& port, size_t axis, const Symbol& symbol, int64_t value) {
  std::string upper = symbol.max == INT64_MAX ? "any" : cat(symbol.max);
  if (value < symbol.min || value > symbol.max) {
    refuse("E311", port, "size ", value, " of axis ", axis, " makes ", symbol.name, " = ", value,
           ", which is outside its range ", symbol.min, " to ", upper);
  }
  if (value % symbol.multiple_of != 0) {
    refuse("E311", port, "size ", value, " of axis ", axis, ": ", symbol.name, " must be a multiple of ",
           symbol.multiple_of);
  }
}

/// Returns the only symbol of `dim` without a value; nothing if there are none or several.
std::optional<Symbol> only_unknown(const Dim& dim, const SymbolValues& values) {
  std::optional<Symbol> found;
  bool several = false;
  dim.visit_symbols([&](const Symbol& symbol) {
    if (values.find(symbol.name)) return;
    several |= found && found->name != symbol.name;
    found = symbol;
  });
  return several ? std::nullopt : found;
}

/// Returns the value of `unknown` for which `dim` equals `size`; nothing if there is none or `dim` is not linear.
std::optional<int64_t> solve(const Dim& dim, const Symbol& unknown, int64_t size, const SymbolValues& values) {
  auto at = [&](int64_t value) {
    return dim.evaluate([&](const Symbol& s) { return s.name == unknown.name ? value : values(s); });
  };
  int64_t zero = at(0), slope = at(1) - zero;
  if (slope == 0 || (size - zero) % slope != 0) return std::nullopt;
  int64_t value = (size - zero) / slope;
  return at(value) == size ? std::optional(value) : std::nullopt;
}

/// Visits all symbolic axes once; returns true if at least one symbol got its value.
bool bind_some(std::span<const Port> ports, std::span<const Tensor> inputs, SymbolValues& values) {
  bool progress = false;
  for (size_t i = 0; i < ports.size(); ++i) {
    for (size_t axis = 0; axis < inputs[i].dims.size(); ++axis) {
      const Dim& dim = ports[i].type.shape.dims[axis];
      auto unknown = dim.is_constant() ? std::nullopt : only_unknown(dim, values);
      if (!unknown) continue;
      auto value = solve(dim, *unknown, inputs[i].dims[axis], values);
      if (!value) continue;  // another axis may determine the symbol; else the check at the end throws
      check_range(ports[i], axis, *unknown, *value);
      values.set(unknown->name, *value);
      progress = true;
    }
  }
  return progress;
}

std::string known_values(const SymbolValues& values) {
  std::string text;
  for (const auto& [name, value] : values.all()) {
    if (name != run_seed) text += cat(text.empty() ? "" : ", ", name, " = ", value);
  }
  return text;
}

void check_every_size(const Port& port, const Tensor& tensor, const SymbolValues& values) {
  for (size_t axis = 0; axis < tensor.dims.size(); ++axis) {
    const Dim& dim = port.type.shape.dims[axis];
    if (auto unknown = only_unknown(dim, values))
      refuse("E312", port, "size ", tensor.dims[axis], " of axis ", axis, " fits no value of ", unknown->name, " in ",
             dim);
    int64_t wanted = values.evaluate(dim);
    if (tensor.dims[axis] == wanted) continue;
    if (dim.is_constant()) refuse("E311", port, "size ", tensor.dims[axis], " of axis ", axis, " is not ", wanted);
    refuse("E312", port, "size ", tensor.dims[axis], " of axis ", axis, " contradicts ", dim, " = ", wanted,
           " (from other inputs: ", known_values(values), ")");
  }
}

bool is_left_out(const Tensor& tensor) {
  return tensor.is_tensor() && tensor.data.data() == nullptr && tensor.dtype != DType::string && tensor.elements() > 0;
}

}  // namespace

const int64_t* SymbolValues::find(const std::string& name) const {
  auto found = values_.find(name);
  return found == values_.end() ? nullptr : &found->second;
}

int64_t SymbolValues::operator()(const Symbol& symbol) const {
  if (const int64_t* value = find(symbol.name)) return *value;
  throw Error({.kind = ErrorKind::usage, .code = "E312", .what = cat("no input determines the size ", symbol.name)});
}

int64_t SymbolValues::evaluate(const Dim& dim) const {
  if (auto number = dim.constant()) return *number;
  return dim.evaluate([this](const Symbol& symbol) { return (*this)(symbol); });
}

std::vector<int64_t> SymbolValues::dims(const Dims& dims) const {
  std::vector<int64_t> numbers;
  numbers.reserve(dims.size());
  for (const Dim& dim : dims) numbers.push_back(evaluate(dim));
  return numbers;
}

std::vector<Tensor> with_defaults(std::span<const Port> ports, std::span<const Tensor> inputs) {
  if (inputs.size() > ports.size()) {
    throw Error({.kind = ErrorKind::usage,
                 .code = "E310",
                 .what = cat(inputs.size(), " inputs were given, the model has ", ports.size())});
  }
  std::vector<Tensor> full(inputs.begin(), inputs.end());
  full.resize(ports.size());
  for (size_t i = 0; i < ports.size(); ++i) {
    if (!is_left_out(full[i])) continue;
    if (!ports[i].default_value) refuse("E310", ports[i], "it was not given");
    full[i] = *ports[i].default_value;
  }
  return full;
}

SymbolValues bind_symbols(std::span<const Port> ports, std::span<const Tensor> inputs, const SymbolValues* known) {
  check(ports.size() == inputs.size(), "every port has its input");
  SymbolValues values = known ? *known : SymbolValues();
  for (size_t i = 0; i < ports.size(); ++i) check_type_and_rank(ports[i], inputs[i]);
  while (bind_some(ports, inputs, values)) {
  }
  for (size_t i = 0; i < ports.size(); ++i) check_every_size(ports[i], inputs[i], values);
  return values;
}

std::vector<int64_t> output_sizes(std::span<const Port> inputs, const Port& output, std::span<const Tensor> given) {
  SymbolValues values = bind_symbols(inputs, given);
  std::vector<int64_t> sizes;
  for (const Dim& dim : output.type.shape.dims) {
    bool is_known = true;
    dim.visit_symbols([&](const Symbol& symbol) { is_known &= values.find(symbol.name) != nullptr; });
    sizes.push_back(is_known ? values.evaluate(dim) : -1);
  }
  return sizes;
}

bool is_random(const Plan& plan) {
  bool found = false;
  for (const Dim& size : plan.sizes)
    size.visit_symbols([&](const Symbol& symbol) { found |= symbol.name == run_seed; });
  return found;
}

void check_sizes(std::span<const SizeCheck> checks, const SymbolValues& values) {
  for (const SizeCheck& c : checks) {
    int64_t a = values.evaluate(c.a), b = values.evaluate(c.b);
    if (c.equal ? a == b : a <= b) continue;
    const char* relation = c.equal ? " is not " : " is more than ";
    throw Error({.kind = ErrorKind::usage,
                 .code = "E312",
                 .what = cat(c.what, ": ", a, relation, b),
                 .where = c.source,
                 .why = cat(c.a, " and ", c.b, " with ", known_values(values))});
  }
}

void Executable::detach() {
  throw Error({.kind = ErrorKind::unsupported,
               .code = "E406",
               .what = cat("programs for ", device(), " cannot release their weights")});
}

}  // namespace weft
