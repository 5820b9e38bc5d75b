// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "api/c/handles.h"
#include "frontends/onnx/export/export.h"
#include "frontends/onnx/import/import.h"
#include "ir/core_ops.h"
#include "ir/op_fields.h"
#include "ir/text.h"
#include "ops/registry.h"
#include "runtime/ref_executable.h"

using namespace weft;

namespace {

Program& program_of(const weft_graph* graph) {
  if (!required(graph, "graph").program)
    usage_error("E211", "the graph has been compiled already", "build a new one; a compiled graph is used up");
  return *graph->program;
}

ParseContext parse_context(Program& program) {
  return {.symbol_of =
              [&program](std::string_view name) {
                auto found = program.symbols().find(name);
                if (found != program.symbols().end()) return found->second;
                Symbol added{.name = std::string(name)};
                program.symbol(added);
                return added;
              },
          .blob_of = {}};
}

weft_value numbered(weft_graph& graph, Value value) {
  graph.instructions.push_back(value.def);
  return {static_cast<uint32_t>(graph.instructions.size() - 1), value.index};
}

Value value_of(const weft_graph& graph, weft_value handle) {
  if (handle.instruction >= graph.instructions.size())
    usage_error("E211", cat("value ", handle.instruction, " is not of this graph, which has ",
                            graph.instructions.size(), " instructions"));
  Instruction* def = graph.instructions[handle.instruction];
  if (handle.result >= def->types.size())
    usage_error("E211",
                cat("there is no result ", handle.result, " of ", display_name(def->op), ", only ", def->types.size()));
  return {def, handle.result};
}

Op parse_op(Program& program, std::string_view text) {
  OpText parsed = parse_op_text(text);
  return make_op(parsed.name, parsed.attributes, parse_context(program));
}

void give_graph(weft_graph** out, Imported imported) {
  auto made = std::make_unique<weft_graph>();
  made->program = std::move(imported.program), made->model = std::move(imported.model);
  for (Instruction& instruction : made->program->main()) made->instructions.push_back(&instruction);
  made->results = made->program->main().results();
  *out = made.release();
}

/// Returns the graph's program for appending instructions. Throws E502 for a model with static inputs, because that
/// model is read again for each set of values of these inputs.
Program& open_program(const weft_graph* graph) {
  Program& program = program_of(graph);
  if (graph->model)
    usage_error("E502", "a graph whose model has static inputs takes no instructions",
                "fix these inputs when it is read: constant_names");
  return program;
}

/// Fills `out`. The pointers in `out` stay valid until the graph's ports change.
void give_port(weft_graph::Ports& known, std::vector<Port> now, size_t index, weft_port* out,
               std::span<const StaticInput> statics = {}) {
  auto is_same = [](const Port& a, const Port& b) { return a.name == b.name && a.type == b.type; };
  if (!std::ranges::equal(known.ports, now, is_same)) {
    known.ports = std::move(now);
    known.shown = describe_ports(known.ports, statics);
  }
  fill_port(known.ports, known.shown, index, out);
}

const CustomOperator* find_custom(const weft_graph& graph, std::string_view text) {
  std::string_view name = text.substr(0, text.find_first_of(" {"));
  auto found = std::ranges::find(graph.operators, name, &CustomOperator::name);
  return found == graph.operators.end() ? nullptr : &*found;
}

}  // namespace

weft_status* weft_graph_new(const char* name, weft_graph** graph) {
  return guarded([&] {
    required(graph, "graph");
    auto made = std::make_unique<weft_graph>();
    made->program = std::make_unique<Program>();
    made->program->name = name ? name : "";
    *graph = made.release();
  });
}

weft_status* weft_graph_parse(const char* text, weft_graph** graph) {
  return guarded([&] {
    required(graph, "graph");
    give_graph(graph, {.program = parse_program(&required(text, "text"), make_op)});
  });
}

const char* weft_model_operator(size_t index) {
  static const auto* names = new std::vector<std::string>(onnx::supported_operators());
  return index < names->size() ? (*names)[index].c_str() : nullptr;
}

weft_status* weft_graph_read(const char* path, const weft_compile_options* options, weft_graph** graph) {
  return guarded([&] {
    required(graph, "graph");
    give_graph(graph, import_any(&required(path, "path"), to_compile_options(options)));
  });
}

weft_status* weft_graph_read_bytes(const void* data, size_t size, const weft_compile_options* options,
                                   weft_graph** graph) {
  return guarded([&] {
    required(graph, "graph");
    CompileOptions asked = to_compile_options(options);
    give_graph(graph, import_any(given_bytes(data, size, asked), asked));
  });
}

size_t weft_graph_input_count(const weft_graph* graph) {
  if (!graph || !graph->program) return 0;
  return graph->model ? graph->model->inputs().size() : graph->program->main().parameters().size();
}
size_t weft_graph_output_count(const weft_graph* graph) { return graph ? graph->results.size() : 0; }

