// SPDX-License-Identifier: Apache-2.0
#include "runtime/ref_executable.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/random.h"
#include "base/watch.h"
#include "host/run.h"
#include "ir/control.h"
#include "ir/core_ops.h"
#include "ops/host.h"
#include "ops/views.h"
#include "ops/wide.h"
#include "runtime/bind.h"
#include "runtime/memory_limit.h"
#include "runtime/outputs.h"
#include "runtime/saved.h"
#include "runtime/size_schedule.h"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;

int64_t total_bytes(std::span<const Wide> values) {
  int64_t total = 0;
  for (const Wide& value : values) total += value.elements() * 8;
  return total;
}

/// Returns the instructions of all modules in order, without parameters.
std::vector<const Instruction*> steps_of(const Program& program) {
  std::vector<const Instruction*> steps;
  for (const auto& module : program.modules()) {
    for (const Instruction& i : *module) {
      if (!i.is<Parameter>()) steps.push_back(&i);
    }
  }
  return steps;
}

using StepNumbers = std::unordered_map<const Instruction*, size_t>;

StepNumbers number_steps(const Program& program) {
  StepNumbers numbers;
  for (const Instruction* i : steps_of(program)) numbers.emplace(i, numbers.size());
  return numbers;
}

/// The data that all modules of one run share.
struct Request {
  StringScope strings = {};
  const RunOptions& options;
  const GuardPlaces& guards;
  SymbolValues sizes;
  const StepNumbers& numbers;
  const Between& between;
  Watch watch{options.deadline, options.stop};
  int64_t held = 0, peak = 0, limit = default_memory_limit();  // bytes
  /// Constants of bodies, converted once instead of in every trip of a loop.
  std::unordered_map<const Instruction*, Wide> constants = {};
  Clock::time_point start = Clock::now();
};

SizeCheck size_check(const Guard& g) { return {g.kind == Guard::Kind::equal, g.a, g.b, g.source, g.what}; }

/// One run of one module.
class Interpreter {
 public:
  Interpreter(const Module& module, Request& request)
      : module_(module), request_(request), values_(module.id_limit()), reads_left_(module.id_limit()) {}

  std::vector<Wide> run(std::vector<Wide> inputs) {
    count_reads();
    check_guards(request_.guards.on_entry(module_));
    for (size_t i = 0; i < inputs.size(); ++i) keep(*module_.parameters()[i].def, {std::move(inputs[i])});
    for (const Instruction& i : module_) {
      if (!i.is<Parameter>()) run_step(i);
    }
    std::vector<Wide> results;
    for (const Result& result : module_.results()) results.push_back(value(result.value));
    for (const Instruction& i : module_) forget(i);
    return results;
  }

 private:
  void count_reads() {
    for (const Instruction& i : module_) reads_left_[i.id] = i.users.size();
    for (const Result& result : module_.results()) ++reads_left_[result.value.def->id];
  }

  const Wide& value(Value value) const { return values_[value.def->id].at(value.index); }

  void check_guards(const GuardPlaces::Guards& guards) const {
    for (const Guard* guard : guards) check_sizes(std::vector{size_check(*guard)}, request_.sizes);
  }

  /// Returns the operands of `i`; drops references to containers that nothing reads later, so that `i` may change them.
  std::vector<Wide> operands(const Instruction& i) {
    std::vector<Wide> in;
    for (const Value& input : i.inputs) {
      in.push_back(value(input));
      --reads_left_[input.def->id];
    }
    for (const Value& input : i.inputs) {
      if (reads_left_[input.def->id] > 0) continue;
      for (Wide& held : values_[input.def->id]) held.container = nullptr;
    }
    return in;
  }

  void run_step(const Instruction& i) {
    const RunOptions& options = request_.options;
    auto begin = Clock::now();
    request_.watch.check(i.source);
    std::vector<Wide> in = operands(i);
    if (request_.between.operands) request_.between.operands(i, in);
    size_t step = request_.numbers.at(&i);
    keep(i, result_of(i, std::move(in)));
    check_guards(request_.guards.after(i));
    if (options.profile) options.profile->push_back({step, begin - request_.start, Clock::now() - request_.start});
    if (options.observe) observe(i, step);
    for (const Value& input : i.inputs) {
      if (reads_left_[input.def->id] == 0) forget(*input.def);
    }
    if (reads_left_[i.id] == 0) forget(i);
  }

