// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <utility>

#include "bits.h"
#include "fault.h"

namespace weft::amdemu {

/// Reads MessagePack sequentially; supports the forms that the metadata of code objects uses.
class MessagePack {
 public:
  MessagePack(const u8* begin, const u8* end) : at_(begin), end_(end) {}

  u32 map() { return count(0x80, 0xde, "a map"); }
  u32 array() { return count(0x90, 0xdc, "an array"); }

  std::string string() {
    const u8 tag = byte();
    const u64 size = (tag & 0xe0) == 0xa0         ? tag & 31
                     : tag >= 0xd9 && tag <= 0xdb ? number(1 << (tag - 0xd9))
                                                  : no("a text");
    return {reinterpret_cast<const char*>(take(size)), size};
  }

  u64 integer() {
    const u8 tag = byte();
    if (tag < 0x80) return tag;
    if (tag == 0xc2 || tag == 0xc3) return tag & 1;
    return tag >= 0xcc && tag <= 0xcf ? number(1 << (tag - 0xcc)) : no("an integer");
  }

  void skip() {
    const u8 tag = *look();
    if ((tag & 0xf0) == 0x80 || tag == 0xde || tag == 0xdf) return skip(2 * u64{map()});
    if ((tag & 0xf0) == 0x90 || tag == 0xdc || tag == 0xdd) return skip(array());
    if ((tag & 0xe0) == 0xa0 || (tag >= 0xd9 && tag <= 0xdb)) return static_cast<void>(string());
    byte();
    if (tag == 0xca || tag == 0xcb) take(tag == 0xca ? 4 : 8);
    else if (tag >= 0xcc && tag <= 0xd3) take(u64{1} << (tag & 3));
    else if (tag >= 0x80 && tag < 0xe0 && tag != 0xc0 && tag != 0xc2 && tag != 0xc3) no("a value");
  }

 private:
  [[noreturn]] static u64 no(const char* what) {
    throw Fault(text("the metadata is damaged: ", what, " was expected"));
  }
  const u8* look() const { return at_ < end_ ? at_ : (no("more"), at_); }
  const u8* take(u64 count) {
    if (count > static_cast<u64>(end_ - at_)) no("more");
    return std::exchange(at_, at_ + count);
  }
  u8 byte() { return *take(1); }
  u64 number(u64 bytes) {
    u64 value = 0;
    for (const u8 *p = take(bytes), *end = p + bytes; p < end; ++p) value = value << 8 | *p;
    return value;
  }
  u32 count(u8 small, u8 large, const char* what) {
    const u8 tag = byte();
    if ((tag & 0xf0) == small) return tag & 15;
    if (tag == large || tag == large + 1) return static_cast<u32>(number(tag == large ? 2 : 4));
    no(what);
  }
  void skip(u64 values) {
    while (values-- > 0) skip();
  }

  const u8 *at_, *end_;
};

}  // namespace weft::amdemu
