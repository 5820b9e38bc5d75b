// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <onnxruntime_c_api.h>

#include <string>

#include "ort/api.h"

namespace weft::ort {

/// Writes messages to a session's log.
class Log {
 public:
  explicit Log(const OrtLogger* logger) : logger_(logger) {}
  void info(const std::string& text) const { write(ORT_LOGGING_LEVEL_INFO, text); }
  void warning(const std::string& text) const { write(ORT_LOGGING_LEVEL_WARNING, text); }
  void error(const std::string& text) const { write(ORT_LOGGING_LEVEL_ERROR, text); }

 private:
  void write(OrtLoggingLevel level, const std::string& text) const {
    if (logger_)
      api.ort->ReleaseStatus(
          api.ort->Logger_LogMessage(logger_, level, ("Weft: " + text).c_str(), ORT_FILE, 0, "weft"));
  }
  const OrtLogger* logger_;
};

}  // namespace weft::ort
