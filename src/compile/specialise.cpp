// SPDX-License-Identifier: Apache-2.0
#include "compile/specialise.h"

#include <algorithm>
#include <array>
#include <list>
#include <mutex>

#include "base/error.h"
#include "base/file_reading.h"
#include "base/glob.h"
#include "base/log.h"
#include "base/watch.h"
#include "compile/stages.h"
#include "frontends/onnx/import/importer.h"
#include "runtime/bind.h"
#include "runtime/ref_executable.h"
#include "targets/gpu/device.h"

namespace weft {
namespace {

constexpr size_t max_programs = 32;         // kept for each model
constexpr size_t max_program_contexts = 4;  // kept in each context; each program has its own working memory

/// The value of all elements of a static input without a default value, in guesses 1 to 5. In guess 0 the elements are
/// 0, 1, 2 ..., or 1 for the steps of a Slice.
constexpr std::array<double, 5> other_values = {1, 0, 2, 3, -1};
constexpr std::array<int64_t, 6> likely_lengths = {1, 2, 4, 3, 6, 8};  // sizes of symbolic axes in guesses 0 to 5

Tensor likely_value(const Port& port, std::string_view op, size_t operand, size_t guess) {
  if (port.default_value) return *port.default_value;
  std::vector<int64_t> dims;
  for (const Dim& dim : port.type.shape.dims)
    dims.push_back(std::clamp(likely_lengths[guess], dim.lower_bound(), dim.upper_bound()));
  std::vector<double> values(element_count(dims));
  for (size_t i = 0; i < values.size(); ++i) {
    double usual = op == "Slice" && operand == 4 ? 1 : static_cast<double>(i);
    values[i] = guess == 0 ? usual : other_values[guess - 1];
  }
  return make_tensor(port.type.shape.dtype, std::move(dims), values);
}

/// Returns a symbol for an unknown size; used only in types that describe results to the caller.
Dim open_size(const std::string& name, size_t axis) { return Dim::symbol({.name = cat(name, "_", axis)}); }

Type declared_type(const onnx::ValueInfo& value, const std::string& name) {
  const onnx::TypeProto& type = value.type;
  if (type.kind != onnx::TypeProto::Kind::tensor) return onnx::Importer::declared_element(type);
  Shape shape{type.element.value(), {}};
  for (const onnx::Dimension& dim : type.dims.value()) {
    Dim open = dim.name.empty() ? open_size(name, shape.dims.size()) : Dim::symbol({.name = std::string(dim.name)});
    shape.dims.push_back(dim.value.value_or(-1) >= 0 ? Dim(*dim.value) : open);
  }
  return shape;
}

bool is_declared(const onnx::ValueInfo& value) {
  using enum onnx::TypeProto::Kind;
  return value.type.kind == tensor ? value.type.element && value.type.dims : value.type.kind != none;
}

/// Returns the key of a program: the sizes of the static inputs and, unless only the length matters, their bytes.
std::string key_of(std::span<const StaticInput> statics, std::span<const Tensor> values) {
  std::string key;
  for (size_t i = 0; i < statics.size(); ++i)
    key += cat(values[i].dims, ":", statics[i].is_length ? "" : as_text(values[i].data), ";");
  return key;
}

}  // namespace

StaticModel::StaticModel(std::shared_ptr<const onnx::Model> model, const CompileOptions& options,
                         std::vector<Port> inputs)
    : model_(std::move(model)), options_(options), inputs_(std::move(inputs)) {
  options_.deadline = {}, options_.stop = {}, options_.progress = {}, options_.tune = {};
  metadata_.insert(model_->metadata.begin(), model_->metadata.end());
}

/// Makes the inputs in `needs` static. Throws `refusal` if CompileOptions::static_inputs excludes one of these inputs.
void StaticModel::add(const onnx::StaticNeeds& needs, const Error& refusal) {
  size_t before = found_;
  for (const onnx::StaticOperand& operand : needs.operands) {
    for (const std::string& name : operand.inputs) {
      if (options_.static_inputs && !matches_any(name, *options_.static_inputs)) throw refusal;
      auto port = std::ranges::find(inputs_, name, &Port::name);
      size_t number = port - inputs_.begin();
      auto known = std::ranges::find(statics_, number, &StaticInput::input);
      if (known != statics_.end() && (operand.is_length || !known->is_length)) continue;
      if (known != statics_.end()) statics_.erase(known);
      statics_.push_back(
          {.input = number, .op = operand.op, .operand = operand.number, .is_length = operand.is_length, .likely = {}});
      ++found_;
    }
  }
  if (found_ > before) may_wait_ = may_wait_ && needs.is_all;
}

/// Sets the static inputs to choice number `guess` of their likely values; returns false if there is no such choice.
bool StaticModel::guess(size_t guess) {
  if (guess > other_values.size()) return false;
  for (StaticInput& input : statics_) input.likely = likely_value(inputs_[input.input], input.op, input.operand, guess);
  return true;
}

std::vector<Tensor> StaticModel::likely_values() const {
  std::vector<Tensor> values;
  for (const StaticInput& input : statics_) values.push_back(input.likely);
  return values;
}

/// Imports the model with the current likely values; returns the program or null. May find more static inputs.
std::unique_ptr<Program> StaticModel::attempt() {
  onnx::StaticNeeds needs;
  try {
    return program(likely_values(), nullptr, &needs);
  } catch (const Error& error) {
    if (error.info().kind == ErrorKind::resource || error.info().kind == ErrorKind::internal) throw;
    add(needs, error);
    return nullptr;
  }
}

/// Tries guesses until the model can be imported. If the condition of an If is static, tries all guesses, so that
/// both branches are imported: each branch may make other inputs static.
std::unique_ptr<Program> StaticModel::likely_program(const onnx::StaticNeeds& first, const Error& refusal) {
  add(first, refusal);
  for (size_t known = 0; known != found_;) {
    known = found_;
    bool has_condition = std::ranges::count(statics_, "If", &StaticInput::op) > 0;
    std::unique_ptr<Program> found;
    size_t best = 0;
    for (size_t i = 0; guess(i) && known == found_ && (!found || has_condition); ++i) {
      auto program = attempt();
      if (program && !found) found = std::move(program), best = i;
    }
    if (known == found_ && found) return guess(best), std::move(found);
  }
  guess(0);
  return nullptr;
}

std::vector<Port> StaticModel::outputs(const Program* likely) const {
  std::vector<Port> ports;
  bool has_others = likely && !std::ranges::equal(likely->main().results(), model_->graph.outputs, {}, &Result::name,
                                                  &onnx::ValueInfo::name);
  if (has_others) return output_ports(*likely);  // an edit of the graph changed the outputs
  for (size_t i = 0; i < model_->graph.outputs.size(); ++i) {
    const onnx::ValueInfo& declared = model_->graph.outputs[i];
    std::string name(declared.name);
    Type type = is_declared(declared) ? declared_type(declared, name) : likely->main().results()[i].value.type();
    for (size_t axis = 0; !is_declared(declared) && axis < type.shape.dims.size(); ++axis)
      type.shape.dims[axis] = open_size(name, axis);
    ports.push_back({name, std::move(type)});
  }
  return ports;
}

CompileOptions StaticModel::fixed(std::span<const Tensor> values) const {
  CompileOptions known = options_;
  for (size_t i = 0; i < statics_.size(); ++i) {
    const std::string& name = inputs_[statics_[i].input].name;
    if (statics_[i].is_length) {
      std::erase_if(known.shapes, [&](const ShapeRequest& request) { return request.input == name; });
      known.shapes.push_back({.input = name, .sizes = {{values[i].dims.at(0), values[i].dims.at(0)}}});
      continue;
    }
    Tensor own = values[i];
    own.data = Bytes::copy(own.data);
    known.constants.insert_or_assign(name, std::move(own));
  }
  return known;
}

std::unique_ptr<Program> StaticModel::program(std::span<const Tensor> values, onnx::SizeDecisions* decisions,
                                              onnx::StaticNeeds* needs) const {
  std::unique_ptr<Program> program = import(*model_, fixed(values), nullptr, decisions, needs);
  model_->file.check_file();
  return program;
}

void StaticModel::detach() { own_constants(options_); }

Imported import_static(std::shared_ptr<const onnx::Model> model, const CompileOptions& options,
                       onnx::SizeDecisions* decisions) {
  onnx::StaticNeeds needs;
  try {
    return {.program = import(*model, options, nullptr, decisions, &needs)};
  } catch (const Error& error) {
    if (needs.operands.empty()) throw;
    auto made = std::make_shared<StaticModel>(std::move(model), options, std::move(needs.inputs));
    std::unique_ptr<Program> program = made->likely_program(needs, error);
    bool is_known = std::ranges::all_of(made->model()->graph.outputs, is_declared);
    if (!program && (!made->may_wait() || options.static_inputs || !is_known)) throw;
    return {.program = std::move(program), .model = std::move(made)};
  }
}

namespace {

/// A model with static inputs on a device: one program for each value of these inputs, the most recently used first.
class Specialising final : public Executable, public std::enable_shared_from_this<Specialising> {
 public:
  Specialising(std::shared_ptr<StaticModel> model, const Program* likely, const CompileOptions& options, bool is_whole,
               CompileReport report)
      : model_(std::move(model)),
        is_whole_(is_whole),
        options_(options),
        place_(find_place(options)),
        report_(std::move(report)),
        inputs_(model_->inputs()),
        outputs_(model_->outputs(likely)) {
    options_.deadline = {}, options_.stop = {}, options_.progress = {}, options_.tune = {};
    CompileOptions plain = options_;
    plain.donate = {}, plain.dump.clear();
    device_ = compile_program(std::make_unique<Program>(), plain, {})->device();
    for (Port& port : inputs_)
      port.is_donated = std::ranges::count(options.donate, port.name, &DonationRequest::input) > 0;
  }

