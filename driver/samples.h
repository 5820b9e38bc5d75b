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

/// Data in files: pictures, .npz, .npy, folders of ONNX test data, and folders of these in the order of their names, in
/// which all else is passed over. An
/// array with an axis more than its input holds an item for each index of it. One whose input has a fixed first size
/// holds as many items as that goes into its own.
class FileSamples : public quantise::Samples {
 public:
  /// Throws E106 for a path that is not there.
  FileSamples(const std::vector<std::string>& paths, ImageOptions image);

  void rewind() override;
  std::optional<std::vector<Tensor>> next(const Executable& model) override;

 private:
  void open(const Executable& model);

  std::vector<std::filesystem::path> files_;
  ImageOptions image_;
  size_t next_file_ = 0;
  std::deque<std::vector<Tensor>> items_;  // of the file that was opened last
};

}  // namespace weft::driver
