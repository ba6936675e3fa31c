#include "bindings/bind_rollout.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <nlohmann/json.hpp>
#include <span>
#include <tuple>

#include "bindings/errors.h"
#include "bindings/give_routes.h"
#include "bindings/mailbox.h"
#include "contract/sampling_json.h"

namespace rlgen::python {
namespace {

namespace nb = nanobind;
using Records = std::vector<TokenRecord>;
using Alternatives = std::vector<std::pair<int32_t, float>>;

// One value of every record.
template <typename Value>
auto column(const Records& records, Value value) {
  std::vector<decltype(value(records.front()))> values;
  values.reserve(records.size());
  for (const TokenRecord& record : records) values.push_back(value(record));
  return values;
}

std::vector<int32_t> tokens_of(const Records& records) {
  return column(records, [](const TokenRecord& record) { return record.token; });
}

std::vector<float> logprobs_of(const Records& records) {
  return column(records, [](const TokenRecord& record) { return record.logprob; });
}

std::vector<Alternatives> top_of(const Records& records) {
  return column(records, [](const TokenRecord& record) {
    Alternatives top;
    for (const TokenLogprob& one : record.top) top.emplace_back(one.token, one.logprob);
    return top;
  });
}

nb::object stop_reason_of(const Finish& finish) {
  if (const auto* id = std::get_if<int32_t>(&finish.stop_reason)) return nb::cast(*id);
  if (const auto* text = std::get_if<std::string>(&finish.stop_reason)) return nb::cast(*text);
  return nb::none();
}

using Span = std::tuple<int32_t, int32_t, int64_t, int64_t>;

std::vector<Span> spans_of(const Rollout& rollout) {
  std::vector<Span> spans;
  for (const VersionSpan& span : rollout.version_spans()) {
    spans.emplace_back(span.begin, span.end, span.version, span.oldest_kv);
  }
  return spans;
}

void bind_finished(nb::module_& module) {
  nb::class_<Rollout>(module, "Rollout", "One finished sample.")
      .def_ro("sample", &Rollout::sample)
      .def_ro("prompt_token_ids", &Rollout::prompt_token_ids)
      .def_ro("text", &Rollout::text)
      .def_ro("numerics", &Rollout::numerics)
      .def_ro("shard", &Rollout::shard)
      .def_prop_ro("token_ids", [](const Rollout& r) { return tokens_of(r.tokens); })
      .def_prop_ro("logprobs", [](const Rollout& r) { return logprobs_of(r.tokens); })
      .def_prop_ro("top_logprobs", [](const Rollout& r) { return top_of(r.tokens); })
      .def_prop_ro("prompt_logprobs", [](const Rollout& r) { return logprobs_of(r.prompt); })
      .def_prop_ro("prompt_top_logprobs", [](const Rollout& r) { return top_of(r.prompt); })
      .def_prop_ro("version_spans", spans_of)
      .def_prop_ro(
          "routed_experts", [](const Rollout& r) { return give_routes(r.routes); },
          nb::sig("def routed_experts(self) -> typing.Any"),
          "[rows, layers, top-k] for DLPack; None where none are recorded.")
      .def_prop_ro(
          "finish_reason",
          [](const Rollout& r) { return std::string(finish_reason_name(r.finish.reason)); })
      .def_prop_ro(
          "stop_reason", [](const Rollout& r) { return stop_reason_of(r.finish); },
          nb::sig("def stop_reason(self) -> int | str | None"))
      .def_prop_ro("context_full", [](const Rollout& r) { return r.finish.context_full; })
      .def_prop_ro("truncated", &Rollout::truncated)
      .def_prop_ro("cached_tokens", [](const Rollout& r) { return r.finish.cached_tokens; })
      .def_prop_ro("seed", [](const Rollout& r) { return r.sampling.seed.value_or(0); })
      .def_prop_ro(
          "sampling", [](const Rollout& r) { return sampling_to_json(r.sampling).dump(); },
          "Every sampling parameter in force, as JSON.")
      .def_prop_ro(
          "error", [](const Rollout& r) { return to_exception(r.finish.error); },
          nb::sig("def error(self) -> Exception | None"));
}

void bind_piece(nb::module_& module) {
  nb::class_<Piece>(module, "Piece", "What came of one sample since the last piece.")
      .def_ro("ticket", &Piece::ticket)
      .def_ro("sample", &Piece::sample)
      .def_ro("rollout", &Piece::rollout)
      .def_prop_ro("token_ids", [](const Piece& p) { return tokens_of(p.tokens); })
      .def_prop_ro("logprobs", [](const Piece& p) { return logprobs_of(p.tokens); })
      .def_prop_ro("top_logprobs", [](const Piece& p) { return top_of(p.tokens); })
      .def_prop_ro(
          "routed_experts", [](const Piece& p) { return give_routes(p.routes); },
          nb::sig("def routed_experts(self) -> typing.Any"))
      .def_prop_ro("versions", [](const Piece& p) {
        return column(p.tokens, [](const TokenRecord& record) {
          return std::pair<int64_t, int64_t>(record.version, record.oldest_kv);
        });
      });
}

}  // namespace

void bind_rollout(nb::module_& module) {
  bind_finished(module);
  bind_piece(module);
}

}  // namespace rlgen::python
