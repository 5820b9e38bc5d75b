// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "base/chip.h"
#include "base/text.h"
#include "driver/machine.h"
#include "driver/options.h"
#include "driver/terminal.h"
#include "driver/verbs.h"
#include "targets/gpu/device.h"

namespace weft::driver {
namespace {

struct DeviceRow {
  std::string name, chip, about;
};

std::vector<DeviceRow> find_devices() {
  Machine machine = describe_machine();
  const Chip& chip = host_chip();
  detail(cat("features of the chip: ", chip.features));
  std::vector<DeviceRow> rows;
  for (const auto& device : gpu::devices()) {
    const gpu::DeviceInfo& gpu = device->info();
    rows.push_back({device->name(), gpu.chip.arch,
                    cat(gpu.name, ", ", gpu.compute_units, " units, ", show_bytes(static_cast<double>(gpu.memory)),
                        ", driver ", gpu.driver_version)});
  }
  rows.push_back({"cpu", cat(chip.arch, chip.tune.empty() ? "" : cat(", ", chip.tune)),
                  cat(machine.processor, ", ", machine.processors, " processors")});
  rows.push_back({"ref", "", "the reference: plain and slow, judges the others"});
  return rows;
}

/// Returns the driver's library and its number of devices, "libcuda.so.1, 2 devices"; or the libraries that were tried
/// and why they cannot be used.
std::string driver_text(const gpu::DriverSearch& search) {
  if (search.driver) return cat(search.driver->path(), ", ", search.driver->device_count(), " devices");
  return cat("none: ", search.why);
}

}  // namespace

int devices_verb(Words words) {
  CommandLine line({.name = "devices",
                    .purpose = "List the devices that --device can name here, and which GPU drivers were looked for.",
                    .examples = {"weft devices", "weft devices --json -"}});
  std::string json;
  line.value("--json,-o", "FILE", json, "write the list as JSON (- is standard output)");
  if (!line.parse(words)) return exit_done;
  auto devices = find_devices();
  if (!json.empty()) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array(), libraries = list;
    for (const DeviceRow& d : devices) list.push_back({{"name", d.name}, {"chip", d.chip}, {"about", d.about}});
    for (const gpu::DriverSearch& d : gpu::drivers()) {
      libraries.push_back(
          {{"vendor", d.vendor}, {"tried", d.tried}, {"found", d.driver ? d.driver->path() : ""}, {"why", d.why}});
    }
    nlohmann::ordered_json whole{{"schema", "weft.devices.1"}, {"devices", list}, {"gpu_drivers", libraries}};
    return write_result_file(json, whole.dump(1) + "\n"), exit_done;
  }
  std::vector<std::vector<std::string>> rows{{"device", "chip", ""}};
  for (const DeviceRow& d : devices) rows.push_back({d.name, d.chip, d.about});
  print(table(rows));
  for (const gpu::DriverSearch& d : gpu::drivers()) detail(cat("driver of ", d.vendor, " GPUs: ", driver_text(d)));
  return exit_done;
}

}  // namespace weft::driver
