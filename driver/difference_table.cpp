// SPDX-License-Identifier: Apache-2.0
#include "driver/difference_table.h"

#include "base/text.h"
#include "driver/terminal.h"

namespace weft::driver {

void add_tolerance_options(CommandLine& line, Tolerance& tolerance) {
  line.group("Tolerance");
  line.value("--norm", "N", tolerance.norm, "bound of ||y-r|| / ||r||; without --rtol and --atol");
  line.value("--rtol", "N", tolerance.rtol, "each element: |y-r| <= atol + rtol |r|");
  line.value("--atol", "N", tolerance.atol, "see --rtol");
}

const Difference& DifferenceTable::add(const std::string& name, const Tensor& value, const Tensor& reference,
                                       const Tolerance& tolerance) {
  Difference d = compare(value, reference, tolerance);
  std::string shown = name.empty() ? "-" : printable(name), verdict = d.is_equal ? "same" : paint("differs", Ink::red);
  is_equal_ &= d.is_equal;
  if (d.mismatches < 0) {
    rows_.push_back({shown, "", "", "", "", "", "", "", verdict});
    places_.push_back(cat(shown, ": ", d.reason));
  } else {
    rows_.push_back({shown, show_number(d.norm), show_number(d.max_abs), show_number(d.max_rel), show_number(d.rms),
                     show_number(d.cosine, 6), cat(d.mismatches), cat(d.elements), verdict});
    if (d.first_bad >= 0)
      places_.push_back(
          cat(shown, place(d.first_bad, value.dims), " is ", d.first_value, ", should be ", d.first_reference));
    else if (!d.reason.empty()) places_.push_back(cat(shown, ": ", d.reason));
  }
  differences_.push_back(std::move(d));
  return differences_.back();
}

std::string DifferenceTable::text() const {
  std::string text = table(rows_);
  for (const std::string& place : places_) text += "\n" + place;
  return text;
}

}  // namespace weft::driver
