// SPDX-License-Identifier: Apache-2.0
#include "kernel_build/kernel_build.h"

#include <sched.h>

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>

#include "base/chip_features.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/parallel.h"
#include "base/watch.h"
#include "kernel_build/codegen_loader.h"
#include "kernel_build/kernel_cache.h"
#include "kernel_build/kernel_pack.h"

namespace weft {
namespace {

std::mutex counts_mutex;
BuildCounts counts;

template <class Change>
void count(Change change) {
  std::scoped_lock lock(counts_mutex);
  change(counts);
}

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

/// The numeric members of ResourceUse, in the order in which a cache entry stores them.
constexpr int ResourceUse::* numbers[] = {
    &ResourceUse::vgprs,       &ResourceUse::agprs,        &ResourceUse::sgprs,         &ResourceUse::vgpr_spills,
    &ResourceUse::sgpr_spills, &ResourceUse::lds_bytes,    &ResourceUse::scratch_bytes, &ResourceUse::work_group,
    &ResourceUse::wave,        &ResourceUse::kernarg_bytes};

/// Returns a cache entry: for each kernel a line with its name and resources; an empty line; the compiled bytes.
std::vector<std::byte> to_entry(const CodegenResult& result) {
  std::string head;
  for (const ResourceUse& kernel : result.kernels) {
    head += kernel.kernel;
    for (auto number : numbers) head += cat(" ", kernel.*number);
    head += "\n";
  }
  head += "\n";
  auto text = as_bytes(head);
  std::vector<std::byte> entry(text.begin(), text.end());
  entry.insert(entry.end(), result.bytes.begin(), result.bytes.end());
  return entry;
}

int to_int(std::string_view text) {
  int value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

bool read_line(std::string_view line, std::vector<ResourceUse>& out) {
  auto words = split(line, ' ');
  if (words.size() != 1 + std::size(numbers)) return false;
  out.push_back({.kernel = std::string(words[0])});
  for (size_t i = 0; i < std::size(numbers); ++i) out.back().*numbers[i] = to_int(words[i + 1]);
  return true;
}

/// A compiled kernel or linked image, from the cache or from the compiler.
struct Piece {
  Bytes bytes{};
  std::vector<ResourceUse> kernels{};
  std::string diagnostics{};  // why the compiler refused the kernel; empty if it did not
};

std::optional<Piece> from_entry(const Bytes& entry) {
  std::string_view text = as_text(entry);
  Piece piece;
  size_t at = 0;
  for (;;) {
    size_t end = text.find('\n', at);
    if (end == text.npos) return std::nullopt;
    if (end == at) break;
    if (!read_line(text.substr(at, end - at), piece.kernels)) return std::nullopt;
    at = end + 1;
  }
  piece.bytes = entry.part(at + 1, entry.size() - at - 1);
  return piece;
}

std::optional<Piece> look_up(KernelCache& cache, const Hash128& key) {
  auto entry = cache.get(key);
  return entry ? from_entry(*entry) : std::nullopt;
}

Piece store(KernelCache& cache, const Hash128& key, const CodegenResult& result) {
  Bytes entry(to_entry(result));
  cache.put(key, entry);
  auto piece = from_entry(entry);
  check(piece.has_value(), "a cache entry reads back");
  return std::move(*piece);
}

/// Hashes everything that affects the code. The separators make {"a", "bc"} differ from {"ab", "c"}.
Hash128 key_of(const KernelSource& source, const Chip& chip, const std::string& compiler) {
  std::string text =
      cat("kernel 1\n", compiler, "\n", chip, "\n", source.name, "\n", source.work_group, " ", source.occupancy, " ",
          source.vectorize, " ", source.checked, " ", static_cast<int>(source.sanitizer), "\n", source.code);
  return hash128(text);
}

Hash128 image_key(std::span<const Hash128> members, std::span<const std::string> exported) {
  std::string text = "image 1\n";
  for (const Hash128& member : members) text += cat(member, "\n");
  for (const auto& name : exported) text += cat("export ", name, "\n");
  return hash128(text);
}

/// The kernel cache during one build. Its destructor writes the precompiled headers, so that the kernels are stored
/// first if the disk is nearly full.
class BuildCache : public HeaderStore {
 public:
  explicit BuildCache(KernelCache& kernels) : kernels(kernels) {}
  ~BuildCache() override {
    for (const auto& [key, headers] : parsed_) kernels.put(key, headers);
  }
  Bytes get(std::string_view name) noexcept override { return kernels.get(key_of(name)).value_or(Bytes()); }
  void put(std::string_view name, Bytes headers) noexcept override {
    if (debug_enabled(2, "codegen")) log_text(LogLevel::debug, "the kernel headers were parsed");
    std::scoped_lock lock(mutex_);
    parsed_.emplace(key_of(name), std::move(headers));
  }
  KernelCache& kernels;

 private:
  static Hash128 key_of(std::string_view name) { return hash128(cat("headers 1\n", codegen_build(), "\n", name)); }
  std::mutex mutex_;
  std::map<Hash128, Bytes> parsed_;
};

CodegenResult compile(const KernelSource& source, const Chip& chip, HeaderStore& headers) {
  auto start = std::chrono::steady_clock::now();
  CodegenResult result = codegen().compile(source, chip, &headers);
  double ms = milliseconds_since(start);
  count([&](BuildCounts& c) { ++c.compiles, c.compile_ms += ms; });
  if (debug_enabled(2, "codegen"))
    log_text(LogLevel::debug, cat("compiled ", source.name, " for ", chip.arch, " in ", ms, " ms"));
  return result;
}

/// The keys of the kernels that are being compiled, so that no two threads compile the same kernel.
class InFlight {
 public:
  /// Returns true if no other thread works on `key`; the caller must then call `done`. Otherwise waits for that thread
  /// and returns false.
  bool begin(const Hash128& key) {
    std::unique_lock lock(mutex_);
    auto [entry, mine] = busy_.insert({key, 0});
    if (mine) return true;
    finished_.wait(lock, [&] { return !busy_.contains(key); });
    return false;
  }
  void done(const Hash128& key) {
    {
      std::scoped_lock lock(mutex_);
      busy_.erase(key);
    }
    finished_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable finished_;
  std::map<Hash128, int> busy_;
};

InFlight& in_flight() {
  static InFlight instance;
  return instance;
}

std::optional<Piece> look_up(const KernelPack* pack, const KernelSource& source, const Chip& chip) {
  if (!pack || pack->size() == 0) return std::nullopt;
  auto entry = pack->get(key_of(source, plain_chip(chip), codegen_build()));
  return entry ? from_entry(*entry) : std::nullopt;
}

Piece make_piece(const KernelSource& source, const Chip& chip, const Hash128& key, BuildCache& cache,
                 const KernelPack* pack) {
  bool mine = in_flight().begin(key);
  struct Done {
    bool mine;
    const Hash128& key;
    ~Done() {
      if (mine) in_flight().done(key);
    }
  } done{mine, key};
  if (auto piece = look_up(cache.kernels, key)) {
    count([](BuildCounts& c) { ++c.kernel_hits; });
    return std::move(*piece);
  }
  if (auto piece = look_up(pack, source, chip)) {
    count([](BuildCounts& c) { ++c.pack_hits; });
    return std::move(*piece);
  }
  CodegenResult result = compile(source, chip, cache);
  if (!result.ok)
    return {.diagnostics = result.diagnostics.empty() ? "the compiler gave no reason" : result.diagnostics};
  return store(cache.kernels, key, result);
}

int default_threads() {
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return 1;
  return std::max(1, CPU_COUNT(&allowed));
}

/// The kernels' sources, then those of the classes that they request by WEFT_SHARED_PART("header", class).
struct WithParts {
  std::vector<KernelSource> sources;
  std::vector<size_t> asker;  // for a kernel, its own index; for a class, that of the first kernel that requests it
};

void add_part(WithParts& all, size_t asker, std::string_view request, std::map<std::string, size_t>& known) {
  size_t comma = request.find(", ");
  check(comma != request.npos, "WEFT_SHARED_PART names a header and a class");
  std::string code =
      cat("#include ", request.substr(0, comma), "\nusing namespace weft;\nusing namespace weft::kernel;\n",
          "template struct weft::kernel::", request.substr(comma + 2), ";\n");
  if (!known.insert({code, all.sources.size()}).second) return;
  KernelSource part = all.sources[asker];
  part.name = cat("shared_", to_string(hash128(code)).substr(0, 6));
  part.code = std::move(code);
  all.sources.push_back(std::move(part));
  all.asker.push_back(asker);
}

WithParts with_parts(std::span<const KernelSource> sources) {
  constexpr std::string_view begin = "\nWEFT_SHARED_PART(", end = ")\n";
  WithParts all{{sources.begin(), sources.end()}, {}};
  for (size_t i = 0; i < sources.size(); ++i) all.asker.push_back(i);
  std::map<std::string, size_t> known;
  for (size_t i = 0; i < sources.size(); ++i) {
    std::string_view code = sources[i].code;
    for (size_t at = code.find(begin); at != code.npos; at = code.find(begin, at + 1)) {
      size_t from = at + begin.size();
      add_part(all, i, code.substr(from, code.find(end, from) - from), known);
    }
  }
  return all;
}

/// The distinct kernels among the sources.
struct Distinct {
  std::vector<size_t> source;  // for each kernel, the index of its first source
  std::vector<Hash128> keys;
  std::vector<std::vector<size_t>> all;  // for each kernel, the indices of all its sources
};

Distinct find_distinct(std::span<const KernelSource> sources, const Chip& chip, const std::string& compiler) {
  Distinct found;
  std::map<Hash128, size_t> known;
  for (size_t i = 0; i < sources.size(); ++i) {
    Hash128 key = key_of(sources[i], chip, compiler);
    auto [entry, is_new] = known.insert({key, found.keys.size()});
    if (is_new) {
      found.source.push_back(i);
      found.keys.push_back(key);
      found.all.emplace_back();
    }
    found.all[entry->second].push_back(i);
  }
  return found;
}

std::vector<Piece> make_pieces(std::span<const KernelSource> sources, const Chip& chip, const Distinct& distinct,
                               BuildCache& cache, const BuildOptions& options, const std::atomic<bool>& given_up) {
  std::vector<Piece> pieces(distinct.keys.size());
  std::mutex progress_mutex;
  int done = 0;
  auto total = static_cast<int>(pieces.size());
  auto make = [&](size_t i) {
    if (given_up) return;
    pieces[i] = make_piece(sources[distinct.source[i]], chip, distinct.keys[i], cache, options.pack);
    std::scoped_lock lock(progress_mutex);
    ++done;
    if (options.progress) options.progress(done, total);
  };
  run_parallel(pieces.size(), options.threads > 0 ? options.threads : default_threads(), make);
  return pieces;
}

std::vector<KernelFailure> failures_of(const std::vector<Piece>& pieces, const Distinct& distinct) {
  std::vector<KernelFailure> failures;
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (pieces[i].diagnostics.empty()) continue;
    for (size_t source : distinct.all[i]) failures.push_back({source, pieces[i].diagnostics});
  }
  return failures;
}

CodegenResult link(const std::vector<Piece>& pieces, const Chip& chip, std::span<const std::string> exported) {
  auto start = std::chrono::steady_clock::now();
  std::vector<std::span<const std::byte>> objects;
  for (const Piece& piece : pieces) objects.push_back(piece.bytes);
  CodegenResult image = codegen().link(objects, chip, exported);
  double ms = milliseconds_since(start);
  count([&](BuildCounts& c) { ++c.links, c.link_ms += ms; });
  if (!image.ok) internal_error(cat("the kernels do not link: ", image.diagnostics));
  return image;
}

BuiltKernels build(std::span<const KernelSource> sources, const Chip& chip, const BuildOptions& options,
                   const std::atomic<bool>& given_up) {
  BuildCache cache(options.cache ? *options.cache : KernelCache::shared());
  WithParts all = with_parts(sources);
  Distinct distinct = find_distinct(all.sources, chip, codegen_build());
  Hash128 key = image_key(distinct.keys, options.exported);
  if (auto image = look_up(cache.kernels, key)) {
    count([](BuildCounts& c) { ++c.image_hits; });
    return {.image = std::move(image->bytes), .kernels = std::move(image->kernels)};
  }
  std::vector<Piece> pieces = make_pieces(all.sources, chip, distinct, cache, options, given_up);
  if (given_up) return {};
  BuiltKernels built{.failures = failures_of(pieces, distinct)};
  for (KernelFailure& failure : built.failures) failure.index = all.asker[failure.index];
  if (!built.failures.empty()) return built;
  Piece image = store(cache.kernels, key, link(pieces, chip, options.exported));
  built.image = std::move(image.bytes);
  built.kernels = std::move(image.kernels);
  return built;
}

/// A build on its own thread. The caller may stop waiting for it, because a running compilation cannot be interrupted.
struct WatchedBuild {
  std::vector<KernelSource> sources;
  Chip chip;
  BuildOptions options;
  std::function<void(int, int)> progress;  // guarded by the mutex; null after the caller has stopped waiting
  std::atomic<bool> given_up = false;
  std::mutex mutex = {};
  std::condition_variable changed = {};
  bool is_done = false;
  BuiltKernels built = {};
  std::exception_ptr error = {};

  void run() {
    options.progress = [this](int done, int total) {
      std::scoped_lock lock(mutex);
      if (progress) progress(done, total);
    };
    try {
      built = build(sources, chip, options, given_up);
    } catch (...) {
      error = std::current_exception();
    }
    std::scoped_lock lock(mutex);
    is_done = true;
    changed.notify_all();
  }

  /// Waits until the build is done. If `watch` ends the work first, sets `given_up` and returns.
  void wait(Watch& watch) {
    constexpr std::chrono::milliseconds between_looks{10};
    std::unique_lock lock(mutex);
    while (!changed.wait_for(lock, between_looks, [&] { return is_done; })) {
      lock.unlock();
      if (watch.is_over()) given_up = true;
      lock.lock();
      if (given_up) progress = nullptr;
      if (given_up) return;
    }
  }
};

/// Builds whose callers stopped waiting; at exit the process waits for the kernels that they are compiling.
class LeftBuilds {
 public:
  static LeftBuilds& instance() {
    // Constructs the static objects of a build before `builds`, because static objects are destroyed in reverse order.
    codegen(), in_flight(), KernelCache::shared();
    static LeftBuilds builds;
    return builds;
  }
  ~LeftBuilds() {
    for (auto& [build, thread] : builds_) thread.join();
  }

  void add(std::shared_ptr<WatchedBuild> build, std::thread thread) {
    std::scoped_lock lock(mutex_);
    std::erase_if(builds_, [](auto& left) {
      std::unique_lock lock(left.first->mutex);
      if (!left.first->is_done) return false;
      lock.unlock();
      left.second.join();
      return true;
    });
    builds_.emplace_back(std::move(build), std::move(thread));
  }

 private:
  std::mutex mutex_;
  std::vector<std::pair<std::shared_ptr<WatchedBuild>, std::thread>> builds_;
};

BuiltKernels build_watched(std::span<const KernelSource> sources, const Chip& chip, const BuildOptions& options,
                           Watch& watch) {
  watch.check({});
  auto job =
      std::make_shared<WatchedBuild>(std::vector(sources.begin(), sources.end()), chip, options, options.progress);
  std::thread thread([job] { job->run(); });
  job->wait(watch);
  if (job->given_up) LeftBuilds::instance().add(job, std::move(thread));
  else thread.join();
  watch.check_whole({});
  if (job->error) std::rethrow_exception(job->error);
  return std::move(job->built);
}

}  // namespace

std::vector<PackEntry> build_for_pack(std::span<const KernelSource> sources, const Chip& chip,
                                      const BuildOptions& options) {
  const Chip plain = plain_chip(chip);
  BuildCache cache(options.cache ? *options.cache : KernelCache::shared());
  WithParts all = with_parts(sources);
  Distinct distinct = find_distinct(all.sources, plain, codegen_build());
  BuildOptions alone = options;
  alone.pack = nullptr;
  static const std::atomic<bool> never = false;
  make_pieces(all.sources, plain, distinct, cache, alone, never);
  std::vector<PackEntry> entries;
  for (const Hash128& key : distinct.keys) {
    if (auto entry = cache.kernels.get(key)) entries.push_back({key, *entry});
  }
  return entries;
}

BuildCounts build_counts() {
  std::scoped_lock lock(counts_mutex);
  return counts;
}

BuiltKernels build_kernels(std::span<const KernelSource> sources, const Chip& chip, const BuildOptions& options) {
  if (sources.empty()) return {};
  if (Watch* watch = WatchScope::current()) return build_watched(sources, chip, options, *watch);
  static const std::atomic<bool> never = false;
  return build(sources, chip, options, never);
}

BuiltKernels build_kernels_or_throw(std::span<const KernelSource> sources, const Chip& chip,
                                    const BuildOptions& options) {
  BuiltKernels built = build_kernels(sources, chip, options);
  if (built.failures.empty()) return built;
  const KernelFailure& first = built.failures.front();
  const KernelSource& source = sources[first.index];
  internal_error(cat("kernel ", source.name, " does not compile for ", chip, ":\n", first.diagnostics, "its source:\n",
                     source.code));
}

}  // namespace weft
