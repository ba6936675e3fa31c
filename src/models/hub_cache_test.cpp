#include "models/hub_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/test_files.h"

namespace rlgen::models {
namespace {

using test::TempFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string search_fault(const std::string& repository, const TempFolder& cache) {
  const auto found = find_in_hub_cache(repository, cache.path());
  if (found.ok()) return "found";
  EXPECT_EQ(found.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(message_of(found.status()), HasSubstr("hf download " + repository));
  return message_of(found.status());
}

TEST(HubCache, FindsTheSnapshotOfMain) {
  TempFolder cache;
  cache.write("models--org--name/refs/main", "abc123\n");
  cache.write("models--org--name/snapshots/abc123/config.json", "{}");
  cache.write("models--gpt/refs/main", "1");
  cache.write("models--gpt/snapshots/1/config.json", "{}");
  EXPECT_EQ(*find_in_hub_cache("org/name", cache.path()),
            cache.path() + "/models--org--name/snapshots/abc123");
  EXPECT_EQ(*find_in_hub_cache("gpt", cache.path()), cache.path() + "/models--gpt/snapshots/1");
}

TEST(HubCache, SaysWhatIsMissing) {
  TempFolder cache;
  EXPECT_THAT(search_fault("org/name", cache),
              AllOf(HasSubstr("neither a folder nor"), HasSubstr(cache.path())));
  cache.write("models--org--name/blobs/x", "");
  EXPECT_THAT(search_fault("org/name", cache), HasSubstr("has no main revision"));
  cache.write("models--org--name/refs/main", "abc");
  EXPECT_THAT(search_fault("org/name", cache), HasSubstr("snapshots/abc, which is not there"));
}

TEST(HubCache, TellsRepositoryIdsFromPaths) {
  for (const char* id : {"gpt2", "org/name", "HuggingFaceTB/SmolLM2-135M-Instruct", "a.b/c_d-1"}) {
    EXPECT_TRUE(is_repository_id(id)) << id;
  }
  for (const char* path : {"", "/a", "a/", "a/b/c", "./a", "../a", "a b", "~/x", "a//b"}) {
    EXPECT_FALSE(is_repository_id(path)) << path;
  }
}

}  // namespace
}  // namespace rlgen::models
