// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/chip.h"
#include "base/dtype.h"

/// The features of chips. chips.def lists the known chips by name.
namespace weft {

/// Returns the name of the vendor: "cpu", "amd" or "nvidia".
std::string_view vendor_name(ChipKind kind);

/// The matrix unit of a GPU, named after the way kernels/matrix_core.h uses it.
enum class MatrixUnit : uint8_t {
  none,        ///< products run on the vector units
  mfma_short,  ///< CDNA 1: bf16 instructions have half the depth in k of the f16 ones
  mfma,        ///< CDNA 2
  mfma_long,   ///< CDNA 3, which multiplies 32 bytes of k at once
  wmma_twice,  ///< RDNA 3: both halves of a wave hold whole operands
  wmma,        ///< RDNA 4
  mma,         ///< NVIDIA; f32 as three products of TF32
};

/// The 8-bit floats that a matrix unit multiplies.
enum class Float8Unit : uint8_t {
  none,
  ocp,   ///< f8e4m3fn and f8e5m2
  fnuz,  ///< f8e4m3fnuz and f8e5m2fnuz
};

struct GpuFamily {
  ChipKind kind = ChipKind::nvidia;
  int wave = 32;  ///< threads that execute in lockstep
  MatrixUnit matrix = MatrixUnit::none;
  Float8Unit float8 = Float8Unit::none;
  bool async_copy = false;    ///< copies from global to shared memory bypass the registers
  bool early_launch = false;  ///< a kernel can start while the previous kernel still runs
  /// Hopper's wgmma: four warps multiply from shared memory together, and the blocks of a cluster read each other's
  /// shared memory (kernels/wgmma.h).
  bool warp_groups = false;
  int hip_units = 1;    ///< compute units that HIP counts as one (a work group processor)
  int f64_lanes = 8;    ///< f64 columns that an epilogue computes at once; more would leave only two waves per SIMD
  int short_rows = 8;   ///< 16-bit query rows that attention_few and attention_mma keep in registers
  int wide_rows = 8;    ///< query rows of wider types that attention_few keeps in registers
  int short_keys = 64;  ///< 16-bit keys that attention loads at a time; more would spill registers
};

struct GpuModel : GpuFamily {
  std::string_view arch;
  int compute_units;       ///< compute units of the usual model of this chip
  bool is_tested;          ///< tests compile or run kernels for this chip
  std::string_view lacks;  ///< features of the chip that Weft does not use, as a sentence; "" if none
};
/// True for 8-bit floats other than f8e8m0.
bool is_float8(DType type);
/// True if the chip's matrix unit multiplies this 8-bit float.
bool multiplies_float8(const GpuModel& gpu, DType type);
/// Returns the model with this name. Throws E204 for an unknown name; the error lists the known chips of the vendor.
const GpuModel& gpu_model(std::string_view arch);
/// Returns the chip of an NVIDIA device with this compute capability (90 is 9.0): sm_90a instead of sm_90, if known. A
/// device newer than all known chips gets the newest chip. Throws E204 for other unknown devices.
Chip nvidia_chip(int capability);
/// Returns the chips of a vendor that tests cover: "cpu:x86-64-v3", "cpu:x86-64-v4" ...
std::vector<std::string> tested_chips(std::string_view vendor);
/// Returns the macros, such as "WEFT_WARP_GROUPS=1", from which GPU kernels know the chip's features; none for a CPU.
std::vector<std::string> kernel_macros(const Chip& chip);

/// True if the CPU has an instruction for products of this type with f32 sums; otherwise kernels convert values to f32.
bool multiplies(DType type, const Chip& chip);
/// True if the CPU has products of u8 by i8 with sums in i32 (VNNI).
bool multiplies_bytes(const Chip& chip);
/// True if the CPU multiplies u8 by i8 in tiles (AMX).
bool multiplies_tiles(const Chip& chip);

/// Returns the chip that kernels are compiled for. For an x86 CPU, keeps the level and the features that lowering or a
/// kernel header tests, and drops the model to tune for. Other chips stay as they are.
Chip plain_chip(const Chip& chip);

/// Returns the name that chip_named reads, without the model to tune for. (chip_named refuses features of aarch64.)
std::string chip_name(const Chip& chip);

}  // namespace weft
