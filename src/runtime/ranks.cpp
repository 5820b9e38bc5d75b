// SPDX-License-Identifier: Apache-2.0
#include "runtime/ranks.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <map>
#include <optional>
#include <system_error>
#include <thread>

#include "base/error.h"
#include "base/random.h"
#include "runtime/bind.h"
#include "runtime/mailboxes.h"
#include "runtime/outputs.h"
#include "runtime/rank_group.h"
#include "runtime/saved.h"
#include "targets/gpu/communicators.h"

namespace weft {

int64_t seed_of(const RunOptions& options) { return options.rank ? options.rank->seed() : fresh_seed(); }

namespace {

/// The ranks that have a port of the whole program: only `rank`, or every rank if not set. `port` is its number there.
struct RankPort {
  size_t port = 0;
  std::optional<size_t> rank = {};
};

std::vector<RankPort> spread(const std::vector<bool>& split, size_t ranks) {
  std::vector<RankPort> list;
  for (size_t i = 0; i < split.size(); ++i) {
    if (!split[i]) list.push_back({i, {}});
    for (size_t r = 0; split[i] && r < ranks; ++r) list.push_back({i, r});
  }
  return list;
}

std::vector<Port> ports_of(const std::vector<Port>& ports, const std::vector<RankPort>& list) {
  std::vector<Port> named;
  for (const RankPort& p : list) {
    named.push_back(ports[p.port]);
    if (!p.rank) continue;
    named.back().name += cat("@", *p.rank);
    named.back().rank = static_cast<int>(*p.rank);
  }
  return named;
}

class RankedExecutable final : public Executable, public std::enable_shared_from_this<RankedExecutable> {
 public:
  explicit RankedExecutable(RankPrograms programs)
      : ranks_(std::move(programs.ranks)),
        devices_(std::move(programs.devices)),
        are_connected_(programs.are_connected),
        notes_(std::move(programs.notes)),
        input_places_(spread(programs.split_inputs, ranks_.size())),
        output_places_(spread(programs.split_outputs, ranks_.size())),
        inputs_(ports_of(ranks_[0]->inputs(), input_places_)),
        outputs_(ports_of(ranks_[0]->outputs(), output_places_)),
        report_(ranks_[0]->report()) {
    for (size_t r = 1; r < ranks_.size(); ++r) {
      const CompileReport& other = ranks_[r]->report();
      report_.kernels += other.kernels, report_.kernels_compiled += other.kernels_compiled;
      report_.kernels_from_cache += other.kernels_from_cache;
      report_.kernels_from_pack += other.kernels_from_pack, report_.constant_bytes += other.constant_bytes;
      report_.phase_seconds.insert(report_.phase_seconds.end(), other.phase_seconds.begin(), other.phase_seconds.end());
    }
  }

  const std::vector<Port>& inputs() const override { return inputs_; }
  const std::vector<Port>& outputs() const override { return outputs_; }
  const CompileReport& report() const override { return report_; }
  const std::map<std::string, std::string>& metadata() const override { return ranks_[0]->metadata(); }
  std::vector<StepInfo> steps() const override { return ranks_[0]->steps(); }
  std::unique_ptr<Context> new_context() const override;

  std::vector<std::string> notes() const override {
    std::vector<std::string> notes = notes_;
    std::ranges::copy(ranks_[0]->notes(), std::back_inserter(notes));
    return notes;
  }
  std::string device() const override {
    std::string names;
    for (const auto& rank : ranks_) {
      std::string device = rank->device();
      names += cat(names.empty() ? "" : ",", device.substr(0, device.find(' ')));
    }
    std::string first = ranks_[0]->device();
    return names + first.substr(std::min(first.find(' '), first.size()));
  }
  void detach() override {
    for (const auto& rank : ranks_) rank->detach();
  }
  SavedProgram saved() const override {
    throw Error({.kind = ErrorKind::unsupported,
                 .code = "E406",
                 .what = cat("the program is split over ", ranks_.size(), " devices"),
                 .hint = "save it for one device, and split the model when it is compiled where it runs"});
  }

  const std::vector<std::shared_ptr<Executable>>& ranks() const { return ranks_; }
  const std::vector<RankPort>& input_places() const { return input_places_; }
  const std::vector<RankPort>& output_places() const { return output_places_; }
  /// Returns the communicators that all contexts share, made at the first call; null on CPUs.
  std::shared_ptr<gpu::Communicators> communicators() const {
    std::lock_guard lock(mutex_);
    if (!devices_.empty() && !communicators_) communicators_ = std::make_shared<gpu::Communicators>(devices_);
    return communicators_;
  }
  bool are_connected() const { return are_connected_; }
  std::unique_ptr<Mailboxes> new_mailboxes() const {
    return are_connected_ ? std::make_unique<Mailboxes>(devices_) : nullptr;
  }
  const std::vector<std::shared_ptr<gpu::Device>>& devices() const { return devices_; }

