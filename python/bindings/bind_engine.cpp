#include "bindings/bind_engine.h"

#include <fmt/format.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "bindings/engine.h"
#include "bindings/errors.h"
#include "bindings/watch.h"
#include "contract/sampling_json.h"

namespace rlgen::python {
namespace {

namespace nb = nanobind;
using namespace nb::literals;

using WideIds = std::vector<int64_t>;

// What Python hands over as a prompt: text, or ids, or (`messages`) a conversation as JSON.
struct PromptWords {
  std::variant<std::string, WideIds> prompt;
  bool messages = false;
  std::string tools;
  std::string template_kwargs;
};

std::vector<int32_t> narrow(const char* field, const WideIds& ids) {
  std::vector<int32_t> narrow;
  narrow.reserve(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] > std::numeric_limits<int32_t>::max()) {
      throw StatusError(
          absl::InvalidArgumentError(fmt::format("{}[{}] is {}, no token id", field, i, ids[i])));
    }
    narrow.push_back(static_cast<int32_t>(ids[i]));
  }
  return narrow;
}

using RouteArray = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;

// What Python gives as routes: whole numbers of any type.
GivenRoutes to_routes(const std::optional<RouteArray>& array) {
  if (!array) return nullptr;
  using Code = nb::dlpack::dtype_code;
  std::optional<DType> dtype;
  for (const DType integer : {DType::kUInt8, DType::kInt8, DType::kUInt16, DType::kInt16,
                              DType::kUInt32, DType::kInt32, DType::kUInt64, DType::kInt64}) {
    const bool is_signed = torch_name(integer).front() == 'i';
    const nb::dlpack::dtype type{static_cast<uint8_t>(is_signed ? Code::Int : Code::UInt),
                                 static_cast<uint8_t>(8 * size_of(integer)), 1};
    if (array->dtype() == type) dtype = integer;
  }
  if (!dtype) {
    throw StatusError(absl::InvalidArgumentError("routed_experts must be whole numbers"));
  }
  std::vector<int64_t> sizes;
  for (size_t axis = 0; axis < array->ndim(); ++axis) {
    sizes.push_back(static_cast<int64_t>(array->shape(axis)));
  }
  const Shape shape = unwrap(Shape::make(sizes));
  const auto* data = static_cast<const std::byte*>(array->data());
  return std::make_shared<const HostTensor>(unwrap(narrow_routes(dense_view(data, *dtype, shape))));
}

generation::Prompt to_prompt(PromptWords words) {
  if (const auto* ids = std::get_if<WideIds>(&words.prompt))
    return narrow("prompt_token_ids", *ids);
  std::string text = std::get<std::string>(std::move(words.prompt));
  if (!words.messages) return generation::TextPrompt{std::move(text)};
  return generation::ChatPrompt{.messages = std::move(text),
                                .tools = std::move(words.tools),
                                .template_kwargs = std::move(words.template_kwargs)};
}

std::vector<std::vector<Rollout>> generate(Engine& engine,
                                           const std::vector<const Request*>& requests,
                                           bool detokenize, nb::object progress) {
  Watch watch(std::move(progress));
  auto result = [&] {
    const nb::gil_scoped_release unlocked;
    return engine.run(
        requests, detokenize, [&watch] { return watch.interrupted(); },
        [&watch](const generation::BatchProgress& news) { watch.report(news); });
  }();
  watch.raise_again();
  return unwrap(std::move(result));
}

std::unique_ptr<Engine> open_engine(const std::string& model, const std::string& dtype,
                                    const std::string& activation_dtype,
                                    const std::string& kv_cache_dtype, const std::string& isa,
                                    int64_t kv_cache_memory_bytes, double kv_cache_memory_fraction,
                                    int32_t block_size, int32_t max_num_seqs,
                                    int32_t max_num_batched_tokens, int32_t max_model_len,
                                    bool enable_prefix_caching, bool enable_return_routed_experts,
                                    const std::string& routed_experts_layers, int32_t num_threads,
                                    int32_t shards) {
  ShardSpec spec{.model = model,
                 .num_threads = num_threads,
                 .isa = isa,
                 .dtype = dtype,
                 .activation_dtype = activation_dtype,
                 .kv_cache_dtype = kv_cache_dtype,
                 .kv_cache_memory_bytes = kv_cache_memory_bytes,
                 .kv_cache_memory_fraction = kv_cache_memory_fraction,
                 .block_size = block_size,
                 .max_num_seqs = max_num_seqs,
                 .max_num_batched_tokens = max_num_batched_tokens,
                 .max_model_len = max_model_len,
                 .enable_prefix_caching = enable_prefix_caching,
                 .enable_return_routed_experts = enable_return_routed_experts,
                 .routed_experts_layers = routed_experts_layers};
  const nb::gil_scoped_release unlocked;
  return unwrap(Engine::open({.spec = std::move(spec), .shards = shards}));
}

