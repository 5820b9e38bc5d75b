// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <vector>

#include "runtime/executable.h"
#include "targets/gpu/device.h"

namespace weft::driver {

std::shared_ptr<gpu::Device> device_of(const Executable& executable);

/// Runs a program with inputs and outputs in GPU memory, so that no copies are timed. The device's clock measures the
/// time; for several devices, the host's clock does.
class OnDevice {
 public:
  /// Runs once from host memory, to get the sizes of the outputs. Uploads the inputs and runs again, which captures the
  /// GPU's graph. Donated inputs share their memory with the outputs that `donations` names.
  OnDevice(const Executable& executable, std::span<const Tensor> inputs, std::span<const DonationRequest> donations);
  /// Runs once and returns the duration in seconds.
  double timed_run();

 private:
  std::vector<std::shared_ptr<gpu::Device>> devices_;  // one for each rank
  std::shared_ptr<gpu::Device> device_;                // the device of rank 0
  std::unique_ptr<Context> context_;
  gpu::Stream stream_;
  gpu::Event begin_, end_;
  std::vector<gpu::Memory> memory_;
  std::vector<Tensor> inputs_;
  std::vector<std::span<std::byte>> outputs_;
  RunOptions options_;
};

}  // namespace weft::driver