 private:
  std::vector<std::shared_ptr<Executable>> ranks_;
  std::vector<std::shared_ptr<gpu::Device>> devices_;
  bool are_connected_;
  std::vector<std::string> notes_;
  std::vector<RankPort> input_places_, output_places_;
  std::vector<Port> inputs_, outputs_;
  CompileReport report_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<gpu::Communicators> communicators_;
};

/// One thread for each rank but the first, which runs on the caller's thread. A thread checks for work `spins` times
/// before it sleeps, because waking a thread takes as long as many kernels.
class RankThreads {
 public:
  RankThreads(size_t ranks, int spins) : spins_(spins) {
    try {
      for (size_t r = 1; r < ranks; ++r) threads_.emplace_back([this, r] { serve(r); });
    } catch (const std::system_error&) {
      stop();
      throw Error({.kind = ErrorKind::resource, .code = "E400", .what = "no thread could be started for each rank"});
    }
  }
  ~RankThreads() { stop(); }

  /// Calls work(r) for all ranks in parallel; returns when all calls have returned. `work` does not throw.
  void run(const std::function<void(size_t)>& work) {
    work_ = &work;
    const uint32_t end = done_ + static_cast<uint32_t>(threads_.size());
    begin();
    work(0);
    for (uint32_t done = done_; done != end; done = done_) await_change(done_, done);
  }

 private:
  void serve(size_t r) {
    for (uint32_t run = 0;; ++run) {
      await_change(begun_, run);
      if (!work_) return;
      (*work_)(r);
      ++done_;
      done_.notify_one();
    }
  }
  void begin() {
    ++begun_;
    begun_.notify_all();
  }
  void stop() {
    work_ = nullptr;
    begin();
    for (std::thread& thread : threads_) thread.join();
  }
  void await_change(const std::atomic<uint32_t>& value, uint32_t old) const {
    for (int i = 0; i < spins_ && value == old; ++i) std::atomic_signal_fence(std::memory_order_seq_cst);
    value.wait(old);
  }

  int spins_;
  std::atomic<uint32_t> begun_ = 0, done_ = 0;  // number of begun runs; number of calls that threads have finished
  const std::function<void(size_t)>* work_ = nullptr;
  std::vector<std::thread> threads_;
};

/// Allows one run at a time on GPUs: if the collectives of two runs start in different orders on two GPUs, both hang.
std::mutex one_run_on_gpus;

class RankedContext final : public Context {
 public:
  explicit RankedContext(std::shared_ptr<const RankedExecutable> program)
      : program_(std::move(program)),
        group_(program_->ranks().size(), program_->communicators(), program_->new_mailboxes()),
        threads_(program_->ranks().size(), program_->devices().empty() ? 0 : 100'000) {
    for (const auto& rank : program_->ranks()) contexts_.push_back(rank->new_context());
    copies_.resize(contexts_.size()), discarded_.resize(contexts_.size());
    for (const auto& device : program_->devices()) streams_.emplace_back(device);
  }

  std::vector<Tensor> run(std::span<const Tensor> given, const RunOptions& options) override {
    if (options.stream) {
      throw Error({.kind = ErrorKind::usage,
                   .code = "E502",
                   .what = "a program split over several devices takes no stream: a run returns when it is done"});
    }
    auto lock = !program_->devices().empty() ? std::unique_lock(one_run_on_gpus) : std::unique_lock<std::mutex>();
    std::vector<Tensor> inputs = with_defaults(program_->inputs(), given);
    std::vector<std::vector<Tensor>> results = run_ranks(inputs, options);
    std::vector<Tensor> outputs;
    const auto& places = program_->output_places();
    for (size_t i = 0; i < places.size(); ++i) {
      Tensor& made = results[places[i].rank.value_or(0)][places[i].port];
      outputs.push_back(is_placed(made, inputs, options, i) ? std::move(made) : copied(std::move(made), options, i));
    }
    return outputs;
  }

  int64_t memory_bytes() const override { return total(&Context::memory_bytes); }
  int64_t peak_memory_bytes() const override { return total(&Context::peak_memory_bytes); }
  MemoryUse memory() const override {
    MemoryUse all;
    for (const auto& context : contexts_) {
      MemoryUse one = context->memory();
      all.arena += one.arena, all.scratch += one.scratch, all.peak += one.peak;
      all.weights += one.weights, all.constants += one.constants;
    }
    return all;
  }

 private:
  int64_t total(int64_t (Context::*bytes)() const) const {
    int64_t sum = 0;
    for (const auto& context : contexts_) sum += (*context.*bytes)();
    return sum;
  }

  /// Returns the inputs of one rank's program, given the inputs of the whole program.
  std::vector<Tensor> inputs_of(size_t rank, std::span<const Tensor> inputs) const {
    std::vector<Tensor> list(program_->ranks()[rank]->inputs().size());
    const auto& places = program_->input_places();
    for (size_t i = 0; i < places.size(); ++i) {
      if (places[i].rank.value_or(rank) == rank) list[places[i].port] = inputs[i];
    }
    return list;
  }

