// SPDX-License-Identifier: Apache-2.0
// A stand-in for MIOpen over the emulator: the functions of its immediate mode that Weft calls.
#include <algorithm>
#include <set>
#include <vector>

#include "queued.h"

namespace {

constexpr int refused = 3;  // miopenStatusBadParm
constexpr int type_f16 = 0, type_f32 = 1, type_bf16 = 5;

struct Tensor {
  int type = 0;
  std::vector<int64_t> sizes, strides;
  Element element() const { return type == type_f32 ? Element::f32 : type == type_f16 ? Element::f16 : Element::bf16; }
  size_t bytes() const {
    int64_t last = 0;
    for (size_t i = 0; i < sizes.size(); ++i) last += (sizes[i] - 1) * strides[i];
    return static_cast<size_t>((last + 1) * bytes_of(element()));
  }
  bool is_channels_last() const {
    int64_t next = sizes[1];
    bool is = strides[1] == 1;
    for (size_t axis = sizes.size(); axis-- > 2; next = strides[axis] * sizes[axis]) is &= strides[axis] >= next;
    return is && strides[0] >= next;
  }
};

struct Convolution {
  std::vector<int64_t> pad, stride, dilation;
  int64_t groups = 1;
  bool is_deterministic = false;
};

struct Solution {
  float milliseconds;
  size_t workspace;
  uint64_t id;
  int algorithm;
};

/// Weft must choose the third solution: the first (Winograd) rounds differently, and the second needs much workspace.
constexpr uint64_t right = 0x5eed;
constexpr Solution solutions[] = {
    {0.1F, 0, 1, 3}, {0.2F, size_t{1} << 30, 2, 0}, {0.3F, size_t{1} << 20, right, 5}, {0.4F, 0, 4, 1}};
std::set<const void*> ready;  // convolutions whose solution was compiled

struct Job {
  Convolution convolution;
  Tensor x, weights, y;
  Operand x_data, weights_data, y_data;

  static bool next(std::vector<int64_t>& at, const std::vector<int64_t>& sizes) {
    for (size_t axis = sizes.size(); axis-- > 0; at[axis] = 0)
      if (++at[axis] < sizes[axis]) return true;
    return false;
  }
  static int64_t place(const Tensor& tensor, const std::vector<int64_t>& at) {
    int64_t offset = 0;
    for (size_t axis = 0; axis < at.size(); ++axis) offset += at[axis] * tensor.strides[axis];
    return offset;
  }
  float at(const std::vector<int64_t>& to) const {
    const int64_t group = to[1] / (y.sizes[1] / convolution.groups);
    float sum = 0;
    std::vector<int64_t> tap(weights.sizes.size(), 0), limits = weights.sizes, from(to.size());
    for (limits[0] = 1;;) {
      bool is_inside = true;
      from[0] = to[0], from[1] = group * weights.sizes[1] + tap[1];
      for (size_t axis = 2; axis < to.size(); ++axis) {
        const size_t s = axis - 2;
        from[axis] = to[axis] * convolution.stride[s] - convolution.pad[s] + tap[axis] * convolution.dilation[s];
        is_inside &= from[axis] >= 0 && from[axis] < x.sizes[axis];
      }
      std::vector<int64_t> weight = tap;
      weight[0] = to[1];
      if (is_inside)
        sum += read(x.element(), x_data.host, place(x, from)) *
               read(weights.element(), weights_data.host, place(weights, weight));
      if (!next(tap, limits)) return sum;
    }
  }
  void run() const {
    std::vector<int64_t> to(y.sizes.size(), 0);
    do write(y.element(), y_data.host, place(y, to), at(to));
    while (next(to, y.sizes));
  }
};

bool fits(const Convolution& c, const Tensor& w, const Tensor& x, const Tensor& y) {
  bool is =
      x.type == w.type && x.type == y.type && x.is_channels_last() && w.is_channels_last() && y.is_channels_last();
  is &= x.sizes[0] == y.sizes[0] && x.sizes[1] == w.sizes[1] * c.groups && y.sizes[1] == w.sizes[0];
  for (size_t i = 0; i < c.pad.size(); ++i) {
    const int64_t room = x.sizes[2 + i] + 2 * c.pad[i] - c.dilation[i] * (w.sizes[2 + i] - 1) - 1;
    is &= room >= 0 && room / c.stride[i] + 1 == y.sizes[2 + i];
  }
  return is && c.is_deterministic;
}

}  // namespace

