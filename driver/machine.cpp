// SPDX-License-Identifier: Apache-2.0
#include "driver/machine.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/utsname.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <numeric>
#include <sstream>
#include <thread>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "base/chip.h"
#include "base/text.h"

namespace weft::driver {
namespace {

std::string read_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// Returns the value of the first line "key : value" of a file such as /proc/cpuinfo.
std::string proc_value(const char* path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(key)) return std::string(trim(std::string_view(line).substr(line.find(':') + 1)));
  }
  return {};
}

int64_t to_kib(const std::string& text) { return std::atoll(text.c_str()) * 1024; }

int allowed_processors() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
}

double cgroup_quota() {
  std::istringstream line(read_line("/sys/fs/cgroup/cpu.max"));
  double quota = 0, period = 0;
  return line >> quota >> period && period > 0 ? quota / period : 0;
}

std::vector<std::string> find_caches() {
  std::vector<std::string> caches;
  for (int i = 0; i < 8; ++i) {
    std::string folder = cat("/sys/devices/system/cpu/cpu0/cache/index", i, "/");
    std::string size = read_line(folder + "size");
    if (size.empty()) break;
    std::string type = read_line(folder + "type");
    std::transform(type.begin(), type.end(), type.begin(), [](unsigned char c) { return std::tolower(c); });
    caches.push_back(cat("L", read_line(folder + "level"), " ", type, " ", size));
  }
  return caches;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Twelve independent chains of multiply-adds hide the latency of an FMA. The macro makes one function for each
// instruction set: `attribute` selects the set, and the loop is the same.
constexpr int chains = 12;
#define MULTIPLY_ADDS(name, attribute, Vector, splat, fused)                             \
  attribute double name(int rounds) {                                                    \
    Vector sums[chains], factor = splat(0.999F), term = splat(1e-3F);                    \
    for (Vector & sum : sums) sum = term;                                                \
    for (int round = 0; round < rounds; ++round) {                                       \
      _Pragma("GCC unroll 12") for (Vector & sum : sums) sum = fused(sum, factor, term); \
    }                                                                                    \
    for (int i = 1; i < chains; ++i) sums[0] = fused(sums[0], factor, sums[i]);          \
    float first = 0;                                                                     \
    std::memcpy(&first, &sums[0], sizeof first);                                         \
    keep = first;                                                                        \
    return 2.0 * rounds * chains * (sizeof(Vector) / sizeof(float));                     \
  }

volatile float keep;  // volatile: the compiler must not remove the loops

#if defined(__x86_64__)
MULTIPLY_ADDS(multiply_adds_512, [[gnu::target("avx512f")]], __m512, _mm512_set1_ps, _mm512_fmadd_ps)
MULTIPLY_ADDS(multiply_adds_256, [[gnu::target("avx2,fma")]], __m256, _mm256_set1_ps, _mm256_fmadd_ps)
__m128 multiply_then_add(__m128 a, __m128 b, __m128 c) { return _mm_add_ps(_mm_mul_ps(a, b), c); }
MULTIPLY_ADDS(multiply_adds_128, , __m128, _mm_set1_ps, multiply_then_add)

double multiply_adds(int rounds) {
  if (has_feature(host_chip(), "avx512f")) return multiply_adds_512(rounds);
  return has_feature(host_chip(), "fma") ? multiply_adds_256(rounds) : multiply_adds_128(rounds);
}
#elif defined(__aarch64__)
float32x4_t fused_multiply_add(float32x4_t a, float32x4_t b, float32x4_t c) { return vfmaq_f32(c, a, b); }
MULTIPLY_ADDS(multiply_adds, , float32x4_t, vdupq_n_f32, fused_multiply_add)
#else
float multiply_then_add(float a, float b, float c) { return a * b + c; }
float same(float a) { return a; }
MULTIPLY_ADDS(multiply_adds, , float, same, multiply_then_add)
#endif
#undef MULTIPLY_ADDS

/// Returns the best rate of five measurements: the result of `work()` divided by its seconds. The best is taken because
/// other processes can only slow a measurement down.
template <class Work>
double best_rate(const Work& work) {
  double best = 0;
  for (int i = 0; i < 5; ++i) {
    auto start = std::chrono::steady_clock::now();
    double done = work();
    best = std::max(best, done / seconds_since(start));
  }
  return best;
}

uint64_t sum_of(const std::vector<uint64_t>& data) {
  uint64_t sums[8] = {};
  for (size_t i = 0; i + 8 <= data.size(); i += 8) {
    for (size_t j = 0; j < 8; ++j) sums[j] += data[i + j];
  }
  uint64_t sum = 0;
  for (uint64_t s : sums) sum += s;
  return sum;
}

/// Returns the sum of `rate()` over `threads` threads that run at once.
template <class Rate>
double on_threads(int threads, const Rate& rate) {
  std::vector<double> rates(static_cast<size_t>(threads));
  std::vector<std::thread> running;
  for (double& own : rates) running.emplace_back([&] { own = rate(); });
  for (std::thread& thread : running) thread.join();
  return std::accumulate(rates.begin(), rates.end(), 0.0);
}

}  // namespace

Machine describe_machine() {
  Machine machine;
  machine.processor = proc_value("/proc/cpuinfo", "model name");
  machine.processors = allowed_processors();
  machine.quota = cgroup_quota();
  machine.memory = to_kib(proc_value("/proc/meminfo", "MemTotal"));
  machine.available = to_kib(proc_value("/proc/meminfo", "MemAvailable"));
  machine.memory_limit = std::atoll(read_line("/sys/fs/cgroup/memory.max").c_str());
  machine.caches = find_caches();
  utsname system{};
  if (uname(&system) == 0) machine.system = cat(system.sysname, " ", system.release, " ", system.machine);
  return machine;
}

double load_average() {
  double load = 0;
  return getloadavg(&load, 1) == 1 ? load : 0;
}

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  auto seconds = [](const timeval& t) { return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec); };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

int64_t peak_memory_bytes() {
  // ru_maxrss of getrusage starts with the parent's peak, so it is not used.
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::strtoll(line.c_str() + 6, nullptr, 10) * 1024;
  }
  return 0;
}

static bool has_vnni(const Chip& chip) { return has_feature(chip, "avx512vnni") || has_feature(chip, "avxvnni"); }

Peaks measure_peaks(int threads) {
  constexpr size_t bytes_per_thread = 64 << 20;
  const Chip& chip = host_chip();
  Peaks peaks;
  peaks.f32 = 1e-9 * on_threads(threads, [] { return best_rate([] { return multiply_adds(200'000); }); });
  peaks.f64 = peaks.f32 / 2;
  peaks.f16 = peaks.f32 * (has_feature(chip, "amx-bf16") ? 16 : has_feature(chip, "avx512bf16") ? 2 : 1);
  peaks.i8 = peaks.f32 * (has_feature(chip, "amx-int8") ? 32 : has_vnni(chip) ? 4 : 2);
  peaks.gbytes = 1e-9 * on_threads(threads, [] {
                   std::vector<uint64_t> data(bytes_per_thread / sizeof(uint64_t), 1);
                   return best_rate([&] {
                     keep = static_cast<float>(sum_of(data));
                     return static_cast<double>(bytes_per_thread);
                   });
                 });
  return peaks;
}

}  // namespace weft::driver
