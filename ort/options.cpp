// SPDX-License-Identifier: Apache-2.0
#include "ort/options.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "adapters/variables.h"
#include "ort/device.h"
#include "weft/weft.hpp"

namespace weft::ort {
namespace {

constexpr std::string_view prefix = "migraphx_";

[[noreturn]] void refuse(const char* code, const std::string& what, const std::string& hint = {}) {
  throw Error(WEFT_USAGE, code, what, hint);
}

// ---- Values ----

[[noreturn]] void refuse_value(const std::string& name, const std::string& text, const char* wanted) {
  refuse("E203", "option " + name + " is '" + text + "', which is not " + wanted);
}

std::string lower(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return text;
}

void parse(const std::string& name, const std::string& text, bool& out) {
  std::string word = lower(text);
  if (word == "1" || word == "true" || word == "on") out = true;
  else if (word == "0" || word == "false" || word == "off") out = false;
  else refuse_value(name, text, "0 or 1");
}

/// Parses a decimal number, or a hexadecimal one after 0x.
template <class Number>
bool parse_number(std::string_view text, Number& out) {
  bool is_hex = text.starts_with("0x") || text.starts_with("0X");
  if (is_hex) text.remove_prefix(2);
  auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), out, is_hex ? 16 : 10);
  return code == std::errc() && end == text.data() + text.size();
}

void parse(const std::string& name, const std::string& text, int64_t& out) {
  uint64_t value = 0;  // may be the largest size_t, which often stands for "no limit"
  if (!parse_number(text, value)) refuse_value(name, text, "a whole number of at least 0");
  out = static_cast<int64_t>(std::min<uint64_t>(value, INT64_MAX));
}

void parse(const std::string& name, const std::string& text, Address& out) {
  if (!parse_number(text, out)) refuse_value(name, text, "an address");
}

void parse(const std::string& name, const std::string& text, ArenaStrategy& out) {
  if (text == "kNextPowerOfTwo" || text == "0") out = ArenaStrategy::next_power_of_two;
  else if (text == "kSameAsRequested" || text == "1") out = ArenaStrategy::same_as_requested;
  else refuse_value(name, text, "kNextPowerOfTwo (0) or kSameAsRequested (1)");
}

void parse(const std::string& name, const std::string& text, ComputeMode& out) {
  std::string word = lower(text);
  if (word == "eager" || word == "0") out = ComputeMode::eager;
  else if (word == "balanced" || word == "50") out = ComputeMode::balanced;
  else if (word == "maximum" || word == "100") out = ComputeMode::maximum;
  else refuse_value(name, text, "eager (0), balanced (50) or maximum (100)");
}

void parse(const std::string&, const std::string& text, std::string& out) { out = text; }

// ---- Names ----

struct Row {
  const char* name;
  void (*set)(Options&, const std::string& name, const std::string& text);
  bool has_variable;
  const char *cpu_note, *gpu_note;
};

const Row rows[] = {
#define OPTION(type, name, value, has_variable, cpu_note, gpu_note, sentence)                                \
  {#name, [](Options& o, const std::string& spelt, const std::string& text) { parse(spelt, text, o.name); }, \
   has_variable, cpu_note, gpu_note},
#include "ort/options.def"
#undef OPTION
};

const Row& find_row(const std::string& spelt) {
  std::string_view name = spelt;
  if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
  auto row = std::ranges::find(rows, name, &Row::name);
  if (row != std::end(rows)) return *row;
  refuse("E202", "there is no option '" + spelt + "'", "the nearest is " + adapters::nearest(name, option_names()));
}

std::string variable_of(const char* name) {
  std::string variable = "ORT_MIGRAPHX_";
  for (const char* c = name; *c; ++c) variable += *c >= 'a' && *c <= 'z' ? static_cast<char>(*c - 'a' + 'A') : *c;
  return variable;
}

void set(Options& options, const Device& device, const Row& row, const std::string& spelt, const std::string& text) {
  row.set(options, spelt, text);
  const char* note = device.is_gpu() ? row.gpu_note : row.cpu_note;
  if (*note) options.notes.push_back("option " + spelt + " changes nothing: " + note);
  if (std::string_view(row.name) == "user_compute_stream") options.has_user_compute_stream = true;
}

// ---- Options that exclude each other ----

void check_device(const Options& o, const Device& device, bool has_id) {
  if (has_id && o.device_id != device.number)
    refuse("E502", "device_id is " + std::to_string(o.device_id) + ", and the session's device is number " +
                       std::to_string(device.number) + ", " + device.name);
  bool is_it = o.device == "auto" || o.device == device.name || (o.device == "gpu" && device.is_gpu()) ||
               o.device == device.name.substr(0, device.name.find(':'));
  if (!is_it)
    refuse("E501", "option device is '" + o.device + "', and the session's device is " + device.name,
           "a GPU is chosen by device_id or by its OrtEpDevice; WEFT_CUDA_LIBRARY=none and WEFT_HIP_LIBRARY=none hide "
           "them all");
}

void check_numbers(const Options& o) {
  if (o.threads > 4096) refuse("E203", "option threads is " + std::to_string(o.threads) + ", the most is 4096");
}

