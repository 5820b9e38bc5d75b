// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <string_view>

#include "base/text.h"

namespace weft {

enum class LogLevel : uint8_t { error, warning, note, info, debug, trace };

/// The function that receives every message. The default writes to standard error; setting an empty function restores
/// the default. The embedding program sets the logger once, before other calls.
using Logger = std::function<void(LogLevel, std::string_view)>;
void set_logger(Logger logger);
/// Sets the level above which messages are dropped before they are built; the default is `warning`.
void set_log_level(LogLevel level);
bool log_enabled(LogLevel level);
void log_text(LogLevel level, std::string_view text);

template <class... Args>
void log(LogLevel level, const Args&... args) {
  if (log_enabled(level)) log_text(level, cat(args...));
}

/// True if WEFT_DEBUG asks for debug level `scale` (see knobs.def) in the part of Weft named `part`.
bool debug_enabled(int scale, std::string_view part = {});

}  // namespace weft
