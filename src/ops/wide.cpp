// SPDX-License-Identifier: Apache-2.0
#include "ops/wide.h"

#include <algorithm>
#include <cmath>
#include <thread>

#include "base/error.h"
#include "base/kept_file.h"
#include "base/numeric.h"
#include "base/parallel.h"

namespace weft {

namespace {

thread_local StringPool* current_pool = nullptr;

StringPool& pool() {
  check(current_pool != nullptr, "strings are computed with in a StringScope");
  return *current_pool;
}

}  // namespace

StringScope::StringScope() : is_outermost_(!current_pool) {
  if (is_outermost_) current_pool = &pool_;
}
StringScope::~StringScope() {
  if (is_outermost_) current_pool = nullptr;
}

Wide to_wide(const Tensor& tensor) {
  if (!tensor.is_tensor()) return {.container = std::make_shared<const Tensor>(tensor)};
  if (tensor.dtype == DType::string) return make_wide(tensor.dtype, tensor.dims, pool().encode(*tensor.strings));
  if (is_complex(tensor.dtype)) {
    throw Error({.kind = ErrorKind::unsupported,
                 .code = "E504",
                 .what = cat("the reference does not compute with ", tensor.dtype, " yet")});
  }
  Wide wide = is_float(tensor.dtype) ? make_wide(tensor.dtype, tensor.dims, to_doubles(tensor))
                                     : make_wide(tensor.dtype, tensor.dims, to_int64s(tensor));
  check_read({&tensor, 1});
  return wide;
}

Tensor to_tensor(const Wide& wide) {
  if (wide.container) return *wide.container;
  if (wide.dtype == DType::string) return pool().decode(wide.dims, wide.as<int64_t>());
  return with_elements(wide, [&](auto values) { return make_tensor(wide.dtype, wide.dims, values); });
}

Wide with_dims(Wide wide, std::vector<int64_t> dims) {
  check(product_of(dims) == wide.elements(), "reshaping keeps the number of elements");
  wide.dims = std::move(dims);
  return wide;
}

int64_t wrap(DType type, int64_t value) {
  if (type == DType::boolean) return value != 0;
  if (type == DType::string) return value;
  int spare = 64 - bits(type);
  auto moved = static_cast<uint64_t>(value) << spare;
  return is_signed_integer(type) ? static_cast<int64_t>(moved) >> spare : static_cast<int64_t>(moved >> spare);
}

double round_to(DType type, double value, bool saturate) {
  if (type == DType::f64) return value;
  if (type == DType::f32) return static_cast<double>(static_cast<float>(value));
  FloatFormat format = float_format(type);
  return decode_float(encode_float(value, format, saturate), format);
}

int64_t lowest_integer(DType type) { return is_signed_integer(type) ? INT64_MIN >> (64 - bits(type)) : 0; }

int64_t highest_integer(DType type) {
  if (type == DType::boolean) return 1;
  if (type == DType::u64) return -1;  // the largest u64, as its bits
  return is_signed_integer(type) ? INT64_MAX >> (64 - bits(type)) : (int64_t{1} << bits(type)) - 1;
}

int64_t to_integer(DType type, double value) {
  if (type == DType::boolean) return value != 0;
  if (std::isnan(value)) return 0;
  if (type == DType::u64) {
    if (value >= 0x1p64) return -1;
    return value <= 0 ? 0 : static_cast<int64_t>(static_cast<uint64_t>(value));
  }
  if (value >= 0x1p63) return highest_integer(type);
  if (value <= -0x1p63) return lowest_integer(type);
  return std::clamp(static_cast<int64_t>(value), lowest_integer(type), highest_integer(type));
}

double to_real(DType type, int64_t value) {
  return type == DType::u64 ? static_cast<double>(static_cast<uint64_t>(value)) : static_cast<double>(value);
}

std::vector<int64_t> fixed(const Dims& dims) {
  std::vector<int64_t> numbers;
  for (const Dim& dim : dims) numbers.push_back(dim.value());
  return numbers;
}

std::vector<int64_t> row_major_steps(std::span<const int64_t> dims) {
  std::vector<int64_t> steps(dims.size(), 1);
  for (size_t a = dims.size(); a-- > 1;) steps[a - 1] = steps[a] * dims[a];
  return steps;
}

int64_t product_of(std::span<const int64_t> dims) {
  int64_t total = 1;
  for (int64_t dim : dims) total *= dim;
  return total;
}

Wide read_strided(const Wide& x, std::vector<int64_t> dims, int64_t start, std::span<const int64_t> steps) {
  return with_elements(x, [&]<class T>(std::span<const T> in) {
    std::vector<T> out(product_of(dims));
    auto to = out.begin();
    for_each_offset(dims, start, steps, [&](int64_t offset) { *to++ = in[offset]; });
    return make_wide(x.dtype, dims, std::move(out));
  });
}

Rows::Rows(std::span<const int64_t> dims, int64_t axis)
    : outer(product_of(dims.first(axis))), size(dims[axis]), inner(product_of(dims.subspan(axis + 1))) {}

void parallel_parts(int64_t count, int64_t cost, const std::function<void(int64_t, int64_t)>& f) {
  constexpr double worth_a_thread = 1 << 20;
  static const auto cores = static_cast<double>(std::max(std::thread::hardware_concurrency(), 1u));  // slow call
  double wanted = static_cast<double>(count) * static_cast<double>(cost) / worth_a_thread;
  auto parts = std::max<int64_t>(static_cast<int64_t>(std::min({wanted, static_cast<double>(count), cores})), 1);
  constexpr int64_t operations_between_looks = 1 << 22;
  int64_t step = std::max<int64_t>(operations_between_looks / std::max<int64_t>(cost, 1), 1);
  auto work = [&](int64_t begin, int64_t end) {
    for (; begin < end; begin += step) {
      check_watch();
      f(begin, std::min(begin + step, end));
    }
  };
  if (parts == 1) return work(0, count);
  Watch* watch = WatchScope::current();
  auto part = [&](size_t index) {
    WatchScope scope(watch);
    auto i = static_cast<int64_t>(index);
    work(count * i / parts, count * (i + 1) / parts);
  };
  run_parallel(parts, parts, part);
}

/// Multiplies four rows of a by a block of b that fits in the cache, and adds the products to four rows of c.
template <class T>
static void multiply_rows(const T* a, const T* b, T* c, int64_t k, int64_t n, int64_t k_begin, int64_t k_end,
                          int64_t n_begin, int64_t n_end) {
  T* __restrict c0 = c, * __restrict c1 = c + n, * __restrict c2 = c + 2 * n, * __restrict c3 = c + 3 * n;
  for (int64_t p = k_begin; p < k_end; ++p) {
    T a0 = a[p], a1 = a[k + p], a2 = a[2 * k + p], a3 = a[3 * k + p];
    const T* row = b + p * n;
    for (int64_t j = n_begin; j < n_end; ++j) {
      T value = row[j];
      c0[j] += a0 * value;
      c1[j] += a1 * value;
      c2[j] += a2 * value;
      c3[j] += a3 * value;
    }
  }
}

template <class T>
static void multiply_row(const T* a, const T* b, T* __restrict c, int64_t n, int64_t k_begin, int64_t k_end,
                         int64_t n_begin, int64_t n_end) {
  for (int64_t p = k_begin; p < k_end; ++p) {
    for (int64_t j = n_begin; j < n_end; ++j) c[j] += a[p] * b[p * n + j];
  }
}

template <class T>
static void multiply_blocked(const T* a, const T* b, T* c, int64_t m, int64_t k, int64_t n) {
  constexpr int64_t k_block = 64, n_block = 256;
  for (int64_t n_begin = 0; n_begin < n; n_begin += n_block) {
    int64_t n_end = std::min(n, n_begin + n_block);
    for (int64_t k_begin = 0; k_begin < k; k_begin += k_block) {
      check_watch();
      int64_t k_end = std::min(k, k_begin + k_block), i = 0;
      for (; i + 4 <= m; i += 4) {
        if (i % 256 == 252) check_watch();
        multiply_rows(a + i * k, b, c + i * n, k, n, k_begin, k_end, n_begin, n_end);
      }
      for (; i < m; ++i) multiply_row(a + i * k, b, c + i * n, n, k_begin, k_end, n_begin, n_end);
    }
  }
}

void multiply_add(const double* a, const double* b, double* c, int64_t m, int64_t k, int64_t n) {
  multiply_blocked(a, b, c, m, k, n);
}

void multiply_add(const int64_t* a, const int64_t* b, int64_t* c, int64_t m, int64_t k, int64_t n) {
  // Unsigned, so that overflow wraps.
  multiply_blocked(reinterpret_cast<const uint64_t*>(a), reinterpret_cast<const uint64_t*>(b),
                   reinterpret_cast<uint64_t*>(c), m, k, n);
}

}  // namespace weft
