// SPDX-License-Identifier: Apache-2.0
#include "ops/build.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "ir/control.h"
#include "ir/core_ops.h"
#include "ops/check.h"
#include "ops/indexed.h"

namespace weft {

Value constant(Module& module, Tensor tensor) { return module.append(Constant{.tensor = std::move(tensor)}, {}); }

Value constant(Module& module, DType type, double value) { return constant(module, scalar_tensor(type, value)); }

Value sizes(Module& module, Dims dims) {
  if (!all_constant(dims)) return module.append(Sizes{.dims = std::move(dims)}, {});
  std::vector<int64_t> values;
  for (const Dim& dim : dims) values.push_back(dim.value());
  return constant(module, make_i64_tensor(values));
}

/// Returns true if `size` is 1, or may be assumed to be 1, and is repeated to make `other`.
static bool repeats(const Dim& size, const Dim& other, std::string_view what) {
  using enum Guard::Kind;
  if (size.is_constant() || known_equal(size, other)) return size == Dim(1);
  if (other == Dim(1)) return false;
  if (size.upper_bound() == 1) return assume(equal, size, 1, what);
  if (known_different(size, other)) return false;
  bool is_in_order = other.is_constant() || to_string(size) < to_string(other);  // one question for both orders
  return !assume(equal, is_in_order ? size : other, is_in_order ? other : size, what) && assume(equal, size, 1, what);
}

static Dim broadcast_dim(const Dim& a, const Dim& b, std::string_view what) {
  if (repeats(a, b, what)) return b;
  if (repeats(b, a, what)) return a;
  require_equal(a, b, what);
  // Returns the simpler of two equal sizes, so that expressions such as min(512, seq) do not spread.
  return a.is_constant() || (a.as_symbol() && !b.is_constant()) ? a : b;
}

Dims broadcast_dims(std::span<const Dims> shapes, std::string_view what) {
  size_t rank = 0;
  for (const Dims& dims : shapes) rank = std::max(rank, dims.size());
  Dims result(rank, 1);
  for (const Dims& dims : shapes) {
    size_t added = rank - dims.size();
    for (size_t i = 0; i < dims.size(); ++i) result[added + i] = broadcast_dim(result[added + i], dims[i], what);
  }
  return result;
}

Value with_ones(Module& module, Value x, const Dims& dims) {
  GuardCollector guards(module);
  Dims own = x.dims();
  for (size_t i = own.size(), j = dims.size(); i-- > 0 && j-- > 0;) {
    std::string what = cat("broadcast: axis ", i, " of ", x.shape(), " to ", Shape{x.dtype(), dims});
    if (repeats(own.data()[i], dims.data()[j], what)) own.data()[i] = 1;
  }
  return reshape(module, x, own);
}

Value broadcast(Module& module, Value x, const Dims& dims) {
  return x.dims() == dims ? x : module.append(Broadcast{.dims = dims}, {with_ones(module, x, dims)});
}

Value apply(Module& module, Fn fn, std::span<const Value> operands) {
  std::vector<Dims> shapes;
  for (const Value& operand : operands) shapes.push_back(operand.dims());
  GuardCollector guards(module);
  Dims dims = broadcast_dims(shapes, info(fn).name);
  std::vector<Value> inputs;
  for (const Value& operand : operands) inputs.push_back(broadcast(module, operand, dims));
  return module.append(Elementwise{.fn = fn}, std::move(inputs));
}

Value apply(Module& module, Fn fn, Value x, double y) { return apply(module, fn, {x, constant(module, x.dtype(), y)}); }

Value convert(Module& module, Value x, DType to) { return x.dtype() == to ? x : module.append(Convert{.to = to}, {x}); }

Value reshape(Module& module, Value x, Dims dims) {
  return x.dims() == dims ? x : module.append(Reshape{.dims = std::move(dims)}, {x});
}

Value transpose(Module& module, Value x, std::vector<int64_t> permutation) {
  return std::ranges::is_sorted(permutation) ? x : module.append(Transpose{.permutation = std::move(permutation)}, {x});
}

Value reduce(Module& module, ReduceFn fn, Value x, std::vector<int64_t> axes, bool keep) {
  std::ranges::sort(axes);
  return module.append(Reduce{.fn = fn, .axes = std::move(axes), .keep = keep}, {x});
}

Value slice_axis(Module& module, Value x, int64_t axis, const Dim& start, const Dim& size) {
  Slice slice{.starts = Dims(x.dims().size(), 0), .sizes = x.dims(), .steps = std::vector<int64_t>(x.dims().size(), 1)};
  slice.starts[axis] = start;
  slice.sizes[axis] = size;
  return slice.sizes == x.dims() && start == Dim(0) ? x : module.append(std::move(slice), {x});
}

Value concat(Module& module, std::span<const Value> parts, int64_t axis) {
  return parts.size() == 1 ? parts[0] : module.append(Concat{.axis = axis}, {parts.begin(), parts.end()});
}

Value matmul(Module& module, Value a, Value b) {
  if (a.rank() == 0 || b.rank() == 0)
    shape_rule::refuse("E151", "matmul: of a single number: ", a.shape(), " and ", b.shape());
  bool row = a.rank() == 1, column = b.rank() == 1;
  if (row) a = reshape(module, a, {1, a.dims()[0]});
  if (column) b = reshape(module, b, {b.dims()[0], 1});
  Dims left(a.dims().begin(), a.dims().end() - 2), right(b.dims().begin(), b.dims().end() - 2);
  GuardCollector guards(module);
  Dims batch = broadcast_dims(std::array{left, right}, "matmul: batch axes");
  auto with_batch = [&](Value x) {
    Dims dims = batch;
    dims.insert(dims.end(), x.dims().end() - 2, x.dims().end());
    return broadcast(module, x, dims);
  };
  Value result = module.append(Dot{.type = a.dtype()}, {with_batch(a), with_batch(b)});
  Dims dims = result.dims();
  if (column) dims.pop_back();
  if (row) dims.erase(dims.end() - (column ? 1 : 2));
  return reshape(module, result, dims);
}

namespace {

constexpr int64_t small_tensor = 1024;  // most elements of a shape computation; larger integer tensors are data

bool is_small_integer(Value value) {
  if (!value.type().is_tensor() || value.rank() > 1) return false;
  DType type = value.dtype();
  if (type != DType::i64 && type != DType::i32 && type != DType::boolean) return false;
  auto count = value.shape().elements().constant();
  return count && *count <= small_tensor;
}

/// The rules that compute the contents of an instruction's result from the known contents of its operands.
class ContentsRule {
 public:
  ContentsRule(const Instruction& i, std::vector<Dims> in) : instruction_(i), in_(std::move(in)) {}