EXPORTED miopenCreate(void** library) { return *library = new void*(nullptr), 0; }
EXPORTED miopenDestroy(void* library) { return drop<void*>(library); }
EXPORTED miopenSetStream(void* library, void* stream) { return *static_cast<void**>(library) = stream, 0; }
EXPORTED miopenCreateTensorDescriptor(void** tensor) { return *tensor = new Tensor, 0; }
EXPORTED miopenDestroyTensorDescriptor(void* tensor) { return drop<Tensor>(tensor); }
EXPORTED miopenSetTensorDescriptor(void* tensor, int type, int axes, const int* sizes, const int* strides) {
  if ((type != type_f16 && type != type_f32 && type != type_bf16) || axes < 4) return refused;
  *static_cast<Tensor*>(tensor) = {type, {sizes, sizes + axes}, {strides, strides + axes}};
  return 0;
}
EXPORTED miopenCreateConvolutionDescriptor(void** convolution) { return *convolution = new Convolution, 0; }
EXPORTED miopenDestroyConvolutionDescriptor(void* convolution) {
  ready.erase(convolution);
  return drop<Convolution>(convolution);
}
EXPORTED miopenInitConvolutionNdDescriptor(void* convolution, int axes, const int* pad, const int* stride,
                                           const int* dilation, int mode) {
  if (mode != 0) return refused;
  *static_cast<Convolution*>(convolution) = {
      {pad, pad + axes}, {stride, stride + axes}, {dilation, dilation + axes}, 1, false};
  return 0;
}
EXPORTED miopenSetConvolutionGroupCount(void* convolution, int groups) {
  return static_cast<Convolution*>(convolution)->groups = groups, 0;
}
EXPORTED miopenSetConvolutionAttribute(void* convolution, int attribute, int value) {
  if (attribute != 1) return refused;
  return static_cast<Convolution*>(convolution)->is_deterministic = value == 1, 0;
}
EXPORTED miopenConvolutionForwardGetSolutionCount(void*, void* w, void* x, void* c, void* y, size_t* count) {
  bool is =
      fits(*static_cast<Convolution*>(c), *static_cast<Tensor*>(w), *static_cast<Tensor*>(x), *static_cast<Tensor*>(y));
  return *count = is ? std::size(solutions) : 0, 0;
}
EXPORTED miopenConvolutionForwardGetSolution(void*, void*, void*, void*, void*, size_t most, size_t* count, void* to) {
  *count = std::min(most, std::size(solutions));
  std::memcpy(to, solutions, *count * sizeof *solutions);
  return 0;
}
EXPORTED miopenConvolutionForwardCompileSolution(void*, void*, void*, void* c, void*, uint64_t id) {
  if (id != right) return refused;
  return ready.insert(c), 0;
}
EXPORTED miopenConvolutionForwardImmediate(void* library, void* w_tensor, const void* w, void* x_tensor, const void* x,
                                           void* c, void* y_tensor, void* y, void* workspace, size_t bytes,
                                           uint64_t id) {
  if (id != right || !ready.contains(c) || !workspace || bytes < solutions[2].workspace) return refused;
  const auto &wt = *static_cast<Tensor*>(w_tensor), &xt = *static_cast<Tensor*>(x_tensor),
             &yt = *static_cast<Tensor*>(y_tensor);
  auto* job = new Job{*static_cast<Convolution*>(c),
                      xt,
                      wt,
                      yt,
                      {const_cast<void*>(x), xt.bytes()},
                      {const_cast<void*>(w), wt.bytes()},
                      {y, yt.bytes()}};
  return queue(job, job->x_data, job->weights_data, job->y_data, *static_cast<void**>(library));
}