  const std::vector<Port>& inputs() const override { return inputs_; }
  const std::vector<Port>& outputs() const override { return outputs_; }
  const std::vector<StaticInput>& static_inputs() const override { return model_->statics(); }
  const CompileReport& report() const override { return report_; }
  std::string device() const override { return device_; }
  const std::map<std::string, std::string>& metadata() const override { return model_->metadata(); }
  void detach() override { model_->detach(); }
  std::unique_ptr<Context> new_context() const override;

  std::vector<StepInfo> steps() const override {
    std::scoped_lock lock(mutex_);
    return programs_.empty() || !programs_.front()->made ? std::vector<StepInfo>() : programs_.front()->made->steps();
  }

  std::vector<std::string> notes() const override {
    std::vector<std::string> notes;
    for (const StaticInput& input : model_->statics()) {
      const Port& port = inputs_[input.input];
      notes.push_back(cat("input '", printable(port.name), "', ", to_string(port.type), ", is static: ", input.op,
                          input.is_length ? " is compiled for the length of operand " : " is compiled for operand ",
                          input.operand));
    }
    std::scoped_lock lock(mutex_);
    notes.push_back(cat("a program is compiled for each value of the static inputs, at the first run that has it; ",
                        compiled_, " so far; the last ", max_programs, " used are kept"));
    return notes;
  }

