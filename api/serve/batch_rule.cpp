// SPDX-License-Identifier: Apache-2.0
#include "api/serve/batch_rule.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <random>

namespace weft::serve {
namespace {

BatchRule refuse(std::string reason) { return {.reason = std::move(reason)}; }

/// True if the size is a single symbol, not a number or an expression.
bool is_name(const weft_dim& dim) {
  return dim.value < 0 && std::string_view(dim.text).find_first_of(" +-*/(),") == std::string_view::npos;
}

bool is_name(const weft_dim& dim, std::string_view name) { return is_name(dim) && name == dim.text; }

/// True if `name` is part of a size that is an expression.
bool is_inside(const weft_dim& dim, std::string_view name) {
  if (dim.value >= 0 || is_name(dim)) return false;
  std::string text = dim.text, delimiters = " +-*/(),";
  for (size_t begin = text.find_first_not_of(delimiters); begin != std::string::npos;) {
    size_t end = std::min(text.find_first_of(delimiters, begin), text.size());
    if (std::string_view(text).substr(begin, end - begin) == name) return true;
    begin = text.find_first_not_of(delimiters, end);
  }
  return false;
}

/// Returns the ports without a default: all outputs, and the inputs that every request has.
std::vector<const Port*> required(const std::vector<Port>& ports) {
  std::vector<const Port*> list;
  for (const Port& port : ports) {
    if (!port.has_default) list.push_back(&port);
  }
  return list;
}

/// Returns why the type or the sizes of this port forbid joining rows; "" if they allow it.
std::string obstacle(const Port& port, std::string_view batch) {
  std::string name = "'" + std::string(port.name) + "'";
  if (port.is_static) return name + " is a static input";
  if (!port.is_tensor || port.dtype == WEFT_STRING) return name + " is " + port.type;
  if (weft_dtype_bits(port.dtype) < 8) return name + " has elements below a byte";
  auto sizes = dims(port);
  if (sizes.empty() || !is_name(sizes[0], batch)) return name + " (" + port.type + ") has no batch axis";
  for (size_t i = 1; i < sizes.size(); ++i) {
    if (is_name(sizes[i], batch) || is_inside(sizes[i], batch))
      return "the batch of " + name + " also occurs in another size: " + port.type;
  }
  return {};
}

BatchRule rule_by_sizes(const std::vector<Port>& inputs, const std::vector<Port>& outputs) {
  auto given = required(inputs);
  if (given.empty() || outputs.empty()) return refuse("the model has no inputs or no outputs");
  const Port& first = *given[0];
  if (!first.is_tensor || first.rank == 0 || !is_name(first.dims[0]))
    return refuse("'" + std::string(first.name) + "' (" + first.type + ") has no free batch axis");
  for (const std::vector<const Port*>& ports : {given, required(outputs)}) {
    for (const Port* port : ports) {
      if (std::string why = obstacle(*port, first.dims[0].text); !why.empty()) return refuse(why);
    }
  }
  return {.joins = true, .max_rows = first.dims[0].max};
}

/// Adds the axes, except first axes, that have the symbol `name` as their size. Returns false if the symbol is part of
/// a larger expression, or if an input with such an axis has a default.
bool find_axes(const std::vector<Port>& ports, std::string_view name, std::vector<Axis>& axes) {
  for (size_t i = 0; i < ports.size(); ++i) {
    for (size_t axis = 1; axis < ports[i].rank; ++axis) {
      const weft_dim& dim = ports[i].dims[axis];
      if (is_inside(dim, name)) return false;
      if (!is_name(dim, name)) continue;
      if (ports[i].has_default) return false;
      axes.push_back({i, axis});
    }
  }
  return true;
}

/// Returns the rule with padding along the length of a mask. A mask is an input [rows, length] with "mask" in its name
/// and without a default. Returns the rule unchanged if there is no mask, or if find_axes refuses its length.
BatchRule with_length(BatchRule rule, const std::vector<Port>& inputs, const std::vector<Port>& outputs) {
  for (const Port& port : inputs) {
    bool is_mask = std::string_view(port.name).find("mask") != std::string_view::npos && !port.has_default;
    if (!is_mask || port.rank != 2 || !is_name(port.dims[1])) continue;
    BatchRule padded = rule;
    padded.length = port.dims[1].text;
    if (find_axes(inputs, padded.length, padded.inputs) && find_axes(outputs, padded.length, padded.outputs))
      return padded;
  }
  return rule;
}

/// Makes requests with random contents.
class Examples {
 public:
  Examples(const std::vector<Port>& inputs, const BatchRule& rule) : inputs_(inputs), rule_(rule) {}

