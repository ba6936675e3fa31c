use super::*;

/// A byte-level tokenizer with a gap in its ids and added tokens that need care.
fn byte_level() -> TextTokenizer {
    let content = serde_json::json!({
        "version": "1.0", "truncation": {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0},
        "padding": null,
        "added_tokens": [
            {"id": 20, "content": "<|end|>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true},
            {"id": 21, "content": "é", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": false},
            {"id": 22, "content": "Ġx", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": false},
        ],
        "normalizer": null,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
        "post_processor": null,
        "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
            "vocab": {"h": 0, "e": 1, "l": 2, "o": 3, "Ġ": 4, "he": 5, "ll": 6, "Ã": 7, "©": 8, "<|end|>": 20, "é": 21, "Ġx": 22}, "merges": [["h", "e"], ["l", "l"]]}
    });
    TextTokenizer::from_json(content.to_string().as_bytes(), "[]").unwrap()
}

fn ids(bytes: Vec<u8>) -> Vec<u32> {
    bytes.chunks_exact(4).map(|part| u32::from_ne_bytes(part.try_into().unwrap())).collect()
}

#[test]
fn encodes_without_the_files_truncation() {
    assert_eq!(ids(byte_level().encode("hello he", true).unwrap()), [5, 6, 3, 4, 5]);
}

#[test]
fn fb051_the_number_of_ids_counts_gaps() {
    let tokenizer = byte_level();
    assert_eq!(tokenizer.id_count(), 23);
    assert_eq!(
        tokenizer.entry(20, &ByteLevelTable::new()).unwrap(),
        (DEFINED | SPECIAL | ADDED, b"<|end|>".to_vec())
    );
    assert_eq!(tokenizer.entry(12, &ByteLevelTable::new()).unwrap(), (0, vec![]));
}

#[test]
fn fb049_an_undefined_id_decodes_to_nothing() {
    assert_eq!(byte_level().decode(&[5, 12, 3], false).unwrap(), "heo");
    assert_eq!(byte_level().decode(&[12, 4_000_000_000], true).unwrap(), "");
}

#[test]
fn fb188_added_tokens_are_their_own_text() {
    let tokenizer = byte_level();
    assert_eq!(tokenizer.entry(21, &ByteLevelTable::new()).unwrap().1, "é".as_bytes());
    assert_eq!(tokenizer.entry(22, &ByteLevelTable::new()).unwrap().1, "Ġx".as_bytes());
    assert_eq!(tokenizer.entry(4, &ByteLevelTable::new()).unwrap().1, b" ");
}

#[test]
fn extra_tokens_are_added_and_must_get_their_ids() {
    let content = serde_json::json!({
        "version": "1.0", "added_tokens": [], "normalizer": null, "pre_tokenizer": null,
        "post_processor": null, "decoder": null,
        "model": {"type": "WordLevel", "vocab": {"a": 0, "[UNK]": 1}, "unk_token": "[UNK]"}
    })
    .to_string();
    let extra = r#"[{"content": "<new>", "id": 2, "special": true}]"#;
    let tokenizer = TextTokenizer::from_json(content.as_bytes(), extra).unwrap();
    assert_eq!(ids(tokenizer.encode("a<new>", true).unwrap()), [0, 2]);
    let wrong = r#"[{"content": "<new>", "id": 7, "special": true}]"#;
    let error = TextTokenizer::from_json(content.as_bytes(), wrong).err().unwrap();
    assert_eq!(error, "added token '<new>' should have id 7 but gets 2");
}

#[test]
fn a_broken_file_is_an_error() {
    let error = TextTokenizer::from_json(b"{\"version\": \"1.0\"}", "[]").err().unwrap();
    assert!(!error.is_empty());
}

#[test]
fn ids_that_the_library_would_change_are_an_error() {
    let content = serde_json::json!({
        "version": "1.0", "normalizer": null, "pre_tokenizer": null, "post_processor": null, "decoder": null,
        "added_tokens": [{"id": 9, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}],
        "model": {"type": "WordLevel", "vocab": {"a": 0, "[UNK]": 1}, "unk_token": "[UNK]"}
    });
    let error = TextTokenizer::from_json(content.to_string().as_bytes(), "[]").err().unwrap();
    assert_eq!(error, "added token '<s>' should have id 9 but gets 2");
}
