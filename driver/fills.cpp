// SPDX-License-Identifier: Apache-2.0
#include "driver/fills.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "api/c/options_text.h"
#include "base/error.h"
#include "base/text.h"

namespace weft::driver {
namespace {

[[noreturn]] void refuse_fill(const std::string& kind, std::string hint) {
  throw Error({.kind = ErrorKind::usage,
               .code = "E203",
               .what = cat("'", printable(kind), "' is not a fill"),
               .hint = std::move(hint)});
}

/// The generator for a fill "rand" or "rand:LOW..HIGH". The range includes HIGH for integers only.
class Random {
 public:
  Random(const std::string& kind, DType type, uint64_t seed) : engine_(seed), is_whole_(!is_float(type)) {
    if (kind.size() > 4) parse_range(kind);
    else if (is_whole_) low_ = 0, high_ = 1;
  }
  double operator()() {
    // A number in [0, 1). Distributions of std are not used, because they differ between standard libraries.
    auto bits = static_cast<double>(engine_() >> 11) * 0x1p-53;
    return is_whole_ ? low_ + std::floor(bits * (high_ - low_ + 1)) : low_ + bits * (high_ - low_);
  }

 private:
  void parse_range(const std::string& kind) {
    size_t dots = kind.find("..");
    if (kind[4] != ':' || dots == std::string::npos) refuse_fill(kind, "write rand:0..999");
    low_ = static_cast<double>(parse_number(kind.substr(5, dots - 5), "the low end of rand"));
    high_ = static_cast<double>(parse_number(kind.substr(dots + 2), "the high end of rand"));
  }

  std::mt19937_64 engine_;
  bool is_whole_;
  double low_ = -1, high_ = 1;
};

}  // namespace

Tensor filled(const std::string& kind, DType type, std::vector<int64_t> dims, uint64_t seed) {
  std::vector<double> values(static_cast<size_t>(element_count(dims)));
  if (kind == "ones") std::ranges::fill(values, 1);
  else if (kind == "range")
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i);
  else if (kind.starts_with("rand")) std::ranges::generate(values, Random(kind, type, seed));
  else if (kind != "zeros") refuse_fill(kind, "rand, rand:0..999, zeros, ones, range");
  if (type == DType::string) {
    Tensor tensor{.dtype = type, .dims = std::move(dims)};
    tensor.strings = std::make_shared<std::vector<std::string>>(values.size());
    return tensor;
  }
  return make_tensor(type, std::move(dims), values);
}

}  // namespace weft::driver
