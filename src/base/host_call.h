// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// Functions on values that kernels do not handle: strings, sequences, optionals and maps. src/host runs them on the
/// host. A call is plain data, so that a saved program can contain it.
namespace weft {

enum class HostFn : uint8_t {
  // Containers. In this list "numbers" and "strings" are the fields of HostCall.
  same,        ///< x -> x
  collect,     ///< items... -> a container of them; numbers: its kind
  length,      ///< container -> i64[]
  item,        ///< container, i -> item number i, from the end if negative
  item_sizes,  ///< container, i -> its sizes, i64[rank]; numbers: the rank that it must have
  insert,      ///< sequence, x[, i] -> sequence; at the end without i
  erase,       ///< sequence[, i] -> sequence; the last without i
  split,       ///< x[, lengths] -> sequence; numbers: axis, keeps the axis; without lengths each is 1
  join,        ///< sequence -> optional with one tensor; numbers: axis, along a new axis
  // Strings.
  to_text,      ///< numbers -> strings
  from_text,    ///< strings -> numbers; numbers: the element type
  concat_text,  ///< x, y -> x with y after it, element by element
  split_text,   ///< x -> optional with pieces along a new last axis, counts; numbers: most splits (-1: any); strings:
                ///< delimiter
  normalize_text,  ///< x -> optional with what is left; numbers: case (0 none, 1 lower, 2 upper), sensitive; strings:
                   ///< stopwords
  match_text,      ///< strings -> bool; strings: a pattern that all of each must match
  // Maps.
  zip_map,     ///< scores [n, classes] -> sequence of maps; numbers or strings: their keys
  map_values,  ///< map -> optional with [1, n]; numbers: element type, n (0: the entries in the order of their keys)
  map_vector,  ///< map -> [1, n]; numbers or strings: the key of each column
  // Pictures.
  decode_image,  ///< bytes of a file -> optional with u8[height, width, channels]; numbers: 0 RGB, 1 BGR, 2 grey
  // Strings by the rules of TensorFlow.
  split_rows,   ///< strings [rows] -> optional with all pieces [n], optional with the row and place of each, i64[n, 2];
                ///< numbers: form (0: at each byte of the delimiter, 1: at the delimiter), without empty pieces, most
                ///< splits (-1: any); strings: delimiter (empty: bytes, white space)
  ngrams_text,  ///< tokens [n], where rows begin and end i64[rows + 1] -> optional with runs of tokens, where their
  ///< rows begin and end; numbers: padding, keeps short rows, lengths; strings: separator, left, right pad
  hash_text,  ///< strings -> i64, the bucket of each; numbers: how many there are
};

std::span<const std::string_view> names(HostFn);

struct HostCall {
  HostFn fn = HostFn::same;
  std::vector<int64_t> numbers = {};
  std::vector<std::string> strings = {};
  bool operator==(const HostCall&) const = default;
};

}  // namespace weft
