// SPDX-License-Identifier: Apache-2.0
#include <ctime>

#include "base/error.h"
#include "base/text.h"
#include "driver/options.h"
#include "driver/terminal.h"
#include "driver/verbs.h"
#include "kernel_build/kernel_cache.h"

namespace weft::driver {
namespace {

std::string show_time(int64_t seconds) {
  std::time_t time = static_cast<std::time_t>(seconds);
  std::tm local{};
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M", localtime_r(&time, &local));
  return text;
}

}  // namespace

int cache_verb(Words words) {
  CommandLine line({.name = "cache",
                    .purpose = "List or clear the cache of compiled kernels and parsed headers.",
                    .examples = {"weft cache ls", "weft cache clear"}});
  std::string action = "ls";
  line.positional("ACTION", action, "ls (default) or clear", false);
  if (!line.parse(words)) return exit_done;
  KernelCache& cache = KernelCache::shared();
  if (action == "clear") return print(cat("removed ", cache.clear(), " entries")), exit_done;
  if (action != "ls")
    throw Error({.kind = ErrorKind::usage,
                 .code = "E202",
                 .what = cat("weft cache has no action '", printable(action), "'"),
                 .hint = "ls or clear"});
  std::vector<std::vector<std::string>> rows{{"entry", "bytes", "last used"}};
  int64_t total = 0;
  for (const CacheEntry& entry : cache.list()) {
    rows.push_back({entry.key, cat(entry.bytes), show_time(entry.used_at)});
    total += entry.bytes;
  }
  if (rows.size() > 1) print(table(rows));
  print(cat(rows.size() - 1, " entries, ", show_bytes(static_cast<double>(total)), " in ",
            printable(cache.folder().string())));
  return exit_done;
}

}  // namespace weft::driver
