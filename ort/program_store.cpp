// SPDX-License-Identifier: Apache-2.0
#include "ort/program_store.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "ort/log.h"
#include "ort/message.h"

namespace weft::ort {
namespace {

constexpr const char* content_key = "weft.content";  // a key of the metadata of the model and of the saved program
constexpr int model_metadata = 14;

/// Adds the identity to the model's metadata. Appending it is valid, because protobuf allows fields in any order.
std::string with_identity(const std::string& model, const std::string& identity) {
  return Message{model}.message(model_metadata, Message().text(1, content_key).text(2, identity)).data;
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

/// Compiles the model; if kernels were measured, logs the number of rounds.
Program compile_and_say(const std::string& model, CompileOptions options, const Log& log) {
  size_t rounds = 0;
  options.progress = [&](std::string_view phase, size_t round, size_t) { rounds = phase == "tune" ? round : rounds; };
  Program program = weft::compile(bytes_of(model), options);
  if (options.tune_seconds > 0) log.warning("kernels were measured, rounds: " + std::to_string(rounds));
  return program;
}

/// Returns the file of part `number` of a model: `path`, then `path`.1, `path`.2 ...
std::string numbered(const std::string& path, int number) {
  return number == 0 ? path : path + "." + std::to_string(number);
}

}  // namespace

ProgramStore::ProgramStore(const Options& options, const Device& device, const Log& log, bool is_saved,
                           std::shared_ptr<Memory> memory)
    : options_(options),
      device_(device),
      log_(log),
      is_saved_(is_saved || options.save_compiled_model || !options.cache_folder().empty()),
      memory_(std::move(memory)) {
  quantization_.to = options.int8_enable ? "int8" : options.fp8_enable ? "fp8" : "";
  if (!quantization_.is_wanted() || options.int8_calibration_table_name.empty()) return;
  quantization_.table = options.int8_calibration_table_name;
  check_table(quantization_.table, options.int8_use_native_calibration_table);
}

CompileOptions ProgramStore::compile_options() const {
  return {.device = options_.device,
          .threads = static_cast<int>(options_.threads),
          .precision = options_.fp16_enable   ? WEFT_PRECISION_F16
                       : options_.bf16_enable ? WEFT_PRECISION_BF16
                                              : WEFT_PRECISION_F32,
          .use_cache = !options_.disable_caching,
          .allocator = memory_ ? memory_->allocator() : nullptr,
          .tune_seconds = options_.tunes_at_once() ? options_.tune_seconds() : 0};
}

CompileOptions ProgramStore::load_options() const {
  return {.device = options_.device,
          .threads = static_cast<int>(options_.threads),
          .allocator = memory_ ? memory_->allocator() : nullptr};
}

std::shared_ptr<Compiled> ProgramStore::make(Program program, Compiled::Again again) const {
  bool on_gpu = device_.is_gpu();
  void* stream = on_gpu ? options_.stream() : nullptr;
  RunPlace place{.gpu = on_gpu ? &device_ : nullptr,
                 .waits_for_default_stream = on_gpu && options_.has_user_compute_stream && !stream,
                 .stream = stream};
  return std::make_shared<Compiled>(std::move(program), memory_, place, std::move(again));
}

/// Returns the weights by name. If `are_kept`, copies weights that onnxruntime lends, which live only until its call
/// returns. Strings need no copy, because the program reads them at once.
std::vector<std::pair<std::string, Tensor>> ProgramStore::weights(const ModelText& model, bool are_kept) const {
  std::vector<std::pair<std::string, Tensor>> weights;
  for (const Constant& constant : model.constants) {
    Tensor tensor = constant.tensor();
    if (are_kept && constant.is_lent && tensor.dtype() != WEFT_STRING)
      tensor = Tensor::copy(tensor.dtype(), tensor.bytes(), tensor.dims());
    weights.emplace_back(constant.name, std::move(tensor));
  }
  return weights;
}

OnlineTuning::Tune ProgramStore::tuning_of(std::string model, CompileOptions options) const {
  options.tune_seconds = options_.tune_seconds();
  return
      [log = log_, model = std::move(model), options = std::move(options)](const std::function<bool()>& stop) mutable {
        options.stop = stop;
        try {
          Program tuned = compile_and_say(model, options, log);
          tuned.detach();
          return std::make_shared<const adapters::Served>(std::move(tuned));
        } catch (const std::exception& error) {
          if (!stop()) log.warning(std::string("kernels could not be measured: ") + error.what());
          return std::shared_ptr<const adapters::Served>();
        }
      };
}

std::shared_ptr<Compiled> ProgramStore::compile(const ModelText& model, const std::string& identity) const {
  bool is_once = !model.has_nameless_size, is_tuned_later = options_.tunes_while_serving();
  bool lets_go = !is_saved_ && is_once && !is_tuned_later;
  CompileOptions options = compile_options();
  options.constants = weights(model, !lets_go);
  if (!is_saved_) options.static_inputs = model.static_inputs;  // a saved program cannot depend on a value of a run
  options.static_inputs.emplace_back();  // a name that no input has: an empty list would allow all inputs
  std::string bytes = with_identity(model.bytes, identity);
  if (options_.dump_subgraphs) std::ofstream("weft_" + identity.substr(0, 32) + ".onnx", std::ios::binary) << bytes;
  Program program = compile_and_say(bytes, options, log_);
  if (lets_go) program.detach();
  bool is_tuned = is_tuned_later && std::ranges::none_of(program.inputs(), &Port::is_static);
  auto again = [bytes, options](const std::vector<std::string>& shapes) {
    CompileOptions exact = options;
    exact.shapes = shapes;
    exact.tune_seconds = 0;  // no measuring, because a run waits for this program
    return weft::compile(bytes_of(bytes), exact);
  };
  auto made = is_once ? make(std::move(program)) : make(std::move(program), again);
  if (is_tuned) made->tune_while_serving(tuning_of(bytes, options));
  return made;
}

std::shared_ptr<Compiled> ProgramStore::load(std::span<const std::byte> saved) const {
  return make(weft::compile(saved, load_options()));
}

std::shared_ptr<Compiled> ProgramStore::load(const std::string& path) const {
  return make(weft::load(path, load_options()));
}

std::string ProgramStore::cache_path(const std::string& identity) const {
  std::string folder = options_.cache_folder();
  if (folder.empty()) return {};
  std::string name;
  for (char c : identity + (device_.is_gpu() ? " " + device_.chip : "")) name += c == ' ' || c == ':' ? '-' : c;
  return (std::filesystem::path(folder) / (name + ".weft")).string();
}

std::shared_ptr<Compiled> ProgramStore::try_load(const std::string& path) const {
  try {
    return load(path);
  } catch (const Error& error) {
    log_.warning("the program in '" + path + "' cannot be used, the model is compiled: " + error.what());
    return nullptr;
  }
}

std::shared_ptr<Compiled> ProgramStore::find_in_cache(const std::string& identity) {
  std::string path = options_.force_recompile ? std::string() : cache_path(identity);
  if (path.empty() || !std::filesystem::exists(path)) return nullptr;
  auto program = try_load(path);
  if (program && program->program().metadata(content_key) != identity) program = nullptr;  // a file of another model
  if (program) loaded_.insert(program.get());
  return program;
}

std::shared_ptr<Compiled> ProgramStore::find_in_file(const std::string& identity) const {
  if (!options_.load_compiled_model) return nullptr;
  const std::string& path = options_.load_compiled_path;
  if (!std::filesystem::exists(path)) log_.warning("there is no file '" + path + "'; the model is compiled");
  std::string others;
  for (int i = 0; std::filesystem::exists(numbered(path, i)); ++i) {
    auto program = try_load(numbered(path, i));
    std::string content = program ? program->program().metadata(content_key) : "";
    if (content == identity) return program;
    if (program) others += (others.empty() ? "" : ", ") + content;
  }
  if (!others.empty())
    log_.warning("the program in '" + path + "' (" + others + ") is of another model or of other options than this (" +
                 identity + "); the model is compiled");
  return nullptr;
}

void ProgramStore::keep(const Compiled& program) {
  std::string path = cache_path(program.program().metadata(content_key));
  if (!path.empty() && !loaded_.contains(&program)) {
    std::filesystem::create_directories(options_.cache_folder());
    program.program().save(path);
  }
  if (options_.save_compiled_model) program.program().save(numbered(options_.save_compiled_path, kept_++));
}

std::string ProgramStore::identity_of(const ModelText& model) const {
  return content_hash(model) + " " + options_.identity();
}

std::shared_ptr<Compiled> ProgramStore::get(const ModelText& model) {
  std::string identity = identity_of(model);
  auto known = known_.find(identity);
  if (known == known_.end()) {
    try {
      auto program = find_in_cache(identity);
      if (!program) program = find_in_file(identity);
      if (!program) program = compile(model, identity);
      known = known_.emplace(identity, std::move(program)).first;
    } catch (const Error& error) {
      known = known_.emplace(identity, error).first;
    }
  }
  if (auto* error = std::get_if<Error>(&known->second)) throw *error;
  return std::get<std::shared_ptr<Compiled>>(known->second);
}

}  // namespace weft::ort
