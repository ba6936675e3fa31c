#pragma once

#include <memory>
#include <string>
#include <vector>

#include "text/tokenizer.h"

// Small tokenizers for the tests of this module.
namespace rlgen::text::test {

// Byte-level. Ids 0-255 are single bytes (id = byte), 256.. are "he", "ll", "Ġw", "...", "llo",
// "世" (by merges); 300 is "<|end|>", 301 "<|obs|>" (both special), 302 "<tool>" (added, not
// special), 303 "é" (added); 262-299 are a gap.
std::string byte_level_json();
std::shared_ptr<const Tokenizer> byte_level();
// One id a byte.
std::vector<int32_t> bytes_of(const std::string& text);

// Like Llama 2: "▁" for the space, byte fallback, one leading space stripped. 0 <unk>, 1 <s>, 2
// </s> (special), 3-258 bytes <0x00>..<0xFF>, 259 "▁", then "a", "b", "c", "▁a", "▁▁", "ab", "世".
std::shared_ptr<const Tokenizer> llama_like();
// One id a byte.
std::vector<int32_t> fallback_bytes(const std::string& text);

// The Metaspace decoder (T5, XLNet): same pieces as llama_like, no bytes.
std::shared_ptr<const Tokenizer> metaspace();

// WordPiece, whose decoder this module does not know: [UNK] 0, hello 1, world 2, ##ly 3, ! 4.
std::shared_ptr<const Tokenizer> word_piece();

}  // namespace rlgen::text::test
