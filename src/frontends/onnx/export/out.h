// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "base/dim_terms.h"
#include "ir/core_ops.h"
#include "ir/module.h"

namespace weft::onnx {

constexpr int64_t exported_opset = 23, exported_format = 11;

[[noreturn]] void refuse_export(const std::string& source, std::string what);

/// A body of an If or a Loop: an encoded GraphProto.
struct OutGraph {
  std::string text;
};
/// Encodes a protobuf message with these fields, which are strings or encoded messages.
std::string message(std::initializer_list<std::pair<uint32_t, std::string>> fields);
/// Encodes a ValueInfoProto. A symbolic size is named by the text of its expression.
std::string port(const std::string& name, const Type& type);

struct OutAttribute {
  std::string_view name;
  std::variant<int64_t, float, std::string, std::vector<int64_t>, std::vector<float>, OutGraph> value;
};
using OutAttributes = std::vector<OutAttribute>;
using Names = std::vector<std::string>;

/// The graph that is being written: encoded nodes and weights, and the name of each value.
class Out {
 public:
  explicit Out(const Module& main);

  const std::string& name(Value value) const { return names_.at(value); }
  void set_name(Value value, std::string name) { names_.insert_or_assign(value, std::move(name)); }
  std::string new_name(const std::string& base);

  /// Sets the source, a node of the imported model. Later nodes are named after the source, and errors mention it.
  void set_source(const std::string& source) { source_ = source; }
  const std::string& source() const { return source_; }

  Names add_all(std::string_view op, const Names& inputs, size_t outputs, const OutAttributes& attributes = {});
  std::string add(std::string_view op, const Names& inputs, const OutAttributes& attributes = {}) {
    return add_all(op, inputs, 1, attributes)[0];
  }
  /// Adds an unnamed Identity node from `value` to the output `name`.
  void add_output(const std::string& value, const std::string& name);
  std::string weight(const Tensor& value, const std::string& base = "constant");
  std::string integers(const std::vector<int64_t>& values) { return weight(make_i64_tensor(values)); }
  std::string scalar(DType type, double value);

  /// Returns the name of a value i64[] that holds a size: a constant, or computed from other values' sizes.
  std::string size(const Dim& dim);
  /// Returns the name of a value i64[count] that holds the sizes.
  std::string sizes(const Dims& dims);
  /// Lets later nodes use the symbols among the sizes of `value`: each symbol is read from its axis.
  void learn_symbols(Value value);
  /// Lets later nodes read the symbol from element `index` of the i64 vector `list`.
  void set_symbol(const std::string& symbol, const std::string& list, int64_t index);

  /// Lets later nodes read the symbol from the i64[] value `scalar`.
  void set_size(const std::string& symbol, const std::string& scalar);
  /// Returns the nodes that `write` adds, for use in a body. Later nodes do not use the sizes that these nodes compute.
  std::string body(const std::function<void()>& write);

  std::string take_nodes() { return std::move(nodes_); }
  std::string take_weights() { return std::move(weights_); }

 private:
  std::string symbol_size(const Symbol& symbol);
  std::string factor(const DimFactor& factor);
  std::string product(const DimProduct& term);

  std::string nodes_, weights_, source_;
  std::unordered_map<Value, std::string, ValueHash> names_;
  std::set<std::string, std::less<>> taken_;
  std::map<std::string, std::string> sizes_;  ///< text of a size -> name of the i64[] value that holds it
  /// The place at which a symbol is read: an axis of a value, or (without a value) an element of a list.
  struct Place {
    Value value;
    std::string list;
    int64_t index = 0;
  };
  std::map<std::string, Place> symbols_;
};

}  // namespace weft::onnx
