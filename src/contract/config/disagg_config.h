#pragma once

#include <cstdint>

#include "base/status.h"
#include "contract/json_object.h"

namespace rlgen {

// Engines that prefill and engines that decode, in words that every backend shares. Numbers are
// per replica.
struct DisaggConfig {
  bool enabled = false;
  int32_t num_prefill_engines = 1;
  int32_t num_decode_engines = 1;
  int32_t num_frontend_workers = 1;  // HTTP front ends
  bool frontend_tokenize = false;    // the front end renders the prompt and sends token ids
  int32_t frontend_base_port = 17300;

  bool operator==(const DisaggConfig&) const = default;
};

// The id of a front end has 8 bits.
inline constexpr int64_t kMostFrontends = 256;

// Every key may be absent. kInvalidArgument names a count below 1, a port outside 1 .. 65535, an
// unknown key.
Status read_json(const JsonField& field, DisaggConfig* out);

// kInvalidArgument, with the numbers, where `num_replicas` replicas have more than kMostFrontends
// front ends or need a port above 65535.
Status check_frontends(const DisaggConfig& config, int32_t num_replicas);

// frontend_base_port + replica x num_frontend_workers + frontend: another one for every front end
// of every replica. Both indices in range (asserted).
int32_t frontend_port(const DisaggConfig& config, int32_t replica, int32_t frontend);

}  // namespace rlgen
