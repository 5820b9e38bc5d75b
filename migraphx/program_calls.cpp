// SPDX-License-Identifier: Apache-2.0
// The calls of migraphx.h that make, compile, run, save and load programs.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "migraphx/body.h"
#include "migraphx/program.h"

using namespace weft::mgx;

namespace {

/// Returns the text of a request for an input's sizes: "x=1,3,224,224", "x=1..8,3".
std::string request(const std::string& name, const std::vector<migraphx_dynamic_dimension>& sizes) {
  std::string text;
  for (const auto& [min, max, optimals] : sizes) {
    text += (text.empty() ? "" : ",") + std::to_string(min);
    if (min < max) text += ".." + std::to_string(max);
  }
  return name + "=" + text;
}

std::vector<migraphx_dynamic_dimension> fixed(const std::vector<size_t>& lengths) {
  std::vector<migraphx_dynamic_dimension> sizes;
  for (size_t length : lengths) sizes.push_back({length, length, {}});
  return sizes;
}

/// Returns the sizes of an input for which the options give none: the model's sizes, with defaults for open ones.
std::vector<migraphx_dynamic_dimension> by_default(const weft::Port& port, const migraphx_onnx_options& options) {
  std::vector<migraphx_dynamic_dimension> sizes;
  migraphx_dynamic_dimension otherwise{options.default_length, options.default_length, {}};
  for (const weft_dim& dim : weft::dims(port)) {
    size_t value = static_cast<size_t>(dim.value);
    sizes.push_back(dim.value < 0 ? options.default_range.value_or(otherwise)
                                  : migraphx_dynamic_dimension{value, value, {}});
  }
  return sizes;
}

bool is_open(const weft::Port& port) {
  return port.is_tensor && std::ranges::any_of(weft::dims(port), [](const weft_dim& dim) { return dim.value < 0; });
}

/// Returns the request for the sizes that the options give the input, else for the defaults of open sizes; "" if there
/// is nothing to request. MIGraphX gives a scalar the sizes {1}.
std::string sizes_of(const weft::Port& port, const migraphx_onnx_options& options) {
  auto lengths = options.lengths.find(port.name);
  bool is_scalar = port.is_tensor && port.rank == 0;
  if (lengths != options.lengths.end()) {
    bool is_said = lengths->second.empty() || (is_scalar && lengths->second == std::vector<size_t>{1});
    return is_said ? "" : request(port.name, fixed(lengths->second));
  }
  auto ranges = options.ranges.find(port.name);
  if (ranges != options.ranges.end()) return request(port.name, ranges->second);
  return is_open(port) ? request(port.name, by_default(port, options)) : "";
}

/// Adds a request; returns false if the list has it already.
bool add(std::vector<std::string>& shapes, const std::string& shape) {
  if (std::ranges::find(shapes, shape) != shapes.end()) return false;
  shapes.push_back(shape);
  return true;
}

/// True if the error says that this input has no rank (E134 for an ONNX model, E151 for TensorFlow).
bool is_about(const weft::Error& error, const std::string& name) {
  return error.facts() == "input '" + name + "' has no rank" ||
         error.facts() == "input '" + name + "' has no fixed number of axes";
}

/// Returns the sizes that the options give to an input without a rank, if the error is about that input.
std::optional<std::string> missing_rank(const weft::Error& error, const migraphx_onnx_options& options) {
  if (error.code() != "E134" && error.code() != "E151") return std::nullopt;
  for (const auto& [name, lengths] : options.lengths)
    if (is_about(error, name)) return request(name, fixed(lengths));
  for (const auto& [name, sizes] : options.ranges)
    if (is_about(error, name)) return request(name, sizes);
  return std::nullopt;
}

weft::Graph read_graph(Source& source, const migraphx_onnx_options& options) {
  for (;;) {
    try {
      return source.read();
    } catch (const weft::Error& error) {
      auto sizes = missing_rank(error, options);
      if (!sizes || !add(source.options.shapes, *sizes)) throw;
    }
  }
}

/// Reads a model of ONNX or TensorFlow. As in MIGraphX, initialisers are never parameters, and sizes are fixed unless a
/// range was asked for. Sizes for unknown inputs are ignored, because onnxruntime's provider passes some.
std::unique_ptr<migraphx_program> read(Source source, const migraphx_onnx_options& options) {
  source.options.borrow = true;
  source.options.fixed_defaults = {"*"};
  weft::Graph graph = read_graph(source, options);  // the ports below point into it
  for (const weft::Port& port : graph.inputs())
    if (std::string sizes = sizes_of(port, options); !sizes.empty()) add(source.options.shapes, sizes);
  if (!source.options.shapes.empty()) read_graph(source, options);  // throws now if the requested sizes do not fit
  auto program = std::make_unique<migraphx_program>();
  program->source = std::move(source);
  return program;
}

/// Reads a frozen graph or a SavedModel of TensorFlow.
std::unique_ptr<migraphx_program> read_tf(Source source, const migraphx_tf_options* options) {
  const migraphx_tf_options asked = options ? *options : migraphx_tf_options{};
  source.is_onnx = false;
  source.options.channels_first = asked.is_nhwc;
  source.options.outputs = asked.outputs;
  return read(std::move(source), {.lengths = asked.lengths, .default_length = asked.default_length});
}

/// Reads a model as `read` does. But an error in the body of an If, Loop or Scan is reported when the program runs.
std::unique_ptr<migraphx_program> read_in_memory(Source source, const migraphx_onnx_options& options) {
  auto bytes = source.bytes;
  try {
    return read(std::move(source), options);
  } catch (const weft::Error& error) {
    auto body = body_of(*bytes);
    if (!body) throw;
    auto program = std::make_unique<migraphx_program>();
    program->refusal = Refusal{error, std::move(*body)};
    return program;
  }
}

/// Returns the program as text; for a loaded program, which has no graph, its report.
std::string text_of(const migraphx_program& program) {
  bool is_loaded = program.made && !program.source && program.modules.empty();
  return is_loaded ? program.made->program().report() + "\n" : program.graph().print();
}

bool equal_programs(const migraphx_program& a, const migraphx_program& b) {
  if (a.made != b.made || a.precision != b.precision || a.is_quantised != b.is_quantised ||
      a.source.has_value() != b.source.has_value())
    return false;
  if (a.made) return true;
  if (!a.source) return a.graph().print() == b.graph().print();
  const Source &x = *a.source, &y = *b.source;
  bool same_model = x.bytes && y.bytes ? *x.bytes == *y.bytes : !x.bytes && !y.bytes && x.path == y.path;
  return same_model && x.options.shapes == y.options.shapes;
}

}  // namespace

