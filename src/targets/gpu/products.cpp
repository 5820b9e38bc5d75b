// SPDX-License-Identifier: Apache-2.0
// cuBLASLt and hipBLASLt: declared by hand as far as they are used, from the vendors' public documentation.
#include "targets/gpu/products.h"

#include <dlfcn.h>

#include <mutex>
#include <utility>

#include "base/error.h"
#include "base/knobs.h"

namespace weft::gpu {
namespace {

/// Enumerators that differ between the two.
struct Numbers {
  int compute_f32, transpose, no_transpose;
  int attribute_transpose_a, attribute_transpose_b;   // of a product
  int attribute_batch_count, attribute_batch_stride;  // of a matrix
};
constexpr Numbers cuda_numbers{68, 1, 0, 3, 4, 5, 6}, hip_numbers{2, 112, 111, 0, 1, 0, 1};
constexpr int preference_workspace = 1;  // of both

/// cudaDataType_t and hipDataType have the same numbers.
int data_type(DType type) {
  switch (type) {
    case DType::f32: return 0;
    case DType::f16: return 2;
    case DType::bf16: return 14;
    default: internal_error(cat("products of ", type, " by a library"));
  }
}

/// What the search for algorithms fills: first the algorithm (64 or 24 bytes), then what it needs, 96 or 56 in all.
struct HeuristicResult {
  alignas(16) std::byte bytes[128] = {};
};

struct Calls {
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

struct Library {
  ProductSearch search;
  Numbers numbers;
  Calls calls{};

  bool open(const char* prefix) {
    for (const std::string& file : search.tried) {
      void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
      const char* reason = library ? nullptr : ::dlerror();
      if (!library) search.why += cat(search.why.empty() ? "" : "; ", reason ? reason : file);
      if (library && find(library, prefix, file)) return true;
    }
    return false;
  }

 private:
  bool find(void* library, const char* prefix, const std::string& file) {
    auto slot = [](auto& function) { return reinterpret_cast<void**>(&function); };
    const std::pair<void**, const char*> wanted[] = {{slot(calls.create), "Create"},
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
    for (auto [to, name] : wanted) {
      *to = ::dlsym(library, cat(prefix, name).c_str());
      if (!*to) return search.why = cat(file, " has no ", prefix, name), false;
    }
    search.path = file;
    search.why.clear();
    return true;
  }
};

Library find_library(std::string_view vendor) {
  bool is_nvidia = vendor == "nvidia";
  Library library{.search = {.name = is_nvidia ? "cublaslt" : "hipblaslt"},
                  .numbers = is_nvidia ? cuda_numbers : hip_numbers};
  library.search.tried = is_nvidia
                             ? std::vector<std::string>{"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"}
                             : std::vector<std::string>{"libhipblaslt.so.1", "libhipblaslt.so.0", "libhipblaslt.so"};
  const std::string& given = is_nvidia ? knobs().cublaslt_library : knobs().hipblaslt_library;
  if (!given.empty()) library.search.tried = {given};
  library.open(is_nvidia ? "cublasLt" : "hipblasLt");
  return library;
}

const Library& library_of(std::string_view vendor) {
  static const Library nvidia = find_library("nvidia"), amd = find_library("amd");
  return vendor == "nvidia" ? nvidia : amd;
}

void check_call(const Library& library, int error, std::string_view doing) {
  if (error == 0) return;
  throw Error({.kind = ErrorKind::device,
               .code = "E602",
               .what = cat(library.search.name, " failed to ", doing, ": status ", error),
               .hint = "without WEFT_TUNINGS of this machine, or with --no-cache, Weft's own kernels are used"});
}

/// One of the library's small objects, released with it.
class Kept {
 public:
  Kept(Handle handle, int (*destroy)(Handle)) : handle_(handle), destroy_(destroy) {}
  Kept(Kept&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)), destroy_(other.destroy_) {}
  Kept& operator=(Kept&&) = delete;
  ~Kept() {
    if (handle_) destroy_(handle_);
  }
  Handle get() const { return handle_; }

