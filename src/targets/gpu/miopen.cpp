// SPDX-License-Identifier: Apache-2.0
// MIOpen's immediate mode, with the declarations that Weft uses, written from AMD's public documentation.
#include <algorithm>

#include "base/error.h"
#include "base/knobs.h"
#include "targets/gpu/library.h"

namespace weft::gpu {
namespace {

constexpr int mode_convolution = 0, attribute_deterministic = 1, algorithm_fft = 2, algorithm_winograd = 3;

int miopen_type(DType type) {
  switch (type) {
    case DType::f16: return 0;
    case DType::f32: return 1;
    case DType::bf16: return 5;
    default: internal_error(cat("convolutions of ", type, " by MIOpen"));
  }
}

/// The layout of miopenConvSolution_t.
struct Solution {
  float milliseconds;
  size_t workspace;
  uint64_t id;
  int algorithm;
};

struct MiOpenCalls {
  int (*create)(Handle* library);
  int (*destroy)(Handle library);
  int (*set_stream)(Handle library, Handle stream);
  int (*tensor_create)(Handle* tensor);
  int (*tensor_destroy)(Handle tensor);
  int (*tensor_set)(Handle tensor, int type, int axes, const int* sizes, const int* strides);
  int (*convolution_create)(Handle* convolution);
  int (*convolution_destroy)(Handle convolution);
  int (*convolution_set)(Handle convolution, int axes, const int* pad, const int* stride, const int* dilation,
                         int mode);
  int (*convolution_groups)(Handle convolution, int groups);
  int (*convolution_attribute)(Handle convolution, int attribute, int value);
  int (*solution_count)(Handle library, Handle weights, Handle x, Handle convolution, Handle y, size_t* count);
  int (*solutions)(Handle library, Handle weights, Handle x, Handle convolution, Handle y, size_t most, size_t* count,
                   Solution* solutions);
  int (*compile)(Handle library, Handle weights, Handle x, Handle convolution, Handle y, uint64_t id);
  int (*run)(Handle library, Handle weights_tensor, const void* weights, Handle x_tensor, const void* x,
             Handle convolution, Handle y_tensor, void* y, void* workspace, size_t workspace_bytes, uint64_t id);
};

class MiOpen final : public Library {
 public:
  MiOpen() : Library("miopen", {"libMIOpen.so.1", "libMIOpen.so"}, knobs().miopen_library) {
#define SYMBOL(pointer, name) {slot(pointer), name},
    const DriverSymbol wanted[] = {
#include "targets/gpu/miopen_symbols.def"
    };
    open("miopen", wanted);
  }
  std::unique_ptr<LibraryWork> prepare(const std::shared_ptr<Device>& device, const LibraryCall& call) const override;

  MiOpenCalls calls{};
};

class MiOpenConvolution final : public LibraryWork {
 public:
  MiOpenConvolution(const MiOpen& library, std::shared_ptr<LibraryHandle> handle, const LibraryConvolution& c)
      : library_(library), handle_(std::move(handle)) {
    const std::lock_guard lock(handle_->mutex);
    ConvolutionShape shape(c);
    x_ = tensor(c.type, shape.x, shape.x_strides);
    weights_ = tensor(c.type, shape.weights, shape.weights_strides);
    y_ = tensor(c.type, shape.y, shape.y_strides);
    describe(shape, c.groups.value());
    choose();
  }

  void launch(const Stream& stream, std::span<std::byte* const> operands) const override {
    const std::lock_guard lock(handle_->mutex);
    std::byte *x = operands[0], *weights = operands[1], *y = operands[2];
    library_.check(library_.calls.set_stream(handle_->object.get(), stream.get()), "use a stream");
    library_.check(library_.calls.run(handle_->object.get(), weights_.get(), weights, x_.get(), x, convolution_.get(),
                                      y_.get(), y, operands[3], library_workspace, best_.id),
                   "convolve");
  }

 private:
  std::vector<int> ints(const std::vector<int64_t>& numbers) const {
    if (std::ranges::max(numbers) > INT32_MAX) library_.refuse("sizes past 2^31");
    return {numbers.begin(), numbers.end()};
  }

  LibraryObject tensor(DType type, const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides) const {
    auto made = library_.made(library_.calls.tensor_create, library_.calls.tensor_destroy, "describe a tensor");
    std::vector<int> all = ints(sizes), steps = ints(strides);
    library_.check(library_.calls.tensor_set(made.get(), miopen_type(type), static_cast<int>(all.size()), all.data(),
                                             steps.data()),
                   "describe a tensor");
    return made;
  }

  /// Describes the convolution. MIOpen pads both ends equally: throws unless that gives the same output size.
  void describe(const ConvolutionShape& shape, int64_t groups) {
    for (size_t i = 0; i < shape.kernel.size(); ++i) {
      int64_t room = shape.x[2 + i] + 2 * shape.pad[i] - shape.dilation[i] * (shape.kernel[i] - 1) - 1;
      if (room < 0 || room / shape.stride[i] + 1 != shape.y[2 + i]) library_.refuse("padding that differs at the ends");
    }
    const MiOpenCalls& calls = library_.calls;
    convolution_ = library_.made(calls.convolution_create, calls.convolution_destroy, "describe a convolution");
    std::vector<int> pad = ints(shape.pad), stride = ints(shape.stride), dilation = ints(shape.dilation);
    Handle it = convolution_.get();
    library_.check(calls.convolution_set(it, static_cast<int>(pad.size()), pad.data(), stride.data(), dilation.data(),
                                         mode_convolution),
                   "describe a convolution");
    library_.check(calls.convolution_groups(it, static_cast<int>(groups)), "describe its groups");
    library_.check(calls.convolution_attribute(it, attribute_deterministic, 1), "request deterministic results");
  }

  /// Takes the first (fastest) solution that fits in the workspace, except FFT and Winograd, which round differently.
  void choose() {
    const MiOpenCalls& calls = library_.calls;
    Handle h = handle_->object.get(), w = weights_.get(), x = x_.get(), c = convolution_.get(), y = y_.get();
    size_t count = 0;
    library_.check(calls.solution_count(h, w, x, c, y, &count), "count its solutions");
    std::vector<Solution> found(count);
    if (count > 0)
      library_.check(calls.solutions(h, w, x, c, y, found.size(), &count, found.data()), "list its solutions");
    found.resize(std::min(count, found.size()));
    auto fits = [](const Solution& s) {
      return s.workspace <= size_t{library_workspace} && s.algorithm != algorithm_fft &&
             s.algorithm != algorithm_winograd;
    };
    auto best = std::ranges::find_if(found, fits);
    if (best == found.end()) library_.refuse("it has no solution that is deterministic and fits in the working memory");
    best_ = *best;
    library_.check(calls.compile(h, w, x, c, y, best_.id), "make a kernel ready");
  }

  const MiOpen& library_;
  std::shared_ptr<LibraryHandle> handle_;
  LibraryObject x_, weights_, y_, convolution_;
  Solution best_ = {};
};

std::unique_ptr<LibraryWork> MiOpen::prepare(const std::shared_ptr<Device>& device, const LibraryCall& call) const {
  const auto& c = std::get<LibraryConvolution>(call.work);
  if (call.is_open) refuse("it compiles for every size, and these are open");
  if (c.has_bias || c.has_other || c.has_relu) refuse("a kernel computes the epilogue of a convolution");
  return std::make_unique<MiOpenConvolution>(*this, handle_of(*device, calls.create, calls.destroy), c);
}

}  // namespace

std::unique_ptr<Library> open_miopen() { return std::make_unique<MiOpen>(); }

}  // namespace weft::gpu
