// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/chip.h"
#include "base/knobs.h"
#include "base/text.h"
#include "base/version.h"
#include "driver/machine.h"
#include "driver/options.h"
#include "driver/terminal.h"
#include "driver/verbs.h"
#include "kernel_build/codegen_loader.h"
#include "kernel_build/kernel_cache.h"
#include "kernel_build/kernel_pack.h"
#include "targets/gpu/driver.h"

namespace weft::driver {
namespace {

struct Fact {
  std::string name, value;
};

struct Report {
  std::vector<Fact> facts;
  std::vector<std::string> problems;
  void add(std::string name, std::string value) { facts.push_back({std::move(name), std::move(value)}); }
};

void add_installation(Report& report) {
  report.add("weft", std::string(version()));
  std::string library = find_codegen_library();
  report.add("code generator", library.empty() ? "not found" : library);
  if (library.empty())
    report.problems.push_back("libweft-codegen.so was not found: only saved programs and --device ref work");
  const KernelPack& pack = KernelPack::shared();
  report.add("kernel pack", pack.size() > 0 ? cat(printable(pack.file().string()), ": ", pack.size(), " kernels")
                                            : "none: first runs compile every kernel");
  if (!pack.problem().empty())
    report.problems.push_back(
        cat("the kernel pack ", printable(pack.file().string()), " is not used: ", pack.problem()));
  KernelCache& cache = KernelCache::shared();
  int64_t bytes = 0;
  auto entries = cache.list();
  for (const CacheEntry& entry : entries) bytes += entry.bytes;
  report.add("kernel cache", cat(printable(cache.folder().string()), ": ", entries.size(), " entries, ",
                                 show_bytes(static_cast<double>(bytes))));
  for (const KnobInfo& knob : knob_list()) {
    if (knob.value != knob.default_value) report.add(knob.variable, printable(knob.value));
  }
  for (const std::string& line : unknown_knobs()) report.problems.push_back(line);
}

void add_machine(Report& report) {
  Machine m = describe_machine();
  double limit = m.memory_limit > 0 ? static_cast<double>(m.memory_limit) : static_cast<double>(m.memory);
  report.add("system", m.system);
  report.add("processor", m.processor);
  report.add("chip", to_string(host_chip()));
  report.add("processors",
             cat(m.processors, m.quota > 0 ? cat(", limited to the time of ", show_number(m.quota)) : ""));
  report.add("caches", m.caches.empty() ? "unknown" : cat(m.caches));
  report.add("memory", cat(show_bytes(static_cast<double>(m.available)), " available of ",
                           show_bytes(static_cast<double>(m.memory)),
                           m.memory_limit > 0 ? cat(", limited to ", show_bytes(limit)) : ""));
  report.add("load", show_number(load_average()));
  if (m.processors > 0 && load_average() > m.processors)
    report.problems.push_back("more processes want to run than there are processors: measurements will be noisy");
  for (const gpu::DriverSearch& search : gpu::drivers())
    report.add(cat("driver of ", search.vendor, " GPUs"), search.driver ? search.driver->path() : search.why);
}

std::string doctor_json(const Report& report) {
  nlohmann::ordered_json facts = nlohmann::ordered_json::object();
  for (const Fact& fact : report.facts) facts[fact.name] = fact.value;
  return nlohmann::ordered_json{{"schema", "weft.doctor.1"}, {"facts", facts}, {"problems", report.problems}}.dump(1) +
         "\n";
}

}  // namespace

int doctor_verb(Words words) {
  CommandLine line({.name = "doctor",
                    .purpose =
                        "Describe this machine and this installation, for yourself or for a bug report; nothing\n"
                        "is sent anywhere.",
                    .examples = {"weft doctor", "weft doctor --json -"}});
  std::string json;
  line.value("--json,-o", "FILE", json, "write the facts as JSON (- is standard output)");
  if (!line.parse(words)) return exit_done;
  Report report;
  add_installation(report);
  add_machine(report);
  if (!json.empty()) return write_result_file(json, doctor_json(report)), exit_done;
  std::vector<std::vector<std::string>> rows;
  for (const Fact& fact : report.facts) rows.push_back({fact.name, fact.value});
  print(table(rows));
  for (const std::string& problem : report.problems) print(cat(paint("problem: ", Ink::yellow), problem));
  return exit_done;
}

}  // namespace weft::driver
