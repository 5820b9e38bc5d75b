// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "lower/fused_body.h"
#include "ops/reduce.h"

/// Pieces of kernel source that rows.cpp and ordered.cpp share for kernels over rows and columns.
namespace weft {

class Lowering;

/// Returns C++ text for the number of lanes of one vector register of this type.
std::string register_lanes_text(DType type);
/// Returns the name of the operation in kernels/row.h that combines elements; a mean is a sum, divided afterwards.
const char* combine_text(ReduceFn fn);

/// How the threads of a GPU keep a row of known length in registers (kernels/row.h).
struct KeptRow {
  int threads = tasks::block_threads;  ///< threads of a block
  int team = 0;                        ///< threads of a wave that share a short row; 0: team_text() chooses
  int held = 0;                        ///< pieces of a row that each thread keeps; 0: the row is read again
  const char* fill = "any";            ///< the `Fill` of a thread's last piece
};
/// Chooses how GPU threads keep a row in pieces of `lanes` elements; they keep no row of long or unknown length.
KeptRow kept_row(const Lowering& lowering, const Dim& rows, const Dim& cols, int lanes);
/// Returns the `Team` argument of a row kernel and the arguments after it, with a leading comma; "" on a CPU. If
/// kept.team is 0, the team is a wave for rows known to be short, else a block.
std::string team_text(const Lowering& lowering, const Dim& cols, const KeptRow& kept = {});
/// Sets the launch of a kernel over rows: tasks::row_tasks on a CPU, one team (kernels/row.h) for each row on a GPU.
void set_row_grid(const Lowering& lowering, KernelBuilder& kernel, const Dim& rows, const Dim& cols,
                  std::string scratch = "0", const KeptRow& kept = {});
/// Returns the lanes of a vector of this compute type on a GPU: 4, or 2 for 64-bit types.
int gpu_lanes(DType type);
/// A reduction over the axis n of [outer, n, inner], with vectors of `lanes` elements along inner.
struct Columns {
  Dim outer, n, inner;
  std::string lanes;  ///< the number of lanes as text for the launch
  int count;          ///< the number of lanes on a GPU
};
void set_column_grid(const Lowering& lowering, KernelBuilder& kernel, const Columns& columns, int ways = 1);

/// Input and output axes of a reduction, softmax or normalisation, grouped into the coordinates of its kernel.
struct RowShape {
  Iteration input, output;
  Dim rows, cols;  ///< number and length of the rows; column kernels: outer size and reduced length
  Dim inner = 1;   ///< column kernels: product of the axes after the reduced ones
  bool columns = false;
  std::vector<size_t> order = {};  ///< the axes of the values that are the axes of the iterations; empty: all in order
};
/// Returns the elements that a GPU thread of a row kernel loads at once.
int row_lanes(const Lowering& lowering, const Region& region, DType acc);
/// Returns the function of kernels/row.h that computes this softmax or normalisation.
std::string row_function(const Instruction& anchor);
/// Returns the kernel's name, such as "reduce_mean".
std::string reduce_name(const Region& region);
/// True if the region stores all its results in 16 bits or fewer.
bool stores_narrow(const Lowering& lowering, const Region& region);
/// Emits the load lambda, which takes the coordinates of shape.input and also stores the values `before`.
void emit_row_load(Lowering& lowering, KernelBuilder& kernel, const Region& region, const RowShape& shape, DType acc,
                   const std::vector<Value>& before);
/// Emits the rest of the store lambda, which begins with the anchor's results in type `acc`.
void emit_row_store(Lowering& lowering, KernelBuilder& kernel, Region region, const RowShape& shape, DType acc);

}  // namespace weft