  std::optional<Dims> apply() const {
    if (const auto* op = instruction_.as<Elementwise>()) return elementwise(op->fn);
    if (instruction_.is<Concat>()) return joined();
    if (const auto* op = instruction_.as<Slice>()) return sliced(*op);
    if (instruction_.is<Gather>()) return gathered();
    if (const auto* op = instruction_.as<Reduce>()) return reduced(*op);
    if (instruction_.is<Reshape>() || instruction_.is<Transpose>()) return in_[0];
    if (instruction_.is<Broadcast>()) return repeated();
    if (const auto* op = instruction_.as<Convert>(); op && op->to != DType::boolean) return in_[0];
    return std::nullopt;
  }

 private:
  size_t count() const { return instruction_.types[0].shape.elements().value(); }

  std::optional<Dims> elementwise(Fn fn) const {
    Dims out;
    for (size_t i = 0; i < count(); ++i) {
      auto value =
          fn == Fn::select ? selected(in_[0][i], in_[1][i], in_[2][i]) : computed(fn, in_[0][i], in_.back()[i]);
      if (!value) return std::nullopt;
      out.push_back(*value);
    }
    return out;
  }

  static std::optional<Dim> selected(const Dim& condition, const Dim& a, const Dim& b) {
    if (known_equal(condition, 1)) return a;
    if (known_equal(condition, 0)) return b;
    return known_equal(a, b) ? std::optional(a) : std::nullopt;
  }

  static std::optional<Dim> decided(bool yes, bool no) {
    return yes ? std::optional<Dim>(1) : no ? std::optional<Dim>(0) : std::nullopt;
  }

  static std::optional<Dim> computed(Fn fn, const Dim& a, const Dim& b) {
    switch (fn) {
      case Fn::neg: return Dim(0) - a;
      case Fn::add: return a + b;
      case Fn::sub: return a - b;
      case Fn::mul: return a * b;
      case Fn::min: return min(a, b);
      case Fn::max: return max(a, b);
      case Fn::div:  // div truncates, floordiv rounds down: equal where a >= 0, b > 0
        if (a.lower_bound() >= 0 && b.lower_bound() > 0) return floordiv(a, b);
        return exact_divide(a, b);
      case Fn::floor_mod: return b.lower_bound() > 0 ? std::optional(mod(a, b)) : std::nullopt;
      case Fn::equal: return decided(known_equal(a, b), known_different(a, b));
      case Fn::less: return decided(known_less_equal(a + 1, b), known_less_equal(b, a));
      case Fn::greater: return decided(known_less_equal(b + 1, a), known_less_equal(a, b));
      case Fn::less_equal: return decided(known_less_equal(a, b), known_less_equal(b + 1, a));
      case Fn::greater_equal: return decided(known_less_equal(b, a), known_less_equal(a + 1, b));
      default: return std::nullopt;
    }
  }

