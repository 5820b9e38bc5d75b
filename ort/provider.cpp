// SPDX-License-Identifier: Apache-2.0
#include "ort/provider.h"

#include <malloc.h>

#include <algorithm>
#include <mutex>

#include "ort/api.h"
#include "ort/capability.h"
#include "ort/context_model.h"

namespace weft::ort {
namespace {

/// The first version, 1.27, in which onnxruntime calls the provider when a session is ready.
constexpr uint32_t end_call_version = 27;

/// Releases freed memory to the system: onnxruntime has freed its copies of the weights by now. glibc by itself would
/// keep freed blocks of a few MiB if a block behind them on the heap is in use.
void return_free_memory() { ::malloc_trim(0); }

/// A node of the session's graph that runs a compiled part.
class FusedNode : public OrtNodeComputeInfo {
 public:
  FusedNode(std::shared_ptr<Compiled> program, Compiled::Binding binding)
      : OrtNodeComputeInfo{}, program_(std::move(program)), binding_(std::move(binding)) {
    ort_version_supported = api.version;
    CreateState = [](OrtNodeComputeInfo* info, OrtNodeComputeContext*, void** state) -> OrtStatus* {
      *state = info;
      return nullptr;
    };
    ReleaseState = [](OrtNodeComputeInfo*, void*) {};
    Compute = [](OrtNodeComputeInfo* info, void*, OrtKernelContext* kernel) -> OrtStatus* {
      return guarded("running", [&] {
        auto& self = *static_cast<FusedNode*>(info);
        if (api.version < end_call_version) std::call_once(self.first_run_, return_free_memory);
        self.program_->run(kernel, self.binding_);
      });
    };
  }

