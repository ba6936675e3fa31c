#include "contract/warn_once.h"

#include <fmt/format.h>

namespace rlgen {

bool WarnedNames::first(std::string_view name) {
  const std::lock_guard lock(mutex_);
  return names_.emplace(name).second;
}

void WarnedNames::forget() {
  const std::lock_guard lock(mutex_);
  names_.clear();
}

WarnedNames& process_warned_names() {
  static WarnedNames names;
  return names;
}

void warn_unsupported_in_flight_refit_pause_once(std::string_view backend_name, const LogSink& log,
                                                 WarnedNames& warned) {
  if (!warned.first(backend_name)) return;
  write_log(log, LogLevel::kWarning,
            fmt::format("{} cannot pause for a refit by itself; the refit goes on with requests in "
                        "flight as they are",
                        backend_name));
}

}  // namespace rlgen
