// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "base/tensor.h"
#include "frontends/onnx/file/model.h"

namespace weft::quantise {

/// A node that the edit adds.
struct NewNode {
  std::string op;
  std::string domain = {};
  std::vector<std::string> inputs = {};
  std::vector<std::string> outputs = {};
  std::string name = {};  ///< empty: the name of the first output
  std::vector<std::pair<std::string, int64_t>> integers = {};
  std::vector<int64_t> axes = {};  ///< axes of a reduction, as an attribute before operator set 18
};

/// Returns the version of the model's ai.onnx operator set.
int64_t opset_of(const onnx::Model& model);

/// Changes to an ONNX model, stored apart from the original. Writes unchanged parts byte for byte; omits unread nodes
/// and weights. Copies share the original, so one model can be changed in several ways.
class ModelEdit {
 public:
  explicit ModelEdit(onnx::Model model, std::filesystem::path folder);

  const onnx::Model& model() const { return source_->model; }
  const std::filesystem::path& folder() const { return source_->folder; }
  int64_t opset() const;
  bool is_output(std::string_view name) const;
  /// Returns the original node that computes a value; null for an input, a weight or an added node.
  const onnx::Node* maker(std::string_view name) const;

  void set_input(size_t node, size_t position, std::string name);
  /// Inserts `next`, which reads the only result of `node`. The result of `next` takes over that result's name.
  void put_on_result(size_t node, NewNode next);
  void remove(size_t node) { removed_.insert(node); }
  void put_first(NewNode node) { first_.push_back(std::move(node)); }
  void put_after(size_t node, NewNode added) { after_[node].push_back(std::move(added)); }
  /// Adds a node after the original or added node that computes the value, and after nodes added there before. If no
  /// node computes the value, adds the node before all of the model's nodes.
  void put_behind(const std::string& value, NewNode added);
  /// Adds a node like the function above, names its result by the value and `ending`, and returns that name.
  std::string put_behind(const std::string& value, NewNode added, const std::string& ending);
  /// Adds a node before node number `node`, which may be removed.
  void put_before(size_t node, NewNode added) { before_[node].push_back(std::move(added)); }
  void add_weight(const std::string& name, Tensor value) { weights_.insert_or_assign(name, std::move(value)); }
  /// Replaces a weight of the main graph or of a body by new weights and a node that computes the old weight from them.
  void replace_weight(const onnx::Graph& graph, const std::string& name,
                      std::vector<std::pair<std::string, Tensor>> weights, NewNode maker);
  /// Makes these values the only outputs of the model.
  void set_outputs(std::vector<std::string> names) { outputs_ = std::move(names); }
  void drop_unread_inputs() { drops_inputs_ = true; }
  /// Raises the version of this domain's operators to at least `version`.
  void require_opset(const std::string& domain, int64_t version);
  void require_format(int64_t ir_version) { ir_version_ = std::max(ir_version_, ir_version); }
  /// Returns a name that begins with `base`, is not in the model and was not returned before.
  std::string new_name(const std::string& base);

  /// Returns the whole model; external weights of the original stay in their files.
  std::string bytes() const;
  /// Writes the model atomically. Weights are in PATH.data beside it if the original had such a file, or if the model
  /// would exceed the 2 GiB of a protobuf message. Throws E106.
  void write(const std::filesystem::path& path) const;

 private:
  struct Field {
    uint32_t number;
    std::span<const std::byte> whole, content;
  };
  struct Source {
    onnx::Model model;
    std::filesystem::path folder;
    std::vector<Field> model_fields, graph_fields;
    std::vector<std::span<const std::byte>> nodes;
    std::map<std::string, size_t, std::less<>> makers;  ///< name of a result -> index of the node that computes it
    std::set<std::string, std::less<>> names;
    bool has_external = false;
  };
  struct External;
  struct Replacement {
    std::vector<std::pair<std::string, Tensor>> weights;
    NewNode maker;
  };
  using Replacements = std::map<std::string, Replacement, std::less<>>;

  static void read_fields(Source& source);
  std::string node_text(size_t index) const;
  std::string attributes_text(std::span<const std::byte> node, const onnx::Node& parsed) const;
  std::string body_text(std::span<const std::byte> body, const onnx::Graph& parsed) const;
  bool is_replaced(const onnx::Graph& graph, std::string_view name) const;
  std::vector<std::variant<const NewNode*, size_t>> order() const;
  std::vector<std::string> reads(size_t index) const;
  std::vector<std::string> live_nodes(std::set<std::string>& read) const;
  std::string graph_text(External* external) const;
  void put_weights(std::string& graph, const std::set<std::string>& read, External* external) const;
  std::string model_text(External* external) const;
  int64_t weight_bytes() const;

  std::shared_ptr<const Source> source_;
  std::map<size_t, std::map<size_t, std::string>> inputs_;
  std::map<size_t, std::string> results_;  ///< new result names of nodes; an inserted node has the old name
  std::set<size_t> removed_;
  std::vector<NewNode> first_;
  std::map<size_t, std::vector<NewNode>> before_, after_;
  std::map<std::string, size_t> makers_;  ///< result of an inserted node -> index of the original node before it
  std::map<std::string, Tensor> weights_;
  std::map<const onnx::Graph*, Replacements> replaced_;
  std::vector<std::string> outputs_;
  std::map<std::string, int64_t> opsets_;
  std::set<std::string, std::less<>> given_;
  int64_t ir_version_ = 0;
  bool drops_inputs_ = false;
};

}  // namespace weft::quantise
