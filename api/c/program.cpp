// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "api/c/handles.h"
#include "api/c/options_text.h"
#include "api/c/report.h"
#include "base/kept_file.h"
#include "ir/text.h"
#include "runtime/saved.h"

namespace weft {
namespace {

weft_dim to_dim(const Dim& dim, const std::string& text) {
  auto value = dim.constant();
  return {value ? *value : -1, dim.lower_bound(), dim.upper_bound(), text.c_str()};
}

PortText describe_port(const Port& port) {
  PortText text{.is_static = false, .type = to_string(port.type), .dim_texts = {}, .dims = {}};
  if (!port.type.is_tensor()) return text;
  const Dims& dims = port.type.shape.dims;
  for (const Dim& dim : dims) text.dim_texts.push_back(to_string(dim));
  for (size_t i = 0; i < dims.size(); ++i) text.dims.push_back(to_dim(dims[i], text.dim_texts[i]));
  return text;
}

}  // namespace

std::vector<PortText> describe_ports(const std::vector<Port>& ports, std::span<const StaticInput> statics) {
  std::vector<PortText> shown;
  shown.reserve(ports.size());  // no reallocation: the dims point into these elements
  for (const Port& port : ports) shown.push_back(describe_port(port));
  for (const StaticInput& input : statics) shown[input.input].is_static = true;
  return shown;
}

void fill_port(const std::vector<Port>& ports, const std::vector<PortText>& shown, size_t index, weft_port* out) {
  required(out, "port");
  if (index >= ports.size()) usage_error("E210", cat("there is no port ", index, ", only ", ports.size()));
  const Port& port = ports[index];
  fill(out, {.struct_size = 0,
             .name = port.name.c_str(),
             .type = shown[index].type.c_str(),
             .is_tensor = port.type.is_tensor(),
             .dtype = static_cast<weft_dtype>(port.type.shape.dtype),
             .rank = shown[index].dims.size(),
             .dims = shown[index].dims.data(),
             .has_default = port.default_value.has_value(),
             .is_donated = port.is_donated,
             .is_static = shown[index].is_static});
}

namespace {

std::vector<std::string> strings(const char* const* items, size_t count, const char* what) {
  std::vector<std::string> copies;
  if (count > 0) required(items, what);
  for (size_t i = 0; i < count; ++i) copies.emplace_back(&required(items[i], what));
  return copies;
}

void give_program(weft_program** out, std::shared_ptr<Executable> executable) {
  *out = new weft_program(std::move(executable));
}

/// Refuses a program if files of its constants have changed meanwhile.
std::shared_ptr<Executable> of_unchanged(const CompileOptions& options, std::shared_ptr<Executable> executable) {
  for (const auto& [name, tensor] : options.constants) check_kept(tensor.data);
  return executable;
}

}  // namespace

std::string given_folder(const weft_compile_options* options) {
  const char* folder = known_part(options, weft_compile_options WEFT_COMPILE_OPTIONS_INIT).folder;
  return folder ? folder : "";
}

Bytes given_bytes(const void* data, size_t size, const weft_compile_options* options) {
  if (size > 0) required(static_cast<const char*>(data), "data");
  std::span<const std::byte> model(static_cast<const std::byte*>(data), size);
  bool is_lent = known_part(options, weft_compile_options WEFT_COMPILE_OPTIONS_INIT).borrow != 0;
  return is_lent ? Bytes(model, nullptr) : Bytes::copy(model);
}

HostExecutor to_executor(const weft_executor& given) {
  if (!given.parallel_for || given.width < 1 || given.width > max_threads)
    usage_error("E210",
                cat("an executor needs 'parallel_for' and a width of 1 to ", max_threads, ", not ", given.width));
  return {given.width, given.parallel_for, given.user};
}

CustomOperator to_operator(const weft_operator& given) {
  weft_operator c = known_part(&given, weft_operator WEFT_OPERATOR_INIT);
  auto text = [](const char* part) { return std::string(part ? part : ""); };
  CustomOperator op;
  op.name = &required(c.name, "name"), op.rule = &required(c.rule, "rule");
  op.source = text(c.source), op.function = text(c.function), op.is_pointwise = c.is_pointwise != 0;
  if (c.tasks) op.tasks = c.tasks;
  op.call = c.call, op.user = c.user;
  return op;
}

CompileOptions to_compile_options(const weft_compile_options* given) {
  weft_compile_options c = known_part(given, weft_compile_options WEFT_COMPILE_OPTIONS_INIT);
  CompileOptions options;
  if (c.device) options.device = c.device;
  options.threads = c.threads;
  options.memory_limit = c.memory_limit;
  if (c.precision < WEFT_PRECISION_F32 || c.precision > WEFT_PRECISION_F16)
    usage_error("E210", cat("precision ", static_cast<int>(c.precision), " is unknown"));
  options.precision = static_cast<Precision>(c.precision);
  for (const std::string& text : strings(c.shapes, c.shape_count, "shapes")) {
    for (ShapeRequest& request : parse_shapes(text)) options.shapes.push_back(std::move(request));
  }
  for (const std::string& text : strings(c.symbols, c.symbol_count, "symbols"))
    options.symbols.insert(parse_symbol(text));
  std::vector<std::string> constants = strings(c.constant_names, c.constant_count, "constant_names");
  if (!constants.empty()) required(c.constants, "constants");
  for (size_t i = 0; i < constants.size(); ++i)
    options.constants.insert_or_assign(constants[i], required(c.constants[i], "constants").tensor);
  options.fixed_defaults = strings(c.fixed_defaults, c.fixed_default_count, "fixed_defaults");
  if (c.allocator) options.allocator = {c.allocator->allocate, c.allocator->release, c.allocator->user};
  if (c.allocator && (!c.allocator->allocate || !c.allocator->release))
    usage_error("E210", "an allocator needs both of its functions");
  if (c.executor) options.executor = to_executor(*c.executor);
  for (const std::string& text : strings(c.donations, c.donation_count, "donations"))
    options.donations.push_back(parse_donation(text));
  if (c.operator_count > 0) required(c.operators, "operators");
  // The stride of the array is the size of the caller's version of the struct.
  for (size_t i = 0; i < c.operator_count; ++i) {
    const char* place = reinterpret_cast<const char*>(c.operators) + i * given_size(*c.operators);
    options.operators.push_back(to_operator(*reinterpret_cast<const weft_operator*>(place)));
  }
  options.keep_f32 = strings(c.keep_f32, c.keep_f32_count, "keep_f32");
  if (c.static_inputs) options.static_inputs = strings(c.static_inputs, c.static_input_count, "static_inputs");
  if (c.tag) options.tag = c.tag;
  if (c.signature) options.signature = c.signature;
  options.channels_first = c.channels_first != 0;
  options.outputs = strings(c.outputs, c.output_count, "outputs");
  if (c.dump_folder) options.dump_directory = c.dump_folder;
  options.use_cache = c.no_cache == 0;
  if (!(c.tune_seconds >= 0)) usage_error("E210", cat("tune_seconds is ", c.tune_seconds, ", not 0 or more"));
  options.tune.seconds = c.tune_seconds;
  if (c.deadline_seconds != 0) options.deadline = deadline_after(c.deadline_seconds);
  if (c.stop) options.stop = [stop = c.stop, user = c.stop_user] { return stop(user) != 0; };
  if (c.progress) {
    options.progress = [call = c.progress, user = c.progress_user](const Progress& p) {
      call(user, p.phase.c_str(), p.done, p.total);
    };
  }
  return options;
}

}  // namespace weft

