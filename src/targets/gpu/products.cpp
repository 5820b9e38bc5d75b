// SPDX-License-Identifier: Apache-2.0
// cuBLASLt and hipBLASLt, with the declarations that Weft uses, written from the vendors' public documentation. Both
// have the same functions, but with different prefixes and different numbers.
#include "base/error.h"
#include "base/knobs.h"
#include "targets/gpu/library.h"

namespace weft::gpu {
namespace {

/// Enumerators that differ between the two libraries.
struct Numbers {
  int compute_f32, transpose, no_transpose;
  int attribute_transpose_a, attribute_transpose_b;   // attributes of a product
  int attribute_batch_count, attribute_batch_stride;  // attributes of a matrix layout
};
constexpr Numbers cuda_numbers{68, 1, 0, 3, 4, 5, 6}, hip_numbers{2, 112, 111, 0, 1, 0, 1};
constexpr int preference_workspace = 1;  // the same number in both libraries

/// cudaDataType_t and hipDataType have the same numbers.
int product_type(DType type) {
  switch (type) {
    case DType::f32: return 0;
    case DType::f16: return 2;
    case DType::bf16: return 14;
    default: internal_error(cat("products of ", type, " by a library"));
  }
}

/// A found algorithm, then its requirements: 64 + 32 bytes in cuBLASLt, 24 + 32 bytes in hipBLASLt.
struct HeuristicResult {
  alignas(16) std::byte bytes[128] = {};
};

struct ProductCalls {
  int (*create)(Handle* library);
  int (*destroy)(Handle library);
  int (*product_create)(Handle* product, int compute_type, int scale_type);
  int (*product_destroy)(Handle product);
  int (*product_set)(Handle product, int attribute, const void* value, size_t bytes);
  int (*layout_create)(Handle* layout, int type, uint64_t rows, uint64_t cols, int64_t leading);
  int (*layout_destroy)(Handle layout);
  int (*layout_set)(Handle layout, int attribute, const void* value, size_t bytes);
  int (*preference_create)(Handle* preference);
  int (*preference_destroy)(Handle preference);
  int (*preference_set)(Handle preference, int attribute, const void* value, size_t bytes);
  int (*find_algorithms)(Handle library, Handle product, Handle a, Handle b, Handle c, Handle d, Handle preference,
                         int wanted, HeuristicResult* results, int* found);
  int (*multiply)(Handle library, Handle product, const void* alpha, const void* a, Handle a_layout, const void* b,
                  Handle b_layout, const void* beta, const void* c, Handle c_layout, void* d, Handle d_layout,
                  const void* algorithm, void* workspace, size_t workspace_bytes, Handle stream);
};

class ProductLibrary final : public Library {
 public:
  ProductLibrary(const char* prefix, const Numbers& its_numbers, std::string name, std::vector<std::string> files,
                 const std::string& given)
      : Library(std::move(name), std::move(files), given), numbers(its_numbers) {
    const DriverSymbol wanted[] = {{slot(calls.create), "Create"},
                                   {slot(calls.destroy), "Destroy"},
                                   {slot(calls.product_create), "MatmulDescCreate"},
                                   {slot(calls.product_destroy), "MatmulDescDestroy"},
                                   {slot(calls.product_set), "MatmulDescSetAttribute"},
                                   {slot(calls.layout_create), "MatrixLayoutCreate"},
                                   {slot(calls.layout_destroy), "MatrixLayoutDestroy"},
                                   {slot(calls.layout_set), "MatrixLayoutSetAttribute"},
                                   {slot(calls.preference_create), "MatmulPreferenceCreate"},
                                   {slot(calls.preference_destroy), "MatmulPreferenceDestroy"},
                                   {slot(calls.preference_set), "MatmulPreferenceSetAttribute"},
                                   {slot(calls.find_algorithms), "MatmulAlgoGetHeuristic"},
                                   {slot(calls.multiply), "Matmul"}};
    open(prefix, wanted);
  }
  std::unique_ptr<LibraryWork> prepare(const std::shared_ptr<Device>& device, const LibraryCall& call) const override;

