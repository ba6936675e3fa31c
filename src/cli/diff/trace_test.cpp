#include "cli/diff/trace.h"

#include <gtest/gtest.h>

#include "cli/diff/trace_file.h"
#include "models/test_files.h"

namespace rlgen::cli {
namespace {

using models::ForwardPoint;

constexpr Point kTracedQkv{ForwardPoint::kQkv, 0};
constexpr Point kLogits{ForwardPoint::kLogits, -1};

const std::vector<TokenIds> kSequences = {{5, 6, 7}, {8, 9}};

// Two rows of sequence 0 from position 1, then the two of sequence 1.
models::StepBatch batch() {
  models::StepBatch batch;
  batch.token_ids = {6, 7, 8, 9};
  batch.sequences = {{.id = 0, .first_row = 0, .rows = 2, .first_position = 1},
                     {.id = 1, .first_row = 2, .rows = 2, .first_position = 0}};
  batch.wanted_rows = {1, 3};
  return batch;
}

Trace recorded() {
  TraceRecorder recorder(kSequences);
  const std::vector<float> qkv = {10, 11, 20, 21, 30, 31, 40, 41};
  const std::vector<float> logits = {1, 2, 3, 4, 5, 6};
  recorder.on_rows(batch(), {ForwardPoint::kQkv, 0, qkv.data(), 2, false});
  recorder.on_rows(batch(), {ForwardPoint::kLogits, -1, logits.data(), 3, true});
  recorder.set_recording(false);
  recorder.on_rows(batch(), {ForwardPoint::kQkv, 1, qkv.data(), 2, false});
  return recorder.take();
}

std::vector<float> row(const Trace& trace, size_t sequence, const Point& point, int64_t position) {
  const auto values = trace[sequence].points.at(point).row(position);
  return {values.begin(), values.end()};
}

TEST(TraceRecorder, RowsGoToTheirSequenceAndPosition) {
  const Trace trace = recorded();
  ASSERT_EQ(trace.size(), 2);
  EXPECT_EQ(trace[0].token_ids, kSequences[0]);
  EXPECT_EQ(trace[0].points.size(), 2);
  const PointRows& first = trace[0].points.at(kTracedQkv);
  EXPECT_FALSE(first.has(0));
  EXPECT_TRUE(first.has(1) && first.has(2));
  EXPECT_FALSE(first.has(3));
  EXPECT_EQ(row(trace, 0, kTracedQkv, 1), (std::vector<float>{10, 11}));
  EXPECT_EQ(row(trace, 0, kTracedQkv, 2), (std::vector<float>{20, 21}));
  EXPECT_EQ(row(trace, 1, kTracedQkv, 0), (std::vector<float>{30, 31}));
  EXPECT_EQ(row(trace, 1, kTracedQkv, 1), (std::vector<float>{40, 41}));
}

TEST(TraceRecorder, WantedRowsAloneHaveLogits) {
  const Trace trace = recorded();
  EXPECT_FALSE(trace[0].points.at(kLogits).has(1));
  EXPECT_EQ(row(trace, 0, kLogits, 2), (std::vector<float>{1, 2, 3}));
  EXPECT_FALSE(trace[1].points.at(kLogits).has(0));
  EXPECT_EQ(row(trace, 1, kLogits, 1), (std::vector<float>{4, 5, 6}));
}

TEST(TraceFile, IsReadBack) {
  const models::test::TempFolder folder;
  const std::string path = folder.path() + "/a.safetensors";
  Trace trace = recorded();
  const Status gap = write_trace(path, trace, "a test");
  EXPECT_EQ(gap.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(message_of(gap).find("0.layers.0.qkv: position 0"), std::string::npos) << gap;

  trace[0].points.erase(kLogits);
  trace[1].points.erase(kLogits);
  const std::vector<float> missing = {0.5f, -0.0f};
  trace[0].points.at(kTracedQkv).set(0, missing.data());
  ASSERT_TRUE(write_trace(path, trace, "a test").ok());
  const auto read = read_trace(path);
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->size(), 2);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ((*read)[i].token_ids, kSequences[i]);
    ASSERT_EQ((*read)[i].points.size(), 1);
    for (size_t position = 0; position < kSequences[i].size(); ++position) {
      EXPECT_EQ(row(*read, i, kTracedQkv, int64_t(position)),
                row(trace, i, kTracedQkv, int64_t(position)));
    }
  }
}

TEST(TraceFile, TheLastPositionsMayBeMissing) {
  const models::test::TempFolder folder;
  const std::string path = folder.path() + "/a.safetensors";
  Trace trace = {{.token_ids = {1, 2}, .points = {}}};
  PointRows rows(2, 1);
  const float value = 3.0f;
  rows.set(0, &value);
  trace[0].points.emplace(kTracedQkv, rows);
  ASSERT_TRUE(write_trace(path, trace, "a test").ok());
  const auto read = read_trace(path);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE((*read)[0].points.at(kTracedQkv).has(0));
  EXPECT_FALSE((*read)[0].points.at(kTracedQkv).has(1));
}

std::string tensor(const std::string& name, const std::string& dtype, const std::string& shape,
                   int begin, int end) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape +
         ",\"data_offsets\":[" + std::to_string(begin) + "," + std::to_string(end) + "]}";
}

TEST(TraceFile, OtherFilesAreRefusedWithTheTensor) {
  const models::test::TempFolder folder;
  const std::string ids = tensor("0.token_ids", "I32", "[1]", 0, 4);
  const std::string data(12, '\0');
  const auto refused = [&](const std::string& header, size_t bytes) {
    folder.write("a", models::test::image("{" + header + "}", data.substr(0, bytes)));
    const Status status = read_trace(folder.path() + "/a").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << header;
    return message_of(status);
  };
  EXPECT_NE(refused("", 0).find("no sequence"), std::string::npos);
  const auto names = [&](const std::string& header, size_t bytes, const std::string& name) {
    const std::string message = refused(header, bytes);
    EXPECT_NE(message.find("\"" + name + "\""), std::string::npos) << message;
  };
  names(tensor("model.norm.weight", "F32", "[1]", 0, 4), 4, "model.norm.weight");
  names(tensor("0.token_ids", "F32", "[1]", 0, 4), 4, "0.token_ids");
  names(tensor("0.token_ids", "I32", "[0]", 0, 0), 0, "0.token_ids");
  names(tensor("9999999.token_ids", "I32", "[1]", 0, 4), 4, "9999999.token_ids");
  names(tensor("0.logits", "F32", "[1,1]", 0, 4), 4, "0.logits");
  names(ids + "," + tensor("0.norm", "F32", "[1,1]", 4, 8), 8, "0.norm");
  names(ids + "," + tensor("0.logits", "F32", "[2,1]", 4, 12), 12, "0.logits");
  names(ids + "," + tensor("0.logits", "I32", "[1,1]", 4, 8), 8, "0.logits");
  EXPECT_NE(refused(tensor("1.token_ids", "I32", "[1]", 0, 4), 4).find("sequence 0"),
            std::string::npos);
}

}  // namespace
}  // namespace rlgen::cli
