// SPDX-License-Identifier: Apache-2.0
// A stand-in for hipBLASLt over the emulator: the functions that Weft calls.
#include "queued.h"

namespace {

constexpr int type_f32 = 0, type_f16 = 2, type_bf16 = 14;  // hipDataType
constexpr int transposed = 112, refused = 7;

struct Layout {
  int type;
  int64_t rows, cols, leading, batch = 1, stride = 0;
  Element element() const { return type == type_f32 ? Element::f32 : type == type_f16 ? Element::f16 : Element::bf16; }
  size_t bytes() const {
    return static_cast<size_t>(((batch - 1) * stride + (cols - 1) * leading + rows) * bytes_of(element()));
  }
};

struct Description {
  int attributes[2] = {111, 111};
};

struct Job {
  Description product;
  Layout a, b, d;
  Operand a_data, b_data, d_data;

  void run() const {
    bool turn_a = product.attributes[0] == transposed, turn_b = product.attributes[1] == transposed;
    int64_t inner = turn_a ? a.rows : a.cols;
    for (int64_t batch = 0; batch < d.batch; ++batch) {
      for (int64_t col = 0; col < d.cols; ++col) {
        for (int64_t row = 0; row < d.rows; ++row) {
          float sum = 0;
          for (int64_t k = 0; k < inner; ++k) {
            int64_t from_a = turn_a ? row * a.leading + k : k * a.leading + row;
            int64_t from_b = turn_b ? k * b.leading + col : col * b.leading + k;
            sum += read(a.element(), a_data.host, batch * a.stride + from_a) *
                   read(b.element(), b_data.host, batch * b.stride + from_b);
          }
          std::memcpy(d_data.host + (batch * d.stride + col * d.leading + row) * 4, &sum, sizeof sum);
        }
      }
    }
  }
};

}  // namespace

EXPORTED hipblasLtCreate(void** library) { return *library = new int(0), 0; }
EXPORTED hipblasLtDestroy(void* library) { return drop<int>(library); }
EXPORTED hipblasLtMatmulDescCreate(void** product, int compute, int scale) {
  constexpr int compute_f32 = 2;
  if (compute != compute_f32 || scale != type_f32) return refused;
  return *product = new Description, 0;
}
EXPORTED hipblasLtMatmulDescDestroy(void* product) { return drop<Description>(product); }
EXPORTED hipblasLtMatmulDescSetAttribute(void* product, int attribute, const void* value, size_t bytes) {
  if (attribute < 0 || attribute > 1 || bytes != sizeof(int32_t)) return refused;
  std::memcpy(&static_cast<Description*>(product)->attributes[attribute], value, bytes);
  return 0;
}
EXPORTED hipblasLtMatrixLayoutCreate(void** layout, int type, uint64_t rows, uint64_t cols, int64_t leading) {
  if (type != type_f32 && type != type_f16 && type != type_bf16) return refused;
  return *layout = new Layout{type, static_cast<int64_t>(rows), static_cast<int64_t>(cols), leading}, 0;
}
EXPORTED hipblasLtMatrixLayoutDestroy(void* layout) { return drop<Layout>(layout); }
EXPORTED hipblasLtMatrixLayoutSetAttribute(void* layout, int attribute, const void* value, size_t bytes) {
  auto* to = static_cast<Layout*>(layout);
  int32_t count = 0;
  if (attribute == 0 && bytes == sizeof count) return std::memcpy(&count, value, bytes), to->batch = count, 0;
  if (attribute == 1 && bytes == sizeof to->stride) return std::memcpy(&to->stride, value, bytes), 0;
  return refused;
}
EXPORTED hipblasLtMatmulPreferenceCreate(void** preference) { return *preference = new size_t(0), 0; }
EXPORTED hipblasLtMatmulPreferenceDestroy(void* preference) { return drop<size_t>(preference); }
EXPORTED hipblasLtMatmulPreferenceSetAttribute(void* preference, int attribute, const void* value, size_t bytes) {
  if (attribute != 1 || bytes != sizeof(size_t)) return refused;
  std::memcpy(preference, value, bytes);
  return 0;
}
/// Writes an algorithm of 24 bytes that begins with a magic number. hipblasLtMatmul refuses any other number.
EXPORTED hipblasLtMatmulAlgoGetHeuristic(void*, void* product, void* a, void* b, void*, void* d, void*, int wanted,
                                         void* results, int* found) {
  const auto &x = *static_cast<Layout*>(a), &y = *static_cast<Layout*>(b), &z = *static_cast<Layout*>(d);
  const auto& p = *static_cast<Description*>(product);
  int64_t inner_a = p.attributes[0] == transposed ? x.rows : x.cols, outer_a = x.rows + x.cols - inner_a;
  int64_t inner_b = p.attributes[1] == transposed ? y.cols : y.rows, outer_b = y.rows + y.cols - inner_b;
  bool fits = inner_a == inner_b && outer_a == z.rows && outer_b == z.cols && z.type == type_f32 && wanted == 1;
  fits = fits && x.batch == z.batch && y.batch == z.batch && z.leading >= z.rows;
  constexpr uint64_t algorithm = 0x5eed;
  std::memset(results, 0, 56);
  std::memcpy(results, &algorithm, sizeof algorithm);
  *found = fits;
  return 0;
}
EXPORTED hipblasLtMatmul(void*, void* product, const void* alpha, const void* a, void* a_layout, const void* b,
                         void* b_layout, const void* beta, const void*, void*, void* d, void* d_layout,
                         const void* algorithm, void* workspace, size_t, void* stream) {
  float scale, old;
  uint64_t seed;
  std::memcpy(&scale, alpha, sizeof scale), std::memcpy(&old, beta, sizeof old);
  std::memcpy(&seed, algorithm, sizeof seed);
  if (scale != 1 || old != 0 || seed != 0x5eed || !workspace) return refused;
  const auto &x = *static_cast<Layout*>(a_layout), &y = *static_cast<Layout*>(b_layout),
             &z = *static_cast<Layout*>(d_layout);
  auto* job = new Job{*static_cast<Description*>(product),
                      x,
                      y,
                      z,
                      {const_cast<void*>(a), x.bytes()},
                      {const_cast<void*>(b), y.bytes()},
                      {d, z.bytes()}};
  return queue(job, job->a_data, job->b_data, job->d_data, stream);
}
