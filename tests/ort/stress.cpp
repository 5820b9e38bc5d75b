// SPDX-License-Identifier: Apache-2.0
// Threads share sessions of a stock onnxruntime with Weft as provider, while another thread makes and drops sessions.
//
//   weft-ort_stress LIBONNXRUNTIME PROVIDER THREADS RUNS MODEL...     each thread makes RUNS calls, then a tenth more
//                                                                     while sessions are made and dropped
//   weft-ort_stress LIBONNXRUNTIME PROVIDER THREADS SECONDSs MODEL... only the second part, for that many seconds
//
// Inputs are floats, free sizes 1, 3 or 8. Every answer must equal the first answer bit by bit. Prints one line of
// JSON: calls, sessions, wrong answers, and the growth of resident memory in KiB over the RUNS.
#define ORT_API_MANUAL_INIT  // manual initialisation: the runtime is opened by path
#include <dlfcn.h>
#include <malloc.h>
#include <onnxruntime_cxx_api.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace {

constexpr int64_t sizes[] = {1, 3, 8};
using Clock = std::chrono::steady_clock;

Ort::Session open_session(Ort::Env& env, const char* model) {
  Ort::SessionOptions options;
  options.SetIntraOpNumThreads(2);
  std::vector<Ort::ConstEpDevice> devices = env.GetEpDevices();
  std::erase_if(devices, [](auto& device) { return std::strcmp(device.EpName(), "WeftExecutionProvider") != 0; });
  devices.resize(1);
  options.AppendExecutionProvider_V2(env, devices, std::unordered_map<std::string, std::string>{});
  options.AddConfigEntry("session.disable_cpu_ep_fallback", "1");
  return Ort::Session(env, model, options);
}

using Answer = std::vector<std::vector<char>>;

/// Runs the session once with `size` for all free sizes; returns the bytes of every output.
Answer answer(Ort::Session& session, int64_t size) {
  Ort::AllocatorWithDefaultOptions allocator;
  std::vector<std::string> names;
  std::vector<std::vector<float>> data;
  std::vector<Ort::Value> inputs, outputs;
  for (size_t i = 0; i < session.GetInputCount(); ++i) {
    names.emplace_back(session.GetInputNameAllocated(i, allocator).get());
    auto dims = session.GetInputTypeInfo(i).GetTensorTypeAndShapeInfo().GetShape();
    int64_t count = 1;
    for (int64_t& dim : dims) count *= dim = dim < 0 ? size : dim;
    auto& values = data.emplace_back(static_cast<size_t>(count));
    for (size_t k = 0; k < values.size(); ++k) values[k] = static_cast<float>(k * 7919 % 2003) / 1000 - 1;
    auto memory = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
    inputs.push_back(Ort::Value::CreateTensor<float>(memory, values.data(), values.size(), dims.data(), dims.size()));
  }
  const size_t input_count = names.size(), output_count = session.GetOutputCount();
  for (size_t i = 0; i < output_count; ++i) {
    names.emplace_back(session.GetOutputNameAllocated(i, allocator).get());
  }
  std::vector<const char*> texts;
  for (const std::string& name : names) texts.push_back(name.c_str());
  outputs = session.Run(Ort::RunOptions{nullptr}, texts.data(), inputs.data(), input_count, texts.data() + input_count,
                        output_count);
  Answer bytes;
  for (Ort::Value& output : outputs) {
    const char* start = static_cast<const char*>(output.GetTensorRawData());
    bytes.emplace_back(start, start + output.GetTensorSizeInBytes());
  }
  return bytes;
}

