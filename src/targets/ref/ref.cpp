// SPDX-License-Identifier: Apache-2.0
#include "targets/ref/ref.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "ir/core_ops.h"
#include "ops/wide.h"
#include "runtime/bind.h"
#include "runtime/outputs.h"
#include "runtime/watch.h"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;

int64_t bytes_of(const std::vector<Wide>& values) {
  int64_t total = 0;
  for (const Wide& value : values) total += value.elements() * 8;
  return total;
}

/// One run of one module.
class Interpreter {
 public:
  Interpreter(const Module& module, const SymbolValues& sizes, const RunOptions& options)
      : module_(module), sizes_(sizes), options_(options), values_(module.id_limit()), reads_left_(module.id_limit()) {}

  std::vector<Wide> run(std::span<const Tensor> inputs) {
    count_reads();
    for (size_t i = 0; i < inputs.size(); ++i) keep(*module_.parameters()[i].def, {to_wide(inputs[i])});
    size_t step = 0;
    for (const Instruction& i : module_) {
      if (!i.is<Parameter>()) run_step(i, step++);
    }
    std::vector<Wide> results;
    for (const Result& result : module_.results()) results.push_back(value(result.value));
    return results;
  }

  int64_t peak_bytes() const { return peak_; }

 private:
  void count_reads() {
    for (const Instruction& i : module_) reads_left_[i.id] = i.users.size();
    for (const Result& result : module_.results()) ++reads_left_[result.value.def->id];
  }

  const Wide& value(Value value) const { return values_[value.def->id].at(value.index); }

  void run_step(const Instruction& i, size_t step) {
    auto begin = Clock::now();
    watch_.check(i.source);
    std::vector<Wide> in;
    for (const Value& input : i.inputs) in.push_back(value(input));
    keep(i, evaluate(i, in));
    if (options_.profile) options_.profile->push_back({step, begin - start_, Clock::now() - start_});
    if (options_.observe) observe(i, step);
    for (const Value& input : i.inputs) release(*input.def);
    if (reads_left_[i.id] == 0) forget(i);
  }

  void observe(const Instruction& i, size_t step) const {
    for (uint32_t k = 0; k < i.types.size(); ++k) {
      Value result{const_cast<Instruction*>(&i), k};
      options_.observe(step, value_name(result), to_tensor(value(result)));
    }
  }

  std::vector<Wide> evaluate(const Instruction& i, std::span<const Wide> in) const {
    const OpInfo& info = i.op.info();
    if (!info.evaluate) {
      throw Error({.kind = ErrorKind::unsupported,
                   .code = "E504",
                   .what = cat("the reference cannot run ", display_name(i.op), " yet"),
                   .where = i.source});
    }
    try {
      Op op = info.substitute(i.op, [this](const Symbol& symbol) { return Dim(sizes_(symbol)); });
      std::vector<Wide> out = info.evaluate(op, in);
      check_types(i, out);
      return out;
    } catch (Error& error) {
      error.set_where(i.source);
      throw;
    }
  }

  /// The meaning and the shape rule must agree.
  void check_types(const Instruction& i, const std::vector<Wide>& out) const {
    check(out.size() == i.types.size(), "an operator gives as many results as its rule says");
    for (size_t k = 0; k < out.size(); ++k) {
      const Shape& shape = i.types[k].shape;
      if (out[k].dtype != shape.dtype || out[k].dims != sizes_.dims(shape.dims)) {
        internal_error(cat(display_name(i.op), " gave ", out[k].dtype, out[k].dims, " where its rule says ", shape));
      }
    }
  }

  void keep(const Instruction& i, std::vector<Wide> out) {
    held_ += bytes_of(out);
    peak_ = std::max(peak_, held_);
    values_[i.id] = std::move(out);
  }

  void release(const Instruction& i) {
    if (--reads_left_[i.id] == 0) forget(i);
  }

  void forget(const Instruction& i) {
    held_ -= bytes_of(values_[i.id]);
    values_[i.id].clear();
  }

  const Module& module_;
  const SymbolValues& sizes_;
  const RunOptions& options_;
  Watch watch_{options_.deadline, options_.stop};
  std::vector<std::vector<Wide>> values_;
  std::vector<size_t> reads_left_;
  int64_t held_ = 0, peak_ = 0;
  Clock::time_point start_ = Clock::now();
};

