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
  // Containers. In this list, "numbers:" and "strings:" give the entries of these fields of HostCall, in order.
  same,        ///< x -> x
  collect,     ///< items... -> a container of them; numbers: its kind
  length,      ///< container -> i64[]
  item,        ///< container, i -> item number i, from the end if negative
  item_sizes,  ///< container, i -> sizes of item i, i64[rank]; numbers: the rank that the item must have
  insert,      ///< sequence, x[, i] -> sequence with x before item i, or at its end without i
  erase,       ///< sequence[, i] -> sequence without item i, or without its last item if there is no i
  split,       ///< x[, lengths] -> sequence; numbers: axis, whether to keep the axis; default: all lengths are 1
  join,        ///< sequence -> optional with one tensor; numbers: axis, whether that axis is a new one
  // Strings.
  to_text,         ///< numbers -> strings
  from_text,       ///< strings -> numbers; numbers: the element type
  concat_text,     ///< x, y -> x with y after it, element by element
  split_text,      ///< x -> optional with pieces along a new last axis, counts; numbers: most splits (-1: any);
                   ///< strings: the delimiter; with four numbers: splits by patterns, see tokens_of in host/strings.cpp
  normalize_text,  ///< x -> optional with the strings that remain; numbers: case (0 as it is, 1 lower, 2 upper),
                   ///< whether stopwords are case-sensitive; strings: the stopwords
  match_text,      ///< strings -> bool, true where the whole string matches the pattern; strings: the pattern
  // Maps.
  zip_map,     ///< scores [n, classes] -> sequence of maps; numbers or strings: their keys
  map_values,  ///< map -> optional with [1, n]; numbers: element type, n (reads keys 0 to n - 1; 0: all in order)
  map_vector,  ///< map -> [1, n]; numbers or strings: the key of each column
  // Pictures.
  decode_image,  ///< bytes of a file -> optional with u8[height, width, channels]; numbers: 0 (RGB), 1 (BGR), 2 (grey)
  // Strings by the rules of TensorFlow.
  split_rows,   ///< strings -> optional with all pieces [n], optional with i64[n, 2]: each piece's row and index in it;
                ///< numbers: form (0: splits at each byte of the delimiter, or at every byte if it is empty; 1: at
                ///< the whole delimiter, or at white space if it is empty), 1 to drop empty pieces (form 0), most
                ///< splits (form 1); strings: the delimiter
  ngrams_text,  ///< tokens [n], starts of rows i64[rows + 1] -> optional with n-grams, starts of their rows; numbers:
  ///< most padding (-1: length - 1), whether to keep short rows, lengths...; strings: separator, left pad, right pad
  hash_text,  ///< strings -> i64, FarmHash's fingerprint modulo the number of buckets; numbers: buckets
};

std::span<const std::string_view> names(HostFn);

struct HostCall {
  HostFn fn = HostFn::same;
  std::vector<int64_t> numbers = {};
  std::vector<std::string> strings = {};
  bool operator==(const HostCall&) const = default;
};

}  // namespace weft