void check_precisions(const Options& o) {
  if (o.fp16_enable && o.bf16_enable) refuse("E502", "fp16_enable and bf16_enable are both set", "set one of them");
  if (o.fp8_enable && o.int8_enable) refuse("E502", "fp8_enable and int8_enable are both set", "set one of them");
  if (o.int8_enable && o.int8_calibration_table_name.empty())
    refuse("E502", "int8_enable is set without int8_calibration_table_name",
           "name a calibration table, or give a model that is quantised already");
}

void check_memory(const Options& o) {
  if (o.has_user_compute_stream && o.allocate())
    refuse("E502", "user_compute_stream does not go together with an external allocator");
  if ((o.allocate() != 0) != (o.free() != 0))
    refuse("E502", "an external allocator needs both functions", "set external_alloc and external_free");
}

/// Adds notes about tuning options of the ROCm provider that have no effect as they are set.
void note_tuning(Options& o) {
  if (o.tunable_op_tuning_enable && !o.tunable_op_enable)
    o.notes.push_back("option tunable_op_tuning_enable changes nothing: tunable_op_enable is not set");
  if (o.tunable_op_enable && !o.tunable_op_tuning_enable)
    o.notes.push_back("option tunable_op_enable changes nothing alone: measurements that were kept are always used");
  if (o.tunable_op_max_tuning_duration_ms > 0 && !o.tunes_at_once() && !o.tunes_while_serving())
    o.notes.push_back("option tunable_op_max_tuning_duration_ms changes nothing: nothing is to be measured");
}

/// Returns max_mem from an arena's settings, "max_mem:1000000,arena_extend_strategy:1"; 0 if there is none.
int64_t arena_limit(const std::string& text) {
  size_t begin = text.find("max_mem:");
  if (begin == std::string::npos) return 0;
  begin += 8;
  int64_t limit = 0;
  parse("default_memory_arena_cfg", text.substr(begin, text.find(',', begin) - begin), limit);
  return limit;
}

}  // namespace

int64_t Options::memory_limit() const {
  if (int64_t limit = arena_limit(default_memory_arena_cfg)) return limit;
  if (mem_limit == 0 || gpu_mem_limit == 0) return std::max(mem_limit, gpu_mem_limit);
  return std::min(mem_limit, gpu_mem_limit);
}

double Options::tune_seconds() const {
  constexpr double no_limit = 1e7;
  return tunable_op_max_tuning_duration_ms > 0 ? static_cast<double>(tunable_op_max_tuning_duration_ms) / 1e3
                                               : no_limit;
}

std::string Options::cache_folder() const {
  if (disable_caching) return {};
  return !cache_dir.empty() ? cache_dir : !model_cache_dir.empty() ? model_cache_dir : model_cache_path;
}

std::string Options::identity() const {
  return std::string(fp16_enable   ? "f16"
                     : bf16_enable ? "bf16"
                                   : "f32") +
         (int8_enable  ? " int8"
          : fp8_enable ? " fp8"
                       : "");
}

Options read_options(const std::map<std::string, std::string>& given, const Device& device,
                     const std::function<std::string(const std::string&)>& variable) {
  Options options;
  bool has_id = false;
  for (const auto& [spelt, text] : given) {
    const Row& row = find_row(spelt);
    set(options, device, row, spelt, text);
    has_id |= std::string_view(row.name) == "device_id";
  }
  for (const Row& row : rows) {
    if (!row.has_variable) continue;
    std::string name = variable_of(row.name), text = variable(name);
    if (!text.empty()) set(options, device, row, name, text);
  }
  arena_limit(options.default_memory_arena_cfg);  // throws if it does not parse
  options.disable_caching |= options.disable_compiled_model_caching;
  if (options.fp8_enable)
    options.notes.emplace_back("fp8_enable is simulated on CPUs: values are rounded to e4m3 and multiplied in f32");
  check_device(options, device, has_id);
  check_numbers(options);
  check_precisions(options);
  check_memory(options);
  note_tuning(options);
  options.device = device.name;
  return options;
}

/// Variables of AMD's providers that Weft has no option for.
static const std::vector<std::string> idle = {
    "ORT_MIGRAPHX_ALLOCATOR_POOL",         "ORT_MIGRAPHX_ALLOW_CROSS_BATCH_OPS", "ORT_MIGRAPHX_BATCH_SHAPE_PROFILE",
    "ORT_MIGRAPHX_BORROW_OUTPUTS",         "ORT_MIGRAPHX_COMPILE_TARGET",        "ORT_MIGRAPHX_DUMP_EP_CONTEXT_MODEL",
    "ORT_MIGRAPHX_FORCE_ZERO_ALL_OUTPUTS", "ORT_MIGRAPHX_LEGACY_COMPUTE_SYNC",   "ORT_MIGRAPHX_PROBLEM_CACHE"};

std::string idle_variables() {
  std::vector<std::string> used;
  for (const Row& row : rows) {
    if (row.has_variable) used.push_back(variable_of(row.name));
  }
  std::string own = adapters::idle_variables("ORT_MIGRAPHX_", used, idle);
  std::string others = adapters::idle_variables("MIGRAPHX_", {}, adapters::migraphx_variables());
  return own + (own.empty() || others.empty() ? "" : "; ") + others;
}

std::vector<std::string> option_names() {
  std::vector<std::string> names;
  for (const Row& row : rows) names.emplace_back(row.name);
  return names;
}

}  // namespace weft::ort
