// SPDX-License-Identifier: Apache-2.0
// NCCL and RCCL, with the declarations that Weft uses, written from the vendors' public documentation. The two have the
// same functions and numbers.
#include "targets/gpu/communicators.h"

#include "base/error.h"
#include "base/knobs.h"
#include "targets/gpu/library.h"

namespace weft::gpu {
namespace {

struct CommunicatorCalls {
  int (*init_all)(Handle* communicators, int count, const int* devices);
  int (*destroy)(Handle communicator);
  int (*abort)(Handle communicator);
  int (*async_error)(Handle communicator, int* error);
  int (*all_reduce)(const void* from, void* to, size_t count, int type, int fn, Handle communicator, Handle stream);
  int (*all_gather)(const void* from, void* to, size_t count, int type, Handle communicator, Handle stream);
  const char* (*error_text)(int error);
};
constexpr int add = 0, bytes_type = 1;

/// Returns the ncclDataType_t of a type that can be added.
int communicator_type(DType type) {
  switch (type) {
    case DType::i32: return 2;
    case DType::i64: return 4;
    case DType::f16: return 6;
    case DType::f32: return 7;
    case DType::f64: return 8;
    case DType::bf16: return 9;
    default: internal_error(cat("ranks add elements of ", type));
  }
}

class CollectiveLibrary final : public Library {
 public:
  CollectiveLibrary(std::string name, std::vector<std::string> files, const std::string& given)
      : Library(std::move(name), std::move(files), given) {
    const DriverSymbol wanted[] = {
        {slot(calls.init_all), "CommInitAll"},     {slot(calls.destroy), "CommDestroy"},
        {slot(calls.abort), "CommAbort"},          {slot(calls.async_error), "CommGetAsyncError"},
        {slot(calls.all_reduce), "AllReduce"},     {slot(calls.all_gather), "AllGather"},
        {slot(calls.error_text), "GetErrorString"}};
    open("nccl", wanted);
  }
  std::unique_ptr<LibraryWork> prepare(const std::shared_ptr<Device>&, const LibraryCall&) const override {
    refuse("its test on one device failed");
  }
  void check(int error, std::string_view doing) const {
    if (error == 0) return;
    throw Error({.kind = ErrorKind::device,
                 .code = "E602",
                 .what = cat(search().name, " failed to ", doing, ": ", calls.error_text(error), " (", error, ")"),
                 .hint = "NCCL_DEBUG=WARN makes the library say more"});
  }

  CommunicatorCalls calls = {};
};

/// Returns the library of the device's vendor, opened at the first request. Throws E501 if it is missing.
const CollectiveLibrary& library_of(const Device& device) {
  bool is_nvidia = device.info().chip.kind == ChipKind::nvidia;
  static auto& nccl =
      *new CollectiveLibrary("nccl", {"libnccl.so.2", "libnccl.so"}, knobs().nccl_library);  // never closed
  static auto& rccl = *new CollectiveLibrary("rccl", {"librccl.so.1", "librccl.so"}, knobs().rccl_library);
  const CollectiveLibrary& library = is_nvidia ? nccl : rccl;
  if (!library.search().path.empty()) return library;
  throw Error({.kind = ErrorKind::unsupported,
               .code = "E501",
               .what = cat(library.search().name, " was not found; several GPUs need it to exchange values"),
               .why = library.search().why,
               .hint = is_nvidia ? "install nvidia-nccl-cu13, or name libnccl.so.2 in WEFT_NCCL_LIBRARY"
                                 : "install rccl, or name librccl.so.1 in WEFT_RCCL_LIBRARY"});
}

}  // namespace

void need_collectives(const Device& device) { library_of(device); }

Communicators::Communicators(std::vector<std::shared_ptr<Device>> devices)
    : devices_(std::move(devices)), communicators_(devices_.size()) {
  std::vector<int> numbers;
  for (const auto& device : devices_) numbers.push_back(device->ordinal());
  const CollectiveLibrary& library = library_of(*devices_[0]);
  library.check(library.calls.init_all(communicators_.data(), static_cast<int>(numbers.size()), numbers.data()),
                "connect the devices");
}

Communicators::~Communicators() {
  if (is_aborted_) return;
  const CollectiveLibrary& library = library_of(*devices_[0]);
  for (Handle communicator : communicators_) library.calls.destroy(communicator);
}

void Communicators::queue(size_t rank, CollectiveFn fn, DType type, const std::byte* from, std::byte* to,
                          int64_t elements, const Stream& stream) const {
  const CollectiveLibrary& library = library_of(*devices_[rank]);
  const CommunicatorCalls& calls = library.calls;
  if (elements == 0) return;
  if (fn == CollectiveFn::gather) {
    size_t bytes = byte_size(type, elements);
    return library.check(calls.all_gather(from, to, bytes, bytes_type, communicators_[rank], stream.get()),
                         "gather parts");
  }
  library.check(calls.all_reduce(from, to, elements, communicator_type(type), add, communicators_[rank], stream.get()),
                "add parts");
}

void Communicators::check(size_t rank) const {
  const CollectiveLibrary& library = library_of(*devices_[rank]);
  int error = 0;
  if (!is_aborted_) library.check(library.calls.async_error(communicators_[rank], &error), "query its state");
  constexpr int in_progress = 7;
  if (error != in_progress) library.check(error, "exchange parts");
}

void Communicators::check_alive() const {
  if (!is_aborted_) return;
  throw Error({.kind = ErrorKind::device,
               .code = "E602",
               .what = "a rank of the program failed in an earlier run, which ended the connection of the devices",
               .hint = "compile the model again"});
}

void Communicators::abort() {
  if (is_aborted_.exchange(true)) return;
  const CollectiveLibrary& library = library_of(*devices_[0]);
  for (size_t i = 0; i < communicators_.size(); ++i) {
    devices_[i]->use();
    library.calls.abort(communicators_[i]);
  }
}

}  // namespace weft::gpu
