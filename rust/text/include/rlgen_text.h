// C interface of the crate rlgen_text: Hugging Face tokenizers and chat templates.
//
// Codes: 0 done; 1 refused, `out` holds the message; 2 a fault inside the crate, `out` holds the
// message. Nothing prints and nothing aborts. Every function that takes an RtBuffer* overwrites it
// with a new buffer, whatever the code; the caller frees it with rt_buffer_free. Inputs are
// borrowed for the call. Objects may be used by many threads at once, except where said.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  uint8_t* data;
  size_t len;
  size_t capacity;
} RtBuffer;

void rt_buffer_free(RtBuffer buffer);

typedef struct RtTokenizer RtTokenizer;

typedef struct {
  uint32_t id_count;       // highest id + 1
  uint32_t decoder_kind;   // 0 bytes, 1 pieces, 2 other
  uint32_t byte_fallback;  // pieces: tokens of flag 4 are single bytes
  uint32_t strip_count;    // pieces: that many leading strip_char leave the text
  uint32_t strip_char;     // a Unicode code point
} RtTokenizerInfo;

// `json` is the content of a tokenizer.json; `extra` is a JSON array of added tokens that the file
// may lack. On code 0 `*tokenizer` is the caller's until rt_tokenizer_free.
int32_t rt_tokenizer_new(const uint8_t* json, size_t json_len, const uint8_t* extra,
                         size_t extra_len, RtTokenizer** tokenizer, RtBuffer* out);
void rt_tokenizer_free(RtTokenizer* tokenizer);
RtTokenizerInfo rt_tokenizer_info(const RtTokenizer* tokenizer);

// For each id from 0: flags (uint8: 1 defined, 2 special, 4 byte of a byte-fallback vocabulary,
// 8 added), length (uint32, native order), the token's bytes.
int32_t rt_tokenizer_table(const RtTokenizer* tokenizer, RtBuffer* out);

// `out`: ids as uint32 in native order.
int32_t rt_tokenizer_encode(const RtTokenizer* tokenizer, const uint8_t* text, size_t text_len,
                            bool add_special_tokens, RtBuffer* out);

// `out`: the library's own decoding; undefined ids give nothing.
int32_t rt_tokenizer_decode(const RtTokenizer* tokenizer, const uint32_t* ids, size_t id_count,
                            bool skip_special_tokens, RtBuffer* out);

// -1 where no token has that name.
int64_t rt_tokenizer_token_to_id(const RtTokenizer* tokenizer, const uint8_t* token,
                                 size_t token_len);
// `out`: the name of the token, as tokenizer.json spells it. Code 1 for an undefined id.
int32_t rt_tokenizer_id_to_token(const RtTokenizer* tokenizer, uint32_t id, RtBuffer* out);

typedef struct RtTemplate RtTemplate;

// Borrowed UTF-8; {NULL, 0} where there is nothing.
typedef struct {
  const uint8_t* data;
  size_t len;
} RtText;

typedef struct {
  RtText messages;        // JSON array
  RtText tools;           // JSON array, or nothing
  RtText special_tokens;  // JSON object, or nothing
  RtText extra;           // JSON object of further variables, or nothing
  RtText clock;           // "2024-07-26T12:00:00" for strftime_now, or nothing for the local time
  bool add_generation_prompt;
} RtRenderRequest;

// On code 0 `*made` is the caller's until rt_template_free.
int32_t rt_template_new(const uint8_t* source, size_t source_len, RtTemplate** made, RtBuffer* out);
void rt_template_free(RtTemplate* made);
// Whether some branch of the template looks at the variable `name`.
bool rt_template_reads(const RtTemplate* made, const uint8_t* name, size_t name_len);
// `out`: the rendered text.
int32_t rt_template_render(const RtTemplate* made, const RtRenderRequest* request, RtBuffer* out);

#ifdef __cplusplus
}
#endif