/// Returns the process's resident memory in KiB, after the allocator has returned its free memory.
long resident() {
  malloc_trim(0);
  std::ifstream file("/proc/self/statm");
  long all = 0, pages = 0;
  file >> all >> pages;
  return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

struct Shared {
  std::vector<Ort::Session> sessions;
  std::vector<Answer> wanted;  // [session][size]
  std::atomic<int64_t> wrong{0}, calls{0};
  Clock::time_point end = Clock::time_point::max();

  void run(int thread, int64_t runs) {
    for (int64_t i = 0; i < runs && Clock::now() < end; ++i) {
      const size_t which = static_cast<size_t>(i * 5 + thread) % wanted.size();
      wrong += answer(sessions[which / std::size(sizes)], sizes[which % std::size(sizes)]) != wanted[which];
      ++calls;
    }
  }

  void run_all(int threads, int64_t runs) {
    std::vector<std::thread> all;
    for (int thread = 0; thread < threads; ++thread) all.emplace_back([=, this] { run(thread, runs); });
    for (std::thread& thread : all) thread.join();
  }

  /// Returns the memory growth over all runs, in KiB: four times the smallest growth of the last three
  /// quarters. A leak grows in every quarter; memory kept for concurrent runs (contexts, arenas) does not.
  long growth(int threads, int64_t runs) {
    long least = std::numeric_limits<long>::max();
    long before = 0;
    for (int quarter = 0; quarter < 4; ++quarter) {
      run_all(threads, runs / 4);
      const long now = resident();
      if (quarter > 0) least = std::min(least, now - before);
      before = now;
    }
    return 4 * std::max(least, 0l);
  }

  /// Makes `runs` calls in each of several threads, while another thread creates and releases a session of each model
  /// in turn; returns the number of sessions.
  int run_beside_sessions(Ort::Env& env, std::span<char* const> models, int threads, int64_t runs) {
    std::atomic<bool> over{false};
    int opened = 0;
    std::thread opener([&] {
      for (; !over; ++opened) {
        const size_t which = static_cast<size_t>(opened) % models.size();
        Ort::Session session = open_session(env, models[which]);
        wrong += answer(session, sizes[0]) != wanted[which * std::size(sizes)];
      }
    });
    run_all(threads, runs);
    over = true;
    opener.join();
    return opened;
  }
};

int stress(char** words, int count) {
  Ort::Env env{ORT_LOGGING_LEVEL_ERROR, "stress"};
  env.RegisterExecutionProviderLibrary("weft", words[2]);
  const int threads = std::atoi(words[3]);
  const int64_t amount = std::atoll(words[4]);
  const bool is_timed = std::string_view(words[4]).ends_with('s');
  const std::span<char* const> models(words + 5, static_cast<size_t>(count - 5));
  Shared shared;
  for (const char* model : models) {
    Ort::Session& session = shared.sessions.emplace_back(open_session(env, model));
    for (int64_t size : sizes) shared.wanted.push_back(answer(session, size));
  }
  if (is_timed) shared.end = Clock::now() + std::chrono::seconds(amount);
  const long grown = is_timed ? 0 : shared.growth(threads, amount);
  const int64_t beside = is_timed ? INT64_MAX : std::max<int64_t>(1, amount / 10);
  const int opened = shared.run_beside_sessions(env, models, threads, beside);
  std::printf("{\"calls\": %ld, \"sessions\": %d, \"wrong\": %ld, \"grown_kib\": %ld}\n",
              static_cast<long>(shared.calls), opened, static_cast<long>(shared.wrong), grown);
  return shared.wrong == 0 ? 0 : 1;
}

}  // namespace

int main(int count, char** words) {
  if (count < 6) {
    std::fprintf(stderr, "usage: %s LIBONNXRUNTIME PROVIDER THREADS RUNS MODEL...\n", words[0]);
    return 2;
  }
  mallopt(M_ARENA_MAX, 1);  // per-thread arenas would hide a leak
  void* library = dlopen(words[1], RTLD_NOW | RTLD_GLOBAL);
  auto base = library ? reinterpret_cast<const OrtApiBase* (*)()>(dlsym(library, "OrtGetApiBase")) : nullptr;
  if (!base) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 2;
  }
  unsigned version = 0;
  std::sscanf(base()->GetVersionString(), "%*u.%u", &version);
  Ort::InitApi(base()->GetApi(std::min<unsigned>(version, ORT_API_VERSION)));
  try {
    return stress(words, count);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
