// SPDX-License-Identifier: Apache-2.0
#include "kernel_build/kernel_cache.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "base/log.h"
#include "counts.h"
#include "kernel_build/codegen_loader.h"
#include "kernel_build/kernel_build.h"
#include "scratch.h"
#include "targets/cpu/object.h"

using namespace weft;
using test::Scratch;
namespace fs = std::filesystem;

namespace {

/// Collects warnings instead of printing them.
struct Warnings {
  std::vector<std::string> seen;
  Warnings() {
    set_logger([this](LogLevel level, std::string_view text) {
      if (level <= LogLevel::warning) seen.emplace_back(text);
    });
  }
  ~Warnings() {
    set_logger([](LogLevel, std::string_view text) { std::fprintf(stderr, "%.*s\n", int(text.size()), text.data()); });
  }
};

constexpr int64_t mebi = 1 << 20;

std::vector<std::byte> data_of(int seed, size_t size) {
  std::vector<std::byte> data(size);
  for (size_t i = 0; i < size; ++i) data[i] = static_cast<std::byte>(static_cast<size_t>(seed) * 31 + i * 7);
  return data;
}

Hash128 key_of(int n) { return {.low = static_cast<uint64_t>(n), .high = 0x77}; }

bool holds(KernelCache& cache, int n, size_t size) {
  auto data = cache.get(key_of(n));
  auto expected = data_of(n, size);
  return data && std::ranges::equal(std::span<const std::byte>(*data), expected);
}

fs::path file_of(const KernelCache& cache, int n) { return cache.folder() / to_string(key_of(n)); }

void change_byte(const fs::path& path, off_t at) {
  int fd = ::open(path.c_str(), O_RDWR);
  REQUIRE(fd >= 0);
  char c = 0;
  REQUIRE(::pread(fd, &c, 1, at) == 1);
  c ^= 0x10;
  REQUIRE(::pwrite(fd, &c, 1, at) == 1);
  ::close(fd);
}

KernelSource answer(int value) {
  std::string name = cat("answer", value);
  return {.name = name, .code = cat("extern \"C\" int ", name, "() { return ", value, "; }")};
}

/// Returns a kernel that computes `value`, a multiple of 3, by a micro kernel, which all kernels share.
KernelSource multiplied_answer(int value) {
  KernelSource source = answer(value);
  source.code =
      cat("#include \"micro.h\"\nusing namespace weft;\nusing namespace weft::kernel;\n",
          "WEFT_SHARED_PART(\"micro.h\", Micro<MacF32, native_tile>)\nextern \"C\" int ", source.name, "() {\n",
          "  constexpr int mr = native_tile.mr, nr = native_tile.nr();\n  f32 a[2] = {1, 2}, b[2 * nr], c[mr * nr];\n",
          "  const f32* rows[mr];\n  for (auto& row : rows) row = a;\n  for (f32& x : b) x = ", value, " / 3;\n",
          "  MicroCall<MacF32> call{.rows = rows, .length = 2, .b = b, .acc = c, .stride = nr};\n",
          "  Micro<MacF32, native_tile>::run(call, 0, nr);\n  return int(c[mr * nr - 1]);\n}\n");
  return source;
}

int ask(const BuiltKernels& built, int value) {
  return LoadedObject(built.image, "answers").function<int()>(cat("answer", value))();
}

/// Returns how much `work` increases each counter.
template <class Work>
BuildCounts during(Work work) {
  BuildCounts before = build_counts();
  work();
  BuildCounts after = build_counts();
  return {.compiles = after.compiles - before.compiles,
          .links = after.links - before.links,
          .kernel_hits = after.kernel_hits - before.kernel_hits,
          .image_hits = after.image_hits - before.image_hits};
}

}  // namespace

TEST_CASE("kernel cache: an entry is read back, also by another instance") {
  Scratch scratch;
  KernelCache cache(scratch.path / "a" / "b", 64 * mebi);
  CHECK_FALSE(cache.get(key_of(1)));
  CHECK_FALSE(fs::exists(scratch.path / "a"));  // reading creates no folder
  cache.put(key_of(1), data_of(1, 10000));
  cache.put(key_of(2), {});
  CHECK(holds(cache, 1, 10000));
  KernelCache other(scratch.path / "a" / "b", 64 * mebi);
  CHECK(holds(other, 1, 10000));
  CHECK(holds(other, 2, 0));
  CHECK(other.list().size() == 2);
  CHECK(other.clear() == 2);
  CHECK_FALSE(cache.get(key_of(1)));
}

