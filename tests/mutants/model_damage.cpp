// SPDX-License-Identifier: Apache-2.0
#include "mutants/model_damage.h"

#include <algorithm>
#include <span>

namespace weft::test {
namespace {

// Numbers of fields in onnx.proto.
constexpr uint32_t graph = 7, nodes = 1, initializers = 5, inputs = 11, outputs = 12, value_infos = 13;
constexpr uint32_t value_type = 2, tensor_type = 1, tensor_shape = 2, value_name = 1;
constexpr uint32_t dim = 1, dim_value = 1, node_input = 1, node_output = 2, tensor_dims = 1, tensor_name = 8;

using Path = std::initializer_list<uint32_t>;

void find_fields(std::vector<WireField>& fields, std::span<const uint32_t> path, std::vector<WireField*>& found) {
  for (WireField& field : fields) {
    if (field.number != path[0]) continue;
    if (path.size() == 1) found.push_back(&field);
    else find_fields(field.children, path.subspan(1), found);
  }
}

/// Returns all fields at the `paths`, which are lists of field numbers from the root.
std::vector<WireField*> fields_at(std::vector<WireField>& model, std::initializer_list<Path> paths) {
  std::vector<WireField*> found;
  for (Path path : paths) find_fields(model, {path.begin(), path.size()}, found);
  return found;
}

WireField* any_of(const std::vector<WireField*>& fields, std::mt19937_64& random) {
  return fields.empty() ? nullptr : fields[random() % fields.size()];
}

std::string text_of(const WireField& field) {
  return field.children.empty() ? field.bytes : print_wire(field.children);
}

/// Gives a list of sizes another rank or another order.
void change_rank(std::vector<WireField>& sizes, const WireField& one, std::mt19937_64& random) {
  size_t at = random() % (sizes.size() + 1);
  auto place = sizes.begin() + static_cast<std::ptrdiff_t>(at);
  switch (random() % 5) {
    case 0: sizes.clear(); return;
    case 1: std::ranges::shuffle(sizes, random); return;
    case 2:
      if (at < sizes.size()) sizes.erase(place);
      return;
    default: sizes.insert(place, one);
  }
}

void change_shape(std::vector<WireField>& model, std::mt19937_64& random) {
  WireField* shape = any_of(fields_at(model, {{graph, inputs, value_type, tensor_type, tensor_shape},
                                              {graph, value_infos, value_type, tensor_type, tensor_shape},
                                              {graph, outputs, value_type, tensor_type, tensor_shape}}),
                            random);
  if (!shape) return;
  WireField one{.number = dim, .kind = 2, .children = {{.number = dim_value, .kind = 0, .value = 1 + random() % 3}}};
  shape->bytes.clear();
  change_rank(shape->children, one, random);
}

/// Changes the sizes of a constant but not its number of elements, so that its data still fit.
void change_constant(std::vector<WireField>& model, std::mt19937_64& random) {
  WireField* tensor = any_of(fields_at(model, {{graph, initializers}}), random);
  if (!tensor) return;
  auto is_size = [](const WireField& field) { return field.number == tensor_dims && field.kind == 0; };
  std::vector<WireField> sizes;
  std::ranges::copy_if(tensor->children, std::back_inserter(sizes), is_size);
  std::erase_if(tensor->children, is_size);
  WireField one{.number = tensor_dims, .kind = 0, .value = 1};
  if (sizes.size() > 1 && random() % 2) {
    sizes[0].value *= sizes[1].value;
    sizes.erase(sizes.begin() + 1);
  } else if (sizes.size() > 1 && random() % 2) {
    std::ranges::shuffle(sizes, random);
  } else if (sizes.size() == 1 && sizes[0].value == 1 && random() % 2) {
    sizes.clear();
  } else {
    sizes.insert(sizes.begin() + static_cast<std::ptrdiff_t>(random() % (sizes.size() + 1)), one);
  }
  tensor->children.insert(tensor->children.begin(), sizes.begin(), sizes.end());
}

/// Replaces an operand by another value of the graph, omits it, adds one, or swaps two operands.
void change_operand(std::vector<WireField>& model, std::mt19937_64& random) {
  WireField* node = any_of(fields_at(model, {{graph, nodes}}), random);
  if (!node) return;
  std::vector<WireField*> operands;
  find_fields(node->children, Path{node_input}, operands);
  WireField* name = any_of(
      fields_at(model, {{graph, nodes, node_output}, {graph, inputs, value_name}, {graph, initializers, tensor_name}}),
      random);
  WireField other{.number = node_input, .kind = 2, .bytes = name && random() % 4 ? text_of(*name) : ""};
  WireField* operand = any_of(operands, random);
  if (!operand || random() % 8 == 0) {
    node->children.push_back(other);
  } else if (random() % 4 == 0) {
    std::swap(*operand, *any_of(operands, random));
  } else {
    *operand = other;
  }
}

}  // namespace

void damage_model(std::vector<WireField>& model, std::mt19937_64& random) {
  for (uint64_t times = 1 + random() % 3; times > 0; --times) {
    switch (random() % 3) {
      case 0: change_shape(model, random); break;
      case 1: change_constant(model, random); break;
      default: change_operand(model, random);
    }
  }
}

}  // namespace weft::test