WEFT_MGX_HANDLE(program)
WEFT_MGX_HANDLE(trace_info)
WEFT_MGX_CREATE(program)
WEFT_MGX_CREATE(trace_info)

migraphx_status migraphx_parse_onnx(migraphx_program_t* out, const char* name, migraphx_onnx_options_t options) {
  return guarded([&] {
    given(out);
    *out = read({.path = &given(name)}, options ? *options : migraphx_onnx_options{}).release();
  });
}

migraphx_status migraphx_parse_onnx_buffer(migraphx_program_t* out, const void* data, size_t size,
                                           migraphx_onnx_options_t options) {
  return guarded([&] {
    given(out);
    const char* bytes = &given(static_cast<const char*>(data));
    Source source{.bytes = std::make_shared<const std::string>(bytes, size)};
    if (options) source.options.folder = options->folder;
    *out = read_in_memory(std::move(source), options ? *options : migraphx_onnx_options{}).release();
  });
}

migraphx_status migraphx_parse_tf(migraphx_program_t* out, const char* name, migraphx_tf_options_t options) {
  return guarded([&] {
    given(out);
    *out = read_tf({.path = &given(name)}, options).release();
  });
}

migraphx_status migraphx_parse_tf_buffer(migraphx_program_t* out, const void* data, size_t size,
                                         migraphx_tf_options_t options) {
  return guarded([&] {
    given(out);
    const char* bytes = &given(static_cast<const char*>(data));
    *out = read_tf({.bytes = std::make_shared<const std::string>(bytes, size)}, options).release();
  });
}

migraphx_status migraphx_program_get_main_module(migraphx_module_t* out, migraphx_program_t program) {
  return guarded([&] { given(out) = given(program).main(); });
}

migraphx_status migraphx_program_create_module(migraphx_module_t* out, migraphx_program_t program, const char* name) {
  return guarded([&] {
    given(program).main();
    program->modules.push_back(std::make_unique<migraphx_module>(&given(name)));
    given(out) = program->modules.back().get();
  });
}

migraphx_status migraphx_program_compile(migraphx_program_t program, migraphx_target_t target,
                                         migraphx_compile_options_t options) {
  return guarded([&] { given(program).compile(given(target).name, options ? *options : migraphx_compile_options{}); });
}

migraphx_status migraphx_program_get_parameter_shapes(migraphx_program_parameter_shapes_t* out,
                                                      migraphx_program_t program) {
  return guarded([&] { give(out, migraphx_program_parameter_shapes(given(program).parameters())); });
}

