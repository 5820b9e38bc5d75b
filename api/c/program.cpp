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
  shown.reserve(ports.size());
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

/// Returns `executable`. Throws E106 if the mapped file of a constant in `options` has changed.
std::shared_ptr<Executable> of_unchanged(const CompileOptions& options, std::shared_ptr<Executable> executable) {
  for (const auto& [name, tensor] : options.constants) check_kept(tensor.data);
  return executable;
}

}  // namespace

Bytes given_bytes(const void* data, size_t size, const CompileOptions& options) {
  if (size > 0) required(static_cast<const char*>(data), "data");
  std::span<const std::byte> model(static_cast<const std::byte*>(data), size);
  return options.borrow ? Bytes(model, nullptr) : Bytes::copy(model);
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

namespace {

// One function for each kind of option in compile/options.def: writes an option of the C struct to `to`.

template <class From, class To>
void take_text(From given, const char*, To& to) {
  if (given) to = given;
}
constexpr auto take_path = [](const char* given, const char* what, auto& to) { take_text(given, what, to); };
constexpr auto take_number = [](auto given, const char*, auto& to) { to = given; };
constexpr auto take_bytes = take_number;
constexpr auto take_flag = [](int32_t given, const char*, bool& to) { to = given != 0; };
constexpr auto take_borrow = take_flag;
constexpr auto take_cache = [](int32_t no_cache, const char*, bool& to) { to = no_cache == 0; };

void take_seconds(double given, const char* what, double& to) {
  if (!(given >= 0)) usage_error("E210", cat(what, " is ", given, ", not 0 or more"));
  to = given;
}

void take_deadline(double seconds, const char*, option::deadline& to) {
  if (seconds != 0) to = deadline_after(seconds);
}

void take_precision(weft_precision given, const char* what, Precision& to) {
  if (given < WEFT_PRECISION_F32 || given > WEFT_PRECISION_F16)
    usage_error("E210", cat(what, " ", static_cast<int>(given), " is unknown"));
  to = static_cast<Precision>(given);
}

constexpr auto take_texts = [](const char* const* items, size_t count, const char* what, option::texts& to) {
  to = strings(items, count, what);
};

void take_static_inputs(const char* const* items, size_t count, const char* what, option::static_inputs& to) {
  if (items) to = strings(items, count, what);
}

void take_shapes(const char* const* items, size_t count, const char* what, option::shapes& to) {
  for (const std::string& text : strings(items, count, what)) {
    for (ShapeRequest& request : parse_shapes(text)) to.push_back(std::move(request));
  }
}

void take_symbols(const char* const* items, size_t count, const char* what, option::symbols& to) {
  for (const std::string& text : strings(items, count, what)) to.insert(parse_symbol(text));
}

void take_donations(const char* const* items, size_t count, const char* what, option::donations& to) {
  for (const std::string& text : strings(items, count, what)) to.push_back(parse_donation(text));
}

void take_constants(const weft_compile_options& c, option::constants& to) {
  std::vector<std::string> names = strings(c.constant_names, c.constant_count, "constant_names");
  if (!names.empty()) required(c.constants, "constants");
  for (size_t i = 0; i < names.size(); ++i) to.insert_or_assign(names[i], required(c.constants[i], "constants").tensor);
}

void take_allocator(const weft_compile_options& c, HostAllocator& to) {
  if (!c.allocator) return;
  if (!c.allocator->allocate || !c.allocator->release) usage_error("E210", "an allocator needs both of its functions");
  to = {c.allocator->allocate, c.allocator->release, c.allocator->user};
}

void take_executor(const weft_compile_options& c, HostExecutor& to) {
  if (c.executor) to = to_executor(*c.executor);
}

/// Converts the array of operators; its stride is the size of the caller's version of weft_operator.
void take_operators(const weft_compile_options& c, option::operators& to) {
  if (c.operator_count > 0) required(c.operators, "operators");
  for (size_t i = 0; i < c.operator_count; ++i) {
    const char* place = reinterpret_cast<const char*>(c.operators) + i * given_size(*c.operators);
    to.push_back(to_operator(*reinterpret_cast<const weft_operator*>(place)));
  }
}

void take_stop(const weft_compile_options& c, option::stop& to) {
  if (c.stop) to = [stop = c.stop, user = c.stop_user] { return stop(user) != 0; };
}

void take_progress(const weft_compile_options& c, option::progress& to) {
  if (!c.progress) return;
  to = [call = c.progress, user = c.progress_user](const Progress& p) { call(user, p.phase.c_str(), p.done, p.total); };
}

}  // namespace

CompileOptions to_compile_options(const weft_compile_options* given) {
  weft_compile_options c = known_part(given, weft_compile_options WEFT_COMPILE_OPTIONS_INIT);
  CompileOptions options;
#define OPTION(kind, name, initial, api, ...) take_##kind(c.api, #api, options.name);
#define LIST_OPTION(kind, name, api, count, ...) take_##kind(c.api, c.count, #api, options.name);
#define OTHER_OPTION(kind, name, ...) take_##kind(c, options.name);
#include "compile/options.def"
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
    auto compiled = compile_bytes(given_bytes(data, size, how), how);
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
