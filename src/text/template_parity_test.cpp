#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/file.h"
#include "text/chat_template.h"

// Renders what tests/parity/text_template_goldens.py rendered with Jinja2.
namespace rlgen::text {
namespace {

using Json = nlohmann::ordered_json;

std::filesystem::path template_goldens() {
  const char* other = std::getenv("RLGEN_TEXT_GOLDENS");
  return other != nullptr ? other : "tests/fixtures/text";
}

class TemplateParity : public testing::Test {
 protected:
  void SetUp() override {
    const auto text = read_file((template_goldens() / "templates_goldens.json").string());
    ASSERT_TRUE(text.ok()) << text.status();
    goldens_ = Json::parse(*text);
    for (const Json& conversation : goldens_["conversations"]) {
      requests_[conversation["name"]] = to_request(conversation);
    }
  }

  ChatRequest to_request(const Json& conversation) const {
    ChatRequest request;
    request.messages_json = conversation["messages"].dump();
    if (conversation.contains("tools")) request.tools_json = conversation["tools"].dump();
    if (conversation.contains("extra")) request.extra_json = conversation["extra"].dump();
    request.add_generation_prompt = conversation["add_generation_prompt"];
    request.clock = goldens_["clock"];
    return request;
  }

  StatusOr<std::string> render(const std::string& source, const ChatRequest& request) const {
    SpecialTokens special;
    special.named_json = goldens_["special_tokens"].dump();
    const auto made = ChatTemplate::from_source(source, special);
    if (!made.ok()) return made.status();
    return (*made)->render(request);
  }

  // Empty when `ours` is the golden, else what differs.
  static std::string difference(const Json& golden, const StatusOr<std::string>& ours) {
    if (golden.is_null()) return ours.ok() ? "Jinja2 raises, we give: " + *ours : "";
    if (!ours.ok()) return "we fail: " + std::string(ours.status().message());
    return *ours == golden.get<std::string>()
               ? ""
               : "wanted: " + golden.dump() + "\ngot:    " + Json(*ours).dump();
  }

  Json goldens_;
  std::map<std::string, ChatRequest> requests_;
};

// Templates of vision models loop over a content that is null: Jinja2 raises, minijinja loops over
// nothing. They are in the larger set of the slow tests only.
const std::set<std::string> kKnownRenders = {
    "qwen2_5_vl, arguments as text",
    "qwen2_5_vl_training, arguments as text",
    "qwen3_vl, arguments as text",
    "qwen3_vl_training, arguments as text",
};

TEST_F(TemplateParity, FB189_FB191_TemplatesEqualJinja2) {
  std::map<std::string, std::string> sources;
  int rendered = 0;
  for (const Json& golden : goldens_["renders"]) {
    const std::string name = golden["template"];
    if (!sources.contains(name)) {
      const auto text = read_file((template_goldens() / "templates" / (name + ".jinja")).string());
      ASSERT_TRUE(text.ok()) << text.status();
      sources[name] = *text;
    }
    const std::string conversation = golden["conversation"];
    const auto ours = render(sources[name], requests_.at(conversation));
    const std::string found = difference(golden["text"], ours);
    const std::string where = name + ", " + conversation;
    EXPECT_EQ(kKnownRenders.contains(where), !found.empty()) << where << "\n" << found;
    rendered += golden["text"].is_string();
  }
  EXPECT_GT(rendered, 200);
}

// Where minijinja cannot be made to answer as Jinja2 does.
const std::set<std::string> kKnownDifferences = {
    "{{ cycler('a', 'b') }}",                     // no such function
    "{% for x in nothing %}{{ x }}{% endfor %}",  // Jinja2 raises, minijinja iterates nothing
    "{{ 'a' ~ 1e-7 }}",                           // prints 0.0000001
    "{{ 1 < 'a' }}",                              // Jinja2 raises
    "{{ '%s' % 1 }}",                             // no formatting operator
};

TEST_F(TemplateParity, ExpressionsEqualJinja2) {
  ChatRequest request;
  Json variables = goldens_["snippet_variables"];
  request.messages_json = variables["messages"].dump();
  variables.erase("messages");
  request.extra_json = variables.dump();
  request.clock = goldens_["clock"];
  for (const Json& golden : goldens_["snippets"]) {
    const std::string source = golden["source"];
    const std::string found = difference(golden["text"], render(source, request));
    EXPECT_EQ(kKnownDifferences.contains(source), !found.empty()) << source << "\n" << found;
  }
}

}  // namespace
}  // namespace rlgen::text