std::vector<Port> input_ports(const Program& program) {
  std::vector<Port> ports;
  for (const Value& parameter : program.main().parameters()) {
    const auto& name = parameter.def->as<Parameter>()->parameter;
    auto found = program.defaults.find(name);
    ports.push_back({.name = name, .type = parameter.type()});
    if (found != program.defaults.end()) ports.back().default_value = found->second;
  }
  return ports;
}

std::vector<Port> output_ports(const Program& program) {
  std::vector<Port> ports;
  for (const Result& result : program.main().results()) ports.push_back({result.name, result.value.type()});
  return ports;
}

std::vector<SizeCheck> size_checks(const Program& program) {
  std::vector<SizeCheck> checks;
  for (const Guard& g : program.guards()) checks.push_back({g.kind == Guard::Kind::equal, g.a, g.b, g.source, g.what});
  return checks;
}

/// Moves a result to the caller's memory when there is some.
Tensor deliver(Tensor tensor, const Port& port, size_t index, const RunOptions& options) {
  bool is_wanted = index < options.output_memory.size() && options.output_memory[index].data();
  if (!is_wanted && !options.allocate_output) return tensor;
  MutableTensor place = place_output(options, index, port, tensor.dims);
  std::memcpy(place.data, tensor.data.data(), tensor.data.size());
  return place.tensor;
}

class RefExecutable : public Executable, public std::enable_shared_from_this<RefExecutable> {
 public:
  RefExecutable(std::unique_ptr<Program> program, CompileReport report)
      : program_(std::move(program)),
        report_(std::move(report)),
        inputs_(input_ports(*program_)),
        outputs_(output_ports(*program_)),
        checks_(size_checks(*program_)) {}

  const std::vector<Port>& inputs() const override { return inputs_; }
  const std::vector<Port>& outputs() const override { return outputs_; }
  std::unique_ptr<Context> new_context() const override;
  const CompileReport& report() const override { return report_; }
  std::string device() const override { return "ref (float64)"; }
  const std::map<std::string, std::string>& metadata() const override { return program_->metadata; }

  std::vector<StepInfo> steps() const override {
    std::vector<StepInfo> list;
    for (const Instruction& i : program_->main()) {
      if (!i.is<Parameter>())
        list.push_back({std::string(display_name(i.op)), i.source, "ref", "evaluated as defined"});
    }
    return list;
  }

  void save(const std::filesystem::path&) const override {
    throw Error({.kind = ErrorKind::unsupported, .code = "E406", .what = "programs for device 'ref' cannot be saved"});
  }

  std::vector<Tensor> run(std::span<const Tensor> given, const RunOptions& options, int64_t& peak_bytes) const {
    std::vector<Tensor> inputs = with_defaults(inputs_, given);
    SymbolValues sizes = bind_symbols(inputs_, inputs);
    check_sizes(checks_, sizes);
    Interpreter interpreter(program_->main(), sizes, options);
    std::vector<Wide> results = interpreter.run(inputs);
    peak_bytes = std::max(peak_bytes, interpreter.peak_bytes());
    std::vector<Tensor> outputs;
    for (size_t i = 0; i < results.size(); ++i) {
      outputs.push_back(deliver(to_tensor(results[i]), outputs_[i], i, options));
    }
    return outputs;
  }

 private:
  std::unique_ptr<Program> program_;
  CompileReport report_;
  std::vector<Port> inputs_, outputs_;
  std::vector<SizeCheck> checks_;
};

class RefContext : public Context {
 public:
  explicit RefContext(std::shared_ptr<const RefExecutable> executable) : executable_(std::move(executable)) {}

  std::vector<Tensor> run(std::span<const Tensor> inputs, const RunOptions& options) override {
    return executable_->run(inputs, options, peak_);
  }
  size_t memory_bytes() const override { return 0; }  // nothing is held between runs
  size_t peak_memory_bytes() const override { return static_cast<size_t>(peak_); }

 private:
  std::shared_ptr<const RefExecutable> executable_;
  int64_t peak_ = 0;
};

std::unique_ptr<Context> RefExecutable::new_context() const { return std::make_unique<RefContext>(shared_from_this()); }

}  // namespace

std::shared_ptr<Executable> make_reference(std::unique_ptr<Program> program, CompileReport report) {
  return std::make_shared<RefExecutable>(std::move(program), std::move(report));
}

std::vector<Tensor> evaluate(const Module& module, std::span<const Tensor> inputs) {
  SymbolValues sizes;
  RunOptions options;
  std::vector<Tensor> outputs;
  for (const Wide& result : Interpreter(module, sizes, options).run(inputs)) outputs.push_back(to_tensor(result));
  return outputs;
}

}  // namespace weft
