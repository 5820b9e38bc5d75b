// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <vector>

#include "runtime/executable.h"

/// Runs one model on several devices: each rank is a program with a device and a thread of its own. The pass `shard`
/// makes these programs from one program. The ranks exchange data at collective steps.
namespace weft {

namespace gpu {
class Device;
class Stream;
}  // namespace gpu

/// The buffers that one rank gives to a collective step.
struct Exchange {
  CollectiveFn fn = CollectiveFn::sum;
  DType type = DType::f32;
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  int64_t elements = 0;  ///< number of elements at `from`
};

/// A rank's access to the other ranks during a run.
class Rank {
 public:
  virtual ~Rank() = default;
  /// Takes part in a collective; on GPUs queues the work on the stream. Throws E603 if another rank has failed.
  virtual void exchange(const Exchange& mine, const gpu::Stream* stream) = 0;
  /// Waits for queued work that needs the other ranks. Throws E603 if another rank has failed.
  virtual void wait(const gpu::Stream& stream) = 0;
  /// Throws E603 if another rank has failed.
  virtual void check() = 0;
  /// Returns this rank's Mailbox in its device's memory; null unless the devices are connected.
  virtual std::byte* mailbox() const = 0;
  /// Returns the seed of this run's random operators, the same for all ranks.
  virtual int64_t seed() const = 0;
};

int64_t seed_of(const RunOptions& options);

/// The programs of all ranks, in order. A split input or output has one part in each rank.
struct RankPrograms {
  std::vector<std::shared_ptr<Executable>> ranks = {};
  std::vector<bool> split_inputs = {}, split_outputs = {};
  std::vector<std::shared_ptr<gpu::Device>> devices = {};  ///< of each rank; none on CPUs
  bool are_connected = false;                              ///< kernels of the devices can write to each other's memory
  std::vector<std::string> notes = {};
};

/// Makes one executable from the ranks' programs. A split input or output becomes one port for each rank: "past@0",
/// "past@1" ... In a run on the device, inputs and outputs that are not split are on the first device. If a rank fails,
/// the others end within seconds, and the run throws the failed rank's error. Saving throws E406.
std::shared_ptr<Executable> make_ranked(RankPrograms programs);

}  // namespace weft
