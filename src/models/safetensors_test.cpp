#include "models/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "models/test_files.h"

namespace rlgen::models {
namespace {

using test::image;
using test::TempFolder;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

StatusOr<std::vector<StoredTensor>> parse(const std::string& file) {
  return parse_safetensors(std::as_bytes(std::span(file)), "f.safetensors");
}

std::string file_fault(const std::string& file) {
  const auto parsed = parse(file);
  if (parsed.ok()) return "accepted";
  EXPECT_EQ(parsed.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(message_of(parsed.status()), HasSubstr("f.safetensors: "));
  return message_of(parsed.status());
}

const std::string kTwo =
    R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
    R"("b":{"dtype":"BF16","shape":[2,3],"data_offsets":[8,20]},"__metadata__":{"format":"pt"}})";

std::string one(std::string_view dtype, std::string_view shape, std::string_view offsets,
                std::string_view more = "") {
  return "{\"t\":{\"dtype\":" + std::string(dtype) + ",\"shape\":" + std::string(shape) +
         ",\"data_offsets\":" + std::string(offsets) + std::string(more) + "}}";
}

TEST(Safetensors, ReadsTensorsInTheOrderOfTheirBytes) {
  const std::string file = image(R"({"z":{"dtype":"F16","shape":[1],"data_offsets":[0,2]},)"
                                 R"("a":{"dtype":"F32","shape":[],"data_offsets":[2,6]},)"
                                 R"("e":{"dtype":"F32","shape":[0,7],"data_offsets":[6,6]}}   )",
                                 "xyabcd");
  const auto tensors = parse(file);
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  ASSERT_EQ(tensors->size(), 3u);
  EXPECT_EQ((*tensors)[0].name, "z");
  EXPECT_EQ((*tensors)[1].shape.to_string(), "[]");
  EXPECT_EQ(std::memcmp((*tensors)[1].bytes.data(), "abcd", 4), 0);
  EXPECT_EQ((*tensors)[2].bytes.size(), 0u);
}

TEST(Safetensors, FB172_HeaderLengthFitsTheFile) {
  EXPECT_THAT(file_fault("short"), HasSubstr("5 bytes long"));
  EXPECT_THAT(file_fault(image(kTwo, std::string(20, 'x')).substr(0, 40)),
              AllOf(HasSubstr("exceeds the 32 bytes"), HasSubstr("truncated")));
  std::string overflow = image(kTwo, std::string(20, 'x'));
  overflow[7] = char(0xff);
  EXPECT_THAT(file_fault(overflow), HasSubstr("exceeds the limit of 100000000"));
  std::string above(8, '\0');
  std::memcpy(above.data(), "\x01\xe1\xf5\x05", 4);  // 100,000,001
  EXPECT_THAT(file_fault(above), HasSubstr("header length 100000001 exceeds the limit"));
  std::string limit(8, '\0');
  std::memcpy(limit.data(), "\x00\xe1\xf5\x05", 4);
  EXPECT_THAT(file_fault(limit), HasSubstr("header length 100000000 exceeds the 0 bytes"));
}

TEST(Safetensors, FB172_FirstByteOpensAnObject) {
  EXPECT_THAT(file_fault(image(" " + kTwo, std::string(20, 'x'))),
              HasSubstr("begins with byte 0x20"));
  EXPECT_THAT(file_fault(image("[]")), HasSubstr("begins with byte 0x5b"));
  EXPECT_THAT(file_fault(image("")), HasSubstr("header is empty"));
}

TEST(Safetensors, FB172_RangesLieInsideTheFile) {
  EXPECT_THAT(
      file_fault(image(kTwo, std::string(19, 'x'))),
      AllOf(HasSubstr("tensor \"b\""), HasSubstr("ends at byte 20"), HasSubstr("19 bytes")));
  EXPECT_THAT(
      file_fault(image(one("\"U8\"", "[1]", "[18446744073709551615,18446744073709551615]"), "x")),
      HasSubstr("ends at byte 18446744073709551615"));
  EXPECT_THAT(file_fault(image(one("\"U8\"", "[1]", "[1,0]"), "x")),
              HasSubstr("begin at 1 and end at 0"));
}

TEST(Safetensors, FB172_NoOverlapNoGapNoTrailingBytes) {
  const auto pair = [](std::string_view second) {
    return R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],)"
           R"("data_offsets":)" +
           std::string(second) + "}}";
  };
  EXPECT_EQ(file_fault(image(pair("[4,8]"), "12345678")), "accepted");
  EXPECT_THAT(
      file_fault(image(pair("[3,7]"), "1234567")),
      AllOf(HasSubstr("tensor \"b\""), HasSubstr("begins at byte 3"), HasSubstr("overlap")));
  EXPECT_THAT(file_fault(image(pair("[0,4]"), "1234")), HasSubstr("overlap"));
  EXPECT_THAT(file_fault(image(pair("[5,9]"), "123456789")),
              AllOf(HasSubstr("begins at byte 5"), HasSubstr("ends at byte 4")));
  EXPECT_THAT(file_fault(image(pair("[4,8]"), "123456789")),
              AllOf(HasSubstr("ends at byte 8"), HasSubstr("9 bytes"), HasSubstr("trailing")));
  EXPECT_THAT(file_fault(image(one("\"U8\"", "[1]", "[1,2]"), "12")),
              HasSubstr("begins at byte 1"));
}

TEST(Safetensors, FB172_SizeIsShapeTimesType) {
  EXPECT_THAT(file_fault(image(one("\"F32\"", "[2]", "[0,4]"), "1234")),
              AllOf(HasSubstr("span 4 bytes"), HasSubstr("[2] of F32 needs 8")));
  EXPECT_THAT(file_fault(image(one("\"F64\"", "[4611686018427387904]", "[0,0]"))),
              HasSubstr("more than fit 64 bits"));
  EXPECT_NE(file_fault(image(one("\"U8\"", "[4294967296,4294967296,4294967296]", "[0,0]"))),
            "accepted");
}

TEST(Safetensors, FB172_NamesAppearOnce) {
  const std::string entry = R"({"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  EXPECT_THAT(file_fault(image("{\"t\":" + entry + ",\"t\":" + entry + "}", "x")),
              HasSubstr("key \"t\" appears twice"));
}

TEST(Safetensors, RefusesEntriesOfTheWrongForm) {
  EXPECT_THAT(file_fault(image("{\"t\":1}")), HasSubstr("tensor \"t\": header entry is 1"));
  EXPECT_THAT(file_fault(image(R"({"t":{"dtype":"F32","shape":[1]}})")),
              HasSubstr("no data_offsets"));
  EXPECT_THAT(file_fault(image(one("\"F32\"", "[1]", "[0,4]", ",\"x\":1"), "1234")),
              HasSubstr("unknown header field \"x\""));
  EXPECT_THAT(file_fault(image(one("\"F31\"", "[1]", "[0,4]"), "1234")),
              HasSubstr("dtype is \"F31\""));
  EXPECT_THAT(file_fault(image(one("7", "[1]", "[0,4]"), "1234")), HasSubstr("dtype is 7"));
  EXPECT_THAT(file_fault(image(one("\"F32\"", "[-1]", "[0,4]"), "1234")), HasSubstr("no size: -1"));
  EXPECT_THAT(file_fault(image(one("\"F32\"", "[1.0]", "[0,4]"), "1234")),
              HasSubstr("no size: 1.0"));
  EXPECT_THAT(file_fault(image(one("\"F32\"", "1", "[0,4]"), "1234")),
              HasSubstr("shape is not a list"));
  EXPECT_THAT(file_fault(image(one("\"F32\"", "[1]", "[0]"), "1234")),
              HasSubstr("data_offsets is [0]"));
  EXPECT_THAT(file_fault(image(one("\"F32\"", "[1]", "[0,4.5]"), "1234")),
              HasSubstr("two offsets"));
  EXPECT_THAT(file_fault(image(one("\"F32\"", "[1,1,1,1,1,1,1,1,1]", "[0,4]"), "1234")),
              HasSubstr("tensor \"t\""));
  EXPECT_THAT(file_fault(image(R"({"__metadata__":{"a":1}})")), HasSubstr("__metadata__.a is 1"));
  EXPECT_THAT(file_fault(image(R"({"__metadata__":[]})")),
              HasSubstr("__metadata__ is not an object"));
  EXPECT_THAT(file_fault(image("{" + std::string(1'000'000, '['))), HasSubstr("not valid JSON"));
  EXPECT_THAT(file_fault(image("{\"a\":" + std::string(1'000'000, '['))),
              HasSubstr("nested deeper"));
}

std::string tensor_file(std::string_view name) {
  return image("{\"" + std::string(name) + R"(":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
               "x");
}

std::string folder_fault(const TempFolder& folder, absl::StatusCode code) {
  const auto opened = SafetensorsFolder::open(folder.path());
  if (opened.ok()) return "accepted";
  EXPECT_EQ(opened.status().code(), code);
  return message_of(opened.status());
}

TEST(SafetensorsFolder, ForgetsWhatIsLeftOut) {
  TempFolder folder;
  folder.write("model.safetensors", image(kTwo, std::string(20, 'x')));
  auto opened = SafetensorsFolder::open(folder.path());
  ASSERT_TRUE(opened.ok()) << opened.status();
  opened->leave_out([](std::string_view name) { return name == "a"; });
  EXPECT_EQ(opened->find("a"), nullptr);
  ASSERT_NE(opened->find("b"), nullptr);
  EXPECT_EQ(opened->find("b")->shape, (Shape{2, 3}));
  EXPECT_EQ(opened->manifest().size(), 1u);
}

TEST(SafetensorsFolder, FB173_SingleFile) {
  TempFolder folder;
  folder.write("model.safetensors", tensor_file("a"));
  folder.write("extra.safetensors", tensor_file("b"));
  const auto opened = SafetensorsFolder::open(folder.path());
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_NE(opened->find("a"), nullptr);
  EXPECT_EQ(opened->find("b"), nullptr);
  EXPECT_THAT(opened->ignored_files(), ElementsAre("extra.safetensors"));
}

TEST(SafetensorsFolder, FB173_ShardsWithOddNames) {
  TempFolder folder;
  folder.write("weights of layer x.safetensors", tensor_file("a"));
  folder.write("7", tensor_file("b"));
  folder.write("model.safetensors.index.json",
               R"({"metadata":{},"weight_map":{"a":"weights of layer x.safetensors","b":"7"}})");
  const auto opened = SafetensorsFolder::open(folder.path());
  ASSERT_TRUE(opened.ok()) << opened.status();
  ASSERT_EQ(opened->manifest().size(), 2u);
  EXPECT_THAT(opened->find("b")->file, HasSubstr("/7"));
}

TEST(SafetensorsFolder, FB171_MissingShardsAreListedAndExtraOnesIgnored) {
  TempFolder folder;
  folder.write("1.safetensors", tensor_file("a"));
  folder.write("9.safetensors", tensor_file("a"));
  folder.write("model.safetensors.index.json",
               R"({"weight_map":{"a":"1.safetensors","b":"2.safetensors","c":"3.safetensors"}})");
  EXPECT_THAT(folder_fault(folder, absl::StatusCode::kNotFound),
              HasSubstr("2.safetensors, 3.safetensors"));
  folder.write("2.safetensors", tensor_file("b"));
  folder.write("3.safetensors", tensor_file("c"));
  const auto opened = SafetensorsFolder::open(folder.path());
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(opened->tensors().size(), 3u);
  EXPECT_THAT(opened->ignored_files(), ElementsAre("9.safetensors"));
}

TEST(SafetensorsFolder, IndexAndFilesMustAgree) {
  TempFolder folder;
  folder.write("1.safetensors", tensor_file("a"));
  folder.write("2.safetensors", tensor_file("b"));
  const auto with_index = [&](std::string_view index) {
    folder.write("model.safetensors.index.json", index);
    return folder_fault(folder, absl::StatusCode::kDataLoss);
  };
  EXPECT_THAT(with_index(R"({"weight_map":{"a":"2.safetensors","b":"1.safetensors"}})"),
              AllOf(HasSubstr("tensor \"a\" is in 2.safetensors"), HasSubstr("it is in")));
  EXPECT_THAT(with_index(R"({"weight_map":{"x":"1.safetensors"}})"), HasSubstr("but it is not"));
  EXPECT_THAT(with_index(R"({"weight_map":{"a":"../1.safetensors"}})"), HasSubstr("weight_map.a"));
  EXPECT_THAT(with_index(R"({"weight_map":{}})"), HasSubstr("weight_map is empty"));
  EXPECT_THAT(with_index("[]"), HasSubstr("no \"weight_map\""));
  folder.write("2.safetensors", tensor_file("a"));
  EXPECT_THAT(with_index(R"({"weight_map":{"a":"1.safetensors","b":"2.safetensors"}})"),
              HasSubstr("tensor \"a\" stands in both"));
  folder.write("2.safetensors", image(R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                                      R"("c":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                                      "xy"));
  EXPECT_THAT(with_index(R"({"weight_map":{"a":"1.safetensors","b":"2.safetensors"}})"),
              HasSubstr("tensor \"c\" is not listed"));
}

TEST(SafetensorsFolder, SaysWhatToDoWithoutWeights) {
  TempFolder folder;
  EXPECT_THAT(folder_fault(folder, absl::StatusCode::kNotFound),
              HasSubstr("neither model.safetensors nor"));
  folder.write("pytorch_model.bin", "x");
  EXPECT_THAT(folder_fault(folder, absl::StatusCode::kNotFound), HasSubstr("save it again"));
}

}  // namespace
}  // namespace rlgen::models
