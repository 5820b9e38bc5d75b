// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/export/export.h"

#include "frontends/onnx/export/operators.h"
#include "frontends/onnx/file/writer.h"

namespace weft::onnx {

static std::string program_graph(const Program& program) {
  const Module& main = program.main();
  Out out(main);
  std::string ports, defaults;
  for (Value parameter : main.parameters()) {
    const std::string& name = parameter.def->as<Parameter>()->parameter;
    out.set_name(parameter, name);
    out.learn_symbols(parameter);
    put_text(ports, 11, port(name, parameter.type()));
    auto value = program.defaults.find(name);
    if (value != program.defaults.end()) put_text(defaults, 5, tensor_bytes(value->second, name));
  }
  for (Instruction& i : main)
    if (!i.is<Parameter>()) write_instruction(out, i);
  for (const Result& result : main.results()) {
    out.add_output(out.name(result.value), result.name);
    put_text(ports, 12, port(result.name, result.value.type()));
  }
  std::string name = message({{2, program.name.empty() ? "weft" : program.name}});
  return out.take_nodes() + name + out.take_weights() + defaults + ports;
}

std::string export_program(const Program& program) {
  std::string model, opset;
  put_integer(model, 1, exported_format);
  put_text(model, 2, "weft");
  put_text(model, 7, program_graph(program));
  put_text(opset, 1, "");
  put_integer(opset, 2, exported_opset);
  put_text(model, 8, opset);
  for (const auto& [key, value] : program.metadata) put_text(model, 14, message({{1, key}, {2, value}}));
  return model;
}

}  // namespace weft::onnx
