#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>

#include "engine/weights/test_table.h"
#include "models/json_document.h"
#include "models/test_files.h"
#include "refit/fleet.h"

// Models with experts, updated and asked: what they answer, routes included, is what a fresh load
// of the same weights answers.
namespace rlgen::fleet_test {
namespace {

using ::testing::HasSubstr;

ShardSpec recording(const std::string& folder) {
  return {
      .model = folder, .num_threads = 1, .max_num_seqs = 8, .enable_return_routed_experts = true};
}

// The trainer's weights as a checkpoint: the configuration of `fixture_name`, tensors in bfloat16.
void save(const TrainerWeights& weights, const std::string& fixture_name,
          const models::test::TempFolder& folder) {
  nlohmann::json header;
  std::string data;
  for (const ManifestEntry& entry : weights.manifest()) {
    ASSERT_EQ(entry.dtype, DType::kBFloat16);
    const auto bytes = weights.bytes(entry.name);
    const auto shape = entry.shape.dims();
    header[entry.name] = {{"dtype", "BF16"},
                          {"shape", std::vector<int64_t>(shape.begin(), shape.end())},
                          {"data_offsets", {data.size(), data.size() + bytes.size()}}};
    data.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  folder.write("model.safetensors", models::test::image(header.dump(), data));
  folder.write("config.json",
               models::read_json_file(fixture(fixture_name) + "/config.json")->dump());
}

std::vector<Rollout> answers(Fleet& fleet, const std::string& round) {
  for (int i = 0; i < 3; ++i) {
    fleet.submit(round + std::to_string(i),
                 engine::test::some_ids(size_t(3 + 9 * i), 60, uint32_t(i)), sampling_of(8, i));
  }
  std::vector<Rollout> all;
  for (int i = 0; i < 3; ++i) all.push_back(fleet.wait(round + std::to_string(i)));
  return all;
}

bool same_answers(const std::vector<Rollout>& a, const std::vector<Rollout>& b) {
  return std::ranges::equal(a, b, [](const Rollout& one, const Rollout& other) {
    EXPECT_EQ(one.tokens.size(), 8u);
    EXPECT_EQ(size_t(one.routes.rows()), one.prompt_token_ids.size() + 7);
    return one.routes == other.routes &&
           std::ranges::equal(one.tokens, other.tokens, [](const auto& left, const auto& right) {
             return left.token == right.token && left.logprob == right.logprob;
           });
  });
}

// All of `weights` but `left_out`, in ranges that end anywhere, in any order.
Status write_in_ranges(const TrainerWeights& weights, const UpdateSpec& spec, WeightSink& sink,
                       const std::string& left_out = "") {
  std::mt19937 random(11);
  for (const engine::test::TensorPiece& piece : engine::test::cut_anywhere(spec, random)) {
    const std::string& name = piece.entry->name;
    if (name == left_out) continue;
    RLGEN_RETURN_IF_ERROR(
        sink.write(spec.update_id, name, piece.begin,
                   weights.bytes(name).subspan(piece.begin, piece.end - piece.begin)));
  }
  return absl::OkStatus();
}

struct ExpertCase {
  const char* served;  // the checkpoint that is loaded
  const char* sent;    // whose tensors come, with other values: grouped, or as they were
  const char* expert;  // of the loaded checkpoint
};

class ExpertUpdates : public ::testing::TestWithParam<ExpertCase> {
 protected:
  Fleet fleet_{recording(fixture(GetParam().served)), 1};
};

TEST_P(ExpertUpdates, FB084_WhatIsServedThenIsWhatAFreshLoadServes) {
  const TrainerWeights weights(GetParam().sent, 0x30);
  const std::vector<Rollout> before = answers(fleet_, "before ");
  const UpdateSpec spec{.update_id = "u", .manifest = weights.manifest()};
  ASSERT_EQ(fleet_->updates().begin(spec), absl::OkStatus());
  ASSERT_EQ(write_in_ranges(weights, spec, fleet_->updates()), absl::OkStatus());
  ASSERT_EQ(fleet_->updates().prepare("u"), absl::OkStatus());
  ASSERT_EQ(fleet_->updates().commit("u"), absl::OkStatus());
  fleet_.expect_served(weights);
  const std::vector<Rollout> after = answers(fleet_, "after ");
  const models::test::TempFolder folder;
  save(weights, GetParam().sent, folder);
  Fleet fresh(recording(folder.path()), 1);
  EXPECT_TRUE(same_answers(after, answers(fresh, "fresh ")));
  EXPECT_FALSE(same_answers(after, before));
}

TEST_P(ExpertUpdates, FB084_AMissingExpertIsNamedAndTheOldWeightsServeOn) {
  const std::string expert = GetParam().expert;
  const TrainerWeights weights(GetParam().served, 0x30);
  const std::vector<Rollout> before = answers(fleet_, "before ");
  UpdateSpec spec{.update_id = "unlisted", .manifest = weights.manifest()};
  ASSERT_EQ(std::erase_if(spec.manifest, [&](const auto& entry) { return entry.name == expert; }),
            1u);
  const Status unlisted = fleet_->updates().begin(spec);
  EXPECT_EQ(unlisted.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(message_of(unlisted), HasSubstr("\"" + expert + "\""));
  spec = {.update_id = "unsent", .manifest = weights.manifest()};
  ASSERT_EQ(fleet_->updates().begin(spec), absl::OkStatus());
  ASSERT_EQ(write_in_ranges(weights, spec, fleet_->updates(), expert), absl::OkStatus());
  const Status unsent = fleet_->updates().prepare("unsent");
  EXPECT_EQ(unsent.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(message_of(unsent), HasSubstr(expert + ": byte 0 of"));
  ASSERT_EQ(fleet_->updates().abort("unsent"), absl::OkStatus());
  EXPECT_EQ(fleet_->updates().version(), 0);
  EXPECT_TRUE(same_answers(before, answers(fleet_, "after ")));
}

// Experts, shared ones, kv_b_proj and the bias of the router among what DeepSeek-V3 is sent.
INSTANTIATE_TEST_SUITE_P(
    Models, ExpertUpdates,
    ::testing::Values(ExpertCase{"mixtral", "mixtral_grouped",
                                 "model.layers.1.block_sparse_moe.experts.5.w2.weight"},
                      ExpertCase{"deepseek_v3", "deepseek_v3",
                                 "model.layers.2.mlp.experts.15.up_proj.weight"}),
    [](const auto& info) { return std::string(info.param.served); });

}  // namespace
}  // namespace rlgen::fleet_test
