#include "bindings/bind_contract.h"

#include <fmt/format.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <nlohmann/json.hpp>

#include "base/float_mode.h"
#include "bindings/errors.h"
#include "bindings/give_tensor.h"
#include "contract/batch/output_batch.h"
#include "contract/batch/route_columns.h"
#include "contract/config/generation_config.h"
#include "contract/sampling_json.h"
#include "generation/rlgen_generation.h"
#include "generation/shard_setup.h"

namespace rlgen::python {
namespace {

namespace nb = nanobind;
using namespace nb::literals;

using Profile = std::tuple<double, double, std::optional<int32_t>>;

Profile profile_of(const GenerationSamplingParams& params) {
  return {params.temperature, params.top_p, params.top_k};
}

nlohmann::json parse_config(const std::string& text) {
  const ScopedFloatMode mode(FloatMode::kGradual);
  auto parsed = nlohmann::json::parse(text, nullptr, false);
  if (parsed.is_discarded()) {
    throw StatusError(absl::InvalidArgumentError("the configuration is no JSON"));
  }
  return parsed;
}

GenerationConfig read_config(const std::string& section) {
  return unwrap(read_generation_config(parse_config(section)));
}

std::vector<std::string> refused_settings() {
  return {generation::kRefusedSettings.begin(), generation::kRefusedSettings.end()};
}

// Those and the one that is served under a condition.
std::vector<std::string> settings_to_validate() {
  std::vector<std::string> keys = refused_settings();
  keys.emplace_back(generation::kRouterReplaySetting);
  return keys;
}

void validate_settings(const std::string& master_config) {
  check(generation::RlgenGeneration::validate_settings(parse_config(master_config)));
}

std::unique_ptr<Engine> open_configured_engine(const GenerationConfig& config) {
  EngineSetup setup{.spec = generation::shard_specs(config).front(), .shards = config.dp_size()};
  setup.spec.model = config.model_name;
  setup.stall_timeout = config.rlgen_cfg.stall_timeout;
  const nb::gil_scoped_release unlocked;
  auto engine = Engine::open(std::move(setup));
  if (!engine.ok()) throw StatusError(in_config_words(engine.status()));
  return *std::move(engine);
}

// Pad id and end-of-sequence ids of the checkpoint's tokenizer.
std::pair<std::optional<int32_t>, std::vector<int32_t>> tokenizer_facts(const Engine& engine) {
  const auto* text = engine.text();
  return {text != nullptr ? text->pad_token_id() : std::nullopt, engine.info().eos_token_ids};
}

// The messages that finalising gives, as warnings.
std::vector<std::string> finalize(GenerationConfig& config, std::optional<int32_t> pad_token_id,
                                  std::vector<int32_t> eos_token_ids) {
  std::vector<std::string> said;
  const LogSink log = [&said](LogLevel, std::string_view message) { said.emplace_back(message); };
  finalize_generation_config({pad_token_id, std::move(eos_token_ids)}, log, &config);
  return said;
}

// A row whose prompt leaves no room for a token.
Rollout full_row(const Engine& engine, std::vector<int32_t> prompt_token_ids,
                 const std::string& sampling, int64_t seed) {
  Rollout rollout{.prompt_token_ids = std::move(prompt_token_ids)};
  check(merge_sampling_json(nlohmann::json::parse(sampling), "", &rollout.sampling));
  if (!rollout.sampling.seed) rollout.sampling.seed = seed;
  rollout.finish = {.reason = FinishReason::kLength, .context_full = true};
  rollout.routes = empty_route_span(engine.info().routes, 0);
  return rollout;
}

// A column of a batch, with the name of its type.
nb::tuple give_column(HostTensor tensor) {
  auto held = std::make_unique<HostTensor>(std::move(tensor));
  void* const data = held->bytes().data();
  const Shape shape = held->shape();
  const DType dtype = held->dtype();
  return nb::make_tuple(give_tensor(std::move(held), data, shape, dtype),
                        std::string(torch_name(dtype)));
}

// The columns of the batch, and what there is to say of its routes (or nothing).
nb::tuple lay_out(const Engine& engine, const std::vector<Rollout>& rollouts, int64_t pad_token_id,
                  int64_t prompt_width, const std::string& id_type,
                  const std::string& logprobs_mode) {
  const auto type = parse_torch_dtype(id_type);
  if (!type) {
    throw StatusError(
        absl::InvalidArgumentError(fmt::format("input_ids have the unknown type {}", id_type)));
  }
  OutputLayout layout{.pad_token_id = pad_token_id, .prompt_width = prompt_width, .id_type = *type};
  layout.logprobs_mode = unwrap(parse_logprobs_mode(logprobs_mode));
  layout.routes = engine.info().routes;
  GenerationOutputSpec batch = [&] {
    const nb::gil_scoped_release unlocked;
    return unwrap(make_output_batch(rollouts, layout));
  }();
  const std::string fallback = route_fallback_warning(batch);
  nb::dict columns;
  for (const OutputColumn& column : kOutputColumns) {
    HostTensor& tensor = batch.*column.tensor;
    if (!tensor.present()) continue;
    columns[nb::str(column.name.data(), column.name.size())] = give_column(std::move(tensor));
  }
  columns["finish_reasons"] = batch.finish_reasons;
  return nb::make_tuple(columns, fallback);
}

void bind_config(nb::module_& module) {
  nb::class_<GenerationConfig>(module, "GenerationSettings",
                               "The section policy.generation, read and checked.")
      .def_ro("max_new_tokens", &GenerationConfig::max_new_tokens)
      .def_ro("model_name", &GenerationConfig::model_name)
      .def_ro("stop_token_ids", &GenerationConfig::stop_token_ids)
      .def_ro("stop_strings", &GenerationConfig::stop_strings)
      .def_ro("bad_words", &GenerationConfig::bad_words)
      .def_ro("ignore_eos", &GenerationConfig::ignore_eos)
      .def_ro("pad_token_id", &GenerationConfig::pad_token_id)
      .def_ro("port_range_low", &GenerationConfig::port_range_low)
      .def_ro("port_range_high", &GenerationConfig::port_range_high)
      .def_ro("not_read", &GenerationConfig::not_read)
      .def_prop_ro("train", [](const GenerationConfig& c) { return profile_of(c.train); })
      .def_prop_ro("validation", [](const GenerationConfig& c) { return profile_of(c.validation); })
      .def_prop_ro("colocated", [](const GenerationConfig& c) { return c.colocated.enabled; })
      .def_prop_ro("dp_size", &GenerationConfig::dp_size)
      .def_prop_ro("logprobs_mode",
                   [](const GenerationConfig& c) {
                     return std::string(logprobs_mode_name(c.rlgen_cfg.logprobs_mode));
                   })
      .def_prop_ro(
          "enable_return_routed_experts",
          [](const GenerationConfig& c) { return c.rlgen_cfg.shard.enable_return_routed_experts; })
      .def_prop_ro("max_num_seqs",
                   [](const GenerationConfig& c) { return c.rlgen_cfg.shard.max_num_seqs; })
      .def("finalize", &finalize, "pad_token_id"_a.none(), "eos_token_ids"_a);
  module.def("read_generation_config", &read_config, "section"_a);
  module.def("refused_settings", &refused_settings);
  module.def("settings_to_validate", &settings_to_validate);
  module.def("validate_settings", &validate_settings, "master_config"_a);
}

}  // namespace

void bind_contract(nb::module_& module, nb::class_<Engine>& engine) {
  bind_config(module);
  engine.def_static("from_config", &open_configured_engine, "config"_a)
      .def("tokenizer_facts", &tokenizer_facts)
      .def("full_row", &full_row, "prompt_token_ids"_a, "sampling"_a, "seed"_a)
      .def("lay_out", &lay_out, "rollouts"_a, "pad_token_id"_a, "prompt_width"_a, "id_type"_a,
           "logprobs_mode"_a,
           nb::sig("def lay_out(self, rollouts: collections.abc.Sequence[Rollout], pad_token_id: "
                   "int, prompt_width: int, id_type: str, logprobs_mode: str) -> "
                   "tuple[dict[str, typing.Any], str]"));
}

}  // namespace rlgen::python
