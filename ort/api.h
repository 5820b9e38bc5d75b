// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <onnxruntime_c_api.h>

#include <exception>
#include <memory>
#include <string>
#include <vector>

/// The function tables of onnxruntime, and the functions that turn exceptions into statuses.
namespace weft::ort {

/// The function tables of onnxruntime, set once when the library is registered.
struct Api {
  const OrtApi* ort = nullptr;
  const OrtEpApi* ep = nullptr;
  uint32_t version = 0;  ///< the lower of the API versions of the headers and the runtime
};
extern Api api;

/// The oldest supported version, 1.24, the first in which fused If and Loop nodes work.
constexpr uint32_t oldest_version = 24;

/// Fills `api`; returns a status if the runtime is too old.
OrtStatus* connect(const OrtApiBase& base);

/// An OrtStatus, thrown as an exception.
class Failure : public std::exception {
 public:
  explicit Failure(OrtStatus* status);
  const char* what() const noexcept override { return text_.c_str(); }
  OrtErrorCode code() const { return code_; }

 private:
  OrtErrorCode code_;
  std::string text_;
};

inline void ok(OrtStatus* status) {
  if (status) throw Failure(status);
}

/// Returns a status for the current exception; `within` names the activity that failed.
OrtStatus* status_of_current_exception(const char* within) noexcept;

/// Runs `body` and turns exceptions into a status, because no exception may leave the library.
template <class Body>
OrtStatus* guarded(const char* within, const Body& body) noexcept {
  try {
    body();
    return nullptr;
  } catch (...) {
    return status_of_current_exception(within);
  }
}

/// A deleter that frees an object by the function `Member` of onnxruntime's table.
template <auto Member>
struct Release {
  template <class T>
  void operator()(T* handle) const {
    (api.ort->*Member)(handle);
  }
};
template <class T, auto Member>
using OrtOwned = std::unique_ptr<T, Release<Member>>;

using OwnedKeyValues = OrtOwned<OrtKeyValuePairs, &OrtApi::ReleaseKeyValuePairs>;
using OwnedValue = OrtOwned<OrtValue, &OrtApi::ReleaseValue>;
using OwnedTypeInfo = OrtOwned<OrtTypeInfo, &OrtApi::ReleaseTypeInfo>;
using OwnedExternalInfo = OrtOwned<OrtExternalInitializerInfo, &OrtApi::ReleaseExternalInitializerInfo>;
using OwnedShape = OrtOwned<OrtTensorTypeAndShapeInfo, &OrtApi::ReleaseTensorTypeAndShapeInfo>;

/// Returns the list that the functions `count` and `fill` of onnxruntime's table give for `handle`.
template <class T, class Count, class Fill, class Handle>
std::vector<T> list(Count count, Fill fill, const Handle* handle) {
  size_t size = 0;
  ok((api.ort->*count)(handle, &size));
  std::vector<T> items(size);
  if (size > 0) ok((api.ort->*fill)(handle, items.data(), size));
  return items;
}

}  // namespace weft::ort
