// SPDX-License-Identifier: Apache-2.0
#include "mutants/harness.h"

#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <map>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/knobs.h"

namespace weft::test {
namespace {

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr double max_seconds = 20;  // an instrumented, unoptimised build is about ten times slower
#else
constexpr double max_seconds = 2;
#endif
#else
constexpr double max_seconds = 2;
#endif
constexpr int64_t max_kilobytes = 1 << 20;

Sound read_sound(const char* path) {
  std::ifstream in(path, std::ios::binary);
  return {path, {std::istreambuf_iterator<char>(in), {}}};
}

double cpu_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

int64_t peak_kilobytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

std::string outcome(const Mutants& mutants, const Sound& sound, std::string_view bytes) {
  try {
    return mutants.take(sound, bytes);
  } catch (const Error& error) {
    if (error.info().kind == ErrorKind::internal) std::printf("BUG: %s\n", error.what());
    return error.info().code;
  } catch (const std::bad_alloc&) {
    return "E400";
  } catch (const std::exception& error) {
    std::printf("BUG: an exception of the standard library: %s\n", error.what());
    return "exception";
  }
}

}  // namespace

int run_mutants(const Mutants& mutants, int count, char** words) {
  if (count < 5) {
    std::fprintf(stderr, "usage: %s SEED|intact FIRST COUNT FILE...\n", words[0]);
    return 2;
  }
  const bool is_intact = std::string_view(words[1]) == "intact";
  uint64_t seed = is_intact ? 0 : std::stoull(words[1]), first = std::stoull(words[2]), all = std::stoull(words[3]);
  std::vector<Sound> files;
  for (int i = 4; i < count; ++i) files.push_back(read_sound(words[i]));
  std::map<std::string, int> outcomes;
  int64_t start = peak_kilobytes(), before = start;
  double slowest = 0;
  for (uint64_t number = first; number < first + all; ++number) {
    std::seed_seq seeds{seed, number};
    std::mt19937_64 random(seeds);
    const Sound& sound = is_intact ? files.at(number) : files[random() % files.size()];
    std::string bytes = is_intact ? sound.bytes : mutants.damage(sound, random);
    std::printf("%llu\n", static_cast<unsigned long long>(number));
    std::fflush(stdout);
    if (!knobs().dump.empty())
      write_file(std::filesystem::path(knobs().dump) / ("mutant" + sound.path.extension().string()), as_bytes(bytes));
    double begin = cpu_seconds();
    ++outcomes[outcome(mutants, sound, bytes)];
    double taken = cpu_seconds() - begin;
    slowest = std::max(slowest, taken);
    if (taken > max_seconds) std::printf("BUG: took %.1f s\n", taken);
    if (peak_kilobytes() - start > max_kilobytes) {
      std::printf("BUG: took %lld MiB\n", static_cast<long long>((peak_kilobytes() - start) >> 10));
      start = peak_kilobytes();
    }
  }
  for (const auto& [what, times] : outcomes) std::printf("%s %d\n", what.c_str(), times);
  std::printf("slowest %.2f s, memory above the start %lld MiB\n", slowest,
              static_cast<long long>((peak_kilobytes() - before) >> 10));
  return 0;
}

}  // namespace weft::test
