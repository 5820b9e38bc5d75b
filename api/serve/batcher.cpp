// SPDX-License-Identifier: Apache-2.0
#include "api/serve/batcher.h"

#include <algorithm>
#include <utility>

namespace weft::serve {

struct Batcher::Request {
  uint64_t id = 0;
  Inputs inputs = {};
  std::optional<Clock::time_point> deadline = {};
  Done done = {};
  Clock::time_point arrival = Clock::now(), begin = {};
  bool is_alone = false;  ///< the request gives an input that has a default; such inputs cannot be joined
  bool is_answered = false;
  std::atomic<bool> is_cancelled = false;

  bool has_expired() const { return deadline && Clock::now() >= *deadline; }
};

namespace {

std::exception_ptr cancelled() {
  return std::make_exception_ptr(Error(WEFT_RESOURCE, "E404", "the request was cancelled"));
}
std::exception_ptr expired() {
  return std::make_exception_ptr(Error(WEFT_RESOURCE, "E403", "the deadline of the request passed"));
}

uint64_t nanoseconds(Clock::duration time) {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(time).count());
}

/// Returns the latest deadline of a batch; nullopt if a request has no deadline.
template <class Batch>
std::optional<Clock::time_point> last_deadline(const Batch& batch) {
  Clock::time_point last = Clock::time_point::min();
  for (const auto& request : batch) {
    if (!request->deadline) return {};
    last = std::max(last, *request->deadline);
  }
  return last;
}

bool is_about_time(const Error& error) { return error.code() == "E403" || error.code() == "E404"; }

}  // namespace

Batcher::Batcher(std::vector<Program> programs, BatchOptions options, BatchRule rule)
    : programs_(std::move(programs)),
      inputs_(programs_.at(0).inputs()),
      outputs_(programs_[0].outputs()),
      options_(options),
      rule_(std::move(rule)) {
  if (rule_.joins) options_.max_rows = std::min(options_.max_rows, rule_.max_rows);
  if (options_.max_rows <= 1) rule_.joins = false;
  for (const Program& program : programs_) threads_.emplace_back([this, &program] { work(program); });
}

Batcher::~Batcher() {
  {
    std::scoped_lock lock(mutex_);
    is_closed_ = true;
    is_ending_ = true;
  }
  arrived_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  std::vector<Shared> left(queue_.begin(), queue_.end());
  for (const Shared& request : left) answer(request, {}, cancelled());
}

/// Checks the sizes of a request before it is joined with others, so that wrong sizes do not make a joint run fail.
void Batcher::check_fit(const Inputs& inputs) const {
  std::vector<const weft_tensor*> given;
  for (const Tensor& input : inputs) given.push_back(input.get());
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (!outputs_[i].is_tensor) continue;
    std::vector<int64_t> dims(outputs_[i].rank);
    check(weft_output_sizes(programs_[0].get(), given.data(), given.size(), i, dims.data(), dims.size(), nullptr));
    return;
  }
}

uint64_t Batcher::submit(Inputs inputs, std::optional<Clock::time_point> deadline, Done done) {
  check_fit(inputs);
  auto request = std::make_shared<Request>();
  for (size_t i = 0; i < inputs.size(); ++i) request->is_alone |= inputs_[i].has_default && inputs[i];
  request->inputs = std::move(inputs), request->deadline = deadline, request->done = std::move(done);
  {
    std::scoped_lock lock(mutex_);
    if (is_closed_) throw Error(WEFT_RESOURCE, "E404", "this version of the model takes no more requests");
    if (queue_.size() >= options_.max_waiting) {
      ++stats_.refused;
      throw Error(WEFT_RESOURCE, "E407",
                  "the queue is full: " + std::to_string(queue_.size()) + " requests wait for this model",
                  "ask again later, or serve it with a longer --queue");
    }
    request->id = next_id_++;
    open_.emplace(request->id, request);
    queue_.push_back(request);
  }
  arrived_.notify_all();
  return request->id;
}

void Batcher::cancel(uint64_t id) {
  Shared found;
  {
    std::scoped_lock lock(mutex_);
    auto at = open_.find(id);
    if (at == open_.end() || at->second->is_answered) return;
    at->second->is_cancelled = true;
    if (std::erase(queue_, at->second) == 0) return;  // it is running: the run checks the flag
    found = at->second;
  }
  answer(found, {}, cancelled());
}

void Batcher::close() {
  std::scoped_lock lock(mutex_);
  is_closed_ = true;
}

void Batcher::wait_until_idle() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [&] { return open_.empty(); });
}

BatchStats Batcher::stats() const {
  std::scoped_lock lock(mutex_);
  BatchStats stats = stats_;
  stats.waiting = queue_.size();
  stats.running = open_.size() - queue_.size();
  stats.usual = usual_;
  return stats;
}

void Batcher::answer(const Shared& request, std::vector<Tensor> outputs, std::exception_ptr failure) {
  {
    std::scoped_lock lock(mutex_);
    if (std::exchange(request->is_answered, true)) return;
    if (request->is_cancelled) failure = cancelled(), ++stats_.cancelled;
    else if (request->has_expired()) failure = expired(), ++stats_.expired;
    else ++(failure ? stats_.failed : stats_.answered);
    Clock::time_point now = Clock::now(), begin = request->begin == Clock::time_point{} ? now : request->begin;
    stats_.queue_ns += nanoseconds(begin - request->arrival);
    stats_.run_ns += nanoseconds(now - begin);
  }
  if (failure) outputs.clear();
  request->done(request->id, std::move(outputs), failure);
  std::scoped_lock lock(mutex_);
  open_.erase(request->id);
  if (open_.empty()) idle_.notify_all();
}

