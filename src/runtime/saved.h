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
/// A saved program contains machine code: load it only if you would run an executable by its author. Loading checks
/// every byte: a checksum covers the byte, or the byte must be zero. If the checksums are right but an index or size is
/// wrong, the file is refused before the number is used.
namespace weft {

/// The program from which plans are made, and the requested options: enough to compile the program for another chip.
struct ProgramSource {
  std::string text = {};               ///< ir/text.h, after the passes that every chip shares
  std::vector<Tensor> constants = {};  ///< the large constants, which the text names "0", "1" ...
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

/// The program or file from which an executable was made; needed to save the executable.
struct Origin {
  std::shared_ptr<const ProgramSource> source = {};
  Bytes file = {};  ///< the saved program from which the executable was loaded, with all chips
};
/// Returns the contents of a saved program: those of origin.file, else this plan and image with origin.source. Throws
/// E406 if neither is set, and if the plan calls a function of this process.
SavedProgram saved_program(const Origin& origin, const Plan& plan, const Bytes& image);

/// Writes a program to a file atomically. Equal programs give equal files. Throws E106.
void write_saved(const std::filesystem::path& path, const SavedProgram& program);

/// True if a file starts like a saved program.
bool is_saved_program(std::span<const std::byte> file);

/// A saved program in its file. Images and constants are views of the file, so loading needs no code generator.
class SavedFile {
 public:
  /// Checks every byte. Throws E170 for a file that is no saved program or is damaged (the error names the section),
  /// E171 for another version of the format, E173 for a truncated file.
  explicit SavedFile(Bytes file);
  const std::vector<Chip>& chips() const { return chips_; }
  /// Returns the program compiled for chips()[chip]. Throws E170 for an invalid plan.
  ChipProgram program(size_t chip) const;
  ProgramSource source() const;

 private:
  std::vector<Chip> chips_;
  std::vector<Bytes> plans_, images_;
  Bytes source_, weights_;
  std::vector<PlacedConstant> places_;
};

}  // namespace weft
