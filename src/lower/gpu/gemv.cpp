// SPDX-License-Identifier: Apache-2.0
#include "lower/gpu/gemv.h"

#include <algorithm>
#include <limits>
#include <map>

#include "lower/gpu/products.h"
#include "ops/dot.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"

namespace weft {
namespace {

/// True if kernels/gemv_gpu.h supports the product: few rows of floats, constant B without batches, k a multiple of 8,
/// no prologue.
bool is_gemv(const Lowering& lowering, const Region& region) {
  if (!region.anchor || !region.anchor->is<Dot>() || !region.prologue.empty()) return false;
  int64_t rows = rows_by_matrix(*region.anchor).constant().value_or(0);
  return rows >= 1 && rows <= max_gemv_rows && lowering.is_load_time(region.anchor->inputs[1]);
}

bool are_alike(const Instruction& a, const Instruction& b) {
  return a.inputs[0] == b.inputs[0] && a.inputs[1].dtype() == b.inputs[1].dtype() &&
         a.inputs[1].dims() == b.inputs[1].dims() && a.types[0].shape == b.types[0].shape;
}

/// True if `first` has one output and only the epilogues of the two regions read that output.
bool feeds_only(const Region& first, const Region& second) {
  if (first.outputs.size() != 1) return false;
  const Instruction& last = *first.outputs[0].def;
  auto is_inside = [&](const Instruction* user) {
    auto contains = [&](const std::vector<Instruction*>& list) { return std::ranges::find(list, user) != list.end(); };
    return contains(first.epilogue) || contains(second.epilogue);
  };
  return !last.parent->is_result(first.outputs[0]) && std::ranges::all_of(last.users, is_inside);
}

void join(Region& first, Region& second) {
  second.siblings = {first.anchor};
  second.epilogue.insert(second.epilogue.end(), first.epilogue.begin(), first.epilogue.end());
  std::ranges::sort(second.epilogue, {}, &Instruction::order);
  first = {};
}

/// Returns the RMS norm of whole rows, with its gain, if the region computes and outputs nothing else.
std::optional<RowNorm> as_row_norm(Lowering& lowering, const Region& region) {
  const auto* norm = region.anchor ? region.anchor->as<Normalize>() : nullptr;
  bool is_plain = norm && !norm->centred && region.prologue.empty() && region.epilogue.size() == 1 &&
                  norm->axis == region.anchor->inputs[0].rank() - 1;
  if (!is_plain || !is_float(region.anchor->inputs[0].dtype()) || bits(region.anchor->inputs[0].dtype()) > 32)
    return std::nullopt;
  const Instruction& scaled = *region.epilogue[0];
  const auto* op = scaled.as<Elementwise>();
  bool leaves = region.outputs.size() == 1 && region.outputs[0].def == &scaled;
  if (!op || op->fn != Fn::mul || !leaves || scaled.parent->is_result(region.outputs[0])) return std::nullopt;
  Value gain = scaled.inputs[scaled.inputs[0].def == region.anchor ? 1 : 0];
  if (!lowering.is_load_time(gain) || !gain.dims().back().is_multiple_of(8)) return std::nullopt;
  View row = lowering.view_of(gain);
  bool is_row = known_equal(row.strides.back(), 1) && row.offset.is_multiple_of(8);
  for (size_t axis = 0; axis + 1 < row.dims.size(); ++axis)
    is_row &= known_equal(row.strides[axis], 0) || known_equal(row.dims[axis], 1);
  if (!is_row) return std::nullopt;
  return RowNorm{region.anchor->inputs[0], gain, norm->epsilon};
}

/// Returns the products that read the norm's result; empty if another instruction reads it.
std::vector<Region*> readers_of(const Region& norm, const std::multimap<const Instruction*, Region*>& products) {
  Value rows = norm.outputs[0];
  std::vector<Region*> readers;
  auto [begin, end] = products.equal_range(rows.def);
  for (auto at = begin; at != end; ++at) readers.push_back(at->second);
  auto reads_rows = [&](const Instruction* user) {
    bool is_first = user->inputs[0] == rows && std::ranges::count(user->inputs, rows) == 1;
    return is_first && std::ranges::any_of(readers, [&](Region* r) {
             return r->anchor == user || std::ranges::find(r->siblings, user) != r->siblings.end();
           });
  };
  return std::ranges::all_of(rows.def->users, reads_rows) ? readers : std::vector<Region*>();
}

}  // namespace

std::optional<RingShape> ring_shape(const Lowering& lowering, const RingWeights& weights, const Dim& m,
                                    int64_t at_once) {
  const GpuModel& gpu = lowering.gpu();
  const int64_t largest = std::numeric_limits<int32_t>::max();  // the kernel's indices of columns and bytes of a column
  if (gpu.matrix != MatrixUnit::mma || weights.n.upper_bound() > largest || weights.k * weights.bits / 8 > largest)
    return std::nullopt;
  const int most = gpu.warp_groups ? hopper_shared_bytes : 99 * 1024, half = most / 2 - 1024;
  const int64_t span = tasks::ring_row_bytes * 8 / weights.bits;
  RingShape shape{.threads = weights.k <= 4 * span ? 128 : 256};
  shape.steps = tasks::ring_steps(shape.threads, weights.bits, weights.k);
  auto shared = [&] {
    return tasks::ring_shared(shape.threads, shape.rows, shape.stages, shape.steps, weights.bits, weights.factor_bytes);
  };
  while (shape.rows < std::min<int64_t>(at_once, tasks::ring_rows)) shape.rows *= 2;
  while (shape.rows > 1 && shared() > most) shape.rows /= 2;
  if (shared() > most) return std::nullopt;

  // Measured on an H200. For short products, a block should leave room for a block of the next launch, which can then
  // load weights early. For long products, two blocks on a compute unit hide the unpacking of narrow weights; 16-bit
  // weights need more steps in flight.
  const int outputs = tasks::ring_outputs(weights.matrices);
  Dim groups = ceildiv(m, shape.rows), all = ceildiv(weights.n, outputs) * groups;
  bool is_long = typical_size(all) * shape.steps > int64_t{8} * lowering.compute_units(),
       is_doubled = is_long && weights.bits < 16 && shared() <= half;
  if (is_long && weights.bits < 16 && !is_doubled) {  // rows fill shared memory: one block with as many waves as two
    const RingShape narrow = shape;
    shape.threads *= 2, shape.occupancy = 1;
    shape.steps = tasks::ring_steps(shape.threads, weights.bits, weights.k);
    if (shared() > most) shape = narrow;
  }
  int deepest = is_doubled ? 3 : is_long ? 8 : 5;
  for (shape.stages = deepest; shape.stages > 3 && shared() > (is_long ? most : half);) --shape.stages;
  // A short product of up to two tasks per compute unit has one block per task, so no block runs two tasks. It loads all
  // its steps at once, and a smaller ring leaves room for blocks of the next launch.
  bool is_apart = !is_long && shared() <= half && typical_size(all) <= int64_t{2} * lowering.compute_units();
  if (is_apart) shape.stages = std::min(shape.stages, std::max(shape.steps + 1, 3));
  shape.shared_bytes = shared();
  // Registers for three blocks of narrow weights: blocks of the next launch can begin beside the two of this one.
  if (is_apart && weights.bits < 16 && 3 * shared() <= most) shape.occupancy = 3;
  shape.blocks = min(all, max(Dim(lowering.compute_units() * (is_doubled || is_apart ? 2 : 1)), groups));
  return shape;
}

std::optional<RowNorm> norm_of_rows(const Region& region) {
  if (region.prologue.empty()) return std::nullopt;
  const Instruction &norm = *region.prologue[0], &scaled = *region.prologue[1];
  return RowNorm{norm.inputs[0], scaled.inputs[scaled.inputs[0].def == &norm ? 1 : 0], norm.as<Normalize>()->epsilon};
}

void take_norms(Lowering& lowering, std::vector<Region>& regions) {
  std::multimap<const Instruction*, Region*> products;  // key: the instruction that computes the rows
  for (Region& region : regions) {
    if (is_gemv(lowering, region)) products.emplace(region.anchor->inputs[0].def, &region);
  }
  for (Region& norm : regions) {
    if (!as_row_norm(lowering, norm)) continue;
    std::vector<Region*> readers = readers_of(norm, products);
    for (Region* reader : readers) reader->prologue = {norm.anchor, norm.epilogue[0]};
    if (!readers.empty()) norm = {};
  }
  erase_empty(regions);
}

void join_twins(const Lowering& lowering, std::vector<Region>& regions) {
  std::multimap<const Instruction*, Region*> seen;  // earlier products; key: the instruction that computes the rows
  for (Region& region : regions) {
    if (!is_gemv(lowering, region) || !region.siblings.empty()) continue;
    const Instruction* rows = region.anchor->inputs[0].def;
    auto [begin, end] = seen.equal_range(rows);
    auto twin = std::find_if(begin, end, [&](const auto& entry) {
      return are_alike(*entry.second->anchor, *region.anchor) && feeds_only(*entry.second, region);
    });
    if (twin == end) {
      seen.emplace(rows, &region);
    } else {
      join(*twin->second, region);
      seen.erase(twin);
    }
  }
  erase_empty(regions);
}

}  // namespace weft