using namespace weft;

weft_program::weft_program(std::shared_ptr<Executable> compiled)
    : executable(std::move(compiled)),
      device(executable->device()),
      inputs(describe_ports(executable->inputs(), executable->static_inputs())),
      outputs(describe_ports(executable->outputs())) {}

weft_status* weft_compile(const char* path, const weft_compile_options* options, weft_program** program) {
  return guarded([&] {
    required(program, "program");
    CompileOptions how = to_compile_options(options);
    give_program(program, of_unchanged(how, compile_file(&required(path, "path"), how)));
  });
}

weft_status* weft_compile_bytes(const void* data, size_t size, const weft_compile_options* options,
                                weft_program** program) {
  return guarded([&] {
    required(program, "program");
    CompileOptions how = to_compile_options(options);
    auto compiled = compile_bytes(given_bytes(data, size, options), how, given_folder(options));
    give_program(program, of_unchanged(how, std::move(compiled)));
  });
}

weft_status* weft_load(const char* path, const weft_compile_options* options, weft_program** program) {
  return guarded([&] {
    required(program, "program");
    if (!is_saved_program(map_file(&required(path, "path"))))
      usage_error("E102", cat(printable(path), " is not a saved program"), "weft_compile takes both");
    give_program(program, compile_file(path, to_compile_options(options)));
  });
}

weft_status* weft_save(const weft_program* program, const char* path) {
  return guarded([&] { required(program, "program").executable->save(&required(path, "path")); });
}

weft_status* weft_save_for(const weft_program* program, const char* path, const char* const* targets,
                           size_t target_count) {
  return guarded([&] {
    save(*required(program, "program").executable, &required(path, "path"), strings(targets, target_count, "targets"));
  });
}

weft_status* weft_support(const char* path, const weft_compile_options* options, char** json) {
  return guarded([&] {
    auto nodes = find_support(&required(path, "path"), to_compile_options(options));
    give_text(json, "json", describe(nodes).dump());
  });
}

weft_status* weft_program_detach(weft_program* program) {
  return guarded([&] { required(program, "program").executable->detach(); });
}

void weft_program_free(weft_program* program) { delete program; }

weft_status* weft_print(const char* path, const weft_compile_options* options, const char* stage, char** text) {
  return guarded([&] {
    required(text, "text");
    CompileOptions compile_options = to_compile_options(options);
    auto program = import_file(&required(path, "path"), compile_options);
    std::string_view wanted = stage ? stage : "";
    if (!wanted.empty()) program = optimised(std::move(program), compile_options, wanted);
    give_text(text, "text", print(*program));
  });
}

size_t weft_input_count(const weft_program* program) { return program ? program->inputs.size() : 0; }
size_t weft_output_count(const weft_program* program) { return program ? program->outputs.size() : 0; }

weft_status* weft_input(const weft_program* program, size_t index, weft_port* port) {
  return guarded([&] {
    const weft_program& p = required(program, "program");
    fill_port(p.executable->inputs(), p.inputs, index, port);
  });
}
weft_status* weft_output(const weft_program* program, size_t index, weft_port* port) {
  return guarded([&] {
    const weft_program& p = required(program, "program");
    fill_port(p.executable->outputs(), p.outputs, index, port);
  });
}

const char* weft_program_device(const weft_program* program) { return program ? program->device.c_str() : ""; }

weft_status* weft_program_report(const weft_program* program, char** json) {
  return guarded([&] { give_text(json, "json", describe(*required(program, "program").executable).dump()); });
}

const char* weft_program_metadata(const weft_program* program, const char* key) {
  if (!program || !key) return nullptr;
  const auto& metadata = program->executable->metadata();
  auto found = metadata.find(key);
  return found == metadata.end() ? nullptr : found->second.c_str();
}
