// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <vector>

#include "runtime/executable.h"
#include "targets/gpu/device.h"

namespace weft::driver {

std::shared_ptr<gpu::Device> device_of(const Executable& executable);

/// Runs a program with inputs and outputs in GPU memory, so without copies, and times it by the device's clock.
class OnDevice {
 public:
  /// Uploads the inputs and runs once, which computes the sizes and captures the graph. Outputs are written to the
  /// memory of donated inputs.
  OnDevice(const Executable& executable, std::span<const Tensor> inputs, std::span<const DonationRequest> donations);
  /// Runs once and returns the seconds.
  double timed_run();

 private:
  std::vector<std::shared_ptr<gpu::Device>> devices_;  // of each rank
  std::shared_ptr<gpu::Device> device_;                // the first
  std::unique_ptr<Context> context_;
  gpu::Stream stream_;
  gpu::Event begin_, end_;
  std::vector<gpu::Memory> memory_;
  std::vector<Tensor> inputs_;
  std::vector<std::span<std::byte>> outputs_;
  RunOptions options_;
};

}  // namespace weft::driver
