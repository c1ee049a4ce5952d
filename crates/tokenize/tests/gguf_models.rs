//! Vocabularies of real models, against what other implementations say.

use std::path::PathBuf;
use std::sync::OnceLock;

use olivine_core::io::gguf::{Gguf, Metadata};
use olivine_tokenize::{GgufVocabulary, Message, RenderOptions, Tokenizer};
use proptest::prelude::*;
use serde::Deserialize;

fn vocabulary(m: &Metadata) -> GgufVocabulary<'_> {
    let key = |name: &str| format!("tokenizer.ggml.{name}");
    let strings = |name| m.get_strings(&key(name)).unwrap().map(|s| s.iter().collect()).unwrap_or_default();
    let id = |name| m.get_u32(&key(name)).unwrap();
    let flag = |name| m.get_bool(&key(name)).unwrap();
    GgufVocabulary {
        model: m.str("tokenizer.ggml.model").unwrap(),
        pre: m.get_str("tokenizer.ggml.pre").unwrap(),
        tokens: strings("tokens"),
        token_types: m.get_i64s(&key("token_type")).unwrap().unwrap_or_default(),
        scores: m.get_f32s(&key("scores")).unwrap().unwrap_or_default().to_vec(),
        merges: strings("merges"),
        bos_id: id("bos_token_id"),
        eos_id: id("eos_token_id"),
        eot_id: id("eot_token_id"),
        eom_id: id("eom_token_id"),
        unknown_id: id("unknown_token_id"),
        padding_id: id("padding_token_id"),
        add_bos: flag("add_bos_token"),
        add_eos: flag("add_eos_token"),
        add_space_prefix: flag("add_space_prefix"),
        chat_template: m.get_str("tokenizer.chat_template").unwrap(),
    }
}

fn load(name: &str) -> Tokenizer {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = root.join(format!(".cache/models/{name}.gguf"));
    let file = std::fs::read(&path).unwrap_or_else(|e| {
        panic!("{}: {e}; `cargo xtask fetch {name}` fetches the model that this test needs", path.display())
    });
    let header = Gguf::parse(&file).unwrap();
    Tokenizer::from_gguf(&vocabulary(header.metadata())).unwrap()
}

fn smollm2() -> &'static Tokenizer {
    static MODEL: OnceLock<Tokenizer> = OnceLock::new();
    MODEL.get_or_init(|| load("smollm2"))
}

fn gemma3() -> &'static Tokenizer {
    static MODEL: OnceLock<Tokenizer> = OnceLock::new();
    MODEL.get_or_init(|| load("gemma3"))
}

#[derive(Deserialize)]
struct Row {
    text: String,
    ids: Vec<u32>,
}

fn check(tokenizer: &Tokenizer, reference: &str) {
    let rows: Vec<Row> = serde_json::from_str(reference).unwrap();
    assert!(rows.len() > 70);
    for Row { text, ids } in rows {
        assert_eq!(tokenizer.encode(&text, false).unwrap(), ids, "{text:?}");
        // SentencePiece writes spaces as this character, so texts with it come back with spaces.
        if !text.contains('▁') {
            assert_eq!(tokenizer.decode(&ids, false).unwrap(), text);
        }
    }
}

#[test]
fn smollm2_ids_are_hugging_face_s() {
    let t = smollm2();
    check(t, include_str!("data/smollm2.json"));
    assert_eq!((t.vocab_size(), t.bos_id(), t.eos_ids()), (49152, Some(1), &[2, 0][..]));
    assert_eq!(t.encode("Hi", true).unwrap(), t.encode("Hi", false).unwrap());
}

#[test]
fn gemma3_ids_are_sentencepiece_s() {
    let t = gemma3();
    check(t, include_str!("data/gemma3.json"));
    assert_eq!((t.vocab_size(), t.bos_id(), t.eos_ids()), (262144, Some(2), &[1, 106][..]));
    let ids = t.encode("Hi", true).unwrap();
    assert_eq!((ids[0], &ids[1..]), (2, &t.encode("Hi", false).unwrap()[..]));
    assert!(t.chat_template().is_none());
    assert!(t.encode_chat(&[], &RenderOptions::default()).is_err());
}

