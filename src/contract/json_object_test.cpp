#include "contract/json_object.h"

#include <gmock/gmock.h>

#include "contract/error_type.h"

namespace rlgen {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

struct Pair {
  int32_t count = 7;
  std::optional<std::string> name;
};

StatusOr<Pair> read_pair(const json& value) {
  Pair pair;
  JsonObject object(value, "a.b");
  object.need("count", &pair.count);
  object.take("name", &pair.name);
  RLGEN_RETURN_IF_ERROR(object.finish());
  return pair;
}

TEST(JsonObject, ReadsWhatIsThere) {
  EXPECT_EQ(read_pair(json{{"count", 3}})->count, 3);
  EXPECT_EQ(read_pair(json{{"count", 3}, {"name", "x"}})->name, "x");
  EXPECT_EQ(read_pair(json{{"count", 3}, {"name", nullptr}})->name, std::nullopt);
}

TEST(JsonObject, MissingKeysAreListedWithThoseThatAreThere) {
  const Status error = read_pair(json{{"name", "x"}}).status();
  EXPECT_EQ(error_kind(error), ErrorKind::kAssertionError);
  EXPECT_THAT(message_of(error),
              AllOf(HasSubstr("a.b"), HasSubstr("lacks the keys count"), HasSubstr("has name")));
}

TEST(JsonObject, UnknownKeysAreNamedBeforeTheMissingOnesThatTheyMayStandFor) {
  EXPECT_THAT(message_of(read_pair(json{{"cuont", 3}}).status()),
              AllOf(HasSubstr("a.b.cuont"), HasSubstr("did you mean \"count\"")));
}

TEST(JsonObject, WrongValuesAreNamed) {
  EXPECT_THAT(message_of(read_pair(json{{"count", true}}).status()),
              HasSubstr("a.b.count is true"));
  EXPECT_THAT(message_of(read_pair(json{{"count", 3}, {"name", 4}}).status()),
              HasSubstr("a.b.name is 4"));
  EXPECT_THAT(message_of(read_pair(json::array()).status()), HasSubstr("a.b is []"));
}

}  // namespace
}  // namespace rlgen