TEST_CASE("kernel cache: folder and files are closed to others") {
  Scratch scratch;
  KernelCache cache(scratch.path / "weft", 64 * mebi);
  cache.put(key_of(1), data_of(1, 100));
  struct stat info{};
  REQUIRE(::stat(cache.folder().c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0700);
  REQUIRE(::stat(file_of(cache, 1).c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0600);
}

TEST_CASE("kernel cache: a damaged entry is absent and can be made again") {
  Scratch scratch;
  KernelCache cache(scratch.path, 64 * mebi);
  for (off_t at : {0, 9, 17, 33, 47, 48, 1047}) {  // in the magic number, size, key, checksum (twice), data (twice)
    cache.put(key_of(1), data_of(1, 1000));
    CHECK(holds(cache, 1, 1000));
    change_byte(file_of(cache, 1), at);
    CHECK_FALSE(cache.get(key_of(1)));
  }
  for (int size : {0, 5, 48, 1000, 1047, 1049, 5000}) {
    cache.put(key_of(1), data_of(1, 1000));
    REQUIRE(::truncate(file_of(cache, 1).c_str(), size) == 0);
    CHECK_FALSE(cache.get(key_of(1)));
  }
  cache.put(key_of(1), data_of(1, 1000));
  cache.put(key_of(2), data_of(2, 1000));
  fs::rename(file_of(cache, 2), file_of(cache, 1));  // the file of key 1 has an intact entry of key 2
  CHECK_FALSE(cache.get(key_of(1)));
}

TEST_CASE("kernel cache: links are not followed, foreign folders not used") {
  Scratch scratch;
  Warnings warnings;
  KernelCache real(scratch.path / "real", 64 * mebi);
  real.put(key_of(1), data_of(1, 100));
  KernelCache cache(scratch.path / "own", 64 * mebi);
  cache.put(key_of(2), data_of(2, 100));
  fs::create_symlink(file_of(real, 1), file_of(cache, 1));
  CHECK_FALSE(cache.get(key_of(1)));

  fs::create_directory(scratch.path / "linked");
  fs::create_directory_symlink(real.folder(), scratch.path / "linked" / "kernels");
  KernelCache linked(scratch.path / "linked", 64 * mebi);
  CHECK_FALSE(linked.get(key_of(1)));
  CHECK(warnings.seen.size() == 1);

  fs::create_directories(scratch.path / "open" / "kernels");
  fs::permissions(scratch.path / "open" / "kernels", fs::perms(0777));
  KernelCache open(scratch.path / "open", 64 * mebi);
  for (int i = 0; i < 3; ++i) open.put(key_of(1), data_of(1, 100));
  CHECK_FALSE(open.get(key_of(1)));
  CHECK(warnings.seen.size() == 2);  // one warning for each of the two folders
}

TEST_CASE("kernel cache: an unusable folder costs one warning") {
  Scratch scratch;
  Warnings warnings;
  ::close(::open((scratch.path / "file").c_str(), O_CREAT | O_WRONLY, 0600));
  KernelCache cache(scratch.path / "file" / "below", 64 * mebi);
  for (int i = 0; i < 3; ++i) {
    cache.put(key_of(i), data_of(i, 10));
    CHECK_FALSE(cache.get(key_of(i)));
  }
  CHECK(cache.list().empty());
  CHECK(cache.clear() == 0);
  CHECK(warnings.seen.size() == 1);
}

TEST_CASE("kernel cache: the size is bounded and the least used goes first") {
  Scratch scratch;
  KernelCache cache(scratch.path, mebi);
  auto set_age = [&](int n, int64_t hours) {
    timespec times[2] = {};
    times[0].tv_sec = times[1].tv_sec = ::time(nullptr) - hours * 3600;
    ::utimensat(AT_FDCWD, file_of(cache, n).c_str(), times, 0);
  };
  for (int n = 0; n < 15; ++n) {
    cache.put(key_of(n), data_of(n, 64 << 10));
    set_age(n, 100 - n);
  }
  CHECK(holds(cache, 3, 64 << 10));  // now the most recently used entry
  fs::path stale = cache.folder() / "tmp-1-2-3";
  ::close(::open(stale.c_str(), O_CREAT | O_WRONLY, 0600));
  timespec old[2] = {{.tv_sec = 1, .tv_nsec = 0}, {.tv_sec = 1, .tv_nsec = 0}};
  ::utimensat(AT_FDCWD, stale.c_str(), old, 0);
  for (int n = 15; n < 20; ++n) cache.put(key_of(n), data_of(n, 64 << 10));
  cache.prune();
  int64_t total = 0;
  for (const auto& entry : cache.list()) total += entry.bytes;
  CHECK(total <= mebi);
  CHECK_FALSE(cache.get(key_of(0)));
  CHECK(cache.get(key_of(3)));
  CHECK(cache.get(key_of(19)));
  CHECK_FALSE(fs::exists(stale));
  cache.put(key_of(50), data_of(50, 600 << 10));  // more than a quarter of the cache's limit: not stored
  CHECK_FALSE(cache.get(key_of(50)));
}

TEST_CASE("kernel cache: a process killed while it writes leaves no partial entry") {
  Scratch scratch;
  constexpr size_t size = 300000;
  for (int round = 0, count = test::cases(8, 500); round < count; ++round) {
    pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      KernelCache cache(scratch.path, 64 * mebi);
      for (int n = 0;; n = (n + 1) % 20) cache.put(key_of(n), data_of(n, size));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10 + 7 * (round % 10)));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    KernelCache cache(scratch.path, 64 * mebi);
    for (const auto& entry : cache.list()) CHECK(entry.bytes == static_cast<int64_t>(size) + 48);
    for (int n = 0; n < 20; ++n) CHECK((!cache.get(key_of(n)) || holds(cache, n, size)));
  }
}

