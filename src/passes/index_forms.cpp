// SPDX-License-Identifier: Apache-2.0
#include "passes/index_forms.h"

#include <algorithm>
#include <unordered_map>

#include "base/error.h"
#include "ir/core_ops.h"
#include "ops/build.h"
#include "ops/indexed.h"
#include "passes/match.h"

namespace weft {

bool IndexForm::is_constant() const {
  return std::ranges::all_of(slopes, [](int64_t slope) { return slope == 0; });
}

namespace {

using Form = std::optional<IndexForm>;

constexpr int64_t largest_constant = 1 << 16;

/// The forms found so far in one call of index_form.
struct Memo {
  std::unordered_map<const Instruction*, Form> forms;
  int depth = 64;  // remaining depth of recursion
};
Form form_of(Value value, Memo& memo);

IndexForm number(Dim offset, int64_t rank) { return {std::move(offset), std::vector<int64_t>(rank, 0)}; }

/// Simplifies `dim`, assuming that a tensor with sizes `dims` has elements. If a size of the tensor is 0 whenever a
/// symbol is 0, raises the symbol's lower bound from 0 to 1.
Dim with_elements(const Dim& dim, const Dims& dims) {
  return dim.substitute([&](const Symbol& symbol) {
    auto vanishes = [&](const Dim& size) {
      auto zero = [&](const Symbol& s) { return s.name == symbol.name ? Dim(0) : Dim::symbol(s); };
      try {
        return size.substitute(zero) == Dim(0);
      } catch (const Error&) {
        return false;  // cannot be evaluated at 0: a size is divided by the symbol
      }
    };
    Symbol positive = symbol;
    if (symbol.min == 0 && std::ranges::any_of(dims, vanishes)) positive.min = 1;
    return Dim::symbol(positive);
  });
}

/// Returns the form of a constant; nothing if it is empty or too large, or its elements are not linear in the index.
Form constant_form(const Tensor& tensor) {
  if (tensor.elements() == 0 || tensor.elements() > largest_constant) return std::nullopt;
  std::vector<int64_t> values = to_int64s(tensor), steps(tensor.dims.size(), 1);
  for (size_t a = steps.size(); a-- > 1;) steps[a - 1] = steps[a] * tensor.dims[a];
  IndexForm form = number(values[0], static_cast<int64_t>(steps.size()));
  for (size_t a = 0; a < steps.size(); ++a) {
    if (tensor.dims[a] > 1) form.slopes[a] = values[steps[a]] - values[0];
  }
  for (size_t i = 0; i < values.size(); ++i) {
    int64_t expected = values[0];
    for (size_t a = 0; a < steps.size(); ++a)
      expected += static_cast<int64_t>(i) / steps[a] % tensor.dims[a] * form.slopes[a];
    if (values[i] != expected) return std::nullopt;
  }
  return form;
}

Form broadcast_form(const IndexForm& x, const Dims& from, const Dims& to) {
  IndexForm form = number(x.offset, static_cast<int64_t>(to.size()));
  size_t added = to.size() - from.size();
  for (size_t a = 0; a < from.size(); ++a) form.slopes[added + a] = from[a] == Dim(1) ? 0 : x.slopes[a];
  return form;
}

/// Returns the form after a reshape that only adds or drops axes of size 1. A form without slopes fits any reshape.
Form reshape_form(const IndexForm& x, const Dims& from, const Dims& to) {
  IndexForm form = number(x.offset, static_cast<int64_t>(to.size()));
  if (x.is_constant()) return form;
  size_t at = 0;
  for (size_t a = 0; a < to.size(); ++a) {
    if (to[a] == Dim(1)) continue;
    while (at < from.size() && from[at] == Dim(1)) ++at;
    if (at == from.size() || from[at] != to[a]) return std::nullopt;
    form.slopes[a] = x.slopes[at++];
  }
  return form;
}

Form slice_form(IndexForm x, const Slice& op) {
  for (size_t a = 0; a < x.slopes.size(); ++a) {
    x.offset = x.offset + op.starts[a] * Dim(x.slopes[a]);
    x.slopes[a] *= op.steps[a];
  }
  return x;
}

/// Returns the form of a concatenation; nothing unless its parts continue one linear function.
Form concat_form(const Instruction& i, int axis, Memo& memo) {
  const Dims& dims = i.types[0].shape.dims;
  Form whole;
  Dim start = 0;
  for (const Value& part : i.inputs) {
    Form form = form_of(part, memo);
    if (!form) return std::nullopt;
    Dim size = with_elements(part.dims()[axis], dims);
    // A part of size 1 along the axis has no slope of its own there, so it takes the slope of the other parts.
    if (size == Dim(1)) form->slopes[axis] = whole ? whole->slopes[axis] : form->slopes[axis];
    if (whole && start == Dim(1)) whole->slopes[axis] = form->slopes[axis];
    form->offset = with_elements(form->offset, dims) - start * Dim(form->slopes[axis]);
    if (whole && (whole->slopes != form->slopes || !known_equal(whole->offset, form->offset))) return std::nullopt;
    whole = form;
    start = start + size;
  }
  return whole;
}

/// Bounds of a form over all indices of a tensor.
struct FormBounds {
  Dim low, high;
};
FormBounds bounds_of_form(const IndexForm& form, const Dims& dims) {
  FormBounds range{with_elements(form.offset, dims), with_elements(form.offset, dims)};
  for (size_t a = 0; a < dims.size(); ++a) {
    Dim reach = (with_elements(dims[a], dims) - 1) * Dim(form.slopes[a]);
    (form.slopes[a] < 0 ? range.low : range.high) += reach;
  }
  return range;
}

IndexForm combined(const IndexForm& a, const IndexForm& b, int64_t factor) {
  IndexForm sum{a.offset + b.offset * Dim(factor), a.slopes};
  for (size_t i = 0; i < sum.slopes.size(); ++i) sum.slopes[i] += factor * b.slopes[i];
  return sum;
}

/// Returns a comparison's result, given `difference` = second - first; nothing if the result may differ by element.
Form compared(Fn fn, const IndexForm& difference, const Dims& dims) {
  FormBounds d = bounds_of_form(difference, dims);
  auto decided = [&](bool yes, bool no) {
    return yes ? Form(number(1, int64_t(dims.size()))) : no ? Form(number(0, int64_t(dims.size()))) : Form();
  };
  bool never_negative = d.low.lower_bound() >= 0, negative = d.high.upper_bound() < 0;
  bool positive = d.low.lower_bound() > 0, never_positive = d.high.upper_bound() <= 0;
  switch (fn) {
    case Fn::less_equal: return decided(never_negative, negative);
    case Fn::less: return decided(positive, never_positive);
    case Fn::greater_equal: return decided(never_positive, positive);
    case Fn::greater: return decided(negative, never_negative);
    case Fn::equal: return decided(never_negative && never_positive, positive || negative);
    default: return std::nullopt;
  }
}

bool is_known(const Form& form, int64_t value) { return form && form->is_constant() && form->offset == Dim(value); }

Form logic_form(Fn fn, const Form& a, const Form& b) {
  int64_t decisive = fn == Fn::logical_or;
  if (is_known(a, decisive)) return a;
  if (is_known(b, decisive)) return b;
  if (is_known(a, 1 - decisive)) return b;
  if (is_known(b, 1 - decisive)) return a;
  return std::nullopt;
}

Form elementwise_form(const Instruction& i, Fn fn, Memo& memo) {
  const Dims& dims = i.types[0].shape.dims;
  Form a = form_of(i.inputs.front(), memo), b = form_of(i.inputs.back(), memo);
  if (fn == Fn::logical_and || fn == Fn::logical_or) return logic_form(fn, a, b);
  if (fn == Fn::select) {
    if (is_known(a, 1)) return form_of(i.inputs[1], memo);
    return is_known(a, 0) ? b : std::nullopt;
  }
  if (!a || !b) return std::nullopt;
  switch (fn) {
    case Fn::add: return combined(*a, *b, 1);
    case Fn::sub: return combined(*a, *b, -1);
    case Fn::neg: return combined(number(0, int64_t(dims.size())), *a, -1);
    case Fn::mul:
      if (b->is_constant() && b->offset.is_constant())
        return combined(number(0, int64_t(dims.size())), *a, b->offset.value());
      if (a->is_constant() && a->offset.is_constant())
        return combined(number(0, int64_t(dims.size())), *b, a->offset.value());
      return std::nullopt;
    case Fn::logical_not:
      return a->is_constant() ? Form(number(Dim(1) - a->offset, int64_t(dims.size()))) : std::nullopt;
    default: return compared(fn, combined(*b, *a, -1), dims);
  }
}

Form convert_form(const Instruction& i, DType to, Memo& memo) {
  Form x = form_of(i.inputs[0], memo);
  if (!x) return std::nullopt;
  if (to == DType::i64 || to == DType::i32) return x;  // assumes that counters and sizes are below 2^31
  bool is_number = x->is_constant() && x->offset.is_constant();
  if (to == DType::boolean && is_number) return number(x->offset.value() != 0, int64_t(x->slopes.size()));
  return std::nullopt;
}

/// Returns the form of a running sum of a constant number c: c, 2c, 3c ... (exclusive: 0, c, 2c ...).
Form scan_form(const Instruction& i, const Scan& op, Memo& memo) {
  Form x = form_of(i.inputs[0], memo);
  if (op.fn != ReduceFn::sum || op.reverse || !x || !x->is_constant() || !x->offset.is_constant()) return std::nullopt;
  x->slopes[op.axis] = x->offset.value();
  if (op.exclusive) x->offset = 0;
  return x;
}

/// Returns the form of a gather from a constant form: the same number at each index.
Form gathered_form(const Instruction& i, Memo& memo) {
  Form x = form_of(i.inputs[0], memo);
  if (!x || !x->is_constant()) return std::nullopt;
  return number(x->offset, i.types[0].shape.rank());
}

Form compute(const Instruction& i, Memo& memo) {
  const Dims& dims = i.types[0].shape.dims;
  if (const auto* op = i.as<Constant>()) return constant_form(op->tensor);
  if (const auto* op = i.as<Sizes>()) return op->dims.size() == 1 ? Form(number(op->dims[0], 1)) : std::nullopt;
  if (const auto* op = i.as<Iota>()) {
    IndexForm form = number(0, int64_t(dims.size()));
    form.slopes[op->axis] = 1;
    return form;
  }
  if (const auto* op = i.as<Elementwise>()) return elementwise_form(i, op->fn, memo);
  if (const auto* op = i.as<Convert>()) return convert_form(i, op->to, memo);
  if (const auto* op = i.as<Concat>()) return concat_form(i, static_cast<int>(op->axis), memo);
  if (const auto* op = i.as<Scan>()) return scan_form(i, *op, memo);
  if (i.is<GatherNd>() || i.is<Gather>() || i.is<GatherElements>()) return gathered_form(i, memo);
  bool is_view = i.is<Broadcast>() || i.is<Reshape>() || i.is<Slice>() || i.is<Transpose>();
  Form x = is_view ? form_of(i.inputs[0], memo) : std::nullopt;
  if (!x) return std::nullopt;
  const Dims& from = i.inputs[0].dims();
  if (i.is<Broadcast>()) return broadcast_form(*x, from, dims);
  if (i.is<Reshape>()) return reshape_form(*x, from, dims);
  if (const auto* op = i.as<Slice>()) return slice_form(*x, *op);
  IndexForm form = number(x->offset, int64_t(dims.size()));
  for (size_t a = 0; a < dims.size(); ++a) form.slopes[a] = x->slopes[i.as<Transpose>()->permutation[a]];
  return form;
}

Form form_of(Value value, Memo& memo) {
  if (memo.depth == 0 || !value.type().is_tensor() || value.index != 0) return std::nullopt;
  DType type = value.dtype();
  if (type != DType::i64 && type != DType::i32 && type != DType::boolean) return std::nullopt;
  if (auto known = memo.forms.find(value.def); known != memo.forms.end()) return known->second;
  --memo.depth;
  Form form = compute(*value.def, memo);
  ++memo.depth;
  if (form) {
    form->offset = with_elements(form->offset, value.dims());
    for (size_t a = 0; a < form->slopes.size(); ++a) {
      if (value.dims()[a] == Dim(1)) form->slopes[a] = 0;
    }
  }
  memo.forms.emplace(value.def, form);
  return form;
}

}  // namespace

std::optional<IndexForm> index_form(Value value) {
  Memo memo;
  Form form = form_of(value, memo);
  if (!form) return form;
  // Restores the declared bounds of symbols, which with_elements raised for this tensor only.
  const auto& symbols = value.def->parent->program().symbols();
  form->offset = form->offset.substitute([&](const Symbol& symbol) {
    auto declared = symbols.find(symbol.name);
    return Dim::symbol(declared == symbols.end() ? symbol : declared->second);
  });
  return form;
}

std::optional<Dim> lower_triangle(Value value) {
  value = without_broadcast(value);
  const auto* op = value.def->as<Elementwise>();
  if (!op || value.rank() < 2) return std::nullopt;
  bool is_swapped = op->fn == Fn::greater_equal || op->fn == Fn::greater,
       strict = op->fn == Fn::less || op->fn == Fn::greater;
  if (!is_swapped && op->fn != Fn::less_equal && op->fn != Fn::less) return std::nullopt;
  Form first = index_form(value.def->inputs[is_swapped ? 1 : 0]),
       second = index_form(value.def->inputs[is_swapped ? 0 : 1]);
  if (!first || !second) return std::nullopt;
  // For column <= row + offset, the difference of the two sides grows by 1 with the row and falls by 1 with the column.
  IndexForm difference = combined(*second, *first, -1);
  std::vector<int64_t> wanted(difference.slopes.size(), 0);
  wanted[wanted.size() - 2] = 1;
  wanted[wanted.size() - 1] = -1;
  if (difference.slopes != wanted) return std::nullopt;
  return difference.offset - Dim(strict ? 1 : 0);
}

}  // namespace weft
