#include "generation/datum_requests.h"

#include <nlohmann/json.hpp>

#include "base/cpu.h"
#include "contract/error_type.h"
#include "contract/host_tensor.h"
#include "generation/generation_fixture.h"
#include "generation/shard_setup.h"

namespace rlgen::generation {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

GenerationConfig config_of(const nlohmann::json& extra = nlohmann::json::object()) {
  nlohmann::json file{{"backend", "rlgen"},
                      {"max_new_tokens", 4},
                      {"temperature", 0.5},
                      {"top_p", 0.75},
                      {"top_k", 20},
                      {"val_temperature", 1.0},
                      {"val_top_p", 1.0},
                      {"val_top_k", nullptr},
                      {"model_name", "folder"},
                      {"stop_token_ids", {7}},
                      {"stop_strings", {"END"}}};
  file.update(extra);
  auto config = read_generation_config(file);
  EXPECT_TRUE(config.ok()) << config.status();
  finalize_generation_config({.pad_token_id = 9, .eos_token_ids = {3}}, {}, &*config);
  return *config;
}

// Rows of prompts padded with 9.
struct PromptRows {
  HostTensor ids;
  HostTensor lengths;

  GenerationDatumSpec datum() const {
    return {
        .input_ids = ids.view(), .input_lengths = lengths.view(), .stop_strings = {}, .seeds = {}};
  }
};

PromptRows rows_of(const std::vector<std::vector<int64_t>>& prompts, size_t width) {
  std::vector<int64_t> ids;
  std::vector<int64_t> lengths;
  for (std::vector<int64_t> prompt : prompts) {
    lengths.push_back(static_cast<int64_t>(prompt.size()));
    prompt.resize(width, 9);
    ids.insert(ids.end(), prompt.begin(), prompt.end());
  }
  PromptRows rows{HostTensor(DType::kInt64, Shape{static_cast<int64_t>(prompts.size()),
                                                  static_cast<int64_t>(width)}),
                  HostTensor::of(lengths)};
  EXPECT_TRUE(write_integers(ids, &rows.ids).ok());
  return rows;
}

TEST(DatumRequests, ARowIsItsPromptWithoutPaddingSampledAsConfigured) {
  const PromptRows rows = rows_of({{1, 2, 3}, {4}}, 3);
  const auto requests = datum_requests(rows.datum(), config_of({{"bad_words", {"no"}}}), {});
  ASSERT_TRUE(requests.ok()) << requests.status();
  ASSERT_EQ(requests->size(), 2);
  EXPECT_THAT((*requests)[0].prompt_token_ids, ElementsAre(1, 2, 3));
  EXPECT_THAT((*requests)[1].prompt_token_ids, ElementsAre(4));
  SamplingParams expected{.temperature = 0.5f, .top_k = 20, .top_p = 0.75f};
  expected.bad_words = {"no"};
  expected.max_tokens = 4;
  expected.stop_token_ids = {7};
  expected.stop = {"END"};
  expected.include_stop_str_in_output = true;
  EXPECT_EQ((*requests)[0].sampling, expected);
}

TEST(DatumRequests, TheProfileMayBeGivenAndGreedyWins) {
  const PromptRows rows = rows_of({{1}}, 1);
  const GenerationConfig config = config_of({{"rlgen_cfg", {{"logprobs_mode", "raw"}}}});
  auto requests = datum_requests(rows.datum(), config, {.params = config.validation});
  ASSERT_TRUE(requests.ok()) << requests.status();
  EXPECT_EQ((*requests)[0].sampling.temperature, 1.0f);
  EXPECT_FALSE((*requests)[0].sampling.top_k_on());
  EXPECT_EQ((*requests)[0].sampling.logprobs_mode, LogprobsMode::kRaw);
  requests = datum_requests(rows.datum(), config, {.greedy = true, .params = config.validation});
  EXPECT_TRUE((*requests)[0].sampling.greedy());
  EXPECT_FALSE(
      datum_requests(rows.datum(), config, {.params = GenerationSamplingParams{.top_p = 2}}).ok());
}

TEST(DatumRequests, T6_StopStringsAreThoseOfTheRowAndTheConfigured) {
  const PromptRows rows = rows_of({{1}, {2}, {3}}, 1);
  GenerationDatumSpec datum = rows.datum();
  datum.stop_strings = {{"a"}, {}, {"b", "END"}};
  const auto requests = datum_requests(datum, config_of(), {});
  ASSERT_TRUE(requests.ok()) << requests.status();
  EXPECT_THAT((*requests)[0].sampling.stop, ElementsAre("END", "a"));
  EXPECT_THAT((*requests)[1].sampling.stop, ElementsAre("END"));
  EXPECT_THAT((*requests)[2].sampling.stop, ElementsAre("END", "b"));
  const auto without = datum_requests(rows.datum(), config_of(), {});
  EXPECT_THAT((*without)[0].sampling.stop, ElementsAre("END"));
}

TEST(DatumRequests, BadBatchesAreNamed) {
  const PromptRows rows = rows_of({{1}, {2}}, 2);
  const auto error = [&](const GenerationDatumSpec& datum) {
    return datum_requests(datum, config_of(), {}).status();
  };
  GenerationDatumSpec datum = rows.datum();
  datum.stop_strings = {{"a"}};
  EXPECT_THAT(message_of(error(datum)), HasSubstr("stop_strings has 1 entries for a batch of 2"));
  datum.stop_strings = {{"a"}, {""}};
  EXPECT_THAT(message_of(error(datum)), HasSubstr("stop_strings[1]"));
  datum = rows.datum();
  datum.seeds = {1};
  EXPECT_THAT(message_of(error(datum)), HasSubstr("seeds"));
  datum.seeds = {1, -2};
  EXPECT_THAT(message_of(error(datum)), HasSubstr("seeds[1] is -2"));
  const PromptRows wide = rows_of({{int64_t{1} << 40}}, 1);
  EXPECT_THAT(message_of(error(wide.datum())), HasSubstr("1099511627776"));
  const PromptRows left = rows_of({{9, 1}}, 2);
  const HostTensor one = HostTensor::of(std::vector<int64_t>{1});
  datum = left.datum();
  datum.input_lengths = one.view();
  EXPECT_THAT(message_of(error(datum)), HasSubstr("row 0"));
  GenerationConfig without_pad = config_of();
  without_pad.pad_token_id.reset();
  EXPECT_EQ(error_kind(datum_requests(rows.datum(), without_pad, {}).status()),
            ErrorKind::kAssertionError);
}

TEST(ShardSetup, EveryEngineIsAlikeAndTheCpusAreShared) {
  EXPECT_EQ(shard_specs(config_of()).size(), 1);
  EXPECT_EQ(shard_specs(config_of())[0].num_threads, 0);
  EXPECT_EQ(shard_specs(config_of())[0].model, "folder");
  const nlohmann::json colocated{{"enabled", false},
                                 {"resources", {{"gpus_per_node", 3}, {"num_nodes", nullptr}}}};
  const auto specs = shard_specs(config_of({{"colocated", colocated}}));
  ASSERT_EQ(specs.size(), 3);
  EXPECT_EQ(specs[2].num_threads, std::max(1, static_cast<int32_t>(usable_cpus()) / 3));
  const auto given =
      shard_specs(config_of({{"colocated", colocated}, {"rlgen_cfg", {{"num_threads", 5}}}}));
  EXPECT_EQ(given[0].num_threads, 5);
}

class GenerateBatch : public GenerationTest {};

TEST_F(GenerateBatch, T3_RowsComeBackInTheirOrder) {
  auto generation = start();
  const PromptRows rows = rows_of({{1, 2, 3}, {4}}, 3);
  GenerationDatumSpec datum = rows.datum();
  datum.seeds = {11, 12};
  const auto batch = generate_batch(*generation, datum, config_of(), {});
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_EQ(batch->output_ids.shape(), (Shape{2, 5}));
  EXPECT_THAT(*read_integers(batch->output_ids.view()),
              ElementsAre(1, 2, 3, 100, 3, 4, 100, 3, 9, 9));
  EXPECT_THAT(*read_integers(batch->seeds.view()), ElementsAre(11, 12));
  EXPECT_THAT(batch->finish_reasons, ElementsAre("stop", "stop"));
}

TEST_F(GenerateBatch, T3_AnEmptyBatchNeedsNoShard) {
  auto generation = start();
  const PromptRows rows = rows_of({}, 0);
  const auto batch = generate_batch(*generation, rows.datum(), config_of(), {});
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_EQ(batch->output_ids.shape(), (Shape{0, 0}));
  EXPECT_THAT(state_->seen(), IsEmpty());
}

TEST_F(GenerateBatch, T10_NoRoomIsNoTokenAndNotTruncated) {
  auto generation = start();  // a context of 16
  const std::vector<int64_t> full(16, 5);
  const std::vector<int64_t> beyond(20, 5);
  const std::vector<int64_t> nearly(14, 5);
  const PromptRows rows = rows_of({full, nearly, beyond}, 20);
  const auto batch = generate_batch(*generation, rows.datum(), config_of(), {});
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_THAT(*read_integers(batch->generation_lengths.view()), ElementsAre(0, 2, 0));
  EXPECT_FALSE(batch->truncated.as<bool>()[0]);
  EXPECT_TRUE(batch->context_full.as<bool>()[0]);
  EXPECT_FALSE(batch->context_full.as<bool>()[1]);
  EXPECT_TRUE(batch->context_full.as<bool>()[2]);
  ASSERT_EQ(state_->seen().size(), 1);
  EXPECT_EQ(state_->seen()[0].sampling.max_tokens, 2);
}

TEST_F(GenerateBatch, ARowThatFailsIsNamed) {
  state_->script = [](const SequenceRequest& request) -> EventBatch {
    if (request.prompt_token_ids[0] != 4) return two_tokens(request);
    return {{.id = request.id,
             .finish = Finish{.reason = FinishReason::kError,
                              .error = absl::DataLossError("not finite")}}};
  };
  auto generation = start();
  const PromptRows rows = rows_of({{1}, {4}}, 1);
  const Status failed = generate_batch(*generation, rows.datum(), config_of(), {}).status();
  EXPECT_TRUE(absl::IsDataLoss(failed));
  EXPECT_THAT(message_of(failed), HasSubstr("row 1: not finite"));
  const PromptRows unknown = rows_of({{1}, {500}}, 1);
  EXPECT_THAT(message_of(generate_batch(*generation, unknown.datum(), config_of(), {}).status()),
              HasSubstr("row 1"));
}

// Routes of two experts of one layer for all tokens but the last, for row 1 for the first alone:
// at position p of any row (p + 2, 40 + p).
EventBatch two_tokens_with_routes(const SequenceRequest& request) {
  EventBatch events = two_tokens(request);
  const size_t rows = request.prompt_token_ids[0] == 4 ? 1 : request.prompt_token_ids.size() + 1;
  events[1].routes = empty_route_span({.layers = 1, .top_k = 2, .experts = 64}, 0);
  for (size_t p = 0; p < rows; ++p) {
    events[1].routes.ids.insert(events[1].routes.ids.end(), {std::byte(p + 2), std::byte(40 + p)});
  }
  return events;
}

TEST_F(GenerateBatch, T13_FB239_RoutesGoIntoTheBatchAndMissingOnesAreTold) {
  state_->info.routes = {.layers = 1, .top_k = 2, .experts = 64};
  state_->script = two_tokens_with_routes;
  std::vector<std::string> said;
  GenerationOptions options;
  options.log = [&said](LogLevel, std::string_view message) { said.emplace_back(message); };
  auto generation = start(std::move(options));
  const PromptRows rows = rows_of({{1, 2, 3}, {4, 5}, std::vector<int64_t>(16, 6)}, 16);
  const auto batch = generate_batch(*generation, rows.datum(), config_of(), {});
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_EQ(batch->routed_experts.shape(), (Shape{3, 16, 1, 2}));
  EXPECT_EQ(batch->routed_experts.dtype(), DType::kInt8);
  EXPECT_THAT(*read_integers(batch->r3_routed_experts_expected_routes.view()),
              ElementsAre(4, 3, 15));
  EXPECT_THAT(*read_integers(batch->r3_routed_experts_actual_routes.view()), ElementsAre(4, 1, 0));
  EXPECT_THAT(*read_integers(batch->r3_routed_experts_missing_routes.view()),
              ElementsAre(0, 2, 15));
  const std::vector<int64_t> ids = *read_integers(batch->routed_experts.view());
  // Places up to `delivered` have their own routes, those up to `expected` none, the rest dummies.
  const auto expect_rows = [&](size_t sample, size_t delivered, size_t expected) {
    for (size_t place = 0; place < 16; ++place) {
      const auto at = ids.begin() + ptrdiff_t(sample * 16 + place) * 2;
      const auto p = int64_t(place);
      std::vector<int64_t> want{0, 1};
      if (place < expected) want = {-1, -1};
      if (place < delivered) want = {p + 2, 40 + p};
      EXPECT_EQ(std::vector<int64_t>(at, at + 2), want) << "row " << sample << ", place " << place;
    }
  };
  expect_rows(0, 4, 4);
  expect_rows(1, 1, 3);
  expect_rows(2, 0, 15);
  ASSERT_EQ(said.size(), 1);
  EXPECT_THAT(said[0], HasSubstr("R3 router replay fallback: 2 of 3 samples lack 17 of 22 routes"));
}

}  // namespace
}  // namespace rlgen::generation
