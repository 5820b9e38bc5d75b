// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "lower/gpu/tile_costs.h"
#include "ops/views.h"

/// Chooses the tile of C that a block of a matrix product computes.
namespace weft {
namespace {

/// Returns tiles in which the elements of a k step divide evenly among the threads, largest first.
std::vector<BlockTile> tiles_for(DType type, const GpuModel& gpu) {
  int bytes = bits(type) / 8, waves_n = gpu.wave == 64 ? 2 : 4;
  if (bytes >= 4 || type == DType::i16) return {{64, 64, 64 / bytes, 2, waves_n}};  // no matrix unit multiplies i16
  int depth = 64 / bytes;  // deep steps, because each step of a small tile costs a barrier and memory latency
  int deep =
      gpu.matrix == MatrixUnit::wmma_twice ? 2 : 4;  // operands that are held twice leave two waves few registers
  return {{128, 128, depth, 2, waves_n},   {128, 64, depth, 2, waves_n}, {64, 64, 2 * depth, 2, waves_n},
          {32, 64, 4 * depth, 1, waves_n}, {32, 32, deep * depth, 1, 2}, {16, 64, 4 * depth, 1, waves_n}};
}

/// Returns the f32 tiles for NVIDIA, which computes an f32 product as three TF32 products.
std::vector<BlockTile> tf32_tiles() {
  return {{128, 64, 32, 4, 2, 3},
          {64, 64, 32, 2, 2, 4},
          {32, 64, 32, 2, 2, 4},
          {32, 32, 32, 2, 2, 4},
          {16, 64, 32, 1, 4, 4}};
}

/// Returns the tiles of warp groups (rows, cols, warp groups along the rows, stages). If there are few blocks, tiles
/// with more stages in flight are better.
std::vector<BlockTile> group_tiles(DType type) {
  struct Shape {
    int rows, cols, groups, stages;
  };
  constexpr Shape shapes[] = {{192, 256, 3, 4}, {128, 256, 2, 4}, {256, 128, 2, 4}, {192, 192, 3, 4}, {128, 192, 2, 4},
                              {192, 128, 3, 5}, {128, 128, 2, 3}, {128, 128, 2, 6}, {128, 64, 2, 4},  {128, 64, 2, 8},
                              {64, 256, 1, 5},  {64, 128, 1, 4},  {64, 128, 1, 8},  {64, 64, 1, 6},   {64, 64, 1, 12},
                              {64, 32, 1, 8},   {64, 32, 1, 16},  {64, 16, 1, 8},   {64, 16, 1, 16}};
  std::vector<BlockTile> tiles;
  for (const Shape& s : shapes) {
    bool is_narrow = is_float8(type);  // two steps are multiplied at once, and their sums take registers too
    if (is_narrow && (s.cols > 128 || s.groups > 2)) continue;
    for (int split : {1, 2, 4, 8}) {
      bool is_large = s.rows * s.cols > 128 * 128 || (split == 8 && s.cols >= 128);
      if (split == 1 || !is_large)
        tiles.push_back({s.rows, s.cols, 1024 / bits(type), 4 * s.groups, 1, s.stages + (is_narrow ? s.stages % 2 : 0),
                         split, true});
    }
  }
  return tiles;
}

/// A tile and its cost; costs are comparable among the tiles of one product.
struct RankedTile {
  BlockTile tile;
  double cost;
};

/// Ranks tiles by `hopper_cycles`; leaves out tiles with mostly empty rows or columns, or too short parts of k.
std::vector<RankedTile> ranked_by_cycles(const std::vector<BlockTile>& tiles, const GpuProduct& product,
                                         const ProductNumbers& p, int units) {
  std::vector<RankedTile> ranked;
  for (const BlockTile& tile : tiles) {
    bool wasteful =
        tile.groups && ((tile.rows > 64 && tile.rows >= 2 * p.m) || (tile.cols > 16 && tile.cols >= 2 * p.n));
    bool idle = tile.split > 1 && p.k < int64_t{tile.split} * tile.depth;
    if (!wasteful && !idle) ranked.push_back({tile, hopper_cycles(product, p, tile, units)});
  }
  return ranked;
}

/// Returns the number of parts of k: above 1 only if blocks would leave compute units idle. Each part has at least four
/// steps. Partial sums pass through memory, so few parts are best.
int parts_for(const BlockTile& tile, const ProductNumbers& p, int units, int most) {
  int64_t steps = (p.k + tile.depth - 1) / tile.depth;
  int parts = 1;
  while (parts < most && p.blocks(tile) * parts < units && steps >= std::max(16, 8 * parts)) parts *= 2;
  return parts;
}

/// Ranks tiles for GPUs without a cost model. First comes the largest tile whose blocks fill the GPU; if there is none,
/// the tile with the most blocks, or for m <= 16 the smallest tile. `shares`: k may be split into up to eight parts; a
/// tile counts as filling the GPU if up to four parts suffice.
std::vector<RankedTile> ranked_tiles(std::vector<BlockTile> tiles, const ProductNumbers& p, int units, bool shares) {
  auto fills = [&](const BlockTile& t) {
    bool wasteful = t.rows >= 2 * p.m || t.cols >= 2 * p.n;
    return !wasteful && p.blocks(t) * (shares ? parts_for(t, p, units, 4) : 1) >= units;
  };
  auto blocks = [&](const BlockTile& t) { return t.rows >= 2 * p.m ? 0 : p.blocks(t); };
  auto best = std::ranges::find_if(tiles, fills);
  if (best == tiles.end()) {
    best = std::ranges::max_element(tiles, {}, blocks);
    if (p.m <= 16 || blocks(*best) == 0) best = tiles.end() - 1;
  }
  std::rotate(tiles.begin(), best, best + 1);
  std::vector<RankedTile> ranked;
  for (BlockTile tile : tiles) {
    auto add = [&] { ranked.push_back({tile, static_cast<double>(ranked.size())}); };
    if (int parts = shares ? parts_for(tile, p, units, 8) : 1; parts > 1) tile.split = parts, add();
    tile.split = 1, add();
  }
  return ranked;
}

/// Returns the tiles of tf32_tiles, with k whole and with k split among 2, 4 or 8 blocks of a cluster.
std::vector<BlockTile> shared_tf32_tiles() {
  std::vector<BlockTile> tiles;
  for (BlockTile tile : tf32_tiles()) {
    for (int split : {1, 2, 4, 8}) {
      tile.split = split;
      tiles.push_back(tile);
    }
  }
  return tiles;
}

ProductNumbers numbers_of(const GpuProduct& p, int64_t each = 16) {
  auto number = [&](const Dim& size) { return typical_size(size, each); };
  return {number(p.batch), number(p.m), number(p.n), number(p.k)};
}

/// Returns Weft's candidates for these numbers, unordered.
std::vector<RankedTile> ranked_for(const Lowering& lowering, const GpuProduct& p, const ProductNumbers& numbers) {
  int units = lowering.compute_units();
  bool narrow = p.type == DType::f16 || p.type == DType::bf16 || p.type == DType::i8 || is_float8(p.type);
  bool has_groups = p.direct && lowering.gpu().warp_groups, copies_past = p.direct && lowering.gpu().async_copy;
  if (has_groups && narrow) {
    std::vector<BlockTile> tiles = group_tiles(p.type);
    bool is_whole = p.n.is_constant() && p.n.value() % tasks::gemm_lanes == 0;
    for (BlockTile& tile : tiles) {
      tile.ahead = p.ahead;
      tile.whole = is_whole;
      tile.streams = should_stream(p, numbers, tile, units);
    }
    return ranked_by_cycles(tiles, p, numbers, units);
  }
  if (has_groups && p.type == DType::f32) return ranked_by_cycles(shared_tf32_tiles(), p, numbers, units);
  bool is_tf32 = copies_past && p.type == DType::f32;
  std::vector<BlockTile> tiles = is_tf32 ? tf32_tiles() : tiles_for(p.type, lowering.gpu());
  if (copies_past && narrow) {
    for (BlockTile& tile : tiles) tile.stages = 4;
  }
  return ranked_tiles(std::move(tiles), numbers, units, p.may_share);
}

/// Returns the product of the symbolic sizes.
Dim open_work(const GpuProduct& p) {
  Dim work = 1;
  for (const Dim* size : {&p.batch, &p.m, &p.n, &p.k}) {
    if (!size->is_constant()) work *= *size;
  }
  return work;
}

/// Returns `tile` if it costs at most 10 % more than the best tile, else the best: each tile is a kernel to compile.
BlockTile kept_or_best(const BlockTile& tile, const std::vector<RankedTile>& ranked) {
  constexpr double good_deal = 1.1;
  auto best = std::ranges::min_element(ranked, {}, &RankedTile::cost);
  auto is_kept = [&](RankedTile r) {
    r.tile.streams = tile.streams;
    return r.tile == tile && r.cost <= good_deal * best->cost;
  };
  return best == ranked.end() || std::ranges::any_of(ranked, is_kept) ? tile : best->tile;
}

/// Adds tiles for less and for more work than `choice.tile` was chosen for. Tries 1, 4, 16 ... for all symbolic sizes;
/// the border between two tiles is the geometric mean of their amounts of work.
TileChoice for_all_sizes(const Lowering& lowering, const GpuProduct& p, TileChoice choice) {
  choice.work = open_work(p);
  if (choice.work.is_constant()) return choice;
  constexpr int64_t each[] = {1, 4, 16, 64, 256, 1024};
  constexpr int typical = 2;
  BlockTile tiles[std::size(each)];
  tiles[typical] = choice.tile;
  auto at = [&](int i) { return ranked_for(lowering, p, numbers_of(p, each[i])); };
  for (int i = typical - 1; i >= 0; --i) tiles[i] = kept_or_best(tiles[i + 1], at(i));
  for (int i = typical + 1; i < std::ssize(each); ++i) tiles[i] = kept_or_best(tiles[i - 1], at(i));
  choice.tile = tiles[0];
  for (int i = 1; i < std::ssize(each); ++i) {
    if (tiles[i] == tiles[i - 1]) continue;
    auto work = [&](int64_t size) { return static_cast<double>(typical_size(choice.work, size)); };
    choice.larger.push_back({tiles[i], static_cast<int64_t>(std::sqrt(work(each[i - 1]) * work(each[i])))});
  }
  return choice;
}

}  // namespace

int64_t typical_size(const Dim& size, int64_t each) {
  return size.evaluate([&](const Symbol& s) { return std::clamp(each, std::max<int64_t>(s.min, 1), s.max); });
}

void add_variant(PlanStep& step, PlanStep other, int64_t from) {
  LaunchStep& variant = launch_of(other);
  check(other.buffers == step.buffers && other.sizes.size() == step.sizes.size(), "variants take the same operands");
  launch_of(step).variants.push_back({variant.kernel, std::move(other.sizes), std::move(variant.blocks), from});
}

PlanStep with_variants(PlanStep step, const TileChoice& choice,
                       const std::function<PlanStep(const BlockTile&)>& launch) {
  for (const TileChoice::Larger& larger : choice.larger) add_variant(step, launch(larger.tile), larger.from);
  if (LaunchStep& own = launch_of(step); !own.variants.empty()) own.work = choice.work;
  return step;
}

std::string tile_text(const BlockTile& t) {
  return cat("BlockTile{", t.rows, ", ", t.cols, ", ", t.depth, ", ", t.waves_m, ", ", t.waves_n, ", ", t.stages, ", ",
             t.split, ", ", t.groups, ", ", t.ahead, ", ", t.streams, ", ", t.whole, "}");
}

std::string describe(const BlockTile& t) {
  return cat("blocks of ", t.rows, " x ", t.cols, t.groups ? ", warp groups" : "",
             t.split > 1 ? cat(", split k ", t.split) : "");
}

std::string describe(const TileChoice& choice) {
  std::string text = describe(choice.tile);
  for (const TileChoice::Larger& larger : choice.larger)
    text += cat("; from work ", larger.from, " on ", describe(larger.tile));
  return text;
}

bool adds_parts(const GpuModel& gpu, const BlockTile& tile) {
  return tile.split > 1 && !tasks::shares_in_cluster(tile, gpu.warp_groups);
}

bool may_split_k(const Lowering& lowering, const Region& region, const Dims& sizes) {
  return all_constant(sizes) && !lowering.is_load_time({region.anchor, 0});
}

int tile_occupancy(const BlockTile& tile, DType type) {
  int blocks = tile.groups ? hopper_blocks_of_unit(tile, type) : 1;
  return blocks > 1 ? blocks : 0;
}

Dim tile_blocks(const Lowering& lowering, const BlockTile& tile, DType type, const Dim& batch, const Dim& m,
                const Dim& n) {
  Dim tiles = batch * ceildiv(m, tile.rows) * ceildiv(n, tile.cols) * Dim(tile.split);
  return tile.streams ? min(tiles, int64_t{lowering.compute_units()} * hopper_blocks_of_unit(tile, type)) : tiles;
}

bool reads_matrix(const Lowering& lowering, const Region& region) {
  auto is_matrix = [&](Value value) {
    if (value.def == region.anchor || std::ranges::count(region.epilogue, value.def) > 0) return false;
    for (; is_view_op(value.def->op); value = value.def->inputs[0])
      if (value.def->is<Broadcast>()) return false;
    return !lowering.is_load_time(value);
  };
  auto reads = [&](const Instruction* i) { return std::ranges::any_of(i->inputs, is_matrix); };
  return std::ranges::any_of(region.epilogue, reads);
}

TileChoice choose_tile(Lowering& lowering, const GpuProduct& p) {
  ProductNumbers numbers = numbers_of(p);
  std::vector<RankedTile> ranked = ranked_for(lowering, p, numbers);
  std::vector<Candidate> candidates;
  for (const RankedTile& t : ranked) candidates.push_back({.name = tile_text(t.tile), .estimate = t.cost});
  for (const LibraryOffer& offer : p.offers) candidates.push_back({.name = offer.name, .needs_measurement = true});
  std::string what = cat(p.family, " ", p.type, p.direct ? " direct" : "", p.ahead ? " constant" : "", p.epilogue);
  std::vector<AssumedSize> sizes{
      {"batch", p.batch, numbers.batch}, {"m", p.m, numbers.m}, {"n", p.n, numbers.n}, {"k", p.k, numbers.k}};
  auto can_take = [&](size_t candidate) {
    return lowering.libraries().can(
        p.offers[candidate - ranked.size()].call.at([](const Dim& size) { return typical_size(size); }));
  };
  size_t chosen = lowering.choose(decision_about(std::move(what), sizes, std::move(candidates)), can_take);
  if (chosen < ranked.size()) return for_all_sizes(lowering, p, {ranked[chosen].tile});
  const LibraryOffer& offer = p.offers[chosen - ranked.size()];
  std::erase_if(ranked, [&](const RankedTile& t) { return adds_parts(lowering.gpu(), t.tile); });
  return {std::ranges::min_element(ranked, {}, &RankedTile::cost)->tile, offer};
}

}  // namespace weft
