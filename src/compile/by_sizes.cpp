// SPDX-License-Identifier: Apache-2.0
#include "compile/by_sizes.h"

#include <algorithm>
#include <mutex>
#include <optional>

#include "base/error.h"
#include "base/file_reading.h"
#include "base/log.h"
#include "base/watch.h"
#include "compile/stages.h"
#include "frontends/onnx/file/model.h"
#include "runtime/bind.h"
#include "runtime/saved.h"
#include "runtime/sharing.h"

namespace weft {
namespace {

constexpr int max_tries = 16;               // of one run
constexpr size_t max_variants = 32;         // kept for each model
constexpr size_t max_variant_contexts = 4;  // kept in each context; each variant has its own working memory

/// A program and the decisions about sizes for which it was compiled.
struct Variant {
  std::shared_ptr<const Executable> program;  ///< null: the model has no program for such sizes
  std::vector<onnx::SizeDecision> made = {};
};

/// Returns true if the condition of a decision holds for these sizes; nothing if a size in the condition is unknown.
std::optional<bool> holds(const onnx::SizeDecision& decision, const SymbolValues& sizes) {
  bool is_known = true;
  auto look = [&](const Symbol& symbol) { is_known &= sizes.find(symbol.name) != nullptr; };
  decision.a.visit_symbols(look), decision.b.visit_symbols(look);
  if (!is_known) return std::nullopt;
  int64_t a = sizes.evaluate(decision.a), b = sizes.evaluate(decision.b);
  return decision.kind == Guard::Kind::equal ? a == b : a <= b;
}

class BySizes final : public Executable, public std::enable_shared_from_this<BySizes> {
 public:
  BySizes(std::shared_ptr<const onnx::Model> model, onnx::SizeDecisions decisions, std::shared_ptr<Executable> first,
          const CompileOptions& options)
      : model_(std::move(model)),
        options_(options),
        first_(std::move(first)),
        likely_(std::make_shared<Variant>(first_, std::move(decisions.made))) {
    options_.deadline = {}, options_.stop = {}, options_.progress = {}, options_.tune = {};
  }

  const std::vector<Port>& inputs() const override { return first_->inputs(); }
  const std::vector<Port>& outputs() const override { return first_->outputs(); }
  std::vector<StepInfo> steps() const override { return first_->steps(); }
  const CompileReport& report() const override { return first_->report(); }
  std::string device() const override { return first_->device(); }
  const std::map<std::string, std::string>& metadata() const override { return first_->metadata(); }
  SavedProgram saved() const override { return first_->saved(); }
  std::unique_ptr<Context> new_context() const override;
  MutableTensor host_tensor(DType type, std::vector<int64_t> dims) const override {
    return first_->host_tensor(type, std::move(dims));
  }

  std::vector<std::string> notes() const override {
    std::vector<std::string> notes = first_->notes();
    for (const auto& made : likely_->made)
      notes.push_back(cat("the program depends on a condition on sizes: here ", onnx::to_string(made),
                          made.holds ? "" : " does not hold"));
    std::lock_guard lock(mutex_);
    notes.push_back(cat("the first run where the conditions have other results compiles a program for them; ",
                        1 + variants_.size(), " so far"));
    return notes;
  }

  /// Copies constants from the caller's memory, because programs that are compiled later need them.
  void detach() override {
    std::lock_guard lock(mutex_);
    own_constants(options_);
    first_->detach();
  }

  /// True if a refused run may be repeated: not with donated inputs, which the refused run may have overwritten.
  bool may_run_again() const { return options_.donate.empty(); }
  std::shared_ptr<const Variant> likely() const { return likely_; }

  /// Returns the decision about sizes that the run computes which this error refutes; null if there is none.
  const onnx::SizeDecision* refuted(const Variant& variant, const Error& error, std::span<const Tensor> inputs) const {
    SymbolValues sizes = bind_symbols(first_->inputs(), with_defaults(first_->inputs(), inputs));
    auto is_refuted = [&](const onnx::SizeDecision& made) {
      return error.info().what.find(cat(onnx::assumption(made), ": ")) != std::string::npos && !holds(made, sizes);
    };
    auto found = std::ranges::find_if(variant.made, is_refuted);
    return found == variant.made.end() ? nullptr : &*found;
  }
  /// Returns the variant for the sizes of these inputs and for answers of earlier tries; null if there is none.
  std::shared_ptr<const Variant> variant_for(std::span<const Tensor> inputs, const RunOptions& options,
                                             const std::map<std::string, bool>& answers) const {
    SymbolValues sizes = bind_symbols(first_->inputs(), with_defaults(first_->inputs(), inputs));
    std::shared_ptr<const Variant> variant = likely_;
    for (std::map<std::string, bool> known = answers;;) {
      bool fits = true;
      for (const auto& made : variant->made) {
        std::string text = onnx::to_string(made);
        if (auto answer = holds(made, sizes)) known[text] = *answer;
        fits = fits && (!known.contains(text) || known[text] == made.holds);
      }
      if (fits) return variant;
      auto next = variant_of(known, options);
      if (!next->program || next == variant) return nullptr;
      variant = std::move(next);
    }
  }

