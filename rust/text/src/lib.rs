//! Tokenizers and chat templates behind a C ABI. The functions are declared and described in
//! include/rlgen_text.h.

mod buffer;
mod clock;
mod decoder;
mod python_json;
mod python_methods;
mod python_text;
mod template;
mod tokenizer;

use buffer::{bytes, guarded, ids, text, RtBuffer};
use template::{ChatTemplate, Request};
use tokenizer::TextTokenizer;

#[repr(C)]
pub struct RtTokenizerInfo {
    pub id_count: u32,
    pub decoder_kind: u32,
    pub byte_fallback: u32,
    pub strip_count: u32,
    pub strip_char: u32,
}

/// # Safety
/// See include/rlgen_text.h.
#[no_mangle]
pub unsafe extern "C" fn rt_buffer_free(buffer: RtBuffer) {
    drop(buffer.into_vec());
}

/// # Safety
/// See include/rlgen_text.h.
#[no_mangle]
pub unsafe extern "C" fn rt_tokenizer_new(
    json: *const u8,
    json_len: usize,
    extra: *const u8,
    extra_len: usize,
    tokenizer: *mut *mut TextTokenizer,
    out: *mut RtBuffer,
) -> i32 {
    guarded(out, || {
        let made = TextTokenizer::from_json(bytes(json, json_len), text(extra, extra_len)?)?;
        *tokenizer = Box::into_raw(Box::new(made));
        Ok(Vec::new())
    })
}

/// # Safety
/// See include/rlgen_text.h.
#[no_mangle]
pub unsafe extern "C" fn rt_tokenizer_free(tokenizer: *mut TextTokenizer) {
    if !tokenizer.is_null() {
        drop(Box::from_raw(tokenizer));
    }
}

/// # Safety
/// See include/rlgen_text.h.
#[no_mangle]
pub unsafe extern "C" fn rt_tokenizer_info(tokenizer: *const TextTokenizer) -> RtTokenizerInfo {
    let rule = (*tokenizer).rule();
    RtTokenizerInfo {
        id_count: (*tokenizer).id_count(),
        decoder_kind: rule.kind as u32,
        byte_fallback: u32::from(rule.byte_fallback),
        strip_count: rule.strip_count,
        strip_char: u32::from(rule.strip_char),
    }
}

/// # Safety
/// See include/rlgen_text.h.
#[no_mangle]
pub unsafe extern "C" fn rt_tokenizer_table(
    tokenizer: *const TextTokenizer,
    out: *mut RtBuffer,
) -> i32 {
    guarded(out, || (*tokenizer).table())
}

/// # Safety
/// See include/rlgen_text.h.
#[no_mangle]
pub unsafe extern "C" fn rt_tokenizer_encode(
    tokenizer: *const TextTokenizer,
    input: *const u8,
    input_len: usize,
    add_special_tokens: bool,
    out: *mut RtBuffer,
) -> i32 {
    guarded(out, || (*tokenizer).encode(text(input, input_len)?, add_special_tokens))
}

/// # Safety
/// See include/rlgen_text.h.
#[no_mangle]
pub unsafe extern "C" fn rt_tokenizer_decode(
    tokenizer: *const TextTokenizer,
    tokens: *const u32,
    token_count: usize,
    skip_special_tokens: bool,
    out: *mut RtBuffer,
) -> i32 {
    guarded(out, || {
        let decoded = (*tokenizer).decode(ids(tokens, token_count), skip_special_tokens)?;
        Ok(decoded.into_bytes())
    })
}

/// # Safety
/// See include/rlgen_text.h.
#[no_mangle]
pub unsafe extern "C" fn rt_tokenizer_token_to_id(
    tokenizer: *const TextTokenizer,
    token: *const u8,
    token_len: usize,
) -> i64 {
    match text(token, token_len) {
        Ok(token) => (*tokenizer).token_to_id(token).map_or(-1, i64::from),
        Err(_) => -1,
    }
}

/// # Safety
/// See include/rlgen_text.h.
#[no_mangle]
pub unsafe extern "C" fn rt_tokenizer_id_to_token(
    tokenizer: *const TextTokenizer,
    id: u32,
    out: *mut RtBuffer,
) -> i32 {
    guarded(out, || {
        let token = (*tokenizer).id_to_token(id);
        token.map(String::into_bytes).ok_or_else(|| format!("token id {id} is not defined"))
    })
}

/// # Safety
/// See include/rlgen_text.h.
#[no_mangle]
pub unsafe extern "C" fn rt_template_new(
    source: *const u8,
    source_len: usize,
    template: *mut *mut ChatTemplate,
    out: *mut RtBuffer,
) -> i32 {
    guarded(out, || {
        let made = ChatTemplate::new(text(source, source_len)?)?;
        *template = Box::into_raw(Box::new(made));
        Ok(Vec::new())
    })
}

/// # Safety
/// See include/rlgen_text.h.
#[no_mangle]
pub unsafe extern "C" fn rt_template_free(template: *mut ChatTemplate) {
    if !template.is_null() {
        drop(Box::from_raw(template));
    }
}

/// # Safety
/// See include/rlgen_text.h.
#[no_mangle]
pub unsafe extern "C" fn rt_template_reads(
    template: *const ChatTemplate,
    name: *const u8,
    name_len: usize,
) -> bool {
    text(name, name_len).is_ok_and(|name| (*template).reads(name))
}

/// Borrowed UTF-8 of the caller.
#[repr(C)]
pub struct RtText {
    pub data: *const u8,
    pub len: usize,
}

#[repr(C)]
pub struct RtRenderRequest {
    pub messages: RtText,
    pub tools: RtText,
    pub special_tokens: RtText,
    pub extra: RtText,
    pub clock: RtText,
    pub add_generation_prompt: bool,
}

unsafe fn named<'a>(part: &RtText, name: &str) -> Result<&'a str, String> {
    text(part.data, part.len).map_err(|error| format!("{name}: {error}"))
}

/// # Safety
/// See include/rlgen_text.h.
#[no_mangle]
pub unsafe extern "C" fn rt_template_render(
    template: *const ChatTemplate,
    request: *const RtRenderRequest,
    out: *mut RtBuffer,
) -> i32 {
    guarded(out, || {
        let request = &*request;
        let rendered = (*template).render(&Request {
            messages: named(&request.messages, "messages")?,
            tools: named(&request.tools, "tools")?,
            special_tokens: named(&request.special_tokens, "special tokens")?,
            extra: named(&request.extra, "chat_template_kwargs")?,
            add_generation_prompt: request.add_generation_prompt,
            clock: named(&request.clock, "clock")?,
        })?;
        Ok(rendered.into_bytes())
    })
}
