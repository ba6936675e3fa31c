#include "refit/fleet.h"

// Tensors as trainers send them: tied, under other names, of another type.
namespace rlgen::fleet_test {
namespace {

TEST(TiedWeights, FB087_FB088_TheHeadFollowsTheEmbedding) {
  constexpr const char* kTied = "llama_tied";
  const TrainerWeights changed(kTied, 0x10);
  Fleet fleet(kTied);
  ASSERT_TRUE(fleet.update(changed, KvPolicy::kRecompute).ok());
  fleet.submit("alone", {5, 6}, sampling_of(6, 1));
  const Rollout alone = fleet.wait("alone");
  // The same with the head sent beside it.
  const std::string embedding = "model.embed_tokens.weight";
  std::vector<refit::NamedTensor> both = changed.tensors();
  for (const refit::NamedTensor& tensor : changed.tensors()) {
    if (tensor.name == embedding) both.push_back({"lm_head.weight", tensor.view});
  }
  ASSERT_EQ(both.size(), changed.tensors().size() + 1);
  ASSERT_TRUE(refit::send_tensors(both, {.update_id = "both"}, fleet->updates(), nullptr).ok());
  fleet.submit("both", {5, 6}, sampling_of(6, 1));
  const Rollout with_head = fleet.wait("both");
  for (size_t i = 0; i < alone.tokens.size(); ++i) {
    EXPECT_EQ(alone.tokens[i].logprob, with_head.tokens[i].logprob);
  }
  EXPECT_EQ(fleet->read_tensor("lm_head.weight")->bytes, fleet->read_tensor(embedding)->bytes);
  // A head that differs is refused, and what served goes on.
  const TrainerWeights other(kTied, 0x24);
  both.back().view = other.tensors()[0].view;
  for (const refit::NamedTensor& tensor : other.tensors()) {
    if (tensor.name == embedding) both.back().view = tensor.view;
  }
  const Status refused =
      refit::send_tensors(both, {.update_id = "differs"}, fleet->updates(), nullptr);
  EXPECT_EQ(refused.code(), absl::StatusCode::kDataLoss) << refused;
  EXPECT_EQ(fleet->updates().version(), 2);
}

TEST(Names, FB085_WrappedNamesAreNamedAndRefused) {
  const TrainerWeights weights(kLlama, 0x10);
  Fleet fleet(kLlama);
  std::vector<refit::NamedTensor> wrapped = weights.tensors();
  for (refit::NamedTensor& tensor : wrapped) tensor.name = "module." + tensor.name;
  const Status refused =
      refit::send_tensors(wrapped, {.update_id = "w"}, fleet->updates(), nullptr);
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.message(), ::testing::HasSubstr("module.model."));
  EXPECT_EQ(fleet->updates().open_update(), std::nullopt);
}

TEST(Types, FB093_AnotherTypeIsConvertedOnlyWhereAsked) {
  const TrainerWeights weights("llama_fp16", 0x0);
  Fleet fleet("llama_fp16");
  std::vector<std::vector<float>> wide;
  std::vector<refit::NamedTensor> sent;
  for (const refit::NamedTensor& tensor : weights.tensors()) {
    wide.emplace_back(size_t(tensor.view.shape.num_elements()), 0.25f);
    sent.push_back({tensor.name, dense_view(reinterpret_cast<const std::byte*>(wide.back().data()),
                                            DType::kFloat32, tensor.view.shape)});
  }
  UpdateSpec spec{.update_id = "plain"};
  const Status refused = refit::send_tensors(sent, spec, fleet->updates(), nullptr);
  EXPECT_THAT(refused.message(), ::testing::HasSubstr("sent as float32 and stored as float16"));
  spec.update_id = "cast";
  spec.cast = true;
  ASSERT_TRUE(refit::send_tensors(sent, spec, fleet->updates(), nullptr).ok());
  const auto back = fleet->read_tensor(sent[0].name);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->entry.dtype, DType::kFloat16);
}

}  // namespace
}  // namespace rlgen::fleet_test
