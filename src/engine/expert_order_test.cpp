#include <gtest/gtest.h>

#include "engine/core.h"
#include "engine/test_engine.h"
#include "models/weights.h"

// What a route names: the expert's place in the checkpoint, whatever the engine does with it.
namespace rlgen::engine {
namespace {

using namespace rlgen::engine::test;  // NOLINT

// The served weights with the experts of every layer `by` places further on, round and round.
std::shared_ptr<const models::WeightSet> with_moved_experts(const Loaded& loaded, int32_t by) {
  const models::WeightSet& served = *loaded.store->current();
  const models::NameTable& table = served.table();
  const int32_t experts = loaded.model.decoder.spec.experts.count;
  auto region = *Region::create(served.region()->size());
  std::memcpy(region->data(), served.region()->data(), size_t(region->size()));
  for (const models::WeightEntry& entry : table.entries) {
    const bool router = entry.name.ends_with(".mlp.gate.weight");
    if (!router && entry.form != models::NameForm::kGrouped) continue;
    const DType dtype = table.slots[size_t(entry.slot)].dtype;
    const int64_t rows = entry.rows() / experts;
    std::vector<std::byte> expert(size_t(entry.shape.num_elements() / experts) *
                                  size_t(size_of(dtype)));
    for (int64_t e = 0; e < experts; ++e) {
      models::read_rows(table, entry, dtype, e * rows, rows, served.region()->data(),
                        expert.data());
      models::write_rows(table, entry, dtype, (e + by) % experts * rows, rows, expert.data(),
                         region->data());
    }
  }
  return std::make_shared<models::WeightSet>(served.shared_table(), region, 1, 2);
}

std::vector<int64_t> ids_of(const Outcome& outcome) {
  return *read_integers(outcome.routes.view());
}

// An expert that stands elsewhere is named by where it stands, and nothing else changes, in chunks
// and out of the cache too. There are no other ids: every expert has one place.
TEST(ExpertOrder, FB240_RoutesNamePlacesInTheCheckpoint) {
  constexpr int32_t kBy = 3;
  const Loaded loaded = load_checkpoint("qwen3_moe");
  const models::DecoderSpec& spec = loaded.model.decoder.spec;
  ASSERT_TRUE(spec.experts.normalize);  // weights of other experts do not enter, in any order
  SequenceRequest request = make_request(1, some_ids(50, spec.vocab_rows, 1), 6);
  request.sampling.ignore_eos = true;
  Settings settings;
  settings.route_capture = RouteCapture::kExpertLayers;
  const Outcome usual = Bench(loaded, settings).run(request);
  std::vector<int64_t> expected = ids_of(usual);
  for (int64_t& id : expected) id = (id + kBy) % spec.experts.count;
  const auto moved = with_moved_experts(loaded, kBy);
  for (const int32_t budget : {512, 7}) {
    settings.budget = budget;
    settings.threads = 2;
    Bench bench(loaded, settings);
    bench.core->set_weights(moved, KvPolicy::kRecompute);
    for (const int32_t cached : {0, 48}) {
      request.id = cached + 1;
      const Outcome outcome = bench.run(request);
      EXPECT_EQ(outcome.finish->cached_tokens, cached);
      EXPECT_EQ(ids_of(outcome), expected);
      Outcome renamed = outcome;
      renamed.routes = usual.routes;
      expect_same_bits(renamed, usual);
    }
  }
}

}  // namespace
}  // namespace rlgen::engine