#[test]
fn smollm2_chats() {
    let t = smollm2();
    let options = RenderOptions { add_generation_prompt: true, ..RenderOptions::default() };
    let messages = [Message::new("system", "Be brief."), Message::new("user", "Hi <|im_end|>")];
    let ids = t.encode_chat(&messages, &options).unwrap();
    assert_eq!(
        t.decode(&ids, false).unwrap(),
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi <|im_end|><|im_end|>\n<|im_start|>assistant\n"
    );
    assert_eq!(t.decode(&ids, true).unwrap(), "system\nBe brief.\nuser\nHi \nassistant\n");
    assert_eq!(ids.iter().filter(|&&id| id == 1).count(), 3);
}

#[test]
fn ids_beyond_the_vocabulary_are_errors() {
    let t = smollm2();
    assert!(t.decode(&[0, 49152], true).unwrap_err().to_string().contains("49152"));
    assert!(t.token_bytes(u32::MAX).is_err());
    assert_eq!(t.token_bytes(t.token_id("Ġthe").unwrap()).unwrap(), b" the");
    assert_eq!(gemma3().token_bytes(gemma3().token_id("<0xF0>").unwrap()).unwrap(), b"\xf0");
}

#[test]
fn long_texts_take_linear_time() {
    for t in [smollm2(), gemma3()] {
        for unit in ["a", " ", "\n", "word ", "é"] {
            let text = unit.repeat(200_000 / unit.len());
            let start = std::time::Instant::now();
            let ids = t.encode(&text, false).unwrap();
            assert_eq!(t.decode(&ids, false).unwrap(), text);
            let seconds = start.elapsed().as_secs_f64();
            assert!(seconds < 30.0, "{unit:?}: {seconds} s");
        }
    }
}

/// Whether a token of SmolLM2 is this byte alone.
fn smollm2_has(byte: u8) -> bool {
    static BYTES: OnceLock<[bool; 256]> = OnceLock::new();
    BYTES.get_or_init(|| {
        let mut bytes = [false; 256];
        for id in 0..smollm2().vocab_size() as u32 {
            if let [byte] = smollm2().token_bytes(id).unwrap() {
                bytes[*byte as usize] = true;
            }
        }
        assert!(
            bytes.iter().filter(|&&b| b).count() > 200 && bytes[..0xf1].iter().filter(|&&b| !b).count() < 20
        );
        bytes
    })[byte as usize]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn any_text_round_trips(text in "(?s).{0,40}") {
        let t = gemma3();
        let ids = t.encode(&text, false).unwrap();
        prop_assert_eq!(t.decode(&ids, false).unwrap(), text.replace('▁', " "));

        // SmolLM2's vocabulary lacks a few bytes, which lead characters beyond the planes in use.
        let t = smollm2();
        let bytes: Vec<u8> = text.bytes().filter(|&b| smollm2_has(b)).collect();
        let ids = t.encode(&text, false).unwrap();
        prop_assert_eq!(t.decode(&ids, false).unwrap(), String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn streamed_pieces_join_to_the_decoded_whole(
        ids in proptest::collection::vec(0u32..49152, 0..60), skip in any::<bool>(),
    ) {
        for t in [smollm2(), gemma3()] {
            let mut stream = t.detokenizer(skip);
            let mut text: String = ids.iter().map(|&id| stream.push(id).unwrap()).collect();
            text.push_str(&stream.finish());
            prop_assert_eq!(&text, &t.decode(&ids, skip).unwrap());
            let bytes: Vec<u8> = ids
                .iter()
                .filter(|&&id| !(skip && t.is_special(id)))
                .flat_map(|&id| t.token_bytes(id).unwrap().to_vec())
                .collect();
            prop_assert_eq!(text, String::from_utf8_lossy(&bytes));
        }
    }
}
