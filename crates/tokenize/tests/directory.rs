//! Model directories in Hugging Face's layout, written small for the purpose.

use std::fs;
use std::path::{Path, PathBuf};

use olivine_tokenize::{GgufVocabulary, Message, RenderOptions, Tokenizer};
use serde_json::{Value, json};

/// A directory of its own for each test, removed at the end.
struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("olivine-tokenize-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, name: &str, contents: &Value) -> &Self {
        fs::write(self.0.join(name), contents.to_string()).unwrap();
        self
    }

    fn load(&self) -> Result<Tokenizer, String> {
        Tokenizer::from_dir(&self.0).map_err(|e| e.to_string())
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn added(id: u32, content: &str) -> Value {
    json!({"id": id, "content": content, "special": true, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false})
}

/// Byte-level BPE: `<s>` 0, `</s>` 1, then the bytes of "abc " and two merges.
fn byte_level() -> Value {
    json!({
        "version": "1.0",
        "added_tokens": [added(0, "<s>"), added(1, "</s>"), added(9, "<|x y|>")],
        "normalizer": null,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
        "post_processor": null,
        "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
        "model": {"type": "BPE", "vocab": {"<s>": 0, "</s>": 1, "a": 2, "b": 3, "c": 4, "Ġ": 5, "ab": 6, "Ġab": 7, "Ċ": 8},
                  "merges": ["a b", "Ġ ab"]}
    })
}

/// Llama's kind: spaces as `▁`, byte fallback, one leading space stripped.
fn fallback() -> Value {
    let mut vocab = json!({"<unk>": 0, "<s>": 1, "</s>": 2});
    for b in 0..=255 {
        vocab[format!("<0x{b:02X}>")] = json!(b + 3);
    }
    for (i, piece) in ["▁", "a", "b", "▁a", "ab", "▁ab"].iter().enumerate() {
        vocab[piece] = json!(259 + i);
    }
    let mut bos = json!({"type": "TemplateProcessing", "pair": [], "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}});
    bos["single"] =
        json!([{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]);
    json!({
        "version": "1.0",
        "truncation": {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0},
        "padding": null,
        "added_tokens": [added(0, "<unk>"), added(1, "<s>"), added(2, "</s>")],
        "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
        "pre_tokenizer": null,
        "post_processor": bos,
        "decoder": {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
        "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true, "vocab": vocab,
                  "merges": ["a b", "▁ ab", "▁ a"]}
    })
}

#[test]
fn a_byte_level_model() {
    let dir = Dir::new("byte-level");
    dir.write("tokenizer.json", &byte_level())
        .write("tokenizer_config.json", &json!({
            "bos_token": "<s>", "eos_token": {"content": "</s>", "lstrip": false}, "add_bos_token": true,
            "chat_template": "{{ bos_token }}{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}",
        }))
        .write("generation_config.json", &json!({"eos_token_id": [1, 9], "bos_token_id": 0}));
    let t = dir.load().unwrap();
    assert_eq!((t.bos_id(), t.eos_ids(), t.vocab_size()), (Some(0), &[1, 9][..], 10));
    assert_eq!(t.encode("ab ab", false).unwrap(), [6, 7]);
    assert_eq!(t.encode("ab ab", true).unwrap(), [0, 6, 7]);
    assert_eq!(t.encode("", true).unwrap(), [0]);
    assert_eq!(t.decode(&[0, 6, 7, 8, 9], false).unwrap(), "<s>ab ab\n<|x y|>");
    assert_eq!(t.decode(&[0, 6, 7, 8, 9], true).unwrap(), "ab ab\n");
    let messages = [Message::new("user", "ab"), Message::new("user", "c")];
    assert_eq!(t.encode_chat(&messages, &RenderOptions::default()).unwrap(), [0, 6, 1, 4, 1]);
}

#[test]
fn a_byte_fallback_model() {
    let dir = Dir::new("fallback");
    dir.write("tokenizer.json", &fallback())
        .write("special_tokens_map.json", &json!({"bos_token": "<s>", "eos_token": "</s>"}));
    let t = dir.load().unwrap();
    assert_eq!(t.encode("ab a", true).unwrap(), [1, 264, 262]);
    // Nothing is cut, whatever training settings the file carries.
    assert_eq!(t.encode("a a a a a a a", false).unwrap().len(), 7);
    let ids = t.encode("ab é😀", false).unwrap();
    assert_eq!(t.decode(&ids, true).unwrap(), "ab é😀");
    assert_eq!(ids.len(), 1 + 1 + 2 + 4);
    let mut stream = t.detokenizer(true);
    let pieces: Vec<String> = ids.iter().map(|&id| stream.push(id).unwrap()).collect();
    assert_eq!(pieces, ["ab", " ", "", "é", "", "", "", "😀"]);
    assert_eq!(stream.finish(), "");
}

#[test]
fn the_configuration_decides_about_the_first_token() {
    let dir = Dir::new("bos");
    dir.write("tokenizer.json", &fallback()).write(
        "tokenizer_config.json",
        &json!({"bos_token": "<s>", "eos_token": "</s>", "add_bos_token": false, "add_eos_token": true}),
    );
    let t = dir.load().unwrap();
    assert_eq!(t.encode("a", true).unwrap(), [262, 2]);
    assert_eq!(t.encode("<s>a", true).unwrap(), [1, 262, 2]);
    dir.write(
        "tokenizer_config.json",
        &json!({"bos_token": "<s>", "add_bos_token": true, "add_eos_token": null}),
    );
    assert_eq!(dir.load().unwrap().encode("a", true).unwrap(), [1, 262]);
}

#[test]
fn chat_templates_come_from_any_of_their_places() {
    let dir = Dir::new("templates");
    let render = |dir: &Dir, tools: Option<&[Value]>| {
        let options = RenderOptions { tools, ..RenderOptions::default() };
        dir.load().unwrap().chat_template().unwrap().render(&[], &options).unwrap()
    };
    dir.write("tokenizer.json", &byte_level());
    assert!(dir.load().unwrap().chat_template().is_none());
    let named = json!([{"name": "default", "template": "plain"}, {"name": "tool_use", "template": "tools"}]);
    dir.write("tokenizer_config.json", &json!({"chat_template": named}));
    assert_eq!(render(&dir, None), "plain");
    assert_eq!(render(&dir, Some(&[json!({})])), "tools");
    dir.write("chat_template.json", &json!({"chat_template": "from json"}));
    assert_eq!(render(&dir, None), "from json");
    fs::write(dir.0.join("chat_template.jinja"), "from jinja").unwrap();
    assert_eq!(render(&dir, None), "from jinja");
    fs::write(dir.0.join("chat_template.jinja"), "{% for %}").unwrap();
    assert!(dir.load().unwrap_err().contains("chat_template.jinja"));
}

#[test]
fn bad_directories_are_named() {
    assert!(
        Tokenizer::from_dir(Path::new("/nonexistent"))
            .unwrap_err()
            .to_string()
            .contains("/nonexistent/tokenizer.json")
    );
    let dir = Dir::new("bad");
    let with = |change: &dyn Fn(&mut Value)| {
        let mut file = byte_level();
        change(&mut file);
        dir.write("tokenizer.json", &file).load().map(|_| ()).unwrap_err()
    };
    assert!(
        with(&|f| f["decoder"] =
            json!({"type": "CTC", "pad_token": "a", "word_delimiter_token": "b", "cleanup": true}))
        .contains("CTC")
    );
    assert!(with(&|f| f["decoder"] = Value::Null).contains("no decoder"));
    assert!(with(&|f| f["model"]["merges"] = json!(["a q"])).contains("tokenizer.json"));
    assert!(with(&|f| f["model"]["vocab"]["far"] = json!(4_000_000_000u32)).contains("4000000000"));
    fs::write(dir.0.join("tokenizer.json"), "{").unwrap();
    assert!(dir.load().unwrap_err().contains("tokenizer.json"));
    dir.write("tokenizer.json", &byte_level());
    fs::write(dir.0.join("tokenizer_config.json"), "[").unwrap();
    assert!(dir.load().unwrap_err().contains("tokenizer_config.json"));
}

fn gguf<'a>(tokens: &[&'a str], merges: &[&'a str]) -> GgufVocabulary<'a> {
    GgufVocabulary {
        model: "gpt2",
        pre: Some("gpt-2"),
        tokens: tokens.to_vec(),
        merges: merges.to_vec(),
        ..GgufVocabulary::default()
    }
}

#[test]
fn gguf_vocabularies_that_make_no_sense_are_refused() {
    let error = |v: GgufVocabulary<'_>| Tokenizer::from_gguf(&v).map(|_| ()).unwrap_err().to_string();
    let good = || gguf(&["a", "b", "ab"], &["a b"]);
    assert!(Tokenizer::from_gguf(&good()).is_ok());
    assert!(error(GgufVocabulary { model: "bert", ..good() }).contains("bert"));
    assert!(error(GgufVocabulary { pre: Some("nobody-knows"), ..good() }).contains("nobody-knows"));
    assert!(error(GgufVocabulary { pre: None, ..good() }).contains("tokenizer.ggml.pre"));
    assert!(error(GgufVocabulary { token_types: vec![1, 1], ..good() }).contains("2 token types"));
    assert!(error(GgufVocabulary { token_types: vec![1, 1, 9], ..good() }).contains("unknown type 9"));
    assert!(error(GgufVocabulary { eos_id: Some(3), ..good() }).contains("eos"));
    assert!(error(GgufVocabulary { add_bos: Some(true), ..good() }).contains("bos_token_id"));
    assert!(error(gguf(&["a", "a"], &[])).contains("ids 0 and 1"));
    assert!(error(gguf(&["a"], &["ab"])).contains("not a pair"));
    assert!(error(gguf(&["a"], &["a q"])).contains('q'));
    assert!(error(gguf(&[], &[])).contains("0 tokens"));
    let llama = || GgufVocabulary { model: "llama", scores: vec![0.0; 3], ..good() };
    assert!(error(llama()).contains("no ids"));
    assert!(error(GgufVocabulary { scores: vec![0.0], ..llama() }).contains("1 scores"));
    let bytes = gguf(&["a", "<0x00>", "<unk>"], &[]);
    let bytes = GgufVocabulary { model: "llama", scores: vec![0.0; 3], token_types: vec![1, 6, 2], ..bytes };
    assert!(error(bytes).contains("1 of 256 bytes"));
}

#[test]
fn every_pre_tokenizer_expression_compiles() {
    for name in [
        "default",
        "llama-bpe",
        "dbrx",
        "qwen2",
        "qwen35",
        "gpt-4o",
        "tekken",
        "seed-coder",
        "bailingmoe",
        "gpt-2",
        "smollm",
        "falcon",
        "deepseek-llm",
        "deepseek-coder",
        "deepseek-v3",
    ] {
        let t = Tokenizer::from_gguf(&GgufVocabulary {
            pre: Some(name),
            ..gguf(&["a", "b", "ab", "1"], &["a b"])
        });
        let t = t.unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(t.encode("ab11", false).unwrap(), [2, 3, 3], "{name}");
    }
}

#[test]
fn sentencepiece_prefixes_unknowns_and_unused_pieces() {
    // 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused.
    let v = GgufVocabulary {
        model: "llama",
        tokens: vec!["<unk>", "<s>", "▁", "a", "b", "ab", "▁ab", "aba", "  "],
        token_types: vec![2, 3, 1, 1, 1, 1, 1, 5, 4],
        scores: vec![0.0, 0.0, -9.0, -9.0, -9.0, -1.0, -3.0, -2.0, 0.0],
        bos_id: Some(1),
        ..GgufVocabulary::default()
    };
    let t = Tokenizer::from_gguf(&v).unwrap();
    assert_eq!(t.encode("ab", true).unwrap(), [1, 6]);
    // The prefix follows special tokens too, and counts for runs of spaces.
    assert_eq!(t.encode("ab<s>ab", false).unwrap(), [6, 1, 6]);
    assert_eq!(t.encode(" ab", false).unwrap(), [8, 5]);
    // "aba" merges through the unused piece, which comes apart again.
    assert_eq!(t.encode("aba", false).unwrap(), [2, 5, 3]);
    // Neighbouring characters without ids are one unknown.
    assert_eq!(t.encode("aéüa", false).unwrap(), [2, 3, 0, 3]);
    assert_eq!(t.decode(&[6, 1, 6], false).unwrap(), "ab<s> ab");
    assert_eq!(t.encode("", false).unwrap(), [0u32; 0]);
}