 private:
  std::shared_ptr<Compiled> program_;
  Compiled::Binding binding_;
  std::once_flag first_run_;
};

const OrtNode* parent_of(const OrtGraph* graph) {
  const OrtNode* parent = nullptr;
  if (graph) ok(api.ort->Graph_GetParentNode(graph, &parent));
  return parent;
}

std::vector<size_t> all_nodes(const GraphView& graph) {
  std::vector<size_t> numbers(graph.nodes.size());
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = i;
  return numbers;
}

/// Returns the nodes that no earlier provider has taken.
std::vector<size_t> free_nodes(const GraphView& graph) {
  std::vector<size_t> numbers = all_nodes(graph);
  std::erase_if(numbers, [&](size_t node) { return !graph.nodes[node].provider.empty(); });
  return numbers;
}

std::string operators_text(const GraphView& graph) {
  std::map<std::string, size_t> counts;
  for (const NodeView& node : graph.nodes) ++counts[node.full_op()];
  std::string text;
  for (const auto& [op, count] : counts) text += "\n  " + op + " x " + std::to_string(count);
  return text;
}

/// Makes the session's memory; null if the options set no limit, no allocator and no function that empties a cache.
std::shared_ptr<Memory> session_memory(const Options& o, const Device& device) {
  bool is_asked_for = o.memory_limit() > 0 || o.allocate() != 0 || o.empty_cache() != 0;
  return is_asked_for ? std::make_shared<Memory>(o, device) : nullptr;
}

}  // namespace

Provider::Provider(ProviderSettings settings, const DeviceMemory* device_memory, const OrtLogger* logger)
    : OrtEp{},
      settings_(std::move(settings)),
      device_memory_(device_memory),
      log_(logger),
      memory_(session_memory(settings_.options, settings_.device)),
      programs_(settings_.options, settings_.device, log_, settings_.context.is_enabled, memory_) {
  ort_version_supported = api.version;
  OrtEp::GetName = [](const OrtEp* ep) noexcept { return static_cast<const Provider*>(ep)->settings_.name.c_str(); };
  OrtEp::GetCapability = [](OrtEp* ep, const OrtGraph* graph, OrtEpGraphSupportInfo* support) noexcept {
    return guarded("looking at the graph", [&] { self(ep).get_capability(graph, support); });
  };
  OrtEp::Compile = [](OrtEp* ep, const OrtGraph** graphs, const OrtNode** fused, size_t count,
                      OrtNodeComputeInfo** infos, OrtNode** context_nodes) noexcept {
    return guarded("compiling", [&] {
      for (size_t i = 0; i < count; ++i)
        self(ep).compile(graphs[i], fused[i], &infos[i], context_nodes ? &context_nodes[i] : nullptr);
    });
  };
  OrtEp::ReleaseNodeComputeInfos = [](OrtEp*, OrtNodeComputeInfo** infos, size_t count) noexcept {
    for (size_t i = 0; i < count; ++i) delete static_cast<FusedNode*>(infos[i]);
  };
  OrtEp::GetCompiledModelCompatibilityInfo = [](OrtEp*, const OrtGraph*) noexcept {
    static const std::string text = compatibility_text();
    return text.c_str();
  };
  OrtEp::IsConcurrentRunSupported = [](OrtEp*, bool* is_supported) noexcept -> OrtStatus* {
    *is_supported = true;
    return nullptr;
  };
#if ORT_API_VERSION >= 27
  OrtEp::OnSessionInitializationEnd = [](OrtEp* ep) noexcept {
    return guarded("ending the initialisation", [&] { self(ep).end_initialisation(); });
  };
#endif
  if (settings_.device.is_gpu()) set_up_gpu();
  for (const std::string& note : settings_.options.notes) log_.warning(note);
}

Provider::~Provider() {
  if (copies_) api.ep->ReleaseKernelRegistry(copies_);
}

/// Declares to onnxruntime that inputs and outputs are in GPU memory, from a pool of this session.
void Provider::set_up_gpu() {
  auto memory = memory_ ? memory_ : std::make_shared<Memory>(Options{}, settings_.device);
  pool_ = std::make_shared<Pool>(std::move(memory), settings_.options.arena_extend_strategy);
  copies_ = make_copy_kernels(settings_.name.c_str());
  OrtEp::CreateAllocator = [](OrtEp* ep, const OrtMemoryInfo* info, OrtAllocator** out) noexcept {
    return guarded("making an allocator",
                   [&] { *out = self(ep).device_memory_->make_allocator(info, self(ep).pool_); });
  };
  OrtEp::CreateSyncStreamForDevice = [](OrtEp* ep, const OrtMemoryDevice*, OrtSyncStreamImpl** out) noexcept {
    return guarded("making a stream",
                   [&] { *out = make_stream(self(ep).settings_.device, self(ep).settings_.options.stream()); });
  };
  OrtEp::GetKernelRegistry = [](OrtEp* ep, const OrtKernelRegistry** out) noexcept -> OrtStatus* {
    *out = self(ep).copies_;
    return nullptr;
  };
#if ORT_API_VERSION >= 27
  OrtEp::GetDefaultMemoryDevice = [](const OrtEp* ep, const OrtMemoryDevice** out) noexcept -> OrtStatus* {
    *out = api.ep->MemoryInfo_GetMemoryDevice(static_cast<const Provider*>(ep)->device_memory_->info());
    return nullptr;
  };
#endif
}

/// Frees the programs of parts that were compiled as a trial and are not used.
void Provider::end_initialisation() {
  programs_.clear();
  return_free_memory();
}

void Provider::get_capability(const OrtGraph* handle, OrtEpGraphSupportInfo* support) {
  GraphView graph = read_graph(handle);
  if (free_nodes(graph).empty() || runs_as_part_of_a_node(graph) || claim_context_nodes(graph, support)) return;
  if (settings_.options.dump_model_ops && !graph.parent)
    log_.warning("operators of the model:" + operators_text(graph));
  Capability found = find_capability(graph, programs_);
  if (settings_.is_strict && !found.refusals.empty()) {
    // compile() throws this later. onnxruntime reports errors of compile(); for an error here it skips the provider.
    strict_failure_ = "not all nodes run on Weft (" + settings_.device.chip + "):" + describe(graph, found.refusals);
    return claim(graph, free_nodes(graph), support);
  }
  size_t claimed = 0;
  for (const Part& part : found.parts) {
    claim(graph, part.nodes, support);
    claimed += part.nodes.size();
  }
  report(graph, claimed, describe(graph, found.refusals));
}

void Provider::claim(const GraphView& graph, const std::vector<size_t>& nodes, OrtEpGraphSupportInfo* support) const {
  std::vector<const OrtNode*> handles;
  for (size_t node : nodes) handles.push_back(graph.nodes[node].handle);
  // The program has the weights, so onnxruntime does not need to keep them.
  OrtNodeFusionOptions options{.ort_version_supported = api.version, .drop_constant_initializers = true};
  ok(api.ep->EpGraphSupportInfo_AddNodesToFuse(support, handles.data(), handles.size(), &options));
}

/// Claims Weft's EPContext nodes; returns false if there are none. A graph with such nodes has no other nodes for Weft.
bool Provider::claim_context_nodes(const GraphView& graph, OrtEpGraphSupportInfo* support) const {
  bool found = false;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!is_own_context(graph.nodes[i])) continue;
    claim(graph, {i}, support);
    found = true;
  }
  return found;
}