Request make_request(const Engine& engine, std::variant<std::string, WideIds> prompt,
                     std::string sampling, bool messages, std::string tools,
                     std::string template_kwargs, std::optional<WideIds> score_token_ids,
                     std::string request_id, std::string cache_salt, int32_t priority,
                     const std::optional<RouteArray>& routed_experts) {
  RequestWords words{.id = std::move(request_id),
                     .prompt = to_prompt({std::move(prompt), messages, std::move(tools),
                                          std::move(template_kwargs)}),
                     .sampling = std::move(sampling),
                     .score_token_ids = std::nullopt,
                     .routed_experts = to_routes(routed_experts),
                     .cache_salt = std::move(cache_salt),
                     .priority = priority};
  if (score_token_ids) words.score_token_ids = narrow("token_ids", *score_token_ids);
  const nb::gil_scoped_release unlocked;
  return unwrap(engine.make_request(std::move(words)));
}

nb::dict info_of(const Engine& engine) {
  const ShardInfo& info = engine.info();
  nb::dict dict;
  dict["model"] = info.model;
  dict["backend"] = info.backend;
  dict["numerics"] = info.numerics.to_string();
  dict["isa"] = info.isa;
  dict["num_threads"] = info.num_threads;
  dict["vocab_size"] = info.vocab_size;
  dict["max_model_len"] = info.max_model_len;
  dict["eos_token_ids"] = info.eos_token_ids;
  dict["weight_bytes"] = info.weight_bytes;
  dict["kv_bytes_per_token"] = info.kv_bytes_per_token;
  dict["kv_capacity_tokens"] = info.kv_capacity_tokens;
  dict["has_tokenizer"] = engine.text() != nullptr;
  dict["routed_experts_layers"] = info.routes.layers;
  dict["routed_experts_top_k"] = info.routes.top_k;
  dict["num_routed_experts"] = info.routes.experts;
  return dict;
}

nb::dict metrics_of(Engine& engine) {
  const ShardMetrics metrics = [&] {
    const nb::gil_scoped_release unlocked;
    return engine.generation().metrics();
  }();
  nb::dict dict;
  dict["running"] = metrics.running;
  dict["waiting"] = metrics.waiting;
  dict["generated_tokens"] = metrics.generated_tokens;
  dict["prompt_tokens"] = metrics.prompt_tokens;
  dict["preemptions"] = metrics.preemptions;
  dict["kv_blocks_used"] = metrics.kv_blocks_used;
  dict["kv_blocks_total"] = metrics.kv_blocks_total;
  dict["kv_blocks_idle"] = metrics.kv_blocks_idle;
  dict["cache_hit_tokens"] = metrics.cache_hit_tokens;
  dict["cache_miss_tokens"] = metrics.cache_miss_tokens;
  return dict;
}

// Whether the shard answers that it serves.
bool shard_serves(Engine& engine, int64_t shard) {
  const nb::gil_scoped_release unlocked;
  return unwrap(engine.generation().shard_health(shard)).serving;
}

std::vector<std::pair<std::string, std::string>> log_of(Engine& engine) {
  static constexpr const char* kNames[] = {"debug", "info", "warning", "error"};
  std::vector<std::pair<std::string, std::string>> lines;
  for (auto& [level, text] : engine.take_log()) {
    lines.emplace_back(kNames[static_cast<size_t>(level)], std::move(text));
  }
  return lines;
}

