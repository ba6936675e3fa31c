//! A tokenizer with its table of token bytes.

use crate::decoder::{self, Analysis, ByteLevelTable, Kind, Rule};
use serde::Deserialize;
use serde_json::Value as Json;
use tokenizers::{AddedToken, Tokenizer};

/// Ids above this are refused: the table of all ids would not be reasonable.
const MAX_ID: u32 = 1 << 24;

/// Flags of one id in the exported table.
pub const DEFINED: u8 = 1;
pub const SPECIAL: u8 = 2;
pub const BYTE: u8 = 4;
pub const ADDED: u8 = 8;

pub struct TextTokenizer {
    inner: Tokenizer,
    analysis: Analysis,
    id_count: u32,
}

impl TextTokenizer {
    /// Reads the content of a tokenizer.json. `extra` is a JSON array of added tokens (content,
    /// id or null, lstrip, rstrip, normalized, single_word, special) that the file may lack; with
    /// "keep" an added token of the file stays as it is.
    pub fn from_json(content: &[u8], extra: &str) -> Result<Self, String> {
        let mut inner = Tokenizer::from_bytes(content).map_err(|error| error.to_string())?;
        inner.with_truncation(None).map_err(|error| error.to_string())?;
        inner.with_padding(None);
        check_ids_of_file(&inner, content)?;
        add_tokens(&mut inner, extra)?;
        let highest = inner.get_vocab(true).values().copied().max();
        let id_count = highest.map_or(0, |id| id.saturating_add(1));
        if id_count > MAX_ID {
            return Err(format!(
                "token id {} is above the largest possible, {}",
                id_count - 1,
                MAX_ID - 1
            ));
        }
        let analysis = decoder::analyse(&inner);
        Ok(TextTokenizer { inner, analysis, id_count })
    }

    pub fn rule(&self) -> Rule {
        self.analysis.rule
    }

    pub fn id_count(&self) -> u32 {
        self.id_count
    }

    pub fn encode(&self, text: &str, add_special_tokens: bool) -> Result<Vec<u8>, String> {
        let encoding =
            self.inner.encode_fast(text, add_special_tokens).map_err(|error| error.to_string())?;
        Ok(encoding.get_ids().iter().flat_map(|id| id.to_ne_bytes()).collect())
    }

    /// The library's own decode; ids that are not defined give nothing.
    pub fn decode(&self, ids: &[u32], skip_special_tokens: bool) -> Result<String, String> {
        let defined: Vec<u32> =
            ids.iter().copied().filter(|id| self.inner.id_to_token(*id).is_some()).collect();
        if defined.is_empty() {
            return Ok(String::new());
        }
        self.inner.decode(&defined, skip_special_tokens).map_err(|error| error.to_string())
    }

    pub fn token_to_id(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }

    pub fn id_to_token(&self, id: u32) -> Option<String> {
        let added = self.inner.get_added_vocabulary().get_added_tokens_decoder().get(&id);
        added.map(|token| token.content.clone()).or_else(|| self.inner.id_to_token(id))
    }

    /// For each id from 0: one byte of flags, the length as u32, the bytes.
    pub fn table(&self) -> Result<Vec<u8>, String> {
        let mut table = Vec::with_capacity(self.id_count as usize * 12);
        let byte_level = ByteLevelTable::new();
        for id in 0..self.id_count {
            let (flags, bytes) = self.entry(id, &byte_level)?;
            let length = u32::try_from(bytes.len()).map_err(|error| error.to_string())?;
            table.push(flags);
            table.extend(length.to_ne_bytes());
            table.extend(bytes);
        }
        Ok(table)
    }

    fn entry(&self, id: u32, byte_level: &ByteLevelTable) -> Result<(u8, Vec<u8>), String> {
        let Some(token) = self.inner.id_to_token(id) else {
            return Ok((0, Vec::new()));
        };
        let vocabulary = self.inner.get_added_vocabulary();
        let added = vocabulary.get_added_tokens_decoder().get(&id);
        let mut flags = DEFINED;
        if added.is_some() {
            flags |= ADDED;
        }
        let skipped =
            added.is_some_and(|token| token.special) || vocabulary.is_special_token(&token);
        if skipped {
            flags |= SPECIAL;
        }
        let bytes = match self.analysis.rule.kind {
            Kind::Bytes => match added {
                Some(token) => token.content.clone().into_bytes(),
                None => byte_level.bytes_of(&token).unwrap_or_else(|| token.into_bytes()),
            },
            Kind::Pieces => {
                let piece = self.analysis.piece(&token)?;
                match decoder::fallback_byte(&piece).filter(|_| self.analysis.rule.byte_fallback) {
                    Some(byte) => {
                        flags |= BYTE;
                        vec![byte]
                    }
                    None => piece.into_bytes(),
                }
            }
            Kind::Other => self.decode(&[id], false)?.into_bytes(),
        };
        Ok((flags, bytes))
    }
}

fn flag(token: &Json, name: &str) -> bool {
    token[name].as_bool().unwrap_or(false)
}

/// The part of a tokenizer.json that is read here.
#[derive(Deserialize)]
struct AddedTokensOfFile {
    #[serde(default)]
    added_tokens: Vec<Json>,
}

/// The library numbers added tokens that the model lacks itself; a file that says otherwise would
/// silently mean other ids.
fn check_ids_of_file(inner: &Tokenizer, content: &[u8]) -> Result<(), String> {
    let file: AddedTokensOfFile =
        serde_json::from_slice(content).map_err(|error| error.to_string())?;
    file.added_tokens.iter().try_for_each(|token| check_id(inner, token))
}

fn check_id(inner: &Tokenizer, token: &Json) -> Result<(), String> {
    let content = token["content"].as_str().unwrap_or("");
    match (token["id"].as_u64(), inner.token_to_id(content)) {
        (Some(wanted), Some(given)) if wanted != u64::from(given) => {
            Err(format!("added token '{content}' should have id {wanted} but gets {given}"))
        }
        _ => Ok(()),
    }
}

fn add_tokens(inner: &mut Tokenizer, extra: &str) -> Result<(), String> {
    let tokens: Vec<Json> =
        serde_json::from_str(extra).map_err(|error| format!("added tokens: {error}"))?;
    for token in &tokens {
        let content = token["content"].as_str().unwrap_or("");
        let vocabulary = inner.get_added_vocabulary();
        if flag(token, "keep") && vocabulary.get_vocab().contains_key(content) {
            continue;
        }
        let special = flag(token, "special");
        let added = AddedToken::from(content, special)
            .lstrip(flag(token, "lstrip"))
            .rstrip(flag(token, "rstrip"))
            .single_word(flag(token, "single_word"))
            .normalized(token["normalized"].as_bool().unwrap_or(!special));
        inner.add_tokens([added]).map_err(|error| error.to_string())?;
        check_id(inner, token)?;
    }
    Ok(())
}

#[cfg(test)]
#[path = "tokenizer_test.rs"]
mod tests;