  int64_t drawn() const { return drawn_; }
  /// From now on, floats are drawn from [0, 1) instead of [-1, 1): a root or a logarithm of them is a number.
  void make_positive(bool is_positive) { is_positive_ = is_positive; }

  /// Makes inputs with `rows` rows, `length` along padded axes and `size` along other open axes, clamped to the bounds.
  Inputs make(int64_t rows, int64_t size, int64_t length) {
    Inputs request;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (inputs_[i].has_default) request.emplace_back();
      else request.push_back(fill(inputs_[i], sizes_of(i, rows, size, length)));
    }
    return request;
  }

 private:
  std::vector<int64_t> sizes_of(size_t port, int64_t rows, int64_t size, int64_t length) const {
    std::vector<int64_t> sizes;
    for (size_t axis = 0; axis < inputs_[port].rank; ++axis) {
      const weft_dim& dim = inputs_[port].dims[axis];
      bool is_long = std::ranges::any_of(rule_.inputs, [&](Axis a) { return a.port == port && a.axis == axis; });
      int64_t wanted = axis == 0 ? rows : is_long ? length : size;
      sizes.push_back(dim.value >= 0 ? dim.value : std::clamp(wanted, dim.min, dim.max));
    }
    return sizes;
  }

  /// Makes a random input. Integers are 0 or 1, which are valid indices of almost every embedding table. Masks are all
  /// 1, so they hide nothing.
  Tensor fill(const Port& port, const std::vector<int64_t>& sizes) {
    int64_t count = 1;
    for (int64_t size : sizes) count *= size;
    drawn_ += count;
    auto bytes = static_cast<size_t>(weft_dtype_bits(port.dtype)) / 8;
    std::vector<std::byte> data(static_cast<size_t>(count) * bytes);
    bool is_mask = std::string_view(port.name).find("mask") != std::string_view::npos;
    for (size_t i = 0; i < static_cast<size_t>(count); ++i) put(port.dtype, data.data() + i * bytes, is_mask);
    return Tensor::copy(port.dtype, data, sizes);
  }

  void put(weft_dtype type, std::byte* to, bool is_mask) {
    float drawn = std::uniform_real_distribution<float>(-1, 1)(random_), value = is_mask ? 1 : drawn;
    if (is_positive_) value = std::fabs(value);
    double wide = value;
    if (type == WEFT_F32) std::memcpy(to, &value, sizeof value);
    else if (type == WEFT_F64) std::memcpy(to, &wide, sizeof wide);
    else if (type == WEFT_F16) put_small(to, is_mask, 0x3c00, 10);
    else if (type == WEFT_BF16) put_small(to, is_mask, 0x3f80, 7);
    else *to = std::byte{is_mask || drawn > 0};  // the lowest byte: 1 as an integer, a tiny number as an 8-bit float
  }

  /// Writes a 16-bit float: 1 or a random value in [1, 2). `one` has the bits of 1.
  void put_small(std::byte* to, bool is_one, uint16_t one, int fraction_bits) {
    auto bits = static_cast<uint16_t>(one | (is_one ? 0U : random_() & ((1U << fraction_bits) - 1)));
    std::memcpy(to, &bits, sizeof bits);
  }