 private:
  Handle handle_;
  int (*destroy_)(Handle);
};

/// The library's numbers of columns come first: our rows are its columns.
Kept layout(const Library& library, DType type, int64_t cols, int64_t rows, int64_t stride, int64_t batch,
            int64_t batch_stride) {
  Handle handle = nullptr;
  check_call(library,
             library.calls.layout_create(&handle, data_type(type), static_cast<uint64_t>(cols),
                                         static_cast<uint64_t>(rows), stride),
             "describe a matrix");
  Kept made(handle, library.calls.layout_destroy);
  auto count = static_cast<int32_t>(batch);
  auto set = [&](int attribute, const void* value, size_t bytes) {
    check_call(library, library.calls.layout_set(handle, attribute, value, bytes), "describe a batch");
  };
  if (batch == 1) return made;
  set(library.numbers.attribute_batch_count, &count, sizeof count);
  set(library.numbers.attribute_batch_stride, &batch_stride, sizeof batch_stride);
  return made;
}

Kept product_description(const Library& library) {
  Handle handle = nullptr;
  check_call(library, library.calls.product_create(&handle, library.numbers.compute_f32, data_type(DType::f32)),
             "describe a product");
  Kept made(handle, library.calls.product_destroy);
  auto set = [&](int attribute, int32_t value) {
    check_call(library, library.calls.product_set(handle, attribute, &value, sizeof value), "describe a product");
  };
  set(library.numbers.attribute_transpose_a, library.numbers.transpose);
  set(library.numbers.attribute_transpose_b, library.numbers.no_transpose);
  return made;
}

}  // namespace

const ProductSearch& find_products(std::string_view vendor) { return library_of(vendor).search; }

/// The library counts columns first, so what is D = A B' in rows is D' = B A' to it: B comes first, transposed.
struct Product::Prepared {
  const Library& library;
  std::shared_ptr<Device> device;
  LibraryProduct p;
  Kept handle, product, a, b, d;
  HeuristicResult best = {};

  Prepared(const Library& from, std::shared_ptr<Device> on, const LibraryProduct& what)
      : library(from),
        device(std::move(on)),
        p(what),
        handle(made_handle(from), from.calls.destroy),
        product(product_description(from)),
        a(layout(from, p.type, p.k, p.m, p.a_row, p.batch, p.a_batch)),
        b(layout(from, p.type, p.k, p.n, p.b_row, p.batch, p.b_batch)),
        d(layout(from, p.result, p.n, p.m, p.n, p.batch, p.m * p.n)) {
    Handle made = nullptr;
    check_call(library, library.calls.preference_create(&made), "describe a search");
    Kept preference(made, library.calls.preference_destroy);
    size_t bytes = library_workspace;
    check_call(library, library.calls.preference_set(made, preference_workspace, &bytes, sizeof bytes),
               "limit its memory");
    int found = 0;
    int error = library.calls.find_algorithms(handle.get(), product.get(), b.get(), a.get(), d.get(), d.get(), made, 1,
                                              &best, &found);
    check_call(library, error ? error : found < 1, "find an algorithm");
  }

 private:
  static Handle made_handle(const Library& library) {
    Handle handle = nullptr;
    check_call(library, library.calls.create(&handle), "begin");
    return handle;
  }
};

Product::Product(const std::shared_ptr<Device>& device, const LibraryProduct& product) {
  const Library& library = library_of(device->driver().vendor());
  if (library.search.path.empty()) {
    throw Error({.kind = ErrorKind::unsupported,
                 .code = "E501",
                 .what = cat("there is no ", library.search.name, " on this machine: ", library.search.why)});
  }
  device->use();
  prepared_ = std::make_unique<Prepared>(library, device, product);
}
Product::~Product() = default;
Product::Product(Product&&) noexcept = default;

const std::string& Product::name() const { return prepared_->library.search.name; }

void Product::launch(const Stream& stream, const std::byte* a, const std::byte* b, std::byte* d,
                     std::byte* workspace) const {
  const Prepared& x = *prepared_;
  const LibraryProduct& p = x.p;
  float one = 1, zero = 0;
  auto at = [](const std::byte* base, int64_t offset, DType type) { return base + offset * bits(type) / 8; };
  std::byte* result = d + p.d_offset * bits(p.result) / 8;
  check_call(x.library,
             x.library.calls.multiply(x.handle.get(), x.product.get(), &one, at(b, p.b_offset, p.type), x.b.get(),
                                      at(a, p.a_offset, p.type), x.a.get(), &zero, result, x.d.get(), result, x.d.get(),
                                      x.best.bytes, workspace, library_workspace, stream.get()),
             "multiply");
}

}  // namespace weft::gpu