  SavedProgram saved() const override {
    std::string names;
    for (const StaticInput& input : model_->statics())
      names += cat(names.empty() ? "'" : ", '", printable(inputs_[input.input].name), "'");
    throw Error({.kind = ErrorKind::unsupported,
                 .code = "E406",
                 .what = cat("the program cannot be saved: values of ", names, " decide which program is compiled"),
                 .hint = "fix them for the compile: --constant, constants= in Python, constant_names in C"});
  }

  /// Returns the values of the static inputs in host memory.
  std::vector<Tensor> values(std::span<const Tensor> inputs, const RunOptions& options) const {
    std::vector<Tensor> full = with_defaults(inputs_, inputs), values;
    bind_symbols(inputs_, full);
    for (const StaticInput& input : model_->statics()) {
      bool is_given = input.input < inputs.size() && !inputs[input.input].data.empty();
      const Tensor& value = full[input.input];
      values.push_back(is_given && options.on_device && !input.is_length ? from_device(value, options) : value);
    }
    return values;
  }

  /// Returns the program for these values. One thread compiles it if necessary, and other threads that need it wait.
  std::shared_ptr<const Executable> program(std::span<const Tensor> values, const RunOptions& options) const {
    std::shared_ptr<Entry> entry = entry_of(key_of(model_->statics(), values));
    Watch watch(options.deadline, options.stop);
    WatchScope scope(&watch);
    while (!entry->mutex.try_lock_for(std::chrono::milliseconds(10))) check_watch();
    std::unique_lock lock(entry->mutex, std::adopt_lock);
    if (!entry->made) build(*entry, values, options);
    return entry->made;
  }

 private:
  struct Entry {
    std::string key;
    std::timed_mutex mutex = {};  // held while the program is compiled
    std::shared_ptr<const Executable> made = {};
  };

  std::shared_ptr<Entry> entry_of(const std::string& key) const {
    std::scoped_lock lock(mutex_);
    auto known = std::ranges::find_if(programs_, [&](const auto& entry) { return entry->key == key; });
    if (known != programs_.end()) {
      programs_.splice(programs_.begin(), programs_, known);
    } else {
      programs_.push_front(std::make_shared<Entry>(key));
      if (programs_.size() > max_programs) programs_.pop_back();
    }
    return programs_.front();
  }

