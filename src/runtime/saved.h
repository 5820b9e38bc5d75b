// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "plan/plan.h"
#include "runtime/plan_bytes.h"

/// Saved programs (.weft). One file holds a program and its code for one or more chips:
///
///     header     magic, format version, size of the file, checksum, and a table of the sections
///     "contents" the chips, and the place and checksum of each constant
///     "source"   the program as text, for other chips
///     "plan"     for each chip: everything but the weights (plan_bytes.h)
///     "code"     for each chip: the image of its kernels
///     "weights"  the constants of all sections, each stored once and aligned to 64 bytes; read in place if the file is mapped
///
/// A saved program holds machine code: load it only if you trust its author as you would that of an executable. Damage
/// is always found: every byte of the file is under a checksum or known to be zero. A wrong index or size under
/// a right checksum is refused before it is used.
namespace weft {

/// The program that plans are made from, and the requested options: enough to compile it for another chip.
struct ProgramSource {
  std::string text = {};               ///< ir/text.h, after the passes that every chip shares
  std::vector<Tensor> constants = {};  ///< the large ones: "0", "1" ... in the text
  DType precision = DType::f32;        ///< of matrix products and convolutions
  std::vector<std::string> keep_f32 = {};
  std::vector<DonationRequest> donations = {};
};

/// The program compiled for one chip.
struct ChipProgram {
  Plan plan;
  Bytes image;  ///< the machine code of its kernels
};

struct SavedProgram {
  std::shared_ptr<const ProgramSource> source;
  std::vector<ChipProgram> chips;
};

/// The source of an executable, from which it can be saved.
struct Origin {
  std::shared_ptr<const ProgramSource> source = {};
  Bytes file = {};  ///< the saved program that it was loaded from, with all of its chips
};
/// Returns the contents of a saved program of this executable; E406 if neither part of `origin` is set.
SavedProgram saved_program(const Origin& origin, const Plan& plan, const Bytes& image);

/// Writes a program, whole or not at all. Equal programs give equal files. Throws E106.
void write_saved(const std::filesystem::path& path, const SavedProgram& program);

/// True if a file starts like a saved program.
bool is_saved_program(std::span<const std::byte> file);

/// A saved program in its file, read without the code generator: images and constants are parts of the file.
class SavedFile {
 public:
  /// Checks every byte. Throws E170 (not one of ours, or damaged: the section is named), E171 (another version of the
  /// format), E173 (cut short).
  explicit SavedFile(Bytes file);
  const std::vector<Chip>& chips() const { return chips_; }
  /// Returns the program compiled for chips()[chip]; E170 for an impossible plan.
  ChipProgram program(size_t chip) const;
  ProgramSource source() const;

 private:
  std::vector<Chip> chips_;
  std::vector<Bytes> plans_, images_;
  Bytes source_, weights_;
  std::vector<PlacedConstant> places_;
};

}  // namespace weft
