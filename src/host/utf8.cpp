// SPDX-License-Identifier: Apache-2.0
#include "host/utf8.h"

#include <locale.h>
#include <wctype.h>

#include "host/functions.h"

namespace weft::host {

static locale_t unicode() {
  static locale_t rules = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  if (!rules) refuse("E122", "the system has no locale C.UTF-8, which changes of case need");
  return rules;
}

std::pair<wint_t, size_t> decode_utf8(std::string_view text) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  size_t length = byte(0) < 0x80 ? 1 : byte(0) >> 5 == 6 ? 2 : byte(0) >> 4 == 14 ? 3 : byte(0) >> 3 == 30 ? 4 : 0;
  if (length == 1) return {byte(0), 1};
  bool is_whole = length > 0 && length <= text.size();
  for (size_t i = 1; is_whole && i < length; ++i) is_whole = byte(i) >> 6 == 2;
  if (!is_whole) return {WEOF, 1};
  wint_t code = byte(0) & ((0x80u >> length) - 1);
  for (size_t i = 1; i < length; ++i) code = code << 6 | (byte(i) & 63);
  return {code, length};
}

void append_utf8(std::string& out, wint_t code) {
  auto put = [&](wint_t bits) { out += static_cast<char>(bits); };
  if (code < 0x80) return put(code);
  if (code < 0x800) return put(0xc0 | code >> 6), put(0x80 | (code & 63));
  if (code < 0x10000) return put(0xe0 | code >> 12), put(0x80 | (code >> 6 & 63)), put(0x80 | (code & 63));
  put(0xf0 | code >> 18), put(0x80 | (code >> 12 & 63)), put(0x80 | (code >> 6 & 63)), put(0x80 | (code & 63));
}

wint_t to_lower(wint_t code) { return towlower_l(code, unicode()); }
wint_t to_upper(wint_t code) { return towupper_l(code, unicode()); }

}  // namespace weft::host