  const std::vector<Port>& inputs_;
  const BatchRule& rule_;
  std::mt19937 random_{7};
  bool is_positive_ = false;
  int64_t drawn_ = 0;
};

double half_value(uint16_t bits) {
  int exponent = bits >> 10 & 31, fraction = bits & 1023;
  double value = exponent == 0    ? std::ldexp(fraction, -24)
                 : exponent == 31 ? (fraction ? NAN : INFINITY)
                                  : std::ldexp(1024 + fraction, exponent - 25);
  return bits >> 15 ? -value : value;
}

double number_at(const Tensor& tensor, size_t i) {
  const std::byte* data = tensor.bytes().data();
  uint16_t bits = 0;
  if (tensor.dtype() == WEFT_F32) return reinterpret_cast<const float*>(data)[i];
  if (tensor.dtype() == WEFT_F64) return reinterpret_cast<const double*>(data)[i];
  std::memcpy(&bits, data + 2 * i, 2);
  if (tensor.dtype() == WEFT_F16) return half_value(bits);
  uint32_t wide = uint32_t{bits} << 16;
  float value = 0;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

bool has_floats(const Tensor& tensor) {
  auto type = tensor.dtype();
  return type == WEFT_F32 || type == WEFT_F64 || type == WEFT_F16 || type == WEFT_BF16;
}

bool has_nan(const Tensor& tensor) {
  if (!has_floats(tensor)) return false;
  for (size_t i = 0; i < static_cast<size_t>(tensor.elements()); ++i) {
    if (std::isnan(number_at(tensor, i))) return true;
  }
  return false;
}

/// True if the tensors are equal up to rounding: a run with more rows may use another kernel, with another order of
/// additions.
bool are_close(const Tensor& a, const Tensor& b) {
  if (!std::ranges::equal(a.dims(), b.dims())) return false;
  bool is_narrow = a.dtype() == WEFT_F16 || a.dtype() == WEFT_BF16;
  if (!has_floats(a)) return std::ranges::equal(a.bytes(), b.bytes());
  double greatest = 0;
  for (size_t i = 0; i < static_cast<size_t>(a.elements()); ++i) {
    if (double x = std::fabs(number_at(a, i)); std::isfinite(x)) greatest = std::max(greatest, x);
  }
  double tolerance = greatest * (is_narrow ? 2e-2 : 1e-3);
  for (size_t i = 0; i < static_cast<size_t>(a.elements()); ++i) {
    double x = number_at(a, i), y = number_at(b, i);
    bool is_same = x == y || (std::isnan(x) && std::isnan(y));
    if (!is_same && !(std::fabs(x - y) <= tolerance)) return false;
  }
  return true;
}

enum class Trial : uint8_t {
  mixed,   ///< a request has other answers in a joint run than alone
  silent,  ///< the answers are the same, but mixed rows might go unnoticed: requests have equal answers, or NaN
  apart,   ///< the answers are the same
};

/// Runs requests together and alone. The first and the last have the same sizes.
Trial tried(const Program& program, const BatchRule& rule, std::span<const Inputs* const> requests) {
  Context context = program.new_context();
  auto answers = split(rule, context.run(Joiner(program).join(requests)), requests);
  for (size_t i = 0; i < requests.size(); ++i) {
    auto alone = context.run(*requests[i]);
    for (size_t port = 0; port < alone.size(); ++port) {
      if (!are_close(answers[i][port], alone[port])) return Trial::mixed;
    }
  }
  for (size_t port = 0; port < answers[0].size(); ++port) {
    if (has_nan(answers[0][port]) || are_close(answers[0][port], answers.back()[port])) return Trial::silent;
  }
  return Trial::apart;
}

/// Tries rows until enough numbers were drawn and a trial was not silent; returns false if rows are mixed.
bool are_apart(const Program& program, const BatchRule& rule, Examples& examples, int64_t rows, int64_t size) {
  constexpr int64_t enough = 64;  // numbers; of few numbers, rows may be equal or 0
  Trial found = Trial::silent;
  for (int round = 0; round < (examples.drawn() < enough ? 24 : 8); ++round) {
    if (found == Trial::apart && examples.drawn() >= enough) break;
    examples.make_positive(round % 2 == 1);
    Inputs a = examples.make(rows, size, size), b = examples.make(rows, size, 2 * size);
    Inputs c = examples.make(rows, size, size);
    Trial now = tried(program, rule, std::array<const Inputs*, 3>{&a, &b, &c});
    if (now == Trial::mixed) return false;
    found = std::max(found, now);
  }
  return true;
}

/// Returns `rule` if random requests get the same answers together and alone, else a refusal. Tries several sizes until
/// the model accepts one. `least` is the number of rows of a request.
BatchRule confirm(const Program& program, const std::vector<Port>& inputs, BatchRule rule, int64_t least) {
  std::string why;
  for (int64_t size : {8, 16, 32, 64, 224, 4, 2, 1}) {
    try {
      Examples examples(inputs, rule);
      // requests of equal length need no padding, so they do not test padding
      bool is_padded =
          length_of(rule, examples.make(0, size, size)) != length_of(rule, examples.make(0, size, 2 * size));
      if (!rule.length.empty() && !is_padded) continue;
      if (are_apart(program, rule, examples, least, size)) return rule;
      return refuse(rule.length.empty() ? "its rows are mixed: in one batch they have other results than alone"
                                        : "its mask does not hide padding: padded sequences have other results");
    } catch (const Error& error) {
      if (why.empty()) why = error.facts();
    }
  }
  return refuse("no random rows could be run: " + why);
}

}  // namespace

BatchRule find_batch_rule(const Program& program) {
  auto inputs = program.inputs(), outputs = program.outputs();
  BatchRule rule = rule_by_sizes(inputs, outputs);
  if (!rule.joins) return rule;
  int64_t least = std::max<int64_t>(required(inputs)[0]->dims[0].min, 1);
  if (least > rule.max_rows / 3) return refuse("the model takes too few rows to join any");
  BatchRule joined = confirm(program, inputs, rule, least);
  if (!joined.joins) return joined;
  BatchRule longer = with_length(rule, inputs, outputs);
  if (longer.length.empty()) return joined;
  BatchRule padded = confirm(program, inputs, longer, least);
  if (padded.joins) return padded;
  joined.reason = padded.reason;
  return joined;
}

}  // namespace weft::serve
