// SPDX-License-Identifier: Apache-2.0
#include "mutants/model_damage.h"

#include <functional>

namespace weft::test {
namespace {

using Fields = std::vector<WireField>;

// Field numbers of onnx.proto.
constexpr uint32_t model_graph = 7, graph_node = 1, graph_initializer = 5, graph_input = 11, node_input = 1,
                   node_output = 2, tensor_dims = 1, info_type = 2, type_tensor = 1, tensor_shape = 2;

size_t below(std::mt19937_64& random, size_t limit) { return static_cast<size_t>(random() % limit); }

void for_each(Fields& fields, uint32_t number, const std::function<void(WireField&)>& visit) {
  for (WireField& field : fields) {
    if (field.number == number) visit(field);
  }
}

/// A text may have been taken for a message.
std::string text_of(const WireField& field) {
  return field.children.empty() ? field.bytes : print_wire(field.children);
}

/// The list of dimensions of every graph input that has a shape.
std::vector<Fields*> input_shapes(Fields& graph) {
  std::vector<Fields*> shapes;
  for_each(graph, graph_input, [&](WireField& info) {
    for_each(info.children, info_type, [&](WireField& type) {
      for_each(type.children, type_tensor, [&](WireField& tensor) {
        for_each(tensor.children, tensor_shape, [&](WireField& shape) { shapes.push_back(&shape.children); });
      });
    });
  });
  return shapes;
}

/// One dimension less, or one more: a copy of a neighbour or 1.
void damage_rank(Fields& graph, std::mt19937_64& random) {
  auto shapes = input_shapes(graph);
  if (shapes.empty()) return;
  Fields& dims = *shapes[below(random, shapes.size())];
  size_t at = dims.empty() ? 0 : below(random, dims.size());
  auto place = dims.begin() + static_cast<std::ptrdiff_t>(at);
  if (!dims.empty() && below(random, 2)) dims.erase(place);
  else if (!dims.empty() && below(random, 2)) dims.insert(place, WireField(dims[at]));
  else dims.insert(place, {.number = 1, .kind = 2, .children = {{.number = 1, .value = 1}}});
}

/// The same elements with a rank more or less: the first two dimensions are joined, or a 1 is put somewhere.
void damage_weight(Fields& graph, std::mt19937_64& random) {
  std::vector<Fields*> weights;
  for_each(graph, graph_initializer, [&](WireField& weight) { weights.push_back(&weight.children); });
  if (weights.empty()) return damage_rank(graph, random);
  Fields& weight = *weights[below(random, weights.size())];
  std::vector<size_t> dims;
  for (size_t i = 0; i < weight.size(); ++i) {
    if (weight[i].number == tensor_dims && weight[i].kind == 0) dims.push_back(i);
  }
  if (dims.size() > 1 && below(random, 2)) {
    weight[dims[0]].value *= weight[dims[1]].value;
    weight.erase(weight.begin() + static_cast<std::ptrdiff_t>(dims[1]));
  } else {
    size_t at = dims.empty() ? 0 : dims[below(random, dims.size())];
    weight.insert(weight.begin() + static_cast<std::ptrdiff_t>(at), {.number = tensor_dims, .value = 1});
  }
}

/// A node's input is left out, forgotten, or another value of the graph.
void damage_operand(Fields& graph, std::mt19937_64& random) {
  std::vector<std::string> names{""};
  for_each(graph, graph_input, [&](WireField& info) {
    for_each(info.children, 1, [&](WireField& name) { names.push_back(text_of(name)); });
  });
  std::vector<Fields*> nodes;
  for_each(graph, graph_node, [&](WireField& node) {
    nodes.push_back(&node.children);
    for_each(node.children, node_output, [&](WireField& name) { names.push_back(text_of(name)); });
  });
  if (nodes.empty()) return;
  Fields& node = *nodes[below(random, nodes.size())];
  std::vector<size_t> inputs;
  for (size_t i = 0; i < node.size(); ++i) {
    if (node[i].number == node_input) inputs.push_back(i);
  }
  if (inputs.empty()) return;
  size_t at = inputs[below(random, inputs.size())];
  if (below(random, 4) == 0) node.erase(node.begin() + static_cast<std::ptrdiff_t>(at));
  else node[at] = {.number = node_input, .kind = 2, .bytes = names[below(random, names.size())]};
}

}  // namespace

void damage_model(Fields& model, std::mt19937_64& random) {
  for_each(model, model_graph, [&](WireField& graph) {
    for (size_t times = 1 + below(random, 2); times > 0; --times) {
      switch (below(random, 3)) {
        case 0: damage_rank(graph.children, random); break;
        case 1: damage_weight(graph.children, random); break;
        default: damage_operand(graph.children, random);
      }
    }
  });
}

}  // namespace weft::test