  const Numbers numbers;
  ProductCalls calls{};
};

/// Makes a matrix layout. The library is column-major, so our rows are its columns; it takes the length of a column
/// first.
LibraryObject layout(const ProductLibrary& library, DType type, int64_t cols, int64_t rows, int64_t stride,
                     int64_t batch, int64_t batch_stride) {
  Handle handle = nullptr;
  library.check(library.calls.layout_create(&handle, product_type(type), static_cast<uint64_t>(cols),
                                            static_cast<uint64_t>(rows), stride),
                "describe a matrix");
  LibraryObject made(handle, library.calls.layout_destroy);
  auto count = static_cast<int32_t>(batch);
  auto set = [&](int attribute, const void* value, size_t bytes) {
    library.check(library.calls.layout_set(handle, attribute, value, bytes), "describe a batch");
  };
  if (batch == 1) return made;
  set(library.numbers.attribute_batch_count, &count, sizeof count);
  set(library.numbers.attribute_batch_stride, &batch_stride, sizeof batch_stride);
  return made;
}

LibraryObject product_description(const ProductLibrary& library) {
  Handle handle = nullptr;
  library.check(library.calls.product_create(&handle, library.numbers.compute_f32, product_type(DType::f32)),
                "describe a product");
  LibraryObject made(handle, library.calls.product_destroy);
  auto set = [&](int attribute, int32_t value) {
    library.check(library.calls.product_set(handle, attribute, &value, sizeof value), "describe a product");
  };
  set(library.numbers.attribute_transpose_a, library.numbers.transpose);
  set(library.numbers.attribute_transpose_b, library.numbers.no_transpose);
  return made;
}

/// A product. The library is column-major: it sees our D = A B^T as D^T = B A^T, so B comes first, transposed.
class Product final : public LibraryWork {
 public:
  Product(const ProductLibrary& from, const LibraryProduct& p)
      : library_(from),
        handle_(made_handle(from), from.calls.destroy),
        product_(product_description(from)),
        a_(layout(from, p.type, p.k, p.m, p.a_row, p.batch, p.a_batch)),
        b_(layout(from, p.type, p.k, p.n, p.b_row, p.batch, p.b_batch)),
        d_(layout(from, p.result, p.n, p.m, p.n, p.batch, p.m * p.n)) {
    Handle made = nullptr;
    library_.check(library_.calls.preference_create(&made), "describe a search");
    LibraryObject preference(made, library_.calls.preference_destroy);
    size_t bytes = library_workspace;
    library_.check(library_.calls.preference_set(made, preference_workspace, &bytes, sizeof bytes), "limit its memory");
    int found = 0;
    int error = library_.calls.find_algorithms(handle_.get(), product_.get(), b_.get(), a_.get(), d_.get(), d_.get(),
                                               made, 1, &best_, &found);
    library_.check(error ? error : found < 1, "find an algorithm");
  }

  void launch(const Stream& stream, std::span<std::byte* const> operands) const override {
    const float one = 1, zero = 0;
    std::byte *a = operands[0], *b = operands[1], *d = operands[2];
    library_.check(
        library_.calls.multiply(handle_.get(), product_.get(), &one, b, b_.get(), a, a_.get(), &zero, d, d_.get(), d,
                                d_.get(), best_.bytes, operands[3], library_workspace, stream.get()),
        "multiply");
  }

 private:
  static Handle made_handle(const ProductLibrary& library) {
    Handle handle = nullptr;
    library.check(library.calls.create(&handle), "begin");
    return handle;
  }

  const ProductLibrary& library_;
  LibraryObject handle_, product_, a_, b_, d_;
  HeuristicResult best_ = {};
};

std::unique_ptr<LibraryWork> ProductLibrary::prepare(const std::shared_ptr<Device>&, const LibraryCall& call) const {
  return std::make_unique<Product>(*this, std::get<LibraryProduct>(call.work));
}

}  // namespace

std::unique_ptr<Library> open_cublaslt() {
  std::vector<std::string> files{"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"};
  return std::make_unique<ProductLibrary>("cublasLt", cuda_numbers, "cublaslt", std::move(files),
                                          knobs().cublaslt_library);
}

std::unique_ptr<Library> open_hipblaslt() {
  std::vector<std::string> files{"libhipblaslt.so.1", "libhipblaslt.so.0", "libhipblaslt.so"};
  return std::make_unique<ProductLibrary>("hipblasLt", hip_numbers, "hipblaslt", std::move(files),
                                          knobs().hipblaslt_library);
}

}  // namespace weft::gpu
