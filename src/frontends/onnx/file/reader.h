// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

#include "base/file.h"
#include "frontends/onnx/file/model.h"

namespace weft::onnx {

constexpr int64_t oldest_opset = 1;
constexpr int64_t newest_opset = 28;
constexpr int64_t newest_ir_version = 14;

struct ReadOptions {
  std::filesystem::path external_data_dir = {};  ///< folder of external weights; empty: the model's folder
  std::string source = {};                       ///< name for messages of a model given as bytes
  int64_t assume_opset = 0;                      ///< read ONNX's own operators as of this opset; 0: as the model says
  int64_t max_nodes = 0;                         ///< limit of nodes in the file; 0: 10,000,000
  int64_t max_nesting = 256;                     ///< greatest depth of nested graphs
};

/// Reads a model file without copying it: the result holds views into the mapping. Files over 2 GiB are fine. Throws
/// E101-E108 (empty, not a model, cut, unreadable, damaged), E110-E113 (no graph, opset missing, too new or too old),
/// E146-E150 (invalid dims, type or bytes of a tensor), E152 (nesting), E153 (nodes), E160 and E161 (external data).
Model read_model(const std::filesystem::path& path, const ReadOptions& options = {});

/// Reads a model in memory; external weights need `options.external_data_dir`.
Model read_model(Bytes file, const ReadOptions& options = {});

}  // namespace weft::onnx
