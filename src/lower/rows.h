// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "lower/fused_body.h"
#include "ops/reduce.h"

/// Pieces of source that kernels over rows and columns share (rows.cpp, ordered.cpp).
namespace weft {

class Lowering;

/// Lanes of one register of this type on the target.
std::string register_lanes_text(DType type);
/// The operation of kernels/row.h that combines elements; a mean is a sum that is divided afterwards.
const char* combine_text(ReduceFn fn);

/// How the threads of a GPU keep a row of known length (kernels/row.h).
struct KeptRow {
  int threads = tasks::block_threads;  ///< of a block
  int held = 0;                        ///< pieces of a row that a thread keeps; 0: none
  const char* fill = "any";            ///< how the last of them is filled
};
/// How to keep a row, in pieces of `lanes`. Nothing is kept on a CPU, nor for rows that are long or of unknown length.
KeptRow kept_row(const Lowering& lowering, const Dim& cols, int lanes);
/// The text of the `Team` argument of row kernels and of the arguments after it, with a leading comma: on a GPU a wave
/// for rows known to be short, else a block; empty on a CPU.
std::string team_text(const Lowering& lowering, const Dim& cols, const KeptRow& kept = {});
/// Sets the launch of a kernel over rows: tasks::row_tasks on a CPU, a team for each row on a GPU.
void set_row_grid(const Lowering& lowering, KernelBuilder& kernel, const Dim& rows, const Dim& cols,
                  std::string scratch = "0", const KeptRow& kept = {});
/// Lanes of one register of this type on a GPU, as a number.
int gpu_lanes(DType type);
/// A reduction over columns of [outer, n, inner], with vectors of `lanes` along inner.
struct Columns {
  Dim outer, n, inner;
  std::string lanes;  ///< text for the host
  int count;          ///< the number of lanes on a GPU
};
void set_column_grid(const Lowering& lowering, KernelBuilder& kernel, const Columns& columns, int ways = 1);

/// The axes of a row kernel's input and output, grouped into its coordinates.
struct RowShape {
  Iteration input, output;
  Dim rows, cols;  ///< of row kernels; for column kernels cols is the reduced length
  Dim inner = 1;   ///< of column kernels: the axes after the reduced ones
  bool columns = false;
};
/// Elements that a thread of a row kernel takes at once on a GPU.
int row_lanes(const Lowering& lowering, const Region& region, DType acc);
/// The function of kernels/row.h that computes a softmax or a normalisation.
std::string row_function(const Instruction& anchor);
/// The name of the kernel: "reduce_mean".
std::string reduce_name(const Region& region);
/// Whether all results of the region's rows are stored in 16 bits or fewer.
bool stores_narrow(const Lowering& lowering, const Region& region);
/// Writes the load lambda `[&](i64 row, i64 col, auto lanes) { ...; return v; },`, which stores `before` on the way.
void emit_row_load(Lowering& lowering, KernelBuilder& kernel, const Region& region, const RowShape& shape, DType acc,
                   const std::vector<Value>& before);
/// Writes the rest of the store lambda; the results are in `acc`.
void emit_row_store(Lowering& lowering, KernelBuilder& kernel, Region region, const RowShape& shape, DType acc);

}  // namespace weft
