#include "text/test_tokenizers.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace rlgen::text::test {
namespace {

using Json = nlohmann::ordered_json;

std::string utf8(char32_t code) {
  if (code < 0x80) return std::string(1, static_cast<char>(code));
  return {static_cast<char>(0xC0 | (code >> 6)), static_cast<char>(0x80 | (code & 0x3F))};
}

// GPT-2's printable stand-in of a byte.
std::string stand_in(int byte) {
  char32_t next = 256;
  for (int b = 0; b < 256; ++b) {
    const bool itself = (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
    const char32_t code = itself ? static_cast<char32_t>(b) : next++;
    if (b == byte) return utf8(code);
  }
  return {};
}

std::string stand_ins(std::string_view bytes) {
  std::string out;
  for (char byte : bytes) out += stand_in(static_cast<uint8_t>(byte));
  return out;
}

Json added(int id, const std::string& content, bool special) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", special}};
}

Json file(Json added_tokens, Json model) {
  return {{"version", "1.0"},          {"truncation", nullptr},
          {"padding", nullptr},        {"added_tokens", std::move(added_tokens)},
          {"normalizer", nullptr},     {"pre_tokenizer", nullptr},
          {"post_processor", nullptr}, {"decoder", nullptr},
          {"model", std::move(model)}};
}

Json bpe(Json vocab, Json merges, bool byte_fallback) {
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", byte_fallback ? Json("<unk>") : Json(nullptr)},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", byte_fallback},
          {"byte_fallback", byte_fallback},
          {"ignore_merges", false},
          {"vocab", std::move(vocab)},
          {"merges", std::move(merges)}};
}

std::shared_ptr<const Tokenizer> make(const std::string& json, const std::string& config = "") {
  auto made = Tokenizer::from_json(json, config);
  EXPECT_TRUE(made.ok()) << made.status();
  return made.ok() ? *made : nullptr;
}

}  // namespace

std::vector<int32_t> bytes_of(const std::string& text) {
  std::vector<int32_t> ids;
  for (char byte : text) ids.push_back(static_cast<uint8_t>(byte));
  return ids;
}

std::vector<int32_t> fallback_bytes(const std::string& text) {
  std::vector<int32_t> ids = bytes_of(text);
  for (int32_t& id : ids) id += 3;
  return ids;
}

std::string byte_level_json() {
  Json vocab;
  for (int byte = 0; byte < 256; ++byte) vocab[stand_in(byte)] = byte;
  int next = 256;
  for (const char* token : {"he", "ll", " w", "...", "llo", "世"}) vocab[stand_ins(token)] = next++;
  vocab["<|end|>"] = 300;
  vocab["<|obs|>"] = 301;
  vocab["<tool>"] = 302;
  vocab["é"] = 303;
  const std::string world = stand_ins("世");
  Json merges = Json::array({Json::array({"h", "e"}), Json::array({"l", "l"}),
                             Json::array({stand_in(' '), "w"}), Json::array({"ll", "o"})});
  Json json = file(Json::array({added(300, "<|end|>", true), added(301, "<|obs|>", true),
                                added(302, "<tool>", false), added(303, "é", false)}),
                   bpe(vocab, merges, false));
  const Json level = {{"type", "ByteLevel"},
                      {"add_prefix_space", false},
                      {"trim_offsets", true},
                      {"use_regex", true}};
  json["pre_tokenizer"] = level;
  json["decoder"] = level;
  return json.dump();
}

std::shared_ptr<const Tokenizer> byte_level() {
  return make(byte_level_json(), R"({"eos_token": "<|end|>"})");
}

namespace {

Json pieces_vocab(bool bytes) {
  Json vocab;
  int next = 0;
  for (const char* token : {"<unk>", "<s>", "</s>"}) vocab[token] = next++;
  for (int byte = 0; bytes && byte < 256; ++byte) {
    constexpr std::string_view kHex = "0123456789ABCDEF";
    vocab[std::string("<0x") + kHex[static_cast<std::size_t>(byte / 16)] +
          kHex[static_cast<std::size_t>(byte % 16)] + ">"] = next++;
  }
  for (const char* token : {"▁", "a", "b", "c", "▁a", "▁▁", "ab", "世"}) vocab[token] = next++;
  return vocab;
}

Json sentence_specials() {
  return Json::array({added(0, "<unk>", true), added(1, "<s>", true), added(2, "</s>", true)});
}

Json sentence_merges() {
  return Json::array({Json::array({"▁", "a"}), Json::array({"▁", "▁"}), Json::array({"a", "b"})});
}

}  // namespace

std::shared_ptr<const Tokenizer> llama_like() {
  Json json = file(sentence_specials(), bpe(pieces_vocab(true), sentence_merges(), true));
  const Json to_mark = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}};
  const Json to_space = {{"type", "Replace"}, {"pattern", {{"String", "▁"}}}, {"content", " "}};
  json["normalizer"] = {
      {"type", "Sequence"},
      {"normalizers", Json::array({{{"type", "Prepend"}, {"prepend", "▁"}}, to_mark})}};
  json["decoder"] = {
      {"type", "Sequence"},
      {"decoders",
       Json::array({to_space,
                    {{"type", "ByteFallback"}},
                    {{"type", "Fuse"}},
                    {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}})}};
  json["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single", Json::array({{{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}},
                              {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}})},
      {"pair", Json::array({{{"Sequence", {{"id", "A"}, {"type_id", 0}}}},
                            {{"Sequence", {{"id", "B"}, {"type_id", 1}}}}})},
      {"special_tokens",
       {{"<s>", {{"id", "<s>"}, {"ids", {1}}, {"tokens", Json::array({"<s>"})}}}}}};
  return make(json.dump(), R"({"bos_token": "<s>", "eos_token": {"content": "</s>"}})");
}

std::shared_ptr<const Tokenizer> metaspace() {
  Json json = file(sentence_specials(), bpe(pieces_vocab(false), sentence_merges(), false));
  json["decoder"] = {
      {"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "always"}, {"split", true}};
  return make(json.dump());
}

std::shared_ptr<const Tokenizer> word_piece() {
  Json json = file(Json::array({added(0, "[UNK]", true)}),
                   {{"type", "WordPiece"},
                    {"unk_token", "[UNK]"},
                    {"continuing_subword_prefix", "##"},
                    {"max_input_chars_per_word", 100},
                    {"vocab", {{"[UNK]", 0}, {"hello", 1}, {"world", 2}, {"##ly", 3}, {"!", 4}}}});
  json["pre_tokenizer"] = {{"type", "BertPreTokenizer"}};
  json["decoder"] = {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}};
  return make(json.dump());
}

}  // namespace rlgen::text::test
