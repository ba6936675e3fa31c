#include "contract/config/generation_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "contract/json_object.h"

namespace rlgen {
namespace {

using nlohmann::json;

constexpr int32_t kHighestPortNumber = 65535;

// Sections of other backends, and keys that only they know.
constexpr std::array<std::string_view, 12> kForeignKeys = {
    "vllm_cfg",        "vllm_kwargs",   "sglang_cfg", "sglang_kwargs",
    "trtllm_cfg",      "trtllm_kwargs", "dynamo_cfg", "mcore_generation_config",
    "remote_vllm_cfg", "quant_cfg",     "refit_cfg",  "real_quant_export_cpu_offload"};

// A key that asks for what this backend lacks, and the value that does not.
struct RefusedSwitch {
  std::string_view key;
  bool allowed;
  std::string_view why;
};
constexpr std::array<RefusedSwitch, 5> kRefusedSwitches = {
    {{"use_async_rollouts", true, "rollouts of this backend are always asynchronous"},
     {"_draft_weights_from_refit", false, "there is no draft model"},
     {"_mtp_weights_from_refit", false, "there is no draft model"},
     {"_draft_full_refit", false, "there is no draft model"},
     {"_debug_payload_metrics", false, "no payload passes through Ray here"}}};

Status refuse(std::string_view name, const json& value, std::string_view why,
              std::string_view remedy) {
  return absl::UnimplementedError(
      fmt::format("{} is {}, which backend \"rlgen\" does not support: {}; {}", name, value.dump(),
                  why, remedy));
}

void read_switches(JsonObject* object) {
  for (const RefusedSwitch& refused : kRefusedSwitches) {
    bool value = refused.allowed;
    object->take(refused.key, &value);
    if (value == refused.allowed) continue;
    object->note(refuse(object->name_of(refused.key), value, refused.why,
                        fmt::format("leave it out or set it to {}", refused.allowed)));
  }
  const json* transport = object->find("refit_transport");
  if (transport != nullptr && !transport->is_null()) {
    object->note(refuse(object->name_of("refit_transport"), *transport,
                        "weights come by the transport of the topology", "set it to null"));
  }
  if (object->find("checkpoint_engine") != nullptr) {
    object->note(absl::InvalidArgumentError(
        fmt::format("{} is no longer read; {} says how weights come",
                    object->name_of("checkpoint_engine"), object->name_of("refit_transport"))));
  }
}

void read_foreign(JsonObject* object, std::vector<std::string>* not_read) {
  for (const std::string_view key : kForeignKeys) {
    if (object->find(key) != nullptr) not_read->emplace_back(key);
  }
}

void read_profile(JsonObject* object, std::string_view path, std::string_view prefix,
                  GenerationSamplingParams* profile) {
  object->need(fmt::format("{}temperature", prefix), &profile->temperature);
  object->need(fmt::format("{}top_p", prefix), &profile->top_p);
  object->need(fmt::format("{}top_k", prefix), &profile->top_k);
  object->note(validate(*profile, path, prefix));
}

// A list that may be null, which means none.
void read_strings(JsonObject* object, std::string_view key, bool needed,
                  std::vector<std::string>* out) {
  std::optional<std::vector<std::string>> strings;
  if (needed) {
    object->need(key, &strings);
  } else {
    object->take(key, &strings);
  }
  if (!strings) return;
  for (size_t i = 0; i < strings->size(); ++i) {
    if (!(*strings)[i].empty()) continue;
    object->note(absl::InvalidArgumentError(
        fmt::format("{}[{}] is \"\"; a string to look for is not empty", object->name_of(key), i)));
  }
  *out = *std::move(strings);
}

void check_token_ids(const JsonObject& object, std::string_view key,
                     const std::vector<int32_t>& ids, Status* error) {
  const auto bad = std::find_if(ids.begin(), ids.end(), [](int32_t id) { return id < 0; });
  if (bad == ids.end()) return;
  *error = absl::InvalidArgumentError(
      fmt::format("{} holds {}; a token id is at least 0", object.name_of(key), *bad));
}

void read_ports(JsonObject* object, GenerationConfig* config) {
  const bool low = object->take("port_range_low", &config->port_range_low);
  const bool high = object->take("port_range_high", &config->port_range_high);
  if (low != high) {
    object->note(absl::InvalidArgumentError(
        fmt::format("{} and port_range_high belong together; only one is given",
                    object->name_of("port_range_low"))));
  }
  if (!config->port_range_low || !config->port_range_high) return;
  const int32_t from = *config->port_range_low;
  const int32_t to = *config->port_range_high;
  if (from >= 1 && from <= to && to <= kHighestPortNumber) return;
  object->note(absl::InvalidArgumentError(
      fmt::format("{} is {} and port_range_high {}; they must be a range within 1 and {}",
                  object->name_of("port_range_low"), from, to, kHighestPortNumber)));
}

void read_rest(JsonObject* object, GenerationConfig* config) {
  object->need("max_new_tokens", &config->max_new_tokens);
  if (config->max_new_tokens < 1) {
    object->note(absl::InvalidArgumentError(fmt::format("{} is {}; it must be at least 1",
                                                        object->name_of("max_new_tokens"),
                                                        config->max_new_tokens)));
  }
  object->need("model_name", &config->model_name);
  object->need("stop_token_ids", &config->stop_token_ids);
  Status ids;
  if (config->stop_token_ids) {
    check_token_ids(*object, "stop_token_ids", *config->stop_token_ids, &ids);
  }
  read_strings(object, "stop_strings", true, &config->stop_strings);
  read_strings(object, "bad_words", false, &config->bad_words);
  object->take("ignore_eos", &config->ignore_eos);
  object->take("colocated", &config->colocated);
  object->take("_pad_token_id", &config->pad_token_id);
  if (config->pad_token_id) {
    check_token_ids(*object, "_pad_token_id", {*config->pad_token_id}, &ids);
  }
  object->note(ids);
  object->take("disaggregation", &config->disaggregation);
  if (config->disaggregation.enabled) {
    object->note(refuse(object->name_of("disaggregation.enabled"), true,
                        "every engine both prefills and decodes", "set it to false"));
  }
  object->take("rlgen_cfg", &config->rlgen_cfg);
}

}  // namespace

StatusOr<GenerationConfig> read_generation_config(const json& section, std::string_view path) {
  GenerationConfig config;
  JsonObject object(section, std::string(path));
  object.need("backend", &config.backend);
  if (config.backend != "rlgen") {
    object.note(absl::InvalidArgumentError(
        fmt::format("{} is \"{}\", an unknown generation backend here; supported: rlgen",
                    object.name_of("backend"), config.backend)));
  }
  read_profile(&object, path, "", &config.train);
  read_profile(&object, path, "val_", &config.validation);
  read_rest(&object, &config);
  read_ports(&object, &config);
  read_switches(&object);
  read_foreign(&object, &config.not_read);
  RLGEN_RETURN_IF_ERROR(object.finish());
  config.rlgen_cfg.shard.model = config.model_name;
  return config;
}

void finalize_generation_config(const TokenizerFacts& tokenizer, const LogSink& log,
                                GenerationConfig* config) {
  if (tokenizer.pad_token_id) {
    if (config->pad_token_id && config->pad_token_id != tokenizer.pad_token_id) {
      write_log(log, LogLevel::kWarning,
                fmt::format("_pad_token_id {} has no effect: the tokenizer's pad id is {}",
                            *config->pad_token_id, *tokenizer.pad_token_id));
    }
    config->pad_token_id = tokenizer.pad_token_id;
  }
  if (!config->stop_token_ids) {
    config->stop_token_ids = config->ignore_eos ? std::vector<int32_t>() : tokenizer.eos_token_ids;
  }
  if (!config->not_read.empty()) {
    write_log(log, LogLevel::kInfo,
              fmt::format("not read, since they belong to other backends: {}",
                          fmt::join(config->not_read, ", ")));
  }
}

int32_t clamp_max_new_tokens(int32_t max_new_tokens, int64_t input_length, int64_t max_model_len) {
  const int64_t room = std::max<int64_t>(max_model_len - input_length, 0);
  return static_cast<int32_t>(std::min<int64_t>(max_new_tokens, room));
}

std::vector<std::string> merge_stop_strings(const std::vector<std::string>& configured,
                                            const std::vector<std::string>& own) {
  std::vector<std::string> merged;
  for (const auto* list : {&configured, &own}) {
    for (const std::string& string : *list) {
      if (std::find(merged.begin(), merged.end(), string) == merged.end()) {
        merged.push_back(string);
      }
    }
  }
  return merged;
}

}  // namespace rlgen
