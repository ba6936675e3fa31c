#include "models/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "models/json_document.h"
#include "models/model_digest.h"
#include "models/test_files.h"

namespace rlgen::models {
namespace {

namespace fs = std::filesystem;
using test::folder_of_fixture;
using test::TempFolder;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(OpenModel, OpensEveryTinyCheckpoint) {
  int opened = 0;
  for (const auto& entry : fs::directory_iterator("tests/fixtures/checkpoints")) {
    const auto model = open_model(entry.path().string(), 0);
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_GT(model->decoder.table->total_bytes, 0u);
    EXPECT_EQ(model->digest.size(), 32u);
    ++opened;
  }
  EXPECT_GE(opened, 17);
}

TEST(OpenModel, ShardsAndOneFileAreTheSameModel) {
  const auto single = open_model(folder_of_fixture("llama_fp16"), 0);
  const auto shards = open_model(folder_of_fixture("llama_sharded"), 0);
  ASSERT_TRUE(single.ok() && shards.ok());
  EXPECT_EQ(single->digest, shards->digest);
  ASSERT_EQ(single->tensors.tensors().size(), shards->tensors.tensors().size());
  for (const StoredTensor& tensor : single->tensors.tensors()) {
    const StoredTensor* other = shards->tensors.find(tensor.name);
    ASSERT_NE(other, nullptr);
    EXPECT_TRUE(std::ranges::equal(tensor.bytes, other->bytes)) << tensor.name;
  }
}

TEST(OpenModel, TakesStopIdsFromAllFiles) {
  const auto model = open_model(folder_of_fixture("llama_text"), 0);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(model->eos_token_ids, ElementsAre(271, 274));
  EXPECT_EQ(model->decoder.spec.eos_token_ids, model->eos_token_ids);
}

TEST(OpenModel, NamesTheScalingInForce) {
  const auto dynamic = open_model(folder_of_fixture("llama_rope_dynamic"), 112);
  ASSERT_TRUE(dynamic.ok()) << dynamic.status();
  EXPECT_EQ(dynamic->rotary_name, "dynamic@112");
  EXPECT_EQ(dynamic->max_model_len, 112);
  const auto plain = open_model(folder_of_fixture("llama"), 0);
  EXPECT_EQ(plain->rotary_name, "default");
  EXPECT_EQ(plain->max_model_len, 128);
}

TEST(OpenModel, SaysWhatIsWrongAndWhere) {
  EXPECT_EQ(open_model("/no/such/folder/here", 0).status().code(), absl::StatusCode::kNotFound);
  TempFolder folder;
  EXPECT_THAT(message_of(open_model(folder.path(), 0).status()), HasSubstr("config.json"));
  fs::copy(folder_of_fixture("llama"), folder.path(), fs::copy_options::recursive);
  ASSERT_TRUE(open_model(folder.path(), 0).ok());
  nlohmann::json config = *read_json_file(folder.path() + "/config.json");
  config["mlp_bias"] = true;
  folder.write("config.json", config.dump());
  EXPECT_THAT(message_of(open_model(folder.path(), 0).status()),
              AllOf(HasSubstr(folder.path()), HasSubstr("mlp.gate_proj.bias\" [72] is missing")));
}

TEST(OpenModel, ATiedHeadThatDiffersIsRefused) {
  TempFolder folder;
  fs::copy(folder_of_fixture("llama"), folder.path(), fs::copy_options::recursive);
  nlohmann::json config = *read_json_file(folder.path() + "/config.json");
  config["tie_word_embeddings"] = true;
  folder.write("config.json", config.dump());
  EXPECT_THAT(message_of(open_model(folder.path(), 0).status()),
              AllOf(HasSubstr("\"lm_head.weight\" differs from \"model.embed_tokens.weight\""),
                    HasSubstr("set tie_word_embeddings to false")));
}

TEST(ResolveModelPath, TakesFoldersAndLooksUpRepositories) {
  TempFolder cache;
  cache.write("models--org--name/refs/main", "abc");
  cache.write("models--org--name/snapshots/abc/config.json", "{}");
  EXPECT_EQ(*resolve_model_path(cache.path()), cache.path());
  ASSERT_EQ(setenv("HF_HUB_CACHE", cache.path().c_str(), 1), 0);
  EXPECT_EQ(*resolve_model_path("org/name"), cache.path() + "/models--org--name/snapshots/abc");
  EXPECT_THAT(message_of(resolve_model_path("org/other").status()),
              HasSubstr("hf download org/other"));
  unsetenv("HF_HUB_CACHE");
  EXPECT_THAT(message_of(resolve_model_path("/a/b/c").status()), HasSubstr("is no folder"));
}

TEST(ModelDigest, ChangesWithWhatDecidesBits) {
  const auto model = open_model(folder_of_fixture("llama"), 0);
  ASSERT_TRUE(model.ok()) << model.status();
  const NameTable& table = *model->decoder.table;
  const auto changed = [&](auto change) {
    DecoderSpec spec = model->decoder.spec;
    change(spec);
    return model_digest(spec, table) != model->digest;
  };
  EXPECT_FALSE(changed([](DecoderSpec&) {}));
  EXPECT_TRUE(changed([](DecoderSpec& spec) { spec.norm_eps = 1e-6f; }));
  EXPECT_TRUE(changed([](DecoderSpec& spec) { spec.rotary.inv_freq[3] *= 1.0001f; }));
  EXPECT_TRUE(changed([](DecoderSpec& spec) { spec.layer[1].window = 8; }));
  EXPECT_TRUE(changed([](DecoderSpec& spec) { spec.layer[0].rotary = false; }));
  EXPECT_TRUE(changed([](DecoderSpec& spec) { spec.eos_token_ids.push_back(3); }));
  NameTable other = table;
  other.entries[0].shape = Shape{1, 2};
  EXPECT_NE(model_digest(model->decoder.spec, other), model->digest);
}

TEST(OpenModel, ATypeForTheWeights) {
  const auto open = [](const std::string& name, std::optional<DType> dtype) {
    auto model = open_model(folder_of_fixture(name), 0, dtype);
    EXPECT_TRUE(model.ok()) << model.status();
    return *std::move(model);
  };
  const Model plain = open("llama", std::nullopt);
  const Model rounded = open("llama", DType::kBFloat16);
  EXPECT_NE(rounded.digest, plain.digest);
  EXPECT_NE(open("llama", DType::kFloat16).digest, rounded.digest);
  EXPECT_EQ(open("llama", DType::kFloat32).digest, plain.digest);
  const Model half = open("llama_tied", std::nullopt);
  EXPECT_EQ(open("llama_tied", DType::kBFloat16).digest, half.digest);
  EXPECT_EQ(open("llama_tied", DType::kFloat32).digest, half.digest);
  const int32_t head = rounded.decoder.slots.head;
  EXPECT_EQ(rounded.decoder.table->slots[size_t(head)].dtype, DType::kBFloat16);
  EXPECT_LT(rounded.decoder.table->total_bytes, plain.decoder.table->total_bytes);
}

}  // namespace
}  // namespace rlgen::models