  std::optional<Dims> joined() const {
    Dims out;
    for (const Dims& part : in_) out.insert(out.end(), part.begin(), part.end());
    return out;
  }

  std::optional<Dims> sliced(const Slice& slice) const {
    if (!all_constant(slice.starts)) return std::nullopt;
    if (slice.starts.empty()) return in_[0];
    Dims out;
    for (size_t i = 0; i < count(); ++i) {
      int64_t at = slice.starts[0].value() + static_cast<int64_t>(i) * slice.steps[0];
      out.push_back(in_[0].at(at));
    }
    return out;
  }

  std::optional<Dims> gathered() const {
    Dims out;
    auto size = static_cast<int64_t>(in_[0].size());
    for (const Dim& index : in_[1]) {
      auto at = index.constant();
      if (!at || *at < -size || *at >= size) return std::nullopt;
      out.push_back(in_[0][*at < 0 ? *at + size : *at]);
    }
    return out;
  }

  std::optional<Dims> reduced(const Reduce& reduce) const {
    if (reduce.axes.empty()) return in_[0];
    if (in_[0].empty() || reduce.fn == ReduceFn::mean) return std::nullopt;
    Fn fn = reduce.fn == ReduceFn::sum       ? Fn::add
            : reduce.fn == ReduceFn::product ? Fn::mul
            : reduce.fn == ReduceFn::min     ? Fn::min
                                             : Fn::max;
    std::optional<Dim> total = in_[0][0];
    for (size_t i = 1; i < in_[0].size() && total; ++i) total = computed(fn, *total, in_[0][i]);
    return total ? std::optional(Dims{*total}) : std::nullopt;
  }

  std::optional<Dims> repeated() const {
    if (in_[0].size() == count()) return in_[0];
    if (in_[0].size() != 1) return std::nullopt;
    return Dims(count(), in_[0][0]);
  }

