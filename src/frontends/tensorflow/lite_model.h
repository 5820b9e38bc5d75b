// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "base/file.h"
#include "frontends/tensorflow/call.h"

/// A TensorFlow Lite model (flatbuffers, schema 3) as plain data. Weights are views into the file.
namespace weft::tensorflow {

/// Scales and zero points of quantised integers: value = (number - zero) * scale, one scale for all or one for each
/// index of `axis`.
struct Quantization {
  std::vector<float> scales;
  std::vector<int64_t> zeros;
  int64_t axis = 0;
  bool operator==(const Quantization&) const = default;
};

struct LiteTensor {
  std::string name;
  int64_t code = 0;                ///< the element type's number in the schema
  std::vector<int64_t> dims = {};  ///< -1: unknown
  bool has_rank = true;
  bool is_variable = false;        ///< a state tensor, which operators write
  Quantization steps = {};         ///< without scales the tensor is not quantised
  std::optional<Bytes> data = {};  ///< the bytes of a constant
};

struct LiteOperator {
  Node node;
  std::vector<int64_t> inputs, outputs;  ///< indices of tensors; -1: not given
};

struct LiteGraph {
  std::string name;
  std::vector<LiteTensor> tensors;
  std::vector<int64_t> inputs, outputs;
  std::vector<LiteOperator> operators;
};

struct LiteModel {
  std::string source;  ///< the file's name, for messages
  std::string description;
  std::vector<LiteGraph> graphs;
  size_t main = 0;                                     ///< index of the graph that runs
  std::vector<std::string> input_names, output_names;  ///< names of the inputs and outputs of that graph
  Bytes file;
};

/// True if the file begins like a TensorFlow Lite model.
bool is_lite_model(std::span<const std::byte> file);

/// Reads a model. Its main graph is the one that `signature` names, or the first. E103, E108 and E150 for a damaged
/// file, E110 if there is no graph, E112 for a schema that is not version 3, E122 and E141 for options that Weft does
/// not know, E140 for too many axes, E310 for an unknown signature.
LiteModel read_lite_model(Bytes file, const std::string& source, const std::string& signature = {});

/// Returns the element type with number `code` in the schema; nothing if Weft lacks it.
std::optional<DType> lite_type(int64_t code);

}  // namespace weft::tensorflow