void Batcher::work(const Program& program) {
  std::optional<Context> context;
  Joiner joiner(program);
  std::unique_lock lock(mutex_);
  while (!is_ending_) {
    Batch batch = next_batch(lock);
    if (batch.empty()) continue;
    lock.unlock();
    try {
      if (!context) context.emplace(program.new_context());
      run(*context, joiner, batch);
    } catch (...) {  // such as a failed new_context(): every request gets the error
      for (const Shared& request : batch) answer(request, {}, std::current_exception());
    }
    batch.clear();
    lock.lock();
  }
}

/// Waits for requests and returns the next batch; an empty batch when the batcher ends. The caller holds the lock,
/// which is released during the wait.
Batcher::Batch Batcher::next_batch(std::unique_lock<std::mutex>& lock) {
  arrived_.wait(lock, [&] { return is_ending_ || !queue_.empty(); });
  if (is_ending_) return {};
  Batch batch{queue_.front()};
  queue_.pop_front();
  usual_ = std::max({std::exchange(peak_, 0), open_.size(), usual_ - (usual_ + 7) / 8});
  take_fitting(batch);
  Clock::time_point end = batch[0]->arrival + options_.delay;
  while (is_worth_waiting(batch) && arrived_.wait_until(lock, end) == std::cv_status::no_timeout) take_fitting(batch);
  for (const Shared& request : batch) request->begin = Clock::now();
  return batch;
}

bool Batcher::is_worth_waiting(const Batch& batch) const {
  if (!rule_.joins || is_ending_ || batch[0]->is_alone || open_.size() >= usual_) return false;
  int64_t rows = 0;
  for (const Shared& request : batch) rows += rows_of(request->inputs);
  return rows < options_.max_rows;
}

/// Moves requests that can share a run with the batch from the queue into the batch, oldest first.
void Batcher::take_fitting(Batch& batch) {
  if (!rule_.joins || batch[0]->is_alone) return;
  int64_t rows = 0;
  for (const Shared& request : batch) rows += rows_of(request->inputs);
  for (auto at = queue_.begin(); at != queue_.end() && rows < options_.max_rows;) {
    const Inputs& inputs = (*at)->inputs;
    auto fits = [&](const Shared& other) { return fit_together(rule_, other->inputs, inputs); };
    bool fits_all = rule_.length.empty() ? fits(batch[0]) : std::ranges::all_of(batch, fits);
    bool is_taken = !(*at)->is_alone && rows + rows_of(inputs) <= options_.max_rows && fits_all;
    if (!is_taken) {
      ++at;
      continue;
    }
    rows += rows_of(inputs);
    batch.push_back(*at);
    at = queue_.erase(at);
  }
}

/// Runs the requests of a batch that are neither cancelled nor expired. If a joint run fails, each request runs by
/// itself, so that only the bad request fails. If its deadline or RunOptions::stop ended the run, every request fails.
void Batcher::run(Context& context, Joiner& joiner, const Batch& batch) {
  Batch wanted;
  for (const Shared& request : batch) {
    if (request->is_cancelled || request->has_expired()) answer(request, {}, nullptr);
    else wanted.push_back(request);
  }
  if (wanted.empty()) return;
  try {
    run_together(context, joiner, wanted);
  } catch (const Error& error) {
    if (wanted.size() > 1 && !is_about_time(error)) {
      for (const Shared& request : wanted) run(context, joiner, {request});
      return;
    }
    for (const Shared& request : wanted) answer(request, {}, std::current_exception());
  } catch (...) {
    for (const Shared& request : wanted) answer(request, {}, std::current_exception());
  }
}

void Batcher::note_run(const Batch& batch, Clock::duration time) {
  int64_t rows = 0;
  for (const Shared& request : batch) rows += rows_of(request->inputs);
  std::scoped_lock lock(mutex_);
  Runs& runs = stats_.runs_by_rows[rule_.joins ? rows : 1];
  ++runs.count, runs.ns += nanoseconds(time);
  peak_ = std::max(peak_, open_.size());
}

void Batcher::run_together(Context& context, Joiner& joiner, const Batch& batch) {
  RunOptions options;
  options.stop = [&] {
    bool is_left = std::ranges::any_of(batch, [](const Shared& request) { return !request->is_cancelled; });
    return !is_left || is_ending_;
  };
  if (auto deadline = last_deadline(batch)) {
    double left = std::chrono::duration<double>(*deadline - Clock::now()).count();
    options.deadline_seconds = std::max(left, 1e-9);
  }
  std::vector<const Inputs*> requests;
  for (const Shared& request : batch) requests.push_back(&request->inputs);
  Clock::time_point begin = Clock::now();
  auto answers = split(rule_, context.run(joiner.join(requests), options), requests);
  note_run(batch, Clock::now() - begin);
  for (size_t i = 0; i < batch.size(); ++i) answer(batch[i], std::move(answers[i]), nullptr);
}

}  // namespace weft::serve
