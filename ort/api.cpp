// SPDX-License-Identifier: Apache-2.0
#include "ort/api.h"

#include <algorithm>
#include <cstdio>

#include "weft/weft.hpp"

namespace weft::ort {

Api api;

OrtStatus* connect(const OrtApiBase& base) {
  unsigned runtime = 0;  // "1.27.0" has version 27 of the interface
  std::sscanf(base.GetVersionString(), "%*u.%u", &runtime);
  uint32_t version = std::min<uint32_t>(ORT_API_VERSION, runtime);
  const OrtApi* table = version < oldest_version ? nullptr : base.GetApi(version);
  if (!table) {
    std::string text = std::string("Weft needs onnxruntime 1.24 or newer, this is ") + base.GetVersionString();
    return base.GetApi(1)->CreateStatus(ORT_FAIL, text.c_str());
  }
  api = {.ort = table, .ep = table->GetEpApi(), .version = version};
  return nullptr;
}

Failure::Failure(OrtStatus* status) : code_(api.ort->GetErrorCode(status)), text_(api.ort->GetErrorMessage(status)) {
  api.ort->ReleaseStatus(status);
}

OrtStatus* status_of_current_exception(const char* within) noexcept {
  auto status = [&](OrtErrorCode code, const char* text) {
    return api.ort->CreateStatus(code, (std::string("Weft, ") + within + ": " + text).c_str());
  };
  try {
    throw;
  } catch (const Failure& failure) {
    return status(failure.code(), failure.what());
  } catch (const Error& error) {
    bool is_users = error.kind() == WEFT_USAGE;
    return status(is_users ? ORT_INVALID_ARGUMENT : ORT_EP_FAIL, error.what());
  } catch (const std::exception& error) {
    return status(ORT_EP_FAIL, error.what());
  } catch (...) {
    return status(ORT_EP_FAIL, "unknown exception");
  }
}

}  // namespace weft::ort