  /// Returns the caller's memory for the outputs that a rank writes directly. In runs on the host, a rank writes only
  /// split outputs directly, because the memory of a whole output may overlap an input that other ranks still read.
  std::vector<std::span<std::byte>> memory_of(size_t rank, const RunOptions& options) const {
    std::vector<std::span<std::byte>> list(program_->ranks()[rank]->outputs().size());
    const auto& places = program_->output_places();
    for (size_t i = 0; i < std::min(places.size(), options.output_memory.size()); ++i) {
      if (places[i].rank == rank || (options.on_device && rank == 0 && !places[i].rank))
        list[places[i].port] = options.output_memory[i];
    }
    return list;
  }

  /// Copies inputs that are not split from the first device to the rank's device. On connected devices, the rank reads
  /// small inputs directly from the first device.
  void copy_to_device(size_t rank, std::vector<Tensor>& inputs) {
    constexpr int64_t max_read_there = int64_t{64} << 10;
    bool copies = false;
    program_->devices()[rank]->use();
    const gpu::Stream& stream = streams_[rank];
    for (const RankPort& place : program_->input_places()) {
      Tensor& tensor = inputs[place.port];
      auto bytes = static_cast<int64_t>(tensor.data.size());
      if (place.rank || bytes == 0 || (program_->are_connected() && bytes <= max_read_there)) continue;
      std::byte* copy = kept_on(rank, copies_[rank][place.port], bytes);
      stream.copy_on_device(copy, tensor.data.data(), bytes);
      tensor.data = Bytes(std::span<const std::byte>(copy, tensor.data.size()), nullptr);
      copies = true;
    }
    if (copies) stream.synchronize();
  }

  /// Returns the address of `memory` on a rank's device. Allocates new memory only if `memory` is smaller than `bytes`,
  /// because captured graphs contain the address.
  std::byte* kept_on(size_t rank, gpu::Memory& memory, int64_t bytes) const {
    if (memory.bytes() < bytes) memory = gpu::Memory(program_->devices()[rank], bytes);
    return memory.data();
  }

  std::vector<std::vector<Tensor>> run_ranks(std::span<const Tensor> inputs, const RunOptions& options) {
    std::vector<std::vector<Tensor>> results(contexts_.size());
    std::exception_ptr first;
    std::mutex mutex;
    group_.begin();
    threads_.run([&](size_t r) {
      try {
        results[r] = run_rank(r, inputs_of(r, inputs), options);
      } catch (...) {
        {
          std::lock_guard lock(mutex);
          if (!first) first = std::current_exception();
        }
        group_.fail();
      }
    });
    if (first) std::rethrow_exception(first);
    return results;
  }

  std::vector<Tensor> run_rank(size_t rank, std::vector<Tensor> inputs, const RunOptions& options) {
    if (options.on_device && rank > 0) copy_to_device(rank, inputs);
    std::vector<std::span<std::byte>> memory = memory_of(rank, options);
    RunOptions mine{.output_memory = memory,
                    .on_device = options.on_device,
                    .deadline = options.deadline,
                    .stop = options.stop,
                    .rank = &group_.rank(rank),
                    .executor = options.executor};
    if (rank == 0) mine.profile = options.profile, mine.observe = options.observe;
    if (options.on_device && rank > 0) {  // whole outputs are equal on all ranks, so only the first rank's are used
      mine.allocate_output = [this, rank](size_t output, std::span<const int64_t>, size_t bytes) {
        return kept_on(rank, discarded_[rank][output], static_cast<int64_t>(bytes));
      };
    }
    return contexts_[rank]->run(inputs, mine);
  }

  /// True if an output need not be copied to memory that the caller gave for it.
  bool is_placed(const Tensor& made, std::span<const Tensor> inputs, const RunOptions& options, size_t output) const {
    bool is_given = output < options.output_memory.size() && options.output_memory[output].data();
    if (options.on_device) return true;
    if (!is_given && !options.allocate_output) return true;
    if (program_->output_places()[output].rank && is_given) return true;
    auto is_there = [&](const Tensor& input) { return !made.data.empty() && input.data.data() == made.data.data(); };
    return !made.is_tensor() || std::ranges::any_of(inputs, is_there);
  }

  Tensor copied(Tensor made, const RunOptions& options, size_t output) const {
    MutableTensor place = place_output(options, output, program_->outputs()[output], made.dims);
    if (!made.data.empty()) std::memcpy(place.data, made.data.data(), made.data.size());
    return std::move(place.tensor);
  }

  std::shared_ptr<const RankedExecutable> program_;
  RankGroup group_;
  std::vector<std::unique_ptr<Context>> contexts_;
  std::vector<gpu::Stream> streams_;  // one for each GPU; empty on CPUs
  // Memory on each rank's device, for runs on the device: copies of whole inputs, and whole outputs that are not used.
  std::vector<std::map<size_t, gpu::Memory>> copies_, discarded_;
  RankThreads threads_;
};

std::unique_ptr<Context> RankedExecutable::new_context() const {
  return std::make_unique<RankedContext>(shared_from_this());
}

}  // namespace

std::shared_ptr<Executable> make_ranked(RankPrograms programs) {
  return std::make_shared<RankedExecutable>(std::move(programs));
}

}  // namespace weft