 private:
  std::shared_ptr<const Variant> variant_of(const std::map<std::string, bool>& known, const RunOptions& options) const {
    std::string key;
    for (const auto& [text, answer] : known) key += cat(key.empty() ? "" : ", ", answer ? "" : "not ", text);
    std::lock_guard lock(mutex_);
    if (auto found = variants_.find(key); found != variants_.end()) return found->second;
    if (variants_.size() == max_variants) variants_.clear();
    log(LogLevel::info, "compiling for sizes where ", key);
    return variants_[key] = std::make_shared<Variant>(compiled(known, options));
  }

  Variant compiled(const std::map<std::string, bool>& known, const RunOptions& options) const {
    Watch watch(options.deadline, options.stop);
    WatchScope scope(&watch);
    onnx::SizeDecisions decisions{.given = known};
    return reading_files([&]() -> Variant {
      std::unique_ptr<Program> program;
      try {
        program = import(*model_, options_, nullptr, &decisions);
      } catch (const Error& error) {
        log(LogLevel::info, "the model has no program for these sizes: ", error.what());
      }
      if (!program) return {};
      return {compile_program(std::move(program), options_, {}), std::move(decisions.made)};
    });
  }

  std::shared_ptr<const onnx::Model> model_;
  CompileOptions options_;
  std::shared_ptr<Executable> first_;
  std::shared_ptr<const Variant> likely_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::shared_ptr<const Variant>> variants_ = {};
};

/// A context that keeps using the variant of the last run as long as this variant fits the sizes of the inputs.
class BySizesContext final : public Context {
 public:
  explicit BySizesContext(std::shared_ptr<const BySizes> program) : program_(std::move(program)) {
    use(program_->likely());
  }

  /// Tries variants until one fits. Each try may refute a decision about sizes that the run computes.
  std::vector<Tensor> run(std::span<const Tensor> inputs, const RunOptions& given) override {
    RunOptions options = given;
    bool may_repeat = true;  // false: the refused run may have overwritten an input
    auto keep_apart = [&](std::span<const std::byte> memory) {
      for (const Tensor& input : inputs) may_repeat = may_repeat && !overlap(input.data, memory);
    };
    for (std::span<const std::byte> memory : options.output_memory) keep_apart(memory);
    if (given.allocate_output) {
      options.allocate_output = [&](size_t output, std::span<const int64_t> dims, size_t bytes) {
        std::byte* memory = given.allocate_output(output, dims, bytes);
        keep_apart({memory, memory ? bytes : 0});
        return memory;
      };
    }
    std::map<std::string, bool> answers;
    for (int tries = 0;; ++tries) {
      std::shared_ptr<const Variant> variant = contexts_.back().first;
      try {
        return contexts_.back().second->run(inputs, options);
      } catch (const Error& error) {
        if (error.info().code != "E312" || !program_->may_run_again() || tries == max_tries) throw;
        if (const onnx::SizeDecision* made = program_->refuted(*variant, error, inputs)) {
          if (!may_repeat) throw;
          answers[onnx::to_string(*made)] = !made->holds;
        }
        auto other = program_->variant_for(inputs, options, answers);
        if (!other || other == variant) throw;
        if (options.profile) options.profile->clear();
        use(std::move(other));
      }
    }
  }

  int64_t memory_bytes() const override { return contexts_.back().second->memory_bytes(); }
  int64_t peak_memory_bytes() const override { return contexts_.back().second->peak_memory_bytes(); }
  MemoryUse memory() const override { return contexts_.back().second->memory(); }

 private:
  void use(std::shared_ptr<const Variant> variant) {
    auto known = std::ranges::find(contexts_, variant, [](const auto& entry) { return entry.first; });
    if (known != contexts_.end()) {
      std::rotate(known, known + 1, contexts_.end());
      return;
    }
    auto context = variant->program->new_context();
    if (contexts_.size() == max_variant_contexts) contexts_.erase(contexts_.begin());
    contexts_.emplace_back(std::move(variant), std::move(context));
  }

  std::shared_ptr<const BySizes> program_;
  std::vector<std::pair<std::shared_ptr<const Variant>, std::unique_ptr<Context>>> contexts_ = {};  // oldest use first
};

std::unique_ptr<Context> BySizes::new_context() const { return std::make_unique<BySizesContext>(shared_from_this()); }

}  // namespace

std::shared_ptr<Executable> make_by_sizes(std::shared_ptr<const onnx::Model> model, onnx::SizeDecisions decisions,
                                          std::shared_ptr<Executable> first, const CompileOptions& options) {
  return std::make_shared<BySizes>(std::move(model), std::move(decisions), std::move(first), options);
}

}  // namespace weft
