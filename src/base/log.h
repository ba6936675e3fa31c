#pragma once

#include <functional>
#include <string_view>

namespace rlgen {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// Where the library's messages go. Passed by value in options; empty means silence. Called from
// any thread, so it does its own locking; the text lives only during the call.
using LogSink = std::function<void(LogLevel level, std::string_view message)>;

// Calls `sink` when there is one.
inline void write_log(const LogSink& sink, LogLevel level, std::string_view message) {
  if (sink) sink(level, message);
}

}  // namespace rlgen
