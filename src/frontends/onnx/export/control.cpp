// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/export/control.h"

#include "frontends/onnx/export/operators.h"
#include "frontends/onnx/file/writer.h"
#include "ir/control.h"

namespace weft::onnx {
namespace {

constexpr uint32_t graph_name = 2, graph_input = 11, graph_output = 12;

void write_instructions(Out& out, const Module& body) {
  std::string source = out.source();
  for (Instruction& i : body)
    if (!i.is<Parameter>()) write_instruction(out, i);
  out.set_source(source);
}

/// Adds an output with a new name to a graph, and returns the name.
std::string put_output(Out& out, std::string& ports, const std::string& value, const Type& type) {
  std::string name = out.new_name("result");
  out.add_output(value, name);
  put_text(ports, graph_output, port(name, type));
  return name;
}

OutGraph body_graph(const std::string& nodes, const std::string& ports) {
  std::string text = nodes;
  put_text(text, graph_name, "body");
  return {text + ports};
}

/// Writes a branch. Its parameters take the names of the outer values, because a body in ONNX can read the outer graph.
OutGraph written_branch(Out& out, const Instruction& i, size_t number) {
  const Module& body = *i.modules[number];
  std::span<const Value> given = body_operands(i, number);
  std::string ports;
  std::string nodes = out.body([&] {
    for (size_t k = 0; k < given.size(); ++k) out.set_name(body.parameters()[k], out.name(given[k]));
    write_instructions(out, body);
    for (const Result& result : body.results()) put_output(out, ports, out.name(result.value), result.value.type());
  });
  return body_graph(nodes, ports);
}

Names write(Out& out, const Instruction& i, const If&) {
  return out.add_all("If", {out.name(i.inputs[0])}, i.types.size(),
                     {{"then_branch", written_branch(out, i, 0)}, {"else_branch", written_branch(out, i, 1)}});
}

OutGraph loop_body(Out& out, const Instruction& i, const Loop& op) {
  const Module& body = *i.modules[0];
  size_t carried = op.carried, first = op.conditional;
  Type count = Shape{DType::i64, {}}, condition = Shape{DType::boolean, {}};
  std::string trip = out.new_name("trip"), go = out.new_name("go"), ports;
  put_text(ports, graph_input, port(trip, count));
  put_text(ports, graph_input, port(go, condition));
  std::string nodes = out.body([&] {
    if (const Symbol* symbol = op.counter.as_symbol()) out.set_size(symbol->name, trip);
    for (size_t k = 0; k < body.parameters().size(); ++k) {
      Value parameter = body.parameters()[k];
      if (k >= carried) {
        out.set_name(parameter, out.name(i.inputs[first + k]));
        continue;
      }
      out.set_name(parameter, out.new_name("carried"));
      put_text(ports, graph_input, port(out.name(parameter), parameter.type()));
      out.learn_symbols(parameter);
    }
    write_instructions(out, body);
    if (!op.conditional) put_output(out, ports, go, condition);
    for (const Result& result : body.results()) put_output(out, ports, out.name(result.value), result.value.type());
  });
  return body_graph(nodes, ports);
}

Names write(Out& out, const Instruction& i, const Loop& op) {
  bool is_endless = op.trips.is_constant() && op.trips.value() == INT64_MAX;
  Names inputs = {is_endless ? "" : out.size(op.trips), op.conditional ? out.name(i.inputs[0]) : ""};
  size_t first = op.conditional;
  for (int64_t k = 0; k < op.carried; ++k) inputs.push_back(out.name(i.inputs[first + k]));
  return out.add_all("Loop", inputs, i.types.size(), {{"body", loop_body(out, i, op)}});
}

}  // namespace

bool write_control(Out& out, const Instruction& i, Names& results) {
  if (const auto* branches = i.as<If>()) return results = write(out, i, *branches), true;
  if (const auto* loop = i.as<Loop>()) return results = write(out, i, *loop), true;
  return false;
}

}  // namespace weft::onnx