TEST_CASE("kernel cache: processes and threads write and read the same keys at once") {
  Scratch scratch;
  auto use = [&] {
    KernelCache cache(scratch.path, 64 * mebi);
    for (int i = 0; i < 60; ++i) {
      int n = i % 5;
      auto found = cache.get(key_of(n));
      if (found && !holds(cache, n, 5000)) return false;
      cache.put(key_of(n), data_of(n, 5000));
    }
    return true;
  };
  std::vector<pid_t> children;
  for (int i = 0; i < 16; ++i) {
    pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) ::_exit(use() ? 0 : 1);
    children.push_back(child);
  }
  std::vector<std::thread> threads;
  std::atomic<int> good = 0;
  for (int i = 0; i < 3; ++i) threads.emplace_back([&] { good += use(); });
  for (auto& thread : threads) thread.join();
  for (pid_t child : children) {
    int status = 1;
    ::waitpid(child, &status, 0);
    CHECK(status == 0);
  }
  CHECK(good == 3);
}

TEST_CASE("kernel cache: a full disk loses no entry") {
  Scratch scratch;
  {
    KernelCache cache(scratch.path, 64 * mebi);
    cache.put(key_of(1), data_of(1, 5000));
  }
  pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit small{1000, 1000};
    ::setrlimit(RLIMIT_FSIZE, &small);
    KernelCache cache(scratch.path, 64 * mebi);
    cache.put(key_of(2), data_of(2, 5000));
    ::_exit(!cache.get(key_of(2)) && holds(cache, 1, 5000) ? 0 : 1);
  }
  int status = 1;
  ::waitpid(child, &status, 0);
  CHECK(status == 0);
  KernelCache cache(scratch.path, 64 * mebi);
  CHECK(cache.list().size() == 1);
  CHECK(holds(cache, 1, 5000));
}

TEST_CASE("kernel build: equal kernels compile once, a second build compiles nothing") {
  Scratch scratch;
  KernelCache cache(scratch.path, 64 * mebi);
  const KernelSource sources[] = {answer(1), answer(2), answer(1), answer(3)};
  BuildOptions options{.threads = 3, .cache = &cache};
  std::vector<int> steps;
  options.progress = [&](int done, int total) {
    CHECK(total == 3);
    steps.push_back(done);
  };
  BuiltKernels built;
  auto counts = during([&] { built = build_kernels(sources, host_chip(), options); });
  REQUIRE(built.failures.empty());
  CHECK(counts.compiles == 3);
  CHECK(counts.links == 1);
  CHECK(steps == std::vector{1, 2, 3});
  options.progress = {};
  CHECK(ask(built, 1) == 1);
  CHECK(ask(built, 3) == 3);

  counts = during([&] { built = build_kernels(sources, host_chip(), options); });
  CHECK(counts.compiles == 0);
  CHECK(counts.links == 0);
  CHECK(counts.image_hits == 1);
  CHECK(ask(built, 2) == 2);

  const KernelSource more[] = {answer(2), answer(4)};  // another program that shares a kernel
  counts = during([&] { built = build_kernels(more, host_chip(), options); });
  CHECK(counts.compiles == 1);
  CHECK(counts.kernel_hits == 1);
  CHECK(ask(built, 4) == 4);
}

