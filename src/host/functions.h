// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "base/error.h"
#include "host/run.h"

/// The functions that run_host calls, one file for each kind of value.
namespace weft::host {

using Values = std::vector<Tensor>;
using Operands = std::span<const Tensor>;

// Defined in containers.cpp.
Values collect(const HostCall& call, Operands in);
Values length(Operands in);
Values item(Operands in);
Values item_sizes(const HostCall& call, Operands in);
Values insert(Values in);
Values erase(Values in);
Values split(const HostCall& call, Operands in);
Values join(const HostCall& call, Operands in);

// Defined in strings.cpp.
Values to_text(Operands in);
Values from_text(const HostCall& call, Operands in);
Values concat_text(Operands in);
Values split_text(const HostCall& call, Operands in);
Values normalize_text(const HostCall& call, Operands in);
Values match_text(const HostCall& call, Operands in);
/// Returns element `index` as a string. Writes reals as onnxruntime does: 8 significant digits, INF, -INF and NaN.
std::string text_of(const Tensor& tensor, int64_t index);
/// Splits a string at a delimiter; with an empty delimiter, at runs of white space. Makes at most `most` splits (-1:
/// any number); the rest stays whole.
std::vector<std::string> pieces(std::string_view text, std::string_view delimiter, int64_t most);
/// Returns the number in the text; throws E303 if the text is no number.
double number_of(const std::string& text);

// Defined in features.cpp.
Values split_rows(const HostCall& call, Operands in);
Values ngrams_text(const HostCall& call, Operands in);
Values hash_text(const HostCall& call, Operands in);

// Defined in maps.cpp.
Values zip_map(const HostCall& call, Operands in);
Values map_values(const HostCall& call, Operands in);
Values map_vector(const HostCall& call, Operands in);

// Defined in pictures.cpp.
Values decode_image(const HostCall& call, Operands in);

template <class... Args>
[[noreturn]] void refuse(const char* code, const Args&... args) {
  throw Error({.kind = ErrorKind::usage, .code = code, .what = cat(args...)});
}

/// Wraps a tensor in an optional, which is the type of results with sizes that are known only in the run.
inline Tensor boxed(Tensor tensor) { return make_container(Type::Kind::optional, {std::move(tensor)}); }

}  // namespace weft::host
