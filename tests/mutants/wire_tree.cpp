// SPDX-License-Identifier: Apache-2.0
#include "mutants/wire_tree.h"

#include <algorithm>
#include <array>

namespace weft::test {
namespace {

constexpr int deepest = 12;
/// Edge values for sizes, counts, axes and enumerations.
constexpr std::array<uint64_t, 22> numbers = {0,
                                              1,
                                              2,
                                              3,
                                              4,
                                              7,
                                              16,
                                              28,
                                              99,
                                              255,
                                              1000,
                                              65536,
                                              uint64_t(1) << 31,
                                              uint64_t(1) << 32,
                                              uint64_t(1) << 33,
                                              uint64_t(1) << 40,
                                              uint64_t(1) << 62,
                                              (uint64_t(1) << 63) - 1,
                                              uint64_t(1) << 63,
                                              ~uint64_t(0),
                                              ~uint64_t(1),
                                              ~uint64_t(7)};
constexpr std::array<std::string_view, 24> words = {"",
                                                    "x",
                                                    "axis",
                                                    "Loop",
                                                    "If",
                                                    "Concat",
                                                    "Reshape",
                                                    "Conv",
                                                    "Gather",
                                                    "Slice",
                                                    "Split",
                                                    "Expand",
                                                    "ai.onnx",
                                                    "perm",
                                                    "pads",
                                                    "kernel_shape",
                                                    "ConstantOfShape",
                                                    "QuantizeLinear",
                                                    "TopK",
                                                    "Range",
                                                    "Resize",
                                                    "Attention",
                                                    "MatMul",
                                                    "\x1b[31m\xff"};

uint64_t below(std::mt19937_64& random, size_t limit) { return limit ? random() % limit : 0; }

bool read_varint(std::string_view& text, uint64_t& value) {
  value = 0;
  for (int shift = 0; shift < 64 && !text.empty(); shift += 7) {
    auto byte = static_cast<uint8_t>(text[0]);
    text.remove_prefix(1);
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

void write_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

bool read_field(std::string_view& text, WireField& field, int depth) {
  uint64_t tag = 0, length = 0;
  if (!read_varint(text, tag) || tag >> 3 == 0 || tag >> 3 > 1000) return false;
  field.number = static_cast<uint32_t>(tag >> 3);
  field.kind = static_cast<uint8_t>(tag & 7);
  if (field.kind == 0) return read_varint(text, field.value);
  if (field.kind == 1) length = 8;
  else if (field.kind == 5) length = 4;
  else if (field.kind != 2 || !read_varint(text, length)) return false;
  if (length > text.size()) return false;
  field.bytes = text.substr(0, length);
  text.remove_prefix(length);
  if (field.kind != 2 || depth >= deepest || length < 2) return true;
  if (auto inner = parse_wire(field.bytes, depth + 1)) {
    field.children = std::move(*inner);
    field.bytes.clear();
  }
  return true;
}

/// Collects every list of fields in the tree: damage picks a list, then a field.
void collect(std::vector<WireField>& fields, std::vector<std::vector<WireField>*>& lists) {
  if (!fields.empty()) lists.push_back(&fields);
  for (WireField& field : fields) collect(field.children, lists);
}

void damage_field(WireField& field, std::mt19937_64& random) {
  if (field.kind == 0) {
    field.value = below(random, 4) ? numbers[below(random, numbers.size())] : field.value + below(random, 5) - 2;
  } else if (field.kind != 2 || !field.children.empty() || below(random, 2)) {
    if (!field.bytes.empty()) damage_bytes(field.bytes, random);
    if (field.kind != 2) field.bytes.resize(field.kind == 1 ? 8 : 4);
  } else {
    field.bytes = words[below(random, words.size())];
  }
}

void damage_list(std::vector<WireField>& list, const std::vector<std::vector<WireField>*>& lists,
                 std::mt19937_64& random) {
  size_t at = below(random, list.size());
  auto place = list.begin() + static_cast<std::ptrdiff_t>(at);
  switch (below(random, 8)) {
    case 0: list.erase(place); return;
    case 1: list.insert(place, WireField(list[at])); return;
    case 2: std::swap(list[at], list[below(random, list.size())]); return;
    case 3: {  // the value of another field
      const auto& other = *lists[below(random, lists.size())];
      if (other.empty()) return;
      WireField copy = other[below(random, other.size())];
      copy.number = list[at].number;
      list[at] = std::move(copy);
      return;
    }
    default: damage_field(list[at], random);
  }
}

}  // namespace

std::optional<std::vector<WireField>> parse_wire(std::string_view text, int depth) {
  std::vector<WireField> fields;
  while (!text.empty()) {
    if (!read_field(text, fields.emplace_back(), depth)) return std::nullopt;
  }
  return fields;
}

std::string print_wire(const std::vector<WireField>& fields) {
  std::string out;
  for (const WireField& field : fields) {
    write_varint(out, static_cast<uint64_t>(field.number) << 3 | field.kind);
    if (field.kind == 0) {
      write_varint(out, field.value);
      continue;
    }
    std::string body = field.children.empty() ? field.bytes : print_wire(field.children);
    if (field.kind == 2) write_varint(out, body.size());
    out += body;
  }
  return out;
}

void damage_tree(std::vector<WireField>& fields, std::mt19937_64& random) {
  for (uint64_t times = 1 + below(random, 3); times > 0; --times) {
    std::vector<std::vector<WireField>*> lists;
    collect(fields, lists);
    if (lists.empty()) return;
    damage_list(*lists[below(random, lists.size())], lists, random);
  }
}

void damage_number(std::vector<WireField>& fields, std::mt19937_64& random) {
  std::vector<std::vector<WireField>*> lists;
  collect(fields, lists);
  std::vector<WireField*> found;
  for (auto* list : lists) {
    for (WireField& field : *list) {
      if (field.kind == 0) found.push_back(&field);
    }
  }
  if (!found.empty()) found[below(random, found.size())]->value = numbers[below(random, numbers.size())];
}

void damage_bytes(std::string& text, std::mt19937_64& random) {
  for (uint64_t times = 1 + below(random, 4); times > 0 && !text.empty(); --times) {
    size_t at = below(random, text.size());
    switch (below(random, 6)) {
      case 0: text.resize(at); break;
      case 1: text.erase(at, 1 + below(random, 4)); break;
      case 2: text.insert(at, 1, static_cast<char>(random())); break;
      default: text[at] = static_cast<char>(below(random, 2) ? random() : text[at] ^ (1 << below(random, 8)));
    }
  }
}

}  // namespace weft::test