TEST_CASE("kernel build: a part that kernels share compiles once, for all programs") {
  Scratch scratch;
  KernelCache cache(scratch.path, 64 * mebi);
  BuildOptions options{.threads = 2, .cache = &cache};
  const KernelSource sources[] = {multiplied_answer(6), answer(1), multiplied_answer(9)};
  BuiltKernels built;
  auto counts = during([&] { built = build_kernels(sources, host_chip(), options); });
  REQUIRE(built.failures.empty());
  CHECK(counts.compiles == 4);
  CHECK(ask(built, 6) == 6);
  CHECK(ask(built, 9) == 9);
  const KernelSource more = multiplied_answer(12);
  counts = during([&] { built = build_kernels({&more, 1}, host_chip(), options); });
  CHECK(counts.compiles == 1);
  CHECK(ask(built, 12) == 12);

  KernelSource wrong[] = {answer(2), answer(3)};
  wrong[1].code = cat("#include \"micro.h\"\nWEFT_SHARED_PART(\"micro.h\", Nothing<int>)\n", wrong[1].code);
  built = build_kernels(wrong, host_chip(), options);
  REQUIRE(built.failures.size() == 2);  // for the kernel, and for the part that it shares
  CHECK(built.failures[0].index == 1);
  CHECK(built.failures[1].index == 1);
}

TEST_CASE("kernel build: everything that shapes the code is part of the key") {
  Scratch scratch;
  KernelCache cache(scratch.path, 64 * mebi);
  BuildOptions options{.threads = 1, .cache = &cache};
  auto compiles = [&](const KernelSource& source, const Chip& chip) {
    return during([&] { build_kernels({&source, 1}, chip, options); }).compiles;
  };
  Chip v3 = chip_named("x86-64-v3"), v2 = chip_named("x86-64-v2"), tuned = v3;
  tuned.tune = "znver4";
  KernelSource source = answer(1), checked = source, vectorized = source;
  checked.checked = vectorized.vectorize = true;
  CHECK(compiles(source, v3) == 1);
  CHECK(compiles(source, v3) == 0);
  CHECK(compiles(source, v2) == 1);
  CHECK(compiles(source, tuned) == 1);
  CHECK(compiles(checked, v3) == 1);
  CHECK(compiles(vectorized, v3) == 1);
}

TEST_CASE("kernel build: damage in the cache is repaired by compiling again") {
  Scratch scratch;
  KernelCache cache(scratch.path, 64 * mebi);
  BuildOptions options{.threads = 1, .cache = &cache};
  const KernelSource source = answer(6);
  build_kernels({&source, 1}, host_chip(), options);
  for (const auto& entry : cache.list()) change_byte(cache.folder() / entry.key, 60);
  BuiltKernels built;
  auto counts = during([&] { built = build_kernels({&source, 1}, host_chip(), options); });
  CHECK(counts.compiles == 1);
  CHECK(ask(built, 6) == 6);
}

TEST_CASE("kernel build: refused kernels are named, also if they occur twice, and are not cached") {
  Scratch scratch;
  KernelCache cache(scratch.path, 64 * mebi);
  BuildOptions options{.threads = 2, .cache = &cache};
  KernelSource bad{.name = "bad", .code = "int f() { return nonsense; }"};
  const KernelSource sources[] = {answer(1), bad, answer(2), bad};
  BuiltKernels built = build_kernels(sources, host_chip(), options);
  REQUIRE(built.failures.size() == 2);
  CHECK(built.failures[0].index == 1);
  CHECK(built.failures[1].index == 3);
  CHECK(built.failures[0].diagnostics.find("nonsense") != std::string::npos);
  CHECK(built.image.empty());
  CHECK(cache.list().size() == 2);
  CHECK_THROWS(build_kernels_or_throw(sources, host_chip(), options));
}

TEST_CASE("kernel build: several threads that request the same kernels share the work") {
  Scratch scratch;
  KernelCache cache(scratch.path, 64 * mebi);
  std::vector<KernelSource> sources;
  for (int i = 100; i < 106; ++i) sources.push_back(answer(i));
  auto counts = during([&] {
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] { build_kernels(sources, host_chip(), {.threads = 2, .cache = &cache}); });
    }
    for (auto& thread : threads) thread.join();
  });
  CHECK(counts.compiles == 6);
}

TEST_CASE("kernel build: AMD resources survive the cache") {
  Scratch scratch;
  KernelCache cache(scratch.path, 64 * mebi);
  Chip chip = chip_named("gfx942");
  const KernelSource source{.name = "fill",
                            .code =
                                "extern \"C\" __attribute__((amdgpu_kernel, visibility(\"protected\"))) "
                                "void fill(__attribute__((address_space(1))) int* x) { *x = 7; }",
                            .work_group = 64};
  for (int round = 0; round < 2; ++round) {
    BuiltKernels built = build_kernels_or_throw({&source, 1}, chip, {.cache = &cache});
    REQUIRE(built.kernels.size() == 1);
    CHECK(built.kernels[0].kernel == "fill");
    CHECK(built.kernels[0].work_group == 64);
    CHECK(built.kernels[0].wave == 64);
    CHECK(built.kernels[0].kernarg_bytes == 8);
  }
}