  void build(Entry& entry, std::span<const Tensor> values, const RunOptions& options) const {
    std::string text;
    for (size_t i = 0; i < values.size(); ++i) {
      const StaticInput& input = model_->statics()[i];
      text += cat(i ? ", " : "", printable(inputs_[input.input].name), " = ",
                  input.is_length ? to_string(values[i].shape()) : describe(values[i]));
    }
    log(LogLevel::info, "compiling for ", text);
    CompileOptions how = is_whole_ ? model_->fixed(values) : options_;
    how.deadline = options.deadline, how.stop = options.stop;
    try {
      auto made = reading_files([&] {
        onnx::SizeDecisions decisions;
        auto program = model_->program(values, is_whole_ ? &decisions : nullptr);
        return compile_decided(model_->model(), std::move(program), std::move(decisions), how, {});
      });
      std::scoped_lock lock(mutex_);
      entry.made = std::move(made);
      ++compiled_;
    } catch (const Error& error) {
      ErrorInfo info = error.info();
      info.why += cat(info.why.empty() ? "" : "\n   ", "the run has ", text);
      throw Error(std::move(info));
    }
  }

  Tensor from_device(const Tensor& value, const RunOptions& options) const {
    auto [copy, data] = allocate_tensor(value.dtype, value.dims);
    auto size = static_cast<int64_t>(value.data.size());
    gpu::Stream stream =
        options.stream ? gpu::Stream(place_.runner.gpu, *options.stream) : gpu::Stream(place_.runner.gpu);
    stream.copy_to_host(data, value.data.data(), size);
    stream.synchronize();
    return copy;
  }

  std::shared_ptr<StaticModel> model_;
  bool is_whole_;  // true if options_ also apply to importing the model
  CompileOptions options_;
  Place place_;
  CompileReport report_;
  std::string device_;
  std::vector<Port> inputs_, outputs_;
  mutable std::mutex mutex_;
  mutable std::list<std::shared_ptr<Entry>> programs_ = {};
  mutable int64_t compiled_ = 0;
};

class SpecialisingContext final : public Context {
 public:
  explicit SpecialisingContext(std::shared_ptr<const Specialising> program) : program_(std::move(program)) {}

  std::vector<Tensor> run(std::span<const Tensor> inputs, const RunOptions& options) override {
    std::vector<Tensor> values = program_->values(inputs, options);
    Context& context = context_for(program_->program(values, options));
    std::vector<Tensor> rest;
    for (size_t i = 0; i < program_->inputs().size(); ++i) {
      auto is_fixed = [&](const StaticInput& input) { return input.input == i && !input.is_length; };
      if (std::ranges::none_of(program_->static_inputs(), is_fixed))
        rest.push_back(i < inputs.size() ? inputs[i] : Tensor{});
    }
    return context.run(rest, options);
  }

  int64_t memory_bytes() const override { return memory().arena; }
  int64_t peak_memory_bytes() const override { return memory().peak; }
  MemoryUse memory() const override {
    MemoryUse all;
    for (const auto& [program, context] : contexts_) {
      MemoryUse use = context->memory();  // programs share weights, so the total has the weights of only one program
      use.arena += all.arena, use.scratch += all.scratch, use.peak += all.peak;
      all = use;
    }
    return all;
  }

 private:
  Context& context_for(std::shared_ptr<const Executable> wanted) {
    auto known = std::ranges::find(contexts_, wanted, [](const auto& entry) { return entry.first; });
    if (known != contexts_.end()) {
      contexts_.splice(contexts_.begin(), contexts_, known);
    } else {
      auto context = wanted->new_context();
      contexts_.emplace_front(std::move(wanted), std::move(context));
      if (contexts_.size() > max_program_contexts) contexts_.pop_back();
    }
    return *contexts_.front().second;
  }

  std::shared_ptr<const Specialising> program_;
  std::list<std::pair<std::shared_ptr<const Executable>, std::unique_ptr<Context>>> contexts_ = {};
};

std::unique_ptr<Context> Specialising::new_context() const {
  return std::make_unique<SpecialisingContext>(shared_from_this());
}

/// Throws for operators that the device cannot run, so that the error occurs at compile time, not in the first run.
void check_likely(std::unique_ptr<Program> program, const CompileOptions& options) {
  Place place = find_place(options);
  if (place.reference) return;
  try {
    CompileReport report;
    run_shared_passes(*program, options, report);
    make_plan(*program, place.chip, *source_of(*program, options), options, report);
  } catch (const Error& error) {
    if (error.info().kind == ErrorKind::unsupported) throw;
  }
}

}  // namespace

std::shared_ptr<Executable> make_specialising(Imported imported, const CompileOptions& options, bool is_whole,
                                              CompileReport report) {
  if (device_names(options).size() > 1 && !options.donate.empty()) {
    throw Error({.kind = ErrorKind::usage,
                 .code = "E502",
                 .what = "values of inputs decide which program is compiled, and on several devices no input of such a "
                         "model is donated",
                 .hint = "fix them with --constant, or leave out the donations"});
  }
  auto made = std::make_shared<Specialising>(std::move(imported.model), imported.program.get(), options, is_whole,
                                             std::move(report));
  if (imported.program) check_likely(std::move(imported.program), options);
  return made;
}

}  // namespace weft
