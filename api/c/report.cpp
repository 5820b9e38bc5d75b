// SPDX-License-Identifier: Apache-2.0
#include "api/c/report.h"

#include "base/text.h"

namespace weft {
namespace {

Json describe(const Port& port) {
  Json entry{{"name", printable(port.name)}, {"type", to_string(port.type)}};
  if (port.default_value) entry["has_default"] = true;
  return entry;
}

Json describe(const std::vector<Port>& ports, const std::vector<StaticInput>& statics = {}) {
  Json list = Json::array();
  for (const Port& port : ports) list.push_back(describe(port));
  for (const StaticInput& input : statics) list[input.input]["is_static"] = true;
  return list;
}

Json describe(const CompileReport& report) {
  Json phases = Json::array();
  for (const auto& [phase, seconds] : report.phase_seconds) phases.push_back({{"phase", phase}, {"seconds", seconds}});
  return {{"phases", phases},
          {"kernels", report.kernels},
          {"kernels_compiled", report.kernels_compiled},
          {"kernels_from_cache", report.kernels_from_cache},
          {"kernels_from_pack", report.kernels_from_pack},
          {"constant_bytes", report.constant_bytes},
          {"pass_changes", report.pass_changes}};
}

Json describe(const std::vector<StepInfo>& steps) {
  Json list = Json::array();
  for (const StepInfo& step : steps)
    list.push_back({{"kernel", step.kernel},
                    {"source", printable(step.source)},
                    {"device", step.device},
                    {"reason", printable(step.reason)}});
  return list;
}

}  // namespace

Json describe(const std::vector<NodeSupport>& nodes) {
  Json list = Json::array();
  size_t supported = 0;
  for (const NodeSupport& node : nodes) {
    supported += node.why.empty();
    list.push_back({{"node", printable(node.node)},
                    {"op", printable(node.op)},
                    {"supported", node.why.empty()},
                    {"why", printable(node.why)}});
  }
  return {{"schema", "weft.support.1"}, {"supported", supported}, {"total", nodes.size()}, {"nodes", list}};
}

Json describe(const Executable& executable) {
  Json metadata = Json::object();
  for (const auto& [key, value] : executable.metadata()) metadata[printable(key)] = printable(value);
  return {{"schema", "weft.report.1"},
          {"device", executable.device()},
          {"inputs", describe(executable.inputs(), executable.static_inputs())},
          {"outputs", describe(executable.outputs())},
          {"metadata", metadata},
          {"compile", describe(executable.report())},
          {"notes", executable.notes()},
          {"steps", describe(executable.steps())}};
}

}  // namespace weft
