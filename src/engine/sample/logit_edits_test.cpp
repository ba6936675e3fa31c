#include "engine/sample/logit_edits.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace rlgen::engine {
namespace {

using Row = std::vector<float>;
using Ids = std::vector<int32_t>;
using Words = std::vector<Ids>;

constexpr float kBanned = -std::numeric_limits<float>::infinity();

TEST(KeepOnly, BansEveryOtherId) {
  Row row = {4, 3, 2, 1};
  Row saved;
  keep_only(row, Ids{2, 0, 2, 9, -1}, &saved);
  EXPECT_EQ(row, (Row{4, kBanned, 2, kBanned}));
  keep_only(row, Ids{1}, &saved);
  EXPECT_EQ(row, Row(4, kBanned));
}

TEST(Ban, PassesOverIdsOutsideTheRow) {
  Row row = {4, 3, 2, 1};
  ban(row, Ids{1, 4, -1, 100});
  EXPECT_EQ(row, (Row{4, kBanned, 2, 1}));
}

Row after_words(const Words& words, const Ids& prompt, const Ids& output) {
  Row row(8, 1.0f);
  ban_words(row, words, prompt, output);
  return row;
}

Row without(int32_t id) {
  Row row(8, 1.0f);
  row[id] = kBanned;
  return row;
}

TEST(BanWords, FB025_OnlyTheLastIdAndOnlyRightAfterTheOthers) {
  EXPECT_EQ(after_words({{5, 6}}, {1}, {2, 5}), without(6));
  EXPECT_EQ(after_words({{5, 6}}, {1}, {5, 4}), Row(8, 1.0f));
  EXPECT_EQ(after_words({{7}}, {1}, {4}), without(7));
  EXPECT_EQ(after_words({{7}}, {}, {}), without(7));
  EXPECT_EQ(after_words({{1, 2, 3}}, {}, {9, 1, 2}), without(3));
  EXPECT_EQ(after_words({{1, 2, 3}}, {}, {2}), Row(8, 1.0f));
}

TEST(BanWords, AWordMayBeginInThePrompt) {
  EXPECT_EQ(after_words({{1, 2, 3}}, {0, 1}, {2}), without(3));
  EXPECT_EQ(after_words({{1, 2, 3}}, {1, 2}, {}), without(3));
  EXPECT_EQ(after_words({{1, 2, 3}}, {1, 2}, {4}), Row(8, 1.0f));
}

TEST(BanWords, FB024_OnlyTheGivenIdSequencesAreBanned) {
  // The two tokenisations of one word, given as ids: both, and nothing else.
  Row row(10, 1.0f);
  ban_words(row, Words{{3}, {7}}, {}, {});
  for (int32_t id = 0; id < 10; ++id) EXPECT_EQ(row[id], id == 3 || id == 7 ? kBanned : 1.0f);
}

TEST(BanWords, PassesOverEmptyAndForeignWords) {
  EXPECT_EQ(after_words({{}, {8}, {-1}}, {1}, {}), Row(8, 1.0f));
}

TEST(AddBias, AddsAndDoesNotLiftABan) {
  Row row = {1.0f, kBanned, 0.5f};
  add_bias(row, std::vector<std::pair<int32_t, float>>{{0, 2.5f}, {1, 100.0f}, {7, 1.0f}});
  EXPECT_EQ(row, (Row{3.5f, kBanned, 0.5f}));
}

Row after_penalties(const Penalties& penalties, const Row& row, const Ids& prompt,
                    const Ids& output) {
  Row edited = row;
  std::vector<uint32_t> marks;
  penalize(edited, penalties, prompt, output, &marks);
  EXPECT_EQ(marks, std::vector<uint32_t>(marks.size(), 0));
  return edited;
}

TEST(Penalize, RepetitionDividesPositiveAndMultipliesOtherLogits) {
  const Row row = {2.0f, -2.0f, 0.0f, 2.0f, kBanned};
  EXPECT_EQ(after_penalties({.repetition = 2.0f}, row, {0, 2, 0, 4}, {1, 1}),
            (Row{1.0f, -4.0f, 0.0f, 2.0f, kBanned}));
}

TEST(Penalize, PresenceAndFrequencyCountTheOutputOnly) {
  const Row row(5, 1.0f);
  EXPECT_EQ(after_penalties({.presence = 0.5f}, row, {0, 1}, {1, 2, 2}),
            (Row{1.0f, 0.5f, 0.5f, 1.0f, 1.0f}));
  EXPECT_EQ(after_penalties({.frequency = 0.25f}, row, {0, 1}, {1, 2, 2, 2}),
            (Row{1.0f, 0.75f, 0.25f, 1.0f, 1.0f}));
}

TEST(Penalize, RepetitionComesFirstAndEachIdIsTakenOnce) {
  EXPECT_EQ(after_penalties({.repetition = 2.0f, .presence = 0.5f, .frequency = 0.25f},
                            Row{4.0f, 4.0f, 4.0f}, {0, 1}, {1, 1}),
            (Row{2.0f, 1.0f, 4.0f}));
}

TEST(Penalize, NegativePenaltiesEncourage) {
  EXPECT_EQ(after_penalties({.presence = -1.0f}, Row{0.0f, 0.0f}, {}, {1}), (Row{0.0f, 1.0f}));
}

TEST(Penalize, OffChangesNothingAndIdsOutsideArePassedOver) {
  const Row row = {1.0f, -1.0f};
  EXPECT_EQ(after_penalties({}, row, {0, 1}, {0}), row);
  EXPECT_EQ(after_penalties({.repetition = 3.0f, .frequency = 1.0f}, row, {7, -1}, {2}), row);
}

}  // namespace
}  // namespace rlgen::engine
