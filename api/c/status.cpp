// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <new>

#include "api/c/handles.h"
#include "base/knobs.h"
#include "base/log.h"
#include "base/version.h"

namespace weft {
namespace {

// The status for a failed allocation. It exists from the start, because making a status allocates.
weft_status out_of_memory{{.kind = ErrorKind::resource, .code = "E400", .what = "out of memory"},
                          "error[E400]: out of memory"};

weft_status* make_status(ErrorInfo info) {
  try {
    Error error(std::move(info));
    return new weft_status{error.info(), error.what()};
  } catch (...) {
    return &out_of_memory;
  }
}

const char* text_or_empty(const weft_status* status, std::string ErrorInfo::* part) {
  return status ? (status->info.*part).c_str() : "";
}

}  // namespace

weft_status* status_of(const Error& error) { return make_status(error.info()); }

weft_status* status_of_current_exception() {
  try {
    throw;
  } catch (const Error& error) {
    return status_of(error);
  } catch (const std::bad_alloc&) {
    return &out_of_memory;
  } catch (const std::exception& error) {
    return make_status({.kind = ErrorKind::internal, .code = "E900", .what = cat("internal error: ", error.what())});
  } catch (...) {
    return make_status({.kind = ErrorKind::internal, .code = "E900", .what = "internal error: unknown exception"});
  }
}

void usage_error(std::string code, std::string what, std::string hint) {
  throw Error({.kind = ErrorKind::usage, .code = std::move(code), .what = std::move(what), .hint = std::move(hint)});
}

std::chrono::steady_clock::time_point deadline_after(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0)
    usage_error("E210", cat("deadline_seconds is ", seconds, ", not 0 or more"));
  auto limit = std::chrono::duration<double>(std::min(seconds, 1e9));
  return std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(limit);
}

void give_text(char** out, const char* name, const std::string& text) {
  required(out, name);
  char* copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (!copy) throw std::bad_alloc();
  std::memcpy(copy, text.c_str(), text.size() + 1);
  *out = copy;
}

}  // namespace weft

using namespace weft;

const char* weft_version(void) { return WEFT_VERSION; }

char* weft_environment(const char* name) {
  char* text = nullptr;
  weft_status_free(guarded([&] {
    std::string value = environment(&required(name, "name"));
    if (!value.empty()) give_text(&text, "text", value);
  }));
  return text;
}

weft_status* weft_status_new(weft_error_kind kind, const char* code, const char* what, const char* where,
                             const char* hint) {
  auto text = [](const char* part) { return std::string(part ? part : ""); };
  try {
    return make_status({.kind = static_cast<ErrorKind>(kind),
                        .code = text(code),
                        .what = text(what),
                        .where = text(where),
                        .hint = text(hint)});
  } catch (...) {
    return &out_of_memory;
  }
}

void weft_status_free(weft_status* status) {
  if (status != &out_of_memory) delete status;
}

weft_error_kind weft_status_kind(const weft_status* status) {
  return status ? static_cast<weft_error_kind>(status->info.kind) : WEFT_OK;
}
const char* weft_status_code(const weft_status* status) { return text_or_empty(status, &ErrorInfo::code); }
const char* weft_status_text(const weft_status* status) { return status ? status->text.c_str() : ""; }
const char* weft_status_what(const weft_status* status) { return text_or_empty(status, &ErrorInfo::what); }
const char* weft_status_where(const weft_status* status) { return text_or_empty(status, &ErrorInfo::where); }
const char* weft_status_why(const weft_status* status) { return text_or_empty(status, &ErrorInfo::why); }
const char* weft_status_hint(const weft_status* status) { return text_or_empty(status, &ErrorInfo::hint); }

void weft_text_free(char* text) { std::free(text); }

weft_status* weft_set_logger(void (*logger)(void* user, weft_log_level level, const char* text), void* user) {
  return guarded([&] {
    if (!logger) return set_logger({});
    set_logger([logger, user](LogLevel level, std::string_view text) {
      logger(user, static_cast<weft_log_level>(level), std::string(text).c_str());
    });
  });
}

void weft_set_log_level(weft_log_level level) { set_log_level(static_cast<LogLevel>(level)); }