  const Instruction& instruction_;
  std::vector<Dims> in_;
};

}  // namespace

Dims bind_sizes(Module& module, Value vector, int64_t least, Dims most) {
  for (const Instruction* user : vector.def->users) {
    const auto* known = user->as<Bind>();
    bool is_same = known && user->parent == &module && user->inputs[0] == vector && known->most == most &&
                   !known->symbols.empty() && known->symbols[0].as_symbol()->min == least;
    if (is_same) return known->symbols;
  }
  Dims symbols;
  for (int64_t i = 0; i < vector.dims().at(0).value(); ++i) {
    int64_t bound = most.empty() ? INT64_MAX : most[i].upper_bound();
    symbols.push_back(module.program().fresh_symbol("n", least, std::max(bound, least + 1)));
  }
  if (!symbols.empty()) module.append(Bind{.symbols = symbols, .most = std::move(most)}, {vector});
  return symbols;
}

/// Returns the result of an existing T (Convert or Reshape) of `value` that has this type; null if there is none.
template <class T>
static Value reader_of(Value value, const Type& type) {
  for (Instruction* user : value.def->users) {
    if (user->is<T>() && user->inputs[0] == value && user->types[0] == type && user->parent == value.def->parent)
      return user->result();
  }
  return {};
}

/// Returns the value as an i64 vector; repeated calls return the same value.
static Value as_vector(Module& module, Value value) {
  Shape shape{DType::i64, value.dims()};
  if (value.dtype() != DType::i64) {
    Value known = reader_of<Convert>(value, shape);
    value = known ? known : convert(module, value, DType::i64);
  }
  if (value.rank() == 1) return value;
  shape.dims = {value.shape().elements()};
  Value known = reader_of<Reshape>(value, shape);
  return known ? known : reshape(module, value, shape.dims);
}

/// Splits the sum or difference of an operand and known numbers; returns nothing for other instructions.
static std::optional<std::pair<Value, Dims>> as_sum(Value value) {
  const auto* op = value.def->as<Elementwise>();
  if (!op || (op->fn != Fn::add && op->fn != Fn::sub)) return std::nullopt;
  auto behind = [](Value v) {
    return v.def->is<Broadcast>() && is_small_integer(v.def->inputs[0]) ? v.def->inputs[0] : v;
  };
  Value a = value.def->inputs[0], b = value.def->inputs[1];
  auto right = known_contents(behind(b)), left = known_contents(behind(a));
  auto spread = [&](Dims dims) { return dims.size() == 1 ? Dims(value.shape().elements().value(), dims[0]) : dims; };
  bool is_whole = a.dims() == value.dims() && b.dims() == value.dims();
  if (!is_whole) return std::nullopt;
  if (right) {
    Dims numbers = spread(*right);
    if (op->fn == Fn::sub) {
      for (Dim& number : numbers) number = Dim(0) - number;
    }
    return std::pair(a, numbers);
  }
  if (left && op->fn == Fn::add) return std::pair(b, spread(*left));
  return std::nullopt;
}

/// Limit on the recursion through a size computation, because a model's chain of nodes may have any length.
constexpr int deepest = 64;

static Dims sizes_in(Module& module, Value value, int64_t least, int depth) {
  if (auto known = known_contents(value)) return *known;
  Instruction& def = *value.def;
  if (depth < deepest && def.parent == &module && is_small_integer(value) && value.dtype() != DType::boolean) {
    bool is_same = def.is<Reshape>() || def.is<Convert>();
    if (is_same && is_small_integer(def.inputs[0]) && def.inputs[0].dtype() != DType::boolean)
      return sizes_in(module, def.inputs[0], least, depth + 1);
    if (def.is<Concat>() && std::ranges::all_of(def.inputs, is_small_integer)) {
      Dims all;
      for (const Value& part : def.inputs) {
        Dims some = sizes_in(module, part, least, depth + 1);
        all.insert(all.end(), some.begin(), some.end());
      }
      return all;
    }
    if (auto sum = as_sum(value)) {
      Dims sizes = sizes_in(module, sum->first, INT64_MIN, depth + 1);
      for (size_t i = 0; i < sizes.size(); ++i) sizes[i] += sum->second[i];
      GuardCollector guards(module);
      for (const Dim& size : sizes) {
        if (least != INT64_MIN) require_less_equal(least, size, "a size that the model computes");
      }
      return sizes;
    }
  }
  return bind_sizes(module, as_vector(module, value), least);
}

Dims sizes_in(Module& module, Value value, int64_t least) { return sizes_in(module, value, least, 0); }

std::optional<Dims> known_contents(Value value) {
  if (!is_small_integer(value)) return std::nullopt;
  Instruction* def = value.def;
  for (int level = 0; level < 4 && (def->is<Reshape>() || def->is<Convert>()); ++level) {
    if (!is_small_integer(def->inputs[0]) || def->inputs[0].dtype() == DType::boolean ||
        value.dtype() == DType::boolean)
      break;
    def = def->inputs[0].def;
  }
  if (const auto* op = def->as<Sizes>()) return op->dims;
  const auto* op = def->as<Constant>();
  if (!op) return std::nullopt;
  std::vector<int64_t> numbers = to_int64s(op->tensor);
  return Dims(numbers.begin(), numbers.end());
}

static std::vector<std::optional<Dim>> partly_known_contents(Value value, int depth) {
  if (auto known = known_contents(value)) return {known->begin(), known->end()};
  Instruction& def = *value.def;
  bool is_same = (def.is<Reshape>() || def.is<Convert>()) && is_small_integer(def.inputs[0]);
  if (depth < deepest && is_same && is_small_integer(value)) return partly_known_contents(def.inputs[0], depth + 1);
  if (depth < deepest && def.is<Concat>() && std::ranges::all_of(def.inputs, is_small_integer)) {
    std::vector<std::optional<Dim>> all;
    for (const Value& part : def.inputs)
      std::ranges::copy(partly_known_contents(part, depth + 1), std::back_inserter(all));
    return all;
  }
  int64_t count = value.shape().elements().constant().value_or(0);
  if (count > small_tensor)
    throw Error({.kind = ErrorKind::unsupported,
                 .code = "E122",
                 .what = cat("a list of ", count, " sizes; ", small_tensor, " are the most")});
  return std::vector<std::optional<Dim>>(count);
}

std::vector<std::optional<Dim>> partly_known_contents(Value value) { return partly_known_contents(value, 0); }

Value fold_sizes(Module& module, Value value) {
  if (!is_small_integer(value) || value.def->inputs.empty() || value.def->types.size() != 1 || known_contents(value))
    return value;
  std::vector<Dims> in;
  for (const Value& input : value.def->inputs) {
    auto contents = known_contents(input);
    if (!contents) return value;
    in.push_back(std::move(*contents));
  }
  auto contents = ContentsRule(*value.def, std::move(in)).apply();
  if (!contents) return value;
  if (value.dtype() == DType::boolean) {
    if (!all_constant(*contents)) return value;
    std::vector<int64_t> numbers, dims;
    for (const Dim& number : *contents) numbers.push_back(number.value());
    for (const Dim& dim : value.dims()) dims.push_back(dim.value());
    return constant(module, make_tensor(DType::boolean, dims, numbers));
  }
  Value folded = sizes(module, std::move(*contents));
  return convert(module, reshape(module, folded, value.dims()), value.dtype());
}

}  // namespace weft
