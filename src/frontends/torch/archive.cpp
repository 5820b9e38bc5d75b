// SPDX-License-Identifier: Apache-2.0
#include "frontends/torch/archive.h"

#include <cstring>

#include "base/error.h"

namespace weft::torch {
namespace {

constexpr std::string_view end_mark = "PK\x05\x06", end64_mark = "PK\x06\x06", locator_mark = "PK\x06\x07",
                           entry_mark = "PK\x01\x02", header_mark = "PK\x03\x04";
constexpr size_t end_size = 22, end64_size = 56, locator_size = 20, entry_size = 46, header_size = 30;
constexpr uint64_t in_extra = 0xffffffff;  // marks a size or offset that the entry's extra field holds

/// Reads numbers and strings of the archive; checks every offset against the archive's size.
class Reader {
 public:
  Reader(std::span<const std::byte> file, const std::string& source) : file_(as_text(file)), source_(source) {}

  size_t size() const { return file_.size(); }
  std::string_view text(uint64_t at, uint64_t length, std::string_view what) const {
    if (at > file_.size() || length > file_.size() - at)
      fail("E103", cat(what, " claims bytes ", at, " to ", at + length, ", the file has ", file_.size()));
    return file_.substr(at, length);
  }
  template <class T>
  uint64_t number(uint64_t at, std::string_view what) const {
    T value;
    std::memcpy(&value, text(at, sizeof value, what).data(), sizeof value);
    return value;
  }
  [[noreturn]] void fail(std::string code, std::string what) const {
    throw Error({.kind = ErrorKind::model,
                 .code = std::move(code),
                 .what = cat(printable(source_), ": ", what),
                 .hint = "save the program again with torch.export.save, or copy the file again"});
  }
  /// Returns the offset of the last record with this mark.
  uint64_t last(std::string_view mark) const {
    constexpr size_t longest_comment = 65535;
    size_t found = file_.rfind(mark);
    if (found == file_.npos || file_.size() - found < end_size || file_.size() - found > end_size + longest_comment)
      fail("E103", cat("the archive has no directory at its end, after ", file_.size(), " bytes"));
    return found;
  }

 private:
  std::string_view file_;
  const std::string& source_;
};

struct Directory {
  uint64_t entries, offset;
};

Directory find_directory(const Reader& r) {
  uint64_t end = r.last(end_mark);
  Directory d{r.number<uint16_t>(end + 10, "the end record"), r.number<uint32_t>(end + 16, "the end record")};
  bool is_long = end >= locator_size && r.text(end - locator_size, 4, "the locator") == locator_mark;
  if (!is_long) return d;
  uint64_t end64 = r.number<uint64_t>(end - locator_size + 8, "the locator");
  if (r.text(end64, end64_size, "the 64-bit end record").substr(0, 4) != end64_mark)
    r.fail("E108", cat("no 64-bit end record at byte ", end64));
  return {r.number<uint64_t>(end64 + 32, "the 64-bit end record"), r.number<uint64_t>(end64 + 48, "the end record")};
}

/// One entry of the directory, with sizes and offsets in bytes; those above 32 bits come from its extra field.
struct ZipEntry {
  std::string_view name;
  uint64_t method, packed, size, header, next;
};

ZipEntry read_entry(const Reader& r, uint64_t at) {
  if (r.text(at, entry_size, "the directory").substr(0, 4) != entry_mark)
    r.fail("E108", cat("the archive's directory has no entry at byte ", at));
  auto half = [&](uint64_t place) { return r.number<uint16_t>(at + place, "the directory"); };
  auto word = [&](uint64_t place) { return r.number<uint32_t>(at + place, "the directory"); };
  uint64_t name = half(28), extra = half(30), comment = half(32), after = at + entry_size + name;
  ZipEntry e{
      r.text(at + entry_size, name, "the directory"), half(10), word(20), word(24), word(42), after + extra + comment};
  for (uint64_t field = after; field + 4 <= after + extra;) {
    uint64_t kind = r.number<uint16_t>(field, "an extra field"),
             length = r.number<uint16_t>(field + 2, "an extra field");
    uint64_t value = field + 4;
    field = value + length;
    if (kind != 1) continue;
    for (uint64_t* wide : {&e.size, &e.packed, &e.header}) {
      if (*wide != in_extra || value + 8 > field) continue;
      *wide = r.number<uint64_t>(value, "an extra field");
      value += 8;
    }
  }
  return e;
}

}  // namespace

Archive::Archive(Bytes file, std::string source) : file_(std::move(file)), source_(std::move(source)) {
  Reader r(file_, source_);
  auto [entries, at] = find_directory(r);
  for (uint64_t i = 0; i < entries; ++i) {
    ZipEntry e = read_entry(r, at);
    if (e.method != 0 || e.packed != e.size)
      r.fail("E108", cat("member '", printable(e.name), "' is compressed (method ", e.method, ", ", e.packed, " of ",
                         e.size, " bytes), and torch.export.save stores members as they are"));
    add_member(e.name, e.size, e.header);
    at = e.next;
  }
}

void Archive::add_member(std::string_view entry, uint64_t size, uint64_t header) {
  Reader r(file_, source_);
  std::string what = cat("member '", printable(entry), "'");
  if (r.text(header, header_size, what).substr(0, 4) != header_mark)
    r.fail("E108", cat(what, " has no header at byte ", header));
  // The local header's extra field pads for alignment, so its length may differ from that of the directory's field.
  uint64_t begin = header + header_size + r.number<uint16_t>(header + 26, what) + r.number<uint16_t>(header + 28, what);
  r.text(begin, size, what);
  size_t folder = entry.find('/');
  std::string name(entry.substr(folder == entry.npos ? 0 : folder + 1));
  if (!members_.emplace(name, file_.part(begin, size)).second) r.fail("E108", cat(what, " is there twice"));
}

const Bytes& Archive::member(std::string_view name) const {
  auto found = members_.find(name);
  if (found == members_.end())
    Reader(file_, source_).fail("E108", cat("the archive has no member '", printable(name), "'"));
  return found->second;
}

}  // namespace weft::torch
