// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "compile.h"
#include "compile/specialise.h"
#include "weft/weft.h"

/// The objects behind the opaque handles of weft.h, and the functions that turn exceptions into statuses.

struct weft_status {
  weft::ErrorInfo info;
  std::string text;
};

struct weft_tensor {
  weft::Tensor tensor;
  bool is_shared = true;
};

namespace weft {
/// The strings and sizes that a port's weft_port points to, and whether the port is a static input.
struct PortText {
  bool is_static = false;
  std::string type;
  std::vector<std::string> dim_texts;
  std::vector<weft_dim> dims;
};
std::vector<PortText> describe_ports(const std::vector<Port>& ports, std::span<const StaticInput> statics = {});
/// Fills a weft_port for port `index`; throws E210 if there is no such port.
void fill_port(const std::vector<Port>& ports, const std::vector<PortText>& shown, size_t index, weft_port* out);
}  // namespace weft

struct weft_program {
  explicit weft_program(std::shared_ptr<weft::Executable> compiled);

  std::shared_ptr<weft::Executable> executable;
  std::string device;
  std::vector<weft::PortText> inputs, outputs;
};

struct weft_context {
  std::shared_ptr<weft::Executable> executable;  // outlives the context
  std::unique_ptr<weft::Context> context;
};

struct weft_graph {
  std::unique_ptr<weft::Program> program;
  std::shared_ptr<weft::StaticModel> model;      // set if some inputs are static; `program` assumes values for them
  std::vector<weft::Instruction*> instructions;  // indexed by weft_value::instruction
  std::vector<weft::Result> results;
  std::vector<weft::CustomOperator> operators;
  /// Ports, and the strings and sizes to which the weft_port of each port points.
  struct Ports {
    std::vector<weft::Port> ports = {};
    std::vector<weft::PortText> shown = {};
  };
  Ports inputs = {}, outputs = {};
};

namespace weft {

weft_status* status_of(const Error& error);
/// Returns the status for the exception of the current catch block.
weft_status* status_of_current_exception();
[[noreturn]] void usage_error(std::string code, std::string what, std::string hint = {});

/// Runs `body`. Returns the status for an exception that `body` throws, else null.
template <class Body>
weft_status* guarded(const Body& body) noexcept {
  try {
    body();
    return nullptr;
  } catch (...) {
    return status_of_current_exception();
  }
}

/// Returns the bytes of a model, copied unless `options.borrow` is set.
Bytes given_bytes(const void* data, size_t size, const CompileOptions& options);

/// Returns the object that `pointer` points to; throws E210 if it is NULL.
template <class T>
T& required(T* pointer, const char* name) {
  if (!pointer) usage_error("E210", cat("argument '", name, "' is NULL"));
  return *pointer;
}

/// Returns the struct_size of the caller's struct; throws E210 if it is below sizeof(size_t) or above 64 KiB.
template <class T>
size_t given_size(const T& given) {
  if (given.struct_size < sizeof(size_t) || given.struct_size > 64 * 1024)
    usage_error("E210", cat("a struct has struct_size ", given.struct_size),
                "initialise it with the _INIT macro of its type");
  return given.struct_size;
}

/// Copies the caller's struct into this version's layout. Members that the caller's version lacks keep their defaults;
/// members that only the caller's version has must be 0.
template <class T>
T known_part(const T* given, const T& defaults) {
  T options = defaults;
  if (!given) return options;
  size_t size = given_size(*given), known = std::min(size, sizeof(T));
  auto bytes = std::as_bytes(std::span(reinterpret_cast<const char*>(given), size));
  if (std::ranges::any_of(bytes.subspan(known), [](std::byte b) { return b != std::byte{0}; }))
    usage_error("E210", cat("an option struct of ", size, " bytes sets members that this library does not know"),
                "use a library as new as the header, or leave them 0");
  std::memcpy(static_cast<void*>(&options), given, known);
  options.struct_size = sizeof(T);
  return options;
}

/// Copies `filled` to `out`, except members that the caller's version of the struct lacks.
template <class T>
void fill(T* out, T filled) {
  filled.struct_size = given_size(*out);
  std::memcpy(static_cast<void*>(out), &filled, std::min(filled.struct_size, sizeof filled));
}

/// Returns the time point that is `seconds` after now; throws E210 unless `seconds` is finite and at least 0.
std::chrono::steady_clock::time_point deadline_after(double seconds);

/// Returns the bytes of the string as a tensor u8[size].
inline Tensor bytes_tensor(const std::string& bytes) {
  return {.dtype = DType::u8, .dims = {std::ssize(bytes)}, .data = Bytes::copy(as_bytes(bytes))};
}
void give_text(char** out, const char* name, const std::string& text);

/// Converts the C struct; throws E210 if its name or rule is missing.
CustomOperator to_operator(const weft_operator& given);
HostExecutor to_executor(const weft_executor& given);
CompileOptions to_compile_options(const weft_compile_options* given);

}  // namespace weft