void bind_request(nb::module_& module) {
  nb::class_<Request>(module, "Request", "A request that was found good, filled in.")
      .def_prop_ro("prompt_token_ids", [](const Request& r) { return r.get().prompt_token_ids; })
      .def_prop_ro(
          "n", [](const Request& r) { return r.get().score_token_ids ? 1 : r.get().sampling.n; })
      .def_prop_ro("seed", [](const Request& r) { return r.get().sampling.seed.value_or(0); })
      .def_prop_ro("sampling",
                   [](const Request& r) { return sampling_to_json(r.get().sampling).dump(); });
  nb::class_<Mailbox>(module, "Mailbox", "Pieces on their way to one thread; poll fd.")
      .def(nb::new_([] { return unwrap(Mailbox::make()); }))
      .def_prop_ro("fd", &Mailbox::fd)
      .def("take", &Mailbox::take);
}

}  // namespace

nb::class_<Engine> bind_engine(nb::module_& module) {
  bind_request(module);
  const nb::call_guard<nb::gil_scoped_release> unlocked;
  nb::class_<Engine> engine(module, "Engine", "A loaded model with its text side.");
  engine
      .def(nb::new_(&open_engine), "model"_a, "dtype"_a, "activation_dtype"_a, "kv_cache_dtype"_a,
           "isa"_a, "kv_cache_memory_bytes"_a, "kv_cache_memory_fraction"_a, "block_size"_a,
           "max_num_seqs"_a, "max_num_batched_tokens"_a, "max_model_len"_a,
           "enable_prefix_caching"_a, "enable_return_routed_experts"_a, "routed_experts_layers"_a,
           "num_threads"_a, "shards"_a)
      .def("info", &info_of, nb::sig("def info(self) -> dict[str, typing.Any]"))
      .def("metrics", &metrics_of, nb::sig("def metrics(self) -> dict[str, int]"))
      .def("shard_serves", &shard_serves, "shard"_a)
      .def("request", &make_request, "prompt"_a, "sampling"_a, "messages"_a = false, "tools"_a = "",
           "template_kwargs"_a = "", "score_token_ids"_a = nb::none(), "request_id"_a = "",
           "cache_salt"_a = "", "priority"_a = 0, "routed_experts"_a = nb::none(),
           nb::sig("def request(self, prompt: str | collections.abc.Sequence[int], sampling: str, "
                   "messages: bool = False, tools: str = '', template_kwargs: str = '', "
                   "score_token_ids: collections.abc.Sequence[int] | None = None, request_id: str "
                   "= '', cache_salt: str = '', priority: int = 0, routed_experts: typing.Any = "
                   "None) -> Request"))
      .def("generate", &generate, "requests"_a, "detokenize"_a = true, "progress"_a = nb::none())
      .def(
          "submit",
          [](Engine& engine, const Request& request, int64_t ticket,
             std::shared_ptr<Mailbox> mailbox) {
            return unwrap(engine.submit(request, ticket, std::move(mailbox)));
          },
          "request"_a, "ticket"_a, "mailbox"_a, unlocked)
      .def(
          "take_text",
          [](const Engine& engine, Request& request, const Piece& piece) {
            return unwrap(request.take_text(engine.text(), piece));
          },
          "request"_a, "piece"_a)
      .def(
          "cancel",
          [](Engine& engine, const std::vector<SequenceId>& ids) {
            check(engine.generation().cancel(ids));
          },
          "ids"_a, unlocked)
      .def(
          "check_progress", [](Engine& engine) { check(engine.generation().check_progress()); },
          unlocked)
      .def(
          "encode",
          [](const Engine& engine, const std::string& text, bool special) {
            return unwrap(engine.encode(text, special));
          },
          "text"_a, "add_special_tokens"_a = true, unlocked)
      .def(
          "decode",
          [](const Engine& engine, const std::vector<int32_t>& ids, bool skip) {
            return unwrap(engine.decode(ids, skip));
          },
          "token_ids"_a, "skip_special_tokens"_a = true, unlocked)
      .def(
          "in_flight", [](Engine& engine) { return engine.generation().in_flight(); }, unlocked)
      .def("take_log", &log_of)
      .def(
          "shutdown", [](Engine& engine) { check(engine.shutdown()); }, unlocked);
  return engine;
}

}  // namespace rlgen::python