weft_status* weft_graph_input_port(weft_graph* graph, size_t index, weft_port* port) {
  return guarded([&] {
    const Program& program = program_of(graph);
    if (!graph->model) return give_port(graph->inputs, input_ports(program), index, port);
    give_port(graph->inputs, graph->model->inputs(), index, port, graph->model->statics());
  });
}

weft_status* weft_graph_output_port(weft_graph* graph, size_t index, weft_port* port) {
  return guarded([&] { give_port(required(graph, "graph").outputs, output_ports(program_of(graph)), index, port); });
}

void weft_graph_free(weft_graph* graph) { delete graph; }

weft_status* weft_graph_symbol(weft_graph* graph, const char* name, int64_t min, int64_t max) {
  return guarded([&] {
    Program& program = open_program(graph);
    if (min < 0 || max < min) usage_error("E211", cat("a size from ", min, " to ", max, " is impossible"));
    program.symbol({.name = &required(name, "name"), .min = min, .max = max});
  });
}

weft_status* weft_graph_input(weft_graph* graph, const char* name, const char* type, weft_value* value) {
  return guarded([&] {
    Program& program = open_program(graph);
    required(value, "value");
    Type parsed;
    fields::parse(&required(type, "type"), parsed, parse_context(program));
    *value = numbered(*graph, program.main().parameter(&required(name, "name"), std::move(parsed)));
  });
}

weft_status* weft_graph_constant(weft_graph* graph, const weft_tensor* tensor, weft_value* value) {
  return guarded([&] {
    Program& program = open_program(graph);
    required(value, "value");
    *value = numbered(*graph, program.main().append(Constant{required(tensor, "tensor").tensor}, {}));
  });
}

weft_status* weft_graph_append(weft_graph* graph, const char* op, const weft_value* inputs, size_t input_count,
                               weft_value* result) {
  return guarded([&] {
    Program& program = open_program(graph);
    required(result, "result");
    if (input_count > 0) required(inputs, "inputs");
    std::vector<Value> operands;
    for (size_t i = 0; i < input_count; ++i) operands.push_back(value_of(*graph, inputs[i]));
    std::string_view text = &required(op, "op");
    if (const CustomOperator* custom = find_custom(*graph, text)) {
      // The name becomes "custom", so that the parser of built-in operators reads the attributes.
      std::string rest = cat("custom", text.substr(custom->name.size()));
      OpText parsed = parse_op_text(rest);
      std::vector<std::string> attributes;
      for (const Attribute& attribute : parsed.attributes)
        attributes.push_back(cat(attribute.name, "=", attribute.text));
      *result = numbered(*graph, append_custom(program.main(), *custom, std::move(attributes), std::move(operands))[0]);
      return;
    }
    Op parsed = parse_op(program, text);
    if (parsed.is<Parameter>()) usage_error("E211", "an input is made by weft_graph_input");
    *result = numbered(*graph, program.main().append(std::move(parsed), std::move(operands)));
  });
}

weft_status* weft_graph_operator(weft_graph* graph, const weft_operator* op) {
  return guarded([&] {
    program_of(graph);
    graph->operators.push_back(to_operator(required(op, "op")));
  });
}

weft_status* weft_graph_source(weft_graph* graph, const char* source) {
  return guarded([&] { open_program(graph).main().set_current_source(source ? source : ""); });
}

weft_status* weft_graph_output(weft_graph* graph, const char* name, weft_value value) {
  return guarded([&] {
    Program& program = open_program(graph);
    graph->results.push_back({&required(name, "name"), value_of(*graph, value)});
    program.main().set_results(graph->results);
  });
}

weft_status* weft_graph_export(const weft_graph* graph, weft_tensor** onnx) {
  return guarded([&] {
    required(onnx, "onnx");
    std::string model = onnx::export_program(open_program(graph));
    *onnx = new weft_tensor{.tensor = bytes_tensor(model)};
  });
}

weft_status* weft_graph_type(const weft_graph* graph, weft_value value, char** type) {
  return guarded([&] {
    program_of(graph);
    give_text(type, "type", to_string(value_of(*graph, value).type()));
  });
}

weft_status* weft_graph_print(const weft_graph* graph, char** text) {
  return guarded([&] { give_text(text, "text", print(program_of(graph))); });
}

weft_status* weft_graph_compile(weft_graph* graph, const weft_compile_options* options, weft_program** program) {
  return guarded([&] {
    required(program, "program");
    program_of(graph);
    CompileOptions asked = to_compile_options(options);  // may throw, so it comes before the graph is moved
    graph->instructions.clear();
    graph->results.clear();
    *program = new weft_program(compile({std::move(graph->program), std::move(graph->model)}, asked));
  });
}