/// True if no node of this body may be claimed: Weft will claim an outer If, Loop or Scan as a whole, or onnxruntime
/// will expand an outer SequenceMap. onnxruntime asks for the nodes of a body before those of the outer graph.
bool Provider::runs_as_part_of_a_node(const GraphView& body) {
  for (const OrtNode* node = body.parent; node;) {
    if (op_of(node) == "SequenceMap") return true;
    if (find_capability(graph_of_node(body, node), programs_).refusals.empty()) return true;
    node = parent_of(graph_of(node));
  }
  return false;
}

void Provider::report(const GraphView& graph, size_t claimed, const std::string& reasons) {
  size_t total = free_nodes(graph).size();
  bool is_second = total < graph.nodes.size();
  std::string where = graph.parent ? " of the body of " + op_of(graph.parent) : is_second ? " left" : "";
  std::string text = std::to_string(claimed) + "/" + std::to_string(total) + " nodes" + where + " on Weft (" +
                     settings_.device.chip + "), " + std::to_string(total - claimed) + " on CPU" +
                     (reasons.empty() ? "" : ":" + reasons);
  if (text == reported_) return;
  reported_ = text;
  if (claimed == 0 && !graph.parent && !is_second) log_.error("this session runs on CPU: " + text);
  else if (graph.parent) log_.info(text);
  else log_.warning(text);
}

void Provider::compile(const OrtGraph* handle, const OrtNode* fused, OrtNodeComputeInfo** info,
                       OrtNode** context_node) {
  if (!strict_failure_.empty())
    throw Error(WEFT_UNSUPPORTED, "E122", strict_failure_,
                "without strict and session.disable_cpu_ep_fallback they run on CPU");
  GraphView graph = read_graph(handle);
  NodeView node = graph_of_node(graph, fused).nodes[0];
  std::shared_ptr<Compiled> program;
  bool is_loaded = graph.nodes.size() == 1 && is_own_context(graph.nodes[0]);
  if (is_loaded) {
    program = load_context(graph.nodes[0], handle, settings_.context, programs_);
  } else {
    ModelWriter writer(graph, programs_.quantization());
    std::vector<size_t> all = all_nodes(graph);
    program = programs_.get(writer.write(all, writer.boundary(all)));
    programs_.keep(*program);
  }
  if (settings_.context.is_enabled && context_node)
    *context_node = make_context_node(*program, settings_.name, settings_.context.prefix + node.name, handle,
                                      settings_.context, node.inputs, node.outputs);
  *info = new FusedNode(program, program->bind(node.inputs, node.outputs));
}

}  // namespace weft::ort
