//! Says what a tokenizer's decoder does, so that text can be put together token by token.

use serde_json::Value as Json;
use tokenizers::{Decoder, DecoderWrapper, Tokenizer};

/// How the text of a sequence follows from its tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Bytes of the tokens, joined; the result read as UTF-8.
    Bytes = 0,
    /// Texts of the tokens, joined; the first token has a text of its own.
    Pieces = 1,
    /// Anything else: only the decoder itself knows.
    Other = 2,
}

/// The decoder's rule. `strip_*` and `byte_fallback` matter for `Kind::Pieces` alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    pub kind: Kind,
    /// Tokens like `<0xE4>` are single bytes; a run of them that is no UTF-8 gives one U+FFFD each.
    pub byte_fallback: bool,
    /// That many leading `strip_char` are taken off the whole text.
    pub strip_count: u32,
    pub strip_char: char,
}

const OTHER: Rule =
    Rule { kind: Kind::Other, byte_fallback: false, strip_count: 0, strip_char: ' ' };

/// A rule and the decoders that turn one token into its piece.
pub struct Analysis {
    pub rule: Rule,
    steps: Vec<DecoderWrapper>,
}

impl Analysis {
    /// The piece of a token that is not the first.
    pub fn piece(&self, token: &str) -> Result<String, String> {
        let mut parts = vec![String::new(), token.to_string()];
        for step in &self.steps {
            parts = step.decode_chain(parts).map_err(|error| error.to_string())?;
        }
        Ok(parts.concat())
    }
}

fn name(decoder: &Json) -> &str {
    decoder["type"].as_str().unwrap_or("")
}

fn parse(decoder: &Json) -> Option<DecoderWrapper> {
    serde_json::from_value(decoder.clone()).ok()
}

/// Reads `Sequence[Replace.., ByteFallback?, Fuse?, Strip?]`, where a Strip needs the Fuse.
fn sequence(decoders: &[Json]) -> Option<Analysis> {
    let mut rule = Rule { kind: Kind::Pieces, ..OTHER };
    let mut steps = Vec::new();
    let mut rest = decoders.iter().peekable();
    while let Some(decoder) = rest.next_if(|decoder| name(decoder) == "Replace") {
        steps.push(parse(decoder)?);
    }
    rule.byte_fallback = rest.next_if(|decoder| name(decoder) == "ByteFallback").is_some();
    let fused = rest.next_if(|decoder| name(decoder) == "Fuse").is_some();
    if let Some(strip) = rest.next_if(|decoder| name(decoder) == "Strip") {
        if !fused || strip["stop"].as_u64() != Some(0) {
            return None;
        }
        rule.strip_count = u32::try_from(strip["start"].as_u64()?).ok()?;
        rule.strip_char = strip["content"].as_str()?.chars().next()?;
    }
    rest.next().is_none().then_some(Analysis { rule, steps })
}

fn known(decoder: &DecoderWrapper) -> Option<Analysis> {
    let json = serde_json::to_value(decoder).ok()?;
    match name(&json) {
        "ByteLevel" => {
            Some(Analysis { rule: Rule { kind: Kind::Bytes, ..OTHER }, steps: Vec::new() })
        }
        "Metaspace" => {
            let rule = Rule { kind: Kind::Pieces, ..OTHER };
            Some(Analysis { rule, steps: vec![parse(&json)?] })
        }
        "Sequence" => {
            let decoders = json["decoders"].as_array()?;
            match decoders.as_slice() {
                [only] => known(&parse(only)?),
                many => sequence(many),
            }
        }
        "Replace" | "ByteFallback" | "Fuse" => sequence(std::slice::from_ref(&json)),
        _ => None,
    }
}

pub fn analyse(tokenizer: &Tokenizer) -> Analysis {
    tokenizer.get_decoder().and_then(known).unwrap_or(Analysis { rule: OTHER, steps: Vec::new() })
}

/// The byte of a token `<0x..>` of a byte-fallback tokenizer.
pub fn fallback_byte(piece: &str) -> Option<u8> {
    let digits = piece.strip_prefix("<0x")?.strip_suffix('>')?;
    if piece.len() != 6 {
        return None;
    }
    u8::from_str_radix(digits, 16).ok()
}

/// The inverse of GPT-2's table of printable stand-ins for bytes.
pub struct ByteLevelTable {
    bytes: [Option<u8>; 0x144],
}

impl ByteLevelTable {
    pub fn new() -> Self {
        let mut bytes = [None; 0x144];
        let mut next = 256;
        for byte in 0..=255u8 {
            if matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff) {
                bytes[usize::from(byte)] = Some(byte);
            } else {
                bytes[next] = Some(byte);
                next += 1;
            }
        }
        ByteLevelTable { bytes }
    }

    /// The bytes that a token stands for; None when a character is no stand-in.
    pub fn bytes_of(&self, token: &str) -> Option<Vec<u8>> {
        token.chars().map(|c| self.bytes.get(c as usize).copied().flatten()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule_of(decoder: Json) -> Rule {
        parse(&decoder).as_ref().and_then(known).map_or(OTHER, |analysis| analysis.rule)
    }

    #[test]
    fn byte_level_is_the_inverse_of_gpt2s_table() {
        let table = ByteLevelTable::new();
        assert_eq!(table.bytes_of("Ġx").unwrap(), b" x");
        assert_eq!(table.bytes_of("Ċ").unwrap(), b"\n");
        assert_eq!(table.bytes_of("ðŁĺĢ").unwrap(), "😀".as_bytes());
        assert_eq!(table.bytes_of("a b"), None);
        assert_eq!(table.bytes_of("世"), None);
        let mut all: Vec<u8> = table.bytes.iter().copied().flatten().collect();
        all.sort_unstable();
        assert_eq!(all, (0..=255u8).collect::<Vec<_>>());
    }

    #[test]
    fn known_decoders_are_told_apart() {
        let level = serde_json::json!({"type": "ByteLevel", "add_prefix_space": true,
            "trim_offsets": true, "use_regex": true});
        assert_eq!(rule_of(level.clone()).kind, Kind::Bytes);
        assert_eq!(
            rule_of(serde_json::json!({"type": "Sequence", "decoders": [level]})).kind,
            Kind::Bytes
        );
        let replace =
            serde_json::json!({"type": "Replace", "pattern": {"String": "▁"}, "content": " "});
        let fallback = serde_json::json!({"type": "ByteFallback"});
        let fuse = serde_json::json!({"type": "Fuse"});
        let strip = serde_json::json!({"type": "Strip", "content": " ", "start": 1, "stop": 0});
        let llama =
            serde_json::json!({"type": "Sequence", "decoders": [replace, fallback, fuse, strip]});
        let rule = rule_of(llama);
        assert_eq!((rule.kind, rule.byte_fallback, rule.strip_count), (Kind::Pieces, true, 1));
        let unfused = serde_json::json!({"type": "Sequence", "decoders": [replace, strip]});
        assert_eq!(rule_of(unfused).kind, Kind::Other);
        let wordpiece = serde_json::json!({"type": "WordPiece", "prefix": "##", "cleanup": true});
        assert_eq!(rule_of(wordpiece).kind, Kind::Other);
    }

    #[test]
    fn fallback_bytes() {
        assert_eq!(fallback_byte("<0xE4>"), Some(0xe4));
        assert_eq!(fallback_byte("<0xE>"), None);
        assert_eq!(fallback_byte("<0xZZ>"), None);
        assert_eq!(fallback_byte("a"), None);
    }
}
