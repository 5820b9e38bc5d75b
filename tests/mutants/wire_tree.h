// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

/// A protobuf message as a tree of fields, to be damaged in ways that a flipped byte seldom finds: lengths stay right
/// while numbers, strings and whole fields change.
namespace weft::test {

struct WireField {
  uint32_t number = 0;
  uint8_t kind = 0;                      ///< 0 varint, 1 eight bytes, 2 length-delimited, 5 four bytes
  uint64_t value = 0;                    ///< of a varint
  std::string bytes = {};                ///< of a length-delimited or fixed field that is no message
  std::vector<WireField> children = {};  ///< of a message
};

/// Returns the fields if all of `text` is one message.
std::optional<std::vector<WireField>> parse_wire(std::string_view text, int depth = 0);
std::string print_wire(const std::vector<WireField>& fields);

/// Changes some fields of the tree.
void damage_tree(std::vector<WireField>& fields, std::mt19937_64& random);
/// Changes one number of the tree to an edge value for sizes, counts, axes or enumerations.
void damage_number(std::vector<WireField>& fields, std::mt19937_64& random);
/// Changes, adds or removes some bytes.
void damage_bytes(std::string& text, std::mt19937_64& random);

}  // namespace weft::test
