// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <deque>
#include <filesystem>
#include <string>
#include <vector>

#include "driver/image.h"
#include "driver/tensor_files.h"
#include "quantise/quantise.h"

namespace weft::driver {

/// Calibration data from files: pictures, .npz, .npy, folders of ONNX test data, and folders of these in the order of
/// their names; other files of a folder are skipped. An array with one axis more than its input holds one item for each
/// index of its first axis. If the input's first size is fixed, an array with a multiple of it holds several items.
class FileSamples : public quantise::Samples {
 public:
  /// Throws E106 for a path that does not exist.
  FileSamples(const std::vector<std::string>& paths, ImageOptions image);

  void rewind() override;
  std::optional<std::vector<Tensor>> next(const Executable& model) override;

 private:
  void read_next(const Executable& model);

  std::vector<std::filesystem::path> files_;
  ImageOptions image_;
  size_t next_file_ = 0;
  std::deque<std::vector<Tensor>> items_;  // the remaining items of the current file
};

}  // namespace weft::driver