  void observe(const Instruction& i, size_t step) const {
    for (uint32_t k = 0; k < i.types.size(); ++k) {
      Value result{const_cast<Instruction*>(&i), k};
      request_.options.observe(step, value_name(result), to_tensor(value(result)));
    }
  }

  std::vector<Wide> result_of(const Instruction& i, std::vector<Wide> in) {
    try {
      std::vector<Wide> out = i.is<Bind>()     ? bind(i, in)
                              : i.is<If>()     ? branch(i, std::move(in))
                              : i.is<Loop>()   ? loop(i, std::move(in))
                              : i.is<HostOp>() ? call_host(i, std::move(in))
                              : is_shared(i)   ? constant(i)
                                               : evaluate(i, in);
      if (request_.between.results) request_.between.results(i, out);
      check_types(i, out);
      return out;
    } catch (Error& error) {
      error.set_where(i.source);
      throw;
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
    Op op = info.substitute(i.op, [this](const Symbol& symbol) {
      return is_placeholder(symbol) ? Dim::symbol(symbol) : Dim(request_.sizes(symbol));
    });
    check_room(i);
    return info.evaluate(op, in);
  }

  /// True for a constant of a body, which the Request holds.
  bool is_shared(const Instruction& i) const { return i.is<Constant>() && &module_ != &module_.program().main(); }

  std::vector<Wide> constant(const Instruction& i) const {
    auto [place, is_new] = request_.constants.try_emplace(&i);
    if (is_new) {
      check_room(i);
      place->second = to_wide(i.as<Constant>()->tensor);
      request_.held += total_bytes({&place->second, 1});
    }
    return {place->second};
  }

  std::vector<Wide> call_host(const Instruction& i, std::vector<Wide> in) const {
    check_room(i);
    std::vector<Tensor> given;
    for (Wide& value : in) given.push_back(to_tensor(std::exchange(value, {})));
    std::vector<Wide> out;
    for (Tensor& result : run_host(i.as<HostOp>()->call(), std::move(given))) {
      if (!result.is_tensor()) check_container_memory(result, request_.limit);
      out.push_back(to_wide(result));
    }
    return out;
  }

  /// Throws E401 if the results of `i`, with 8 bytes per element, would exceed the rest of the memory limit.
  void check_room(const Instruction& i) const {
    int64_t bytes = 0;
    bool fits = true;
    for (const Type& type : i.types) {
      if (!type.is_tensor()) continue;
      int64_t more = 0;
      fits &= !__builtin_mul_overflow(element_count(request_.sizes.dims(type.shape.dims)), 8, &more);
      fits &= !__builtin_add_overflow(bytes, more, &bytes);
    }
    if (fits && bytes <= request_.limit - request_.held) return;
    refuse_memory(cat("the run needs more memory than the limit of ", request_.limit >> 20, " MiB"), i.source);
  }

  // --- control flow --------------------------------------------------------------------------------------------------

  std::vector<Wide> bind(const Instruction& i, std::span<const Wide> in) {
    const auto& op = *i.as<Bind>();
    SizesStep sizes;
    for (size_t k = 0; k < op.symbols.size(); ++k) {
      sizes.settings.push_back({.symbol = *op.symbols[k].as_symbol(),
                                .buffer = BufferId(0),
                                .element = static_cast<int>(k),
                                .most = op.most.empty() ? Dim(INT64_MAX) : op.most[k]});
    }
    PlanStep step{.action = std::move(sizes), .source = i.source};
    set_sizes(step, [&](BufferId, int element) { return in[0].as<int64_t>()[element]; }, request_.sizes);
    return {};
  }

  std::vector<Wide> run_body(const Instruction& i, size_t body, std::vector<Wide> in) {
    return Interpreter(*i.modules[body], request_).run(std::move(in));
  }

  std::vector<Wide> branch(const Instruction& i, std::vector<Wide> in) {
    const auto& op = *i.as<If>();
    bool yes = in[0].as<int64_t>()[0] != 0;
    auto split = in.begin() + 1 + op.first;
    std::vector<Wide> given(yes ? in.begin() + 1 : split, yes ? split : in.end());
    in.clear();
    std::vector<Wide> out = run_body(i, yes ? 0 : 1, std::move(given));
    set_symbols(op.sets, i.types, out);
    return out;
  }

  /// Sets those `symbols` that occur as sizes in `types` to the sizes of `values`.
  void set_symbols(const Dims& symbols, std::span<const Type> types, std::span<const Wide> values) {
    for (size_t k = 0; k < types.size() && k < values.size(); ++k) {
      for (size_t a = 0; a < types[k].shape.dims.size(); ++a) {
        const Dim& dim = types[k].shape.dims[a];
        if (std::ranges::find(symbols, dim) != symbols.end())
          request_.sizes.set(dim.as_symbol()->name, values[k].dims.at(a));
      }
    }
  }

  std::vector<Wide> loop(const Instruction& i, std::vector<Wide> now) {
    const auto& op = *i.as<Loop>();
    const Module& body = *i.modules[0];
    size_t carried = op.carried;
    size_t offset = op.conditional ? 1 : 0;
    bool goes_on = !op.conditional || now[0].as<int64_t>()[0] != 0;
    now.erase(now.begin(), now.begin() + static_cast<std::ptrdiff_t>(offset));
    std::vector<std::vector<Wide>> rows(op.types.size() - carried);
    Types parameters;
    for (const Value& parameter : body.parameters()) parameters.push_back(parameter.type());
    int64_t trips = request_.sizes.evaluate(op.trips), trip = 0, stacked_bytes = 0;
    for (; goes_on && trip < trips; ++trip) {
      request_.sizes.set(op.counter.as_symbol()->name, trip);
      set_symbols(op.carries, std::span(parameters).first(carried), now);
      std::vector<Wide> given = now;
      for (size_t k = 0; k < carried; ++k) now[k].container = nullptr;  // so that only the trip owns the containers
      std::vector<Wide> results = run_body(i, 0, std::move(given));
      if (op.conditional) goes_on = results[0].as<int64_t>()[0] != 0;
      for (size_t k = 0; k < carried; ++k) now[k] = std::exchange(results[offset + k], {});
      for (size_t k = 0; k < rows.size(); ++k) rows[k].push_back(results[offset + carried + k]);
      request_.held += total_bytes(std::span(results).subspan(offset + carried));
      stacked_bytes += total_bytes(std::span(results).subspan(offset + carried));
    }
    request_.held -= stacked_bytes;
    std::vector<Wide> out(now.begin(), now.begin() + op.carried);
    for (size_t k = 0; k < rows.size(); ++k) out.push_back(stacked(rows[k], op.types[carried + k], op.sets));
    if (op.conditional) request_.sizes.set(op.count.as_symbol()->name, trip);
    set_symbols(op.sets, op.types, out);
    return out;
  }

  /// Stacks the values of a scan output from all trips. If there was no trip, sizes that only a trip sets are 0.
  Wide stacked(const std::vector<Wide>& rows, const Type& type, const Dims& sets) const {
    std::vector<int64_t> dims = {std::ssize(rows)};
    for (size_t a = 1; rows.empty() && a < type.shape.dims.size(); ++a) {
      bool is_open = std::ranges::find(sets, type.shape.dims[a]) != sets.end();
      dims.push_back(is_open ? 0 : request_.sizes.evaluate(type.shape.dims[a]));
    }
    if (rows.empty()) {
      return is_float(type.shape.dtype) ? make_wide(type.shape.dtype, dims, std::vector<double>())
                                        : make_wide(type.shape.dtype, dims, std::vector<int64_t>());
    }
    std::vector<Wide> parts;
    for (const Wide& row : rows) {
      if (row.dims != rows[0].dims) uneven_rows(rows[0].dims, row.dims);
      std::vector<int64_t> one = row.dims;
      one.insert(one.begin(), 1);
      parts.push_back(with_dims(row, one));
    }
    return Concat{.axis = 0}.evaluate(parts)[0];
  }

  [[noreturn]] static void uneven_rows(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
    throw Error(
        {.kind = ErrorKind::usage, .code = "E312", .what = cat("a loop stacks values of sizes ", a, " and ", b)});
  }

  void check_types(const Instruction& i, const std::vector<Wide>& out) const {
    check(out.size() == i.types.size(), "an operator gives as many results as its rule says");
    for (size_t k = 0; k < out.size(); ++k) {
      check(i.types[k].is_tensor() == !out[k].container, "an operator gives the kind of value that its rule says");
      if (out[k].container) continue;
      const Shape& shape = i.types[k].shape;
      if (out[k].dtype != shape.dtype || out[k].dims != request_.sizes.dims(shape.dims)) {
        internal_error(cat(display_name(i.op), " gave ", out[k].dtype, out[k].dims, " where its rule says ", shape));
      }
    }
  }

  void keep(const Instruction& i, std::vector<Wide> out) {
    if (!is_shared(i)) request_.held += total_bytes(out);
    request_.peak = std::max(request_.peak, request_.held);
    values_[i.id] = std::move(out);
  }

  void forget(const Instruction& i) {
    if (!is_shared(i)) request_.held -= total_bytes(values_[i.id]);
    values_[i.id].clear();
  }

  const Module& module_;
  Request& request_;
  std::vector<std::vector<Wide>> values_;
  std::vector<size_t> reads_left_;
};

std::vector<Wide> wide_inputs(std::span<const Tensor> inputs) {
  std::vector<Wide> wide;
  for (const Tensor& input : inputs) wide.push_back(to_wide(input));
  return wide;
}

/// Copies a result to the caller's memory if the caller gave any.
Tensor deliver(Tensor tensor, const Port& port, size_t index, const RunOptions& options) {
  bool is_wanted = index < options.output_memory.size() && options.output_memory[index].data();
  if (!is_wanted && !options.allocate_output) return tensor;
  if (!tensor.is_tensor() || tensor.dtype == DType::string) return tensor;  // containers and strings have no bytes
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
        guards_(*program_),
        numbers_(number_steps(*program_)) {}

  const std::vector<Port>& inputs() const override { return inputs_; }
  const std::vector<Port>& outputs() const override { return outputs_; }
  std::unique_ptr<Context> new_context() const override;
  const CompileReport& report() const override { return report_; }
  std::string device() const override { return "ref (float64)"; }
  const std::map<std::string, std::string>& metadata() const override { return program_->metadata; }

  std::vector<StepInfo> steps() const override {
    std::vector<StepInfo> list;
    for (const Instruction* i : steps_of(*program_))
      list.push_back({std::string(display_name(i->op)), i->source, "ref", "evaluated as defined"});
    return list;
  }

  SavedProgram saved() const override {
    throw Error({.kind = ErrorKind::unsupported, .code = "E406", .what = "programs for device 'ref' cannot be saved"});
  }

  std::vector<Tensor> run(std::span<const Tensor> given, const RunOptions& options, int64_t& peak_bytes) const {
    std::vector<Tensor> inputs = with_defaults(inputs_, given);
    Between nothing;
    Request request{.options = options,
                    .guards = guards_,
                    .sizes = bind_symbols(inputs_, inputs),
                    .numbers = numbers_,
                    .between = nothing};
    request.sizes.set(std::string(run_seed), fresh_seed());
    WatchScope scope(&request.watch);
    std::vector<Wide> results = Interpreter(program_->main(), request).run(wide_inputs(inputs));
    peak_bytes = std::max(peak_bytes, request.peak);
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
  GuardPlaces guards_;
  StepNumbers numbers_;
};

class RefContext : public Context {
 public:
  explicit RefContext(std::shared_ptr<const RefExecutable> executable) : executable_(std::move(executable)) {}

  std::vector<Tensor> run(std::span<const Tensor> inputs, const RunOptions& options) override {
    return executable_->run(inputs, options, peak_);
  }
  int64_t memory_bytes() const override { return 0; }  // nothing is held between runs
  int64_t peak_memory_bytes() const override { return peak_; }

 private:
  std::shared_ptr<const RefExecutable> executable_;
  int64_t peak_ = 0;
};

std::unique_ptr<Context> RefExecutable::new_context() const { return std::make_unique<RefContext>(shared_from_this()); }

}  // namespace

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

std::shared_ptr<Executable> make_reference(std::unique_ptr<Program> program, CompileReport report) {
  return std::make_shared<RefExecutable>(std::move(program), std::move(report));
}

std::vector<Tensor> evaluate(const Module& module, std::span<const Tensor> inputs, const Between& between) {
  GuardPlaces guards(module.program());
  StepNumbers numbers = number_steps(module.program());
  RunOptions options;
  bool is_main = &module == &module.program().main();
  Request request{.options = options,
                  .guards = guards,
                  .sizes = is_main ? bind_symbols(input_ports(module.program()), inputs) : SymbolValues(),
                  .numbers = numbers,
                  .between = between};
  request.sizes.set(std::string(run_seed), fresh_seed());
  std::vector<Tensor> outputs;
  for (const Wide& result : Interpreter(module, request).run(wide_inputs(inputs))) outputs.push_back(to_tensor(result));
  return outputs;
}

}  // namespace weft