migraphx_status migraphx_program_get_output_shapes(migraphx_shapes_t* out, migraphx_program_t program) {
  return guarded([&] { give(out, migraphx_shapes(given(program).results())); });
}

migraphx_status migraphx_program_print(const_migraphx_program_t program) {
  return guarded([&] {
    std::fputs(text_of(given(program)).c_str(), stdout);
    std::fflush(stdout);
  });
}

migraphx_status weft_migraphx_program_text(char** out, const_migraphx_program_t program) {
  return guarded([&] {
    given(out) = strdup(text_of(given(program)).c_str());
    if (!*out) throw std::bad_alloc();
  });
}

/// Has no effect: each instruction of a program comes after its operands from the start.
migraphx_status migraphx_program_sort(migraphx_program_t program) {
  return guarded([&] { given(program); });
}

migraphx_status migraphx_program_run(migraphx_arguments_t* out, migraphx_program_t program,
                                     migraphx_program_parameters_t params) {
  return guarded([&] {
    given(out);
    *out = new migraphx_arguments(given(program).compiled().run(given(params)));
  });
}

/// Queues a run on the stream `s`. `name` is the type of the stream; only a program on an AMD GPU checks it.
migraphx_status migraphx_program_run_async(migraphx_arguments_t* out, migraphx_program_t program,
                                           migraphx_program_parameters_t params, void* s, const char* name) {
  return guarded([&] {
    given(out);
    const Compiled& compiled = given(program).compiled();
    if (!compiled.amd_gpu().empty() && std::string_view(&given(name)) != "ihipStream_t")
      refuse("the stream is of kind '" + std::string(name) + "'", "runs on an AMD GPU take an 'ihipStream_t'");
    *out = new migraphx_arguments(compiled.run(given(params), s));
  });
}

/// Runs the program, then calls the callback for each output of the program. Other instructions are fused into kernels,
/// so they have no results to pass.
migraphx_status migraphx_program_run_trace(migraphx_arguments_t* out, migraphx_program_t program,
                                           migraphx_program_parameters_t params, migraphx_trace_callback_t callback,
                                           void* data) {
  return guarded([&] {
    given(out);
    if (!callback) refuse("run_trace needs a callback");
    auto results = std::make_unique<migraphx_arguments>(given(program).compiled().run(given(params)));
    std::vector<weft::Port> ports = program->compiled().program().outputs();
    for (size_t i = 0; i < ports.size(); ++i) {
      migraphx_trace_info info{i, ports[i].name, results->list[i]};
      if (callback(&info, data) != migraphx_status_success) refuse("the callback of run_trace failed");
    }
    *out = results.release();
  });
}

migraphx_status migraphx_program_equal(bool* out, const_migraphx_program_t program, const_migraphx_program_t x) {
  return guarded([&] { given(out) = equal_programs(given(program), given(x)); });
}

migraphx_status migraphx_program_experimental_get_context(migraphx_context_t* out, const_migraphx_program_t program) {
  return guarded([&] {
    given(program).context.made = program->made;
    given(out) = &program->context;
  });
}
migraphx_status migraphx_context_finish(const_migraphx_context_t context) {
  return guarded([&] {
    if (given(context).made) context->made->finish();
  });
}
migraphx_status migraphx_context_get_queue(void** out, migraphx_context_t context) {
  return guarded([&] { given(out) = given(context).queue; });
}

migraphx_status migraphx_trace_info_get_index(size_t* out, const_migraphx_trace_info_t trace_info) {
  return guarded([&] { given(out) = given(trace_info).index; });
}
migraphx_status migraphx_trace_info_get_name(const char** out, const_migraphx_trace_info_t trace_info) {
  return guarded([&] { given(out) = given(trace_info).name.c_str(); });
}
migraphx_status migraphx_trace_info_get_result(const_migraphx_argument_t* out, const_migraphx_trace_info_t trace_info) {
  return guarded([&] { given(out) = &given(trace_info).result; });
}

migraphx_status migraphx_save(migraphx_program_t p, const char* name, migraphx_file_options_t) {
  return guarded([&] { given(p).compiled().program().save(&given(name)); });
}

migraphx_status migraphx_load(migraphx_program_t* out, const char* name, migraphx_file_options_t) {
  return guarded([&] {
    given(out);
    auto program = std::make_unique<migraphx_program>();
    program->made = std::make_shared<Compiled>(weft::load(&given(name)), true, nullptr);
    *out = program.release();
  });
}
