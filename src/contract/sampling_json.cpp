#include "contract/sampling_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/edit_distance.h"
#include "contract/json_value.h"
#include "contract/limits.h"

namespace rlgen {
namespace {

using nlohmann::json;

Status read_member(const JsonField& field, bool* out) { return read_json(field, out); }
Status read_member(const JsonField& field, float* out) { return read_json(field, out); }
Status read_member(const JsonField& field, std::string* out) { return read_json(field, out); }

// The only whole numbers in lists. Which of them there are, the vocabulary says.
Status read_member(const JsonField& field, int32_t* out) {
  constexpr WholeRange kTokenIds{std::numeric_limits<int32_t>::min(), kMostInt32, 1, "a token id"};
  return read_whole(field, kTokenIds, out);
}

template <typename T>
Status read_member(const JsonField& field, std::vector<T>* out);

template <typename T>
Status read_member(const JsonField& field, std::optional<T>* out) {
  if (!field.value.is_null()) return read_member(field, &out->emplace());
  out->reset();
  return absl::OkStatus();
}

// null is no element.
template <typename T>
Status read_member(const JsonField& field, std::vector<T>* out) {
  out->clear();
  if (field.value.is_null()) return absl::OkStatus();
  if (!field.value.is_array()) return wrong_type(field, "a list");
  for (size_t i = 0; i < field.value.size(); ++i) {
    const JsonField element{fmt::format("{}[{}]", field.name, i), field.value[i]};
    RLGEN_RETURN_IF_ERROR(read_member(element, &out->emplace_back()));
  }
  return absl::OkStatus();
}

Status read_top_k(const JsonField& field, int32_t* out) {
  if (!field.value.is_null()) return read_whole(field, kTopKRange, out);
  *out = -1;
  return absl::OkStatus();
}

Status read_stop(const JsonField& field, std::vector<std::string>* out) {
  if (!field.value.is_string()) return read_member(field, out);
  *out = {field.value.get<std::string>()};
  return absl::OkStatus();
}

Status read_mode(const JsonField& field, LogprobsMode* out) {
  std::string name;
  RLGEN_RETURN_IF_ERROR(read_json(field, &name));
  const StatusOr<LogprobsMode> mode = parse_logprobs_mode(name);
  if (!mode.ok()) return wrong_type(field, "raw, tempered or processed");
  *out = *mode;
  return absl::OkStatus();
}

Status read_bias(const JsonField& field, std::vector<std::pair<int32_t, float>>* out) {
  if (field.value.is_null()) {
    out->clear();
    return absl::OkStatus();
  }
  if (!field.value.is_object()) return wrong_type(field, "an object of token id to number");
  std::vector<std::pair<int32_t, float>> biases;
  for (const auto& [key, value] : field.value.items()) {
    const JsonField entry{fmt::format("{}.{}", field.name, key), value};
    int32_t id = 0;
    const auto end = key.data() + key.size();
    const auto [stopped, failure] = std::from_chars(key.data(), end, id);
    if (failure != std::errc() || stopped != end) {
      return absl::InvalidArgumentError(fmt::format(
          "{}: \"{}\" is no token id; write the id as a decimal string", field.name, key));
    }
    float bias = 0.0f;
    RLGEN_RETURN_IF_ERROR(read_json(entry, &bias));
    biases.emplace_back(id, bias);
  }
  *out = std::move(biases);
  return absl::OkStatus();
}

using Reader = Status (*)(const JsonField& field, SamplingParams* params);
using Writer = nlohmann::ordered_json (*)(const SamplingParams& params);

struct Entry {
  std::string_view key;
  Reader read;
  Writer write;
};

// The double whose shortest text is the shortest text of `value`: 0.7f prints as 0.7.
double shortest(float value) {
  std::array<char, 32> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  double result = 0.0;
  std::from_chars(text.data(), end, result);
  return result;
}

template <typename T>
nlohmann::ordered_json to_json_value(const T& value) {
  return value;
}
nlohmann::ordered_json to_json_value(float value) { return shortest(value); }
template <typename T>
nlohmann::ordered_json to_json_value(const std::optional<T>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

// Reads and writes the member as its type says.
template <auto Member>
constexpr Entry plain(std::string_view key) {
  return {key,
          [](const JsonField& field, SamplingParams* params) {
            return read_member(field, &(params->*Member));
          },
          [](const SamplingParams& params) { return to_json_value(params.*Member); }};
}

template <auto Member, const WholeRange& Range>
constexpr Entry whole(std::string_view key) {
  return {key,
          [](const JsonField& field, SamplingParams* params) {
            return read_whole(field, Range, &(params->*Member));
          },
          [](const SamplingParams& params) { return to_json_value(params.*Member); }};
}

nlohmann::ordered_json write_bias(const SamplingParams& params) {
  auto object = nlohmann::ordered_json::object();
  for (const auto& [id, bias] : params.logit_bias) object[std::to_string(id)] = shortest(bias);
  return object;
}

using P = SamplingParams;
constexpr std::array kEntries = {
    plain<&P::temperature>("temperature"),
    Entry{"top_k", [](const JsonField& f, P* p) { return read_top_k(f, &p->top_k); },
          [](const P& p) { return to_json_value(p.top_k); }},
    plain<&P::top_p>("top_p"),
    plain<&P::min_p>("min_p"),
    plain<&P::repetition_penalty>("repetition_penalty"),
    plain<&P::presence_penalty>("presence_penalty"),
    plain<&P::frequency_penalty>("frequency_penalty"),
    Entry{"logit_bias", [](const JsonField& f, P* p) { return read_bias(f, &p->logit_bias); },
          write_bias},
    plain<&P::allowed_token_ids>("allowed_token_ids"),
    plain<&P::bad_words>("bad_words"),
    plain<&P::bad_words_ids>("bad_words_ids"),
    whole<&P::max_tokens, kMaxTokensRange>("max_tokens"),
    whole<&P::min_tokens, kCountRange>("min_tokens"),
    plain<&P::stop_token_ids>("stop_token_ids"),
    Entry{"stop", [](const JsonField& f, P* p) { return read_stop(f, &p->stop); },
          [](const P& p) { return to_json_value(p.stop); }},
    plain<&P::include_stop_str_in_output>("include_stop_str_in_output"),
    plain<&P::ignore_eos>("ignore_eos"),
    plain<&P::skip_special_tokens>("skip_special_tokens"),
    whole<&P::output_prefix_len, kCountRange>("output_prefix_len"),
    whole<&P::seed, kSeedRange>("seed"),
    whole<&P::n, kSamplesRange>("n"),
    Entry{"logprobs_mode", [](const JsonField& f, P* p) { return read_mode(f, &p->logprobs_mode); },
          [](const P& p) {
            return nlohmann::ordered_json(std::string(logprobs_mode_name(p.logprobs_mode)));
          }},
    whole<&P::logprobs, kCountRange>("logprobs"),
    whole<&P::prompt_logprobs, kCountRange>("prompt_logprobs"),
    whole<&P::routed_experts_prompt_start, kCountRange>("routed_experts_prompt_start"),
};

const Entry* find_entry(std::string_view key) {
  for (const Entry& entry : kEntries) {
    if (entry.key == key) return &entry;
  }
  return nullptr;
}

Status unknown_key(std::string_view name, std::string_view key) {
  std::array<std::string_view, kEntries.size()> known;
  std::transform(kEntries.begin(), kEntries.end(), known.begin(),
                 [](const Entry& entry) { return entry.key; });
  return absl::InvalidArgumentError(
      fmt::format("{} is no sampling parameter{}", name, suggest(key, known)));
}

}  // namespace

Status merge_sampling_json(const json& object, std::string_view path, SamplingParams* params) {
  if (!object.is_object()) {
    return wrong_type(JsonField{path.empty() ? "sampling" : std::string(path), object},
                      "an object");
  }
  SamplingParams merged = *params;
  for (const auto& [key, value] : object.items()) {
    const std::string name = path.empty() ? key : fmt::format("{}.{}", path, key);
    const Entry* entry = find_entry(key);
    if (entry == nullptr) return unknown_key(name, key);
    RLGEN_RETURN_IF_ERROR(entry->read(JsonField{name, value}, &merged));
  }
  const Status valid = validate(merged);
  if (!valid.ok()) return path.empty() ? valid : annotate(valid, path);
  *params = std::move(merged);
  return absl::OkStatus();
}

bool is_sampling_key(std::string_view key) { return find_entry(key) != nullptr; }

nlohmann::ordered_json sampling_to_json(const SamplingParams& params) {
  auto object = nlohmann::ordered_json::object();
  for (const Entry& entry : kEntries) object[std::string(entry.key)] = entry.write(params);
  return object;
}

}  // namespace rlgen
