// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <span>
#include <vector>

#include "base/strings.h"
#include "base/watch.h"
#include "base/wide.h"

/// Helpers for reference implementations of operators; see base/wide.h.
namespace weft {

inline Wide make_wide(DType dtype, std::vector<int64_t> dims, std::vector<double> values) {
  return {dtype, std::move(dims), std::make_shared<const std::vector<double>>(std::move(values)), nullptr};
}
inline Wide make_wide(DType dtype, std::vector<int64_t> dims, std::vector<int64_t> values) {
  return {dtype, std::move(dims), nullptr, std::make_shared<const std::vector<int64_t>>(std::move(values))};
}
/// A scope in which to_wide and to_tensor on this thread use one pool of strings, which nested scopes share.
class StringScope {
 public:
  StringScope();
  ~StringScope();
  StringScope(const StringScope&) = delete;

 private:
  StringPool pool_;
  bool is_outermost_;
};
/// Converts elements to wide types. Throws E504 for complex numbers. Strings need a StringScope.
Wide to_wide(const Tensor& tensor);
/// Converts elements from wide types to `wide.dtype`, which rounds floats.
Tensor to_tensor(const Wide& wide);
/// Returns the same elements with sizes `dims`.
Wide with_dims(Wide wide, std::vector<int64_t> dims);

/// Calls `f` with std::span<const double> or std::span<const int64_t>, whichever type holds the elements.
template <class F>
auto with_elements(const Wide& x, F f) {
  return x.is_real() ? f(x.as<double>()) : f(x.as<int64_t>());
}

/// Wraps `value` to an integer type; for bool returns 1 if it is not 0.
int64_t wrap(DType type, int64_t value);
/// Rounds `value` to the nearest number of a float type.
double round_to(DType type, double value, bool saturate = false);
/// Return the least and the greatest value of an integer type; the greatest u64 is returned as its bits, -1.
int64_t lowest_integer(DType type);
int64_t highest_integer(DType type);
/// Converts a number to an integer type: truncates and saturates; NaN gives 0. For bool, returns 0 for 0, else 1.
int64_t to_integer(DType type, double value);
double to_real(DType type, int64_t value);  ///< a u64 is given as its bits

/// Returns the sizes as numbers; throws an internal error if one is symbolic.
std::vector<int64_t> fixed(const Dims& dims);
/// Returns the row-major strides in elements.
std::vector<int64_t> row_major_steps(std::span<const int64_t> dims);
int64_t product_of(std::span<const int64_t> dims);

/// Returns a tensor of sizes `dims`: its element at an index is x's flat element start + sum(index * steps).
Wide read_strided(const Wide& x, std::vector<int64_t> dims, int64_t start, std::span<const int64_t> steps);

/// Calls f(offset) for each index of `dims` in row-major order, with offset = start + sum(index * steps).
template <class F>
void for_each_offset(std::span<const int64_t> dims, int64_t start, std::span<const int64_t> steps, F f) {
  std::vector<int64_t> index(dims.size(), 0);
  int64_t count = product_of(dims), offset = start;
  constexpr int64_t piece = 1 << 16;
  for (int64_t done = 0; done < count; ++done) {
    if (done % piece == piece - 1) check_watch();
    f(offset);
    for (size_t a = dims.size(); a-- > 0;) {
      offset += steps[a];
      if (++index[a] < dims[a]) break;
      offset -= steps[a] * dims[a];
      index[a] = 0;
    }
  }
}

/// The rows of a tensor along one axis; `outer` and `inner` are the products of the sizes before and after the axis.
/// Row o * inner + i starts at element o * size * inner + i and has `size` elements at distances of `inner`.
struct Rows {
  int64_t outer, size, inner;
  Rows(std::span<const int64_t> dims, int64_t axis);
  int64_t count() const { return outer * inner; }
  int64_t start(int64_t row) const { return row / inner * size * inner + row % inner; }
};

/// Calls f(begin, end) for parts of [0, count), on all cores if the work is large; `cost` is the number of elementary
/// operations per item. Parts are short, so that the watch (deadline, stop) is checked every few milliseconds.
void parallel_parts(int64_t count, int64_t cost, const std::function<void(int64_t, int64_t)>& f);

/// c[m, n] += a[m, k] * b[k, n], all row-major and dense.
void multiply_add(const double* a, const double* b, double* c, int64_t m, int64_t k, int64_t n);
void multiply_add(const int64_t* a, const int64_t* b, int64_t* c, int64_t m, int64_t k, int64_t n);

}  // namespace weft
