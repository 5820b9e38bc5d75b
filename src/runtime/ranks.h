// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "runtime/executable.h"

/// Programs that compute a model together: one on each device, each with a thread of its own. The pass `shard` made them
/// from one program; they meet at steps of kind `collective`.
namespace weft {

namespace gpu {
class Device;
class Stream;
}  // namespace gpu

/// One rank's side of a collective step.
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
  /// Takes part in a collective: at once, or on GPUs queued on the stream. E603 when another rank has failed.
  virtual void exchange(const Exchange& mine, const gpu::Stream* stream) = 0;
  /// Waits for queued work that needs the other ranks. E603 when one of them has failed.
  virtual void wait(const gpu::Stream& stream) = 0;
  /// Throws E603 when another rank has failed.
  virtual void check() = 0;
  /// This rank's Mailbox in its device's memory; null unless the devices are connected.
  virtual std::byte* mailbox() const = 0;
  /// The number that random operators of this run begin with, the same for all ranks.
  virtual int64_t seed() const = 0;
};

/// The seed of a run's random operators.
int64_t seed_of(const RunOptions& options);

/// The programs of all ranks, in order, and which of their inputs and outputs are a part in each rank.
struct RankPrograms {
  std::vector<std::shared_ptr<Executable>> ranks = {};
  std::vector<bool> split_inputs = {}, split_outputs = {};
  std::vector<std::shared_ptr<gpu::Device>> devices = {};  ///< of each rank; none on CPUs
  bool are_connected = false;  ///< the devices: their kernels can write to each other's memory
  std::vector<std::string> notes = {};
};

/// Makes one executable of the ranks. An input or output that is split becomes a port for each rank: "past" is
/// "past@0", "past@1" ... In a run on the device, whole inputs and outputs lie on the first device. When a rank fails,
/// the others end within seconds, and its error is that of the run. E406 when it is to be saved.
std::shared_ptr<Executable> make_ranked(RankPrograms programs);

}  // namespace weft
