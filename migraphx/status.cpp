// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <mutex>
#include <set>

#include "migraphx/handles.h"

namespace weft::mgx {
namespace {

thread_local std::string last_error;
thread_local bool is_printed = true;

migraphx_status keep(const char* text, migraphx_status status) noexcept {
  try {
    last_error = text;
  } catch (...) {
    last_error.clear();
  }
  if (is_printed) std::fprintf(stderr, "migraphx (weft): %s\n", text);
  return status;
}

}  // namespace

void refuse(const std::string& what, const std::string& hint) { throw Error(WEFT_USAGE, "E210", what, hint); }
void not_supported(const std::string& what, const std::string& hint) {
  throw Error(WEFT_UNSUPPORTED, "E218", what, hint);
}

void warn(const std::string& what) {
  static std::mutex mutex;
  static std::set<std::string> said;
  std::lock_guard lock(mutex);
  if (said.insert(what).second) std::fprintf(stderr, "migraphx (weft): warning: %s\n", what.c_str());
}

migraphx_status status_of_current_exception() noexcept {
  try {
    throw;
  } catch (const UnknownTarget& error) {
    return keep(error.what(), migraphx_status_unknown_target);
  } catch (const Error& error) {
    return keep(error.what(), error.kind() == WEFT_USAGE ? migraphx_status_bad_param : migraphx_status_unknown_error);
  } catch (const std::exception& error) {
    return keep(error.what(), migraphx_status_unknown_error);
  } catch (...) {
    return keep("something other than an exception was thrown", migraphx_status_unknown_error);
  }
}

}  // namespace weft::mgx

const char* weft_migraphx_error() { return weft::mgx::last_error.c_str(); }
void weft_migraphx_print_errors(bool value) { weft::mgx::is_printed = value; }
