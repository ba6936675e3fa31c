#pragma once

#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "base/log.h"

namespace rlgen {

// The names that something was said about already. Thread-safe.
class WarnedNames {
 public:
  // True the first time that `name` is asked for.
  bool first(std::string_view name);
  void forget();

 private:
  std::mutex mutex_;
  std::set<std::string, std::less<>> names_;
};

// The names of this process, which lives as long as the process.
WarnedNames& process_warned_names();

// Says, once for each name in `warned`, that backend `backend_name` cannot pause for a refit by
// itself and that the refit goes on with requests in flight.
void warn_unsupported_in_flight_refit_pause_once(std::string_view backend_name, const LogSink& log,
                                                 WarnedNames& warned = process_warned_names());

}  // namespace rlgen
