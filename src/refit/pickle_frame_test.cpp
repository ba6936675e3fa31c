#include "refit/pickle_frame.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace rlgen::refit {
namespace {

std::span<const std::byte> as_frame(std::string_view text) {
  return std::as_bytes(std::span(text));
}

std::string from_hex(std::string_view hex) {
  std::string out;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    out.push_back(char(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  }
  return out;
}

const IpcFrame kBatch{.complete = false,
                      .buffer = "/psm_1",
                      .buffer_bytes = 70000,
                      .names = {"a.weight", "b.weight"},
                      .used_bytes = 1024};

// What Python 3.11 writes for (("rlgen_shm", "/psm_1", 70000), ["a.weight", "b.weight"], 1024).
constexpr std::string_view kProtocol4 =
    "8004953c000000000000008c09726c67656e5f73686d948c062f70736d5f31944a701101008794"
    "5d94288c08612e776569676874948c08622e77656967687494654d00048794"
    "2e";
constexpr std::string_view kProtocol2 =
    "80025809000000726c67656e5f73686d710058060000002f70736d5f3171014a7011010087"
    "71025d7103285808000000612e77656967687471045808000000622e7765696768747105654d000487"
    "71062e";

TEST(PickleFrame, T18_ReadsWhatPythonWrites) {
  for (const std::string_view hex : {kProtocol4, kProtocol2}) {
    const auto frame = read_frame(as_frame(from_hex(hex)));
    ASSERT_TRUE(frame.ok()) << frame.status();
    EXPECT_EQ(*frame, kBatch);
  }
}

// What Python 3.11 writes for (("rlgen_shm", "/psm_1", 70000, ["bfloat16 [2, 3]", "float32 [4]"]),
// ["a.weight", "b.weight"], 1024).
constexpr std::string_view kWithLayouts =
    "8004956100000000000000288c09726c67656e5f73686d948c062f70736d5f31944a70110100"
    "5d94288c0f62666c6f61743136205b322c20335d948c0b666c6f61743332205b345d94657494"
    "5d94288c08612e776569676874948c08622e77656967687494654d000487942e";

TEST(PickleFrame, T18_ReadsTypesAndShapesOfASenderThatTellsThem) {
  IpcFrame told = kBatch;
  told.layouts = {ipc_layout(DType::kBFloat16, {2, 3}), ipc_layout(DType::kFloat32, {4})};
  const auto frame = read_frame(as_frame(from_hex(kWithLayouts)));
  ASSERT_TRUE(frame.ok()) << frame.status();
  EXPECT_EQ(*frame, told);
  told.layouts.pop_back();
  EXPECT_NE(message_of(read_frame(as_frame(write_frame(told))).status()).find("2 names and"),
            std::string::npos);
}

TEST(PickleFrame, ReadsCompleteAsEveryPythonWritesIt) {
  const std::string by_value = write_frame({.complete = true, .buffer = {}, .names = {}});
  const std::string by_name = from_hex(
      "80048c086275696c74696e738c0767657461747472938c016d8c0b49504350726f746f636f6c938c08434f4d504c"
      "45544586522e");
  const std::string old_global =
      std::string("\x80\x02") + "cm\nIPCProtocol\n" + from_hex("5808000000636f6d706c65746585522e");
  const std::string plain = from_hex("80048c08636f6d706c6574652e");
  for (const std::string& bytes : {by_value, by_name, old_global, plain}) {
    const auto frame = read_frame(as_frame(bytes));
    ASSERT_TRUE(frame.ok()) << frame.status();
    EXPECT_TRUE(frame->complete);
  }
}

TEST(PickleFrame, NamesThatPythonSharesAreReadOut) {
  // (("rlgen_shm", "x", 1), ["x", "x"], 1): the second and third "x" are recalled from the memo.
  const auto frame = read_frame(
      as_frame(from_hex("80048c09726c67656e5f73686d948c0178944b0187945d942868016801654b018794"
                        "2e")));
  ASSERT_TRUE(frame.ok()) << frame.status();
  EXPECT_EQ(frame->names, (std::vector<std::string>{"x", "x"}));
}

TEST(PickleFrame, NothingElseIsRead) {
  const auto refuse = [](const std::string& bytes, std::string_view why) {
    const auto frame = read_frame(as_frame(bytes));
    ASSERT_FALSE(frame.ok()) << why;
    EXPECT_EQ(frame.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(message_of(frame.status()).find(why), std::string::npos) << frame.status();
  };
  refuse("", "cut off");
  refuse("ack", "lacks a value");
  refuse(std::string("\x80\x09.", 3), "unknown protocol");
  refuse(from_hex("80044e2e"), "no triple");
  refuse(from_hex("80044e4e4e872e"), "no ('rlgen_shm', name, size,");
  // os.system("x"): a call, which is never made.
  refuse(from_hex("80048c026f738c0673797374656d938c017885522e"), "no triple");
  refuse(from_hex("8004473ff00000000000002e"), "opcode 0x47");
  refuse(from_hex("80047d2e"), "opcode 0x7d");
  std::string deep("\x80\x04N");
  deep.append(10000, '\x85');
  refuse(deep + ".", "nested too deeply");
  IpcFrame negative = kBatch;
  negative.used_bytes = -1;
  refuse(write_frame(negative), "how many bytes");
  negative = kBatch;
  negative.buffer_bytes = -5;
  refuse(write_frame(negative), "no size");
  refuse(from_hex("8004288c09726c67656e5f73686d8c01784b014b02745d4b00872e"), "list of layouts");
  const std::string good = write_frame(kBatch);
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_FALSE(read_frame(as_frame(good).first(size)).ok()) << size;
  }
  refuse(good + "x", "goes on after its end");
}

RC_GTEST_PROP(PickleFrame, ReadsWhatItWrites, ()) {
  IpcFrame frame = kBatch;
  frame.buffer_bytes = *rc::gen::inRange<int64_t>(0, INT64_MAX);
  frame.used_bytes = *rc::gen::inRange<int64_t>(0, INT64_MAX);
  frame.names.clear();
  const int count = *rc::gen::inRange(0, 20);
  for (int i = 0; i < count; ++i) {
    frame.names.emplace_back(size_t(*rc::gen::inRange(0, 400)), char('a' + i));
  }
  if (*rc::gen::arbitrary<bool>()) frame.layouts = frame.names;
  const auto read = read_frame(as_frame(write_frame(frame)));
  RC_ASSERT(read.ok());
  RC_ASSERT(*read == frame);
}

RC_GTEST_PROP(PickleFrame, NeverDiesOfBytes, ()) {
  IpcFrame frame = kBatch;
  if (*rc::gen::arbitrary<bool>()) frame.layouts = frame.names;
  std::string bytes = write_frame(frame);
  const int changes = *rc::gen::inRange(1, 8);
  for (int i = 0; i < changes; ++i) {
    bytes[size_t(*rc::gen::inRange(0, int(bytes.size())))] = char(*rc::gen::inRange(0, 256));
  }
  read_frame(as_frame(bytes)).status().IgnoreError();
}

}  // namespace
}  // namespace rlgen::refit
