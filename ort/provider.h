// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <onnxruntime_c_api.h>

#include <memory>
#include <string>
#include <vector>

#include "ort/device_memory.h"
#include "ort/gpu_session.h"
#include "ort/graph.h"
#include "ort/log.h"
#include "ort/memory.h"
#include "ort/options.h"
#include "ort/program_store.h"

namespace weft::ort {

/// A session's settings for EPContext models, from the entries `ep.context_*` of its configuration.
struct ContextOptions {
  bool is_enabled = false;
  bool is_embedded = false;
  std::string model_path = {};  ///< of the EPContext model to write, or of one that was read from memory
  std::string prefix = {};      ///< prefix of the names of EPContext nodes
};

struct ProviderSettings {
  std::string name;
  const Device& device;
  Options options;
  ContextOptions context = {};
  bool is_strict = false;  ///< it is an error if a node does not run on Weft
};

/// The execution provider of one session.
class Provider : public OrtEp {
 public:
  /// `memory` is the device memory that is offered to applications; null if none is.
  Provider(ProviderSettings settings, const DeviceMemory* memory, const OrtLogger* logger);
  Provider(const Provider&) = delete;
  ~Provider();

 private:
  static Provider& self(OrtEp* ep) { return *static_cast<Provider*>(ep); }

  void set_up_gpu();
  void get_capability(const OrtGraph* graph, OrtEpGraphSupportInfo* support);
  void claim(const GraphView& graph, const std::vector<size_t>& nodes, OrtEpGraphSupportInfo* support) const;
  bool claim_context_nodes(const GraphView& graph, OrtEpGraphSupportInfo* support) const;
  bool runs_as_part_of_a_node(const GraphView& body);
  void report(const GraphView& graph, size_t claimed, const std::string& reasons);
  void compile(const OrtGraph* graph, const OrtNode* fused, OrtNodeComputeInfo** info, OrtNode** context_node);
  void end_initialisation();

  ProviderSettings settings_;
  const DeviceMemory* device_memory_;
  Log log_;
  std::shared_ptr<Memory> memory_;  // null: the library allocates the programs' memory
  std::shared_ptr<Pool> pool_;      // allocates inputs and outputs on a GPU
  OrtKernelRegistry* copies_ = nullptr;
  ProgramStore programs_;
  std::string strict_failure_;
  std::string reported_;  // the last summary, so that it is not logged twice
};

}  // namespace weft::ort
