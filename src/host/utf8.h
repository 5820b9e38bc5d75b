// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cwctype>
#include <string>
#include <string_view>
#include <utility>

namespace weft::host {

/// Returns the first character of UTF-8 text and its length in bytes; WEOF and 1 if no valid character starts there.
std::pair<wint_t, size_t> decode_utf8(std::string_view text);
void append_utf8(std::string& out, wint_t code);

// Return the simple Unicode lower-case or upper-case mapping of a character, independent of the process's locale.
wint_t to_lower(wint_t code);
wint_t to_upper(wint_t code);

}  // namespace weft::host
