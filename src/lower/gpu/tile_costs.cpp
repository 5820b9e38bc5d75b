// SPDX-License-Identifier: Apache-2.0
#include "lower/gpu/tile_costs.h"

#include <algorithm>
#include <cmath>

namespace weft {
namespace {

/// Constants of the cost model `hopper_cycles`: rates per cycle (flops, unit_bytes, chip_bytes), else cycles.
struct TileCosts {
  double flops, unit_bytes, chip_bytes;  ///< rates: of a matrix unit; from L2 to one unit; from L2 to all units
  double latency, memory_latency;        ///< of L2; what memory adds, also by being busy
  double step_cost, start, block_start, cluster_start, cluster_each;
  double sum, read, thread_read;  ///< of a unit to store a sum; of a unit, of a thread to read its element of a matrix
};
#define TILE_COSTS(name, ...) constexpr TileCosts name{__VA_ARGS__};
#include "base/chips.def"

/// True if B comes from memory, not from L2: weights too large to stay in L2 while other weights are read. Many rows read
/// them from L2 all the same, after the first blocks.
bool comes_from_memory(const GpuProduct& p, const ProductNumbers& numbers) {
  constexpr int64_t bytes_kept = 4 << 20, most_rows = 256;
  return p.ahead && numbers.m <= most_rows && numbers.batch * numbers.n * numbers.k * bits(p.type) / 8 > bytes_kept;
}

/// Returns how many units clusters of this many blocks can use. A cluster lies within one of the parts of the chip that
/// hold 16 or 18 units each, some of them disabled: on an H200, clusters of 4 and of 8 fill 120 of 132 units.
int cluster_units(int units, int split) { return split > 2 ? units * 10 / 11 : units; }

/// Returns how many registers of a thread hold no sums.
int free_registers(const BlockTile& t, DType type) {
  int threads = t.threads(32), most = 65536 / (threads * hopper_blocks_of_unit(t, type));
  return std::min(most, 255) - t.rows * t.cols / threads;
}

/// Estimates the cycles to store the sums of a block where `each` blocks share a unit. An epilogue that reads a matrix
/// waits for memory: a thread has few loads in flight, but the blocks of a unit wait at the same time.
double store_cycles(const TileCosts& f, const GpuProduct& p, const BlockTile& t, double each) {
  constexpr int epilogue_registers = 64, spill = 2;  // with fewer free registers, an epilogue that reads spills
  double sums = static_cast<double>(t.rows) * t.cols / t.split, stores = sums * each * f.sum;
  if (!p.reads_matrix) return stores;
  double reads = sums * each * f.read + sums / t.threads(32) * f.thread_read;
  return stores + reads * (t.groups && free_registers(t, p.type) < epilogue_registers ? spill : 1);
}

}  // namespace

int hopper_blocks_of_unit(const BlockTile& t, DType type) {
  int most = t.threads(32) > 256 ? 1 : t.threads(32) > 128 ? 2 : 6;
  return std::clamp(hopper_shared_bytes / (tasks::shared_bytes(t, bits(type)) + 1024), 1, most);
}

bool should_stream(const GpuProduct& p, const ProductNumbers& numbers, const BlockTile& t, int units) {
  constexpr int stream_registers = 96;
  return t.split == 1 && t.whole && !p.has_windows && numbers.blocks(t) > units &&
         hopper_blocks_of_unit(t, p.type) == 1 && free_registers(t, p.type) >= stream_registers;
}

double hopper_cycles(const GpuProduct& p, const ProductNumbers& numbers, const BlockTile& t, int units) {
  const TileCosts& f = t.groups ? group_costs : tf32_costs;
  double step_flops = 2.0 * t.rows * t.cols * t.depth * (t.groups ? bits(p.type) / 16.0 : 1);
  double step_bytes = (t.rows + t.cols) * (t.depth * bits(p.type) / 8.0);
  double steps = std::ceil(std::ceil(static_cast<double>(numbers.k) / t.depth) / t.split);
  auto blocks = static_cast<double>(numbers.blocks(t));
  double at_once = hopper_blocks_of_unit(t, p.type), latency = f.latency;
  if (comes_from_memory(p, numbers)) latency += f.memory_latency;
  units = cluster_units(units, t.split);
  double waves = std::ceil(blocks / (units * at_once)), each = std::min(at_once, std::ceil(blocks / units));
  double way = step_bytes / std::min(f.unit_bytes, f.chip_bytes / std::min<double>(units, blocks));
  double step =
      std::max({step_flops / f.flops * each, way * each, latency / (t.stages - (t.groups ? 2 : 1))}) + f.step_cost;
  constexpr double ahead_step = 60;  // cycles saved by loading B before the previous kernel ends
  double head_start = t.ahead ? ahead_step * std::min(steps, t.stages - 2.0) : 0;
  double cluster = t.split > 1 ? f.cluster_start + f.cluster_each * (t.split - 1) : 0;
  return f.start - head_start + cluster + waves * (steps * step + store_cycles(f, p, t, each) + f.block_start);
}

}  // namespace weft
