// SPDX-License-Identifier: Apache-2.0
#include "base/host_call.h"

namespace weft {

std::span<const std::string_view> names(HostFn) {
  static constexpr std::string_view list[] = {
      "same",         "collect",        "length",      "item",     "item_sizes", "insert",
      "erase",        "split",          "join",        "to_text",  "from_text",  "concat_text",
      "split_text",   "normalize_text", "match_text",  "zip_map",  "map_values", "map_vector",
      "decode_image", "split_rows",     "ngrams_text", "hash_text"};
  static_assert(std::size(list) == static_cast<size_t>(HostFn::hash_text) + 1);
  return list;
}

}  // namespace weft
