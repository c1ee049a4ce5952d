//! Ids to text as they arrive.

use std::sync::Arc;

use crate::Result;
use crate::table::TokenTable;

/// Turns a stream of ids into text, piece by piece.
///
/// A piece ends at a character boundary: bytes that begin a character wait for the rest of it.
/// The pieces of all [`push`](Self::push) calls and of [`finish`](Self::finish), joined, equal
/// [`Tokenizer::decode`](crate::Tokenizer::decode) of all the ids. Each id costs time
/// proportional to its own bytes, however long the stream is.
#[derive(Clone)]
pub struct Detokenizer {
    table: Arc<TokenTable>,
    skip_special: bool,
    strip_left: usize,
    /// The beginning of a character: at most three bytes.
    pending: Vec<u8>,
}

impl Detokenizer {
    pub(crate) fn new(table: Arc<TokenTable>, skip_special: bool) -> Self {
        let strip_left = table.strip_left;
        Self { table, skip_special, strip_left, pending: Vec::new() }
    }

    /// Takes the next id and gives the text that it completes, which may be empty.
    ///
    /// # Errors
    /// [`TokenizeError::UnknownId`](crate::TokenizeError::UnknownId); the stream can go on.
    pub fn push(&mut self, id: u32) -> Result<String> {
        let mut out = String::new();
        self.push_into(id, &mut out)?;
        Ok(out)
    }

    /// As [`push`](Self::push), appending to `out`.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub fn push_into(&mut self, id: u32, out: &mut String) -> Result<()> {
        let mut bytes = self.table.get(id)?;
        if self.skip_special && self.table.is_special(id) {
            return Ok(());
        }
        while self.strip_left > 0 {
            let Some((&first, rest)) = bytes.split_first() else { break };
            if first != b' ' {
                self.strip_left = 0;
                break;
            }
            bytes = rest;
            self.strip_left -= 1;
        }
        if self.pending.is_empty() {
            let rest = take_text(bytes, out);
            self.pending.extend_from_slice(rest);
        } else {
            self.pending.extend_from_slice(bytes);
            let rest = take_text(&self.pending, out).len();
            self.pending.drain(..self.pending.len() - rest);
        }
        Ok(())
    }

    /// Ends the stream: U+FFFD if it broke off inside a character, nothing otherwise. The
    /// detokenizer is as new afterwards.
    pub fn finish(&mut self) -> String {
        let broken = !self.pending.is_empty();
        self.pending.clear();
        self.strip_left = self.table.strip_left;
        if broken { char::REPLACEMENT_CHARACTER.to_string() } else { String::new() }
    }
}

/// Moves text from `bytes` to `out`, U+FFFD for each maximal part that no character begins with,
/// and gives back a character's beginning at the end that more bytes could complete.
fn take_text<'a>(mut bytes: &'a [u8], out: &mut String) -> &'a [u8] {
    loop {
        match std::str::from_utf8(bytes) {
            Ok(text) => {
                out.push_str(text);
                return &[];
            }
            Err(error) => {
                let (valid, rest) = bytes.split_at(error.valid_up_to());
                out.push_str(std::str::from_utf8(valid).expect("checked just above"));
                let Some(bad) = error.error_len() else { return rest };
                out.push(char::REPLACEMENT_CHARACTER);
                bytes = &rest[bad..];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn table(tokens: &[(&[u8], bool)], strip_left: usize) -> Arc<TokenTable> {
        let mut table = TokenTable::new(strip_left);
        tokens.iter().for_each(|&(bytes, special)| table.push(Some(bytes), special));
        Arc::new(table)
    }

    fn pieces(table: &Arc<TokenTable>, ids: &[u32]) -> Vec<String> {
        let mut d = Detokenizer::new(table.clone(), true);
        let mut out: Vec<_> = ids.iter().map(|&id| d.push(id).unwrap()).collect();
        out.push(d.finish());
        out
    }

    #[test]
    fn an_emoji_over_four_tokens_comes_whole_and_once() {
        let t = table(
            &[(b"\xf0", false), (b"\x9f", false), (b"\x98", false), (b"\x80", false), (b" ", false)],
            0,
        );
        assert_eq!(pieces(&t, &[0, 1, 2, 3, 4]), ["", "", "", "😀", " ", ""]);
    }

    #[test]
    fn broken_characters_become_replacement_characters_and_nothing_is_lost() {
        let t = table(
            &[(b"\xe2\x82", false), (b"a", false), (b"", false), (b"\xac", false), (b"\xff", false)],
            0,
        );
        assert_eq!(pieces(&t, &[0, 2, 3]), ["", "", "€", ""]);
        assert_eq!(pieces(&t, &[0, 1]), ["", "\u{fffd}a", ""]);
        assert_eq!(pieces(&t, &[0]), ["", "\u{fffd}"]);
        assert_eq!(pieces(&t, &[4, 4, 1, 3]), ["\u{fffd}", "\u{fffd}", "a", "\u{fffd}", ""]);
        assert_eq!(pieces(&t, &[0, 0]), ["", "\u{fffd}", "\u{fffd}"]);
    }

    #[test]
    fn only_the_leading_space_that_encoding_added_is_stripped() {
        let t = table(&[(b" a", false), (b" ", false), (b"<s>", true), (b"", false)], 1);
        assert_eq!(pieces(&t, &[2, 3, 0, 0]).concat(), "a a");
        assert_eq!(pieces(&t, &[1, 0]).concat(), " a");
        let mut d = Detokenizer::new(t, false);
        assert_eq!(d.push(2).unwrap() + &d.push(0).unwrap(), "<s> a");
    }

    #[test]
    fn an_unknown_id_is_an_error_and_the_stream_goes_on() {
        let mut t = TokenTable::new(0);
        t.push(Some(b"\xc3"), false);
        t.push(None, false);
        t.push(Some(b"\xa9"), false);
        let mut d = Detokenizer::new(Arc::new(t), true);
        assert_eq!(d.push(0).unwrap(), "");
        assert_eq!(
            d.push(1).unwrap_err().to_string(),
            "token id 1 is not in the vocabulary (ids 0 to 2, with gaps)"
        );
        assert_eq!(d.push(7).unwrap_err().to_string(), "token id 7 is not in the vocabulary (ids 0 to 2)");
        assert_eq!(d.push(2).unwrap(), "é");
    }

    proptest! {
        #[test]
        fn pieces_join_to_the_lossy_text(
            tokens in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..5), 1..20),
            text in ".{0,20}",
            picks in proptest::collection::vec(any::<proptest::sample::Index>(), 0..60),
        ) {
            // Raw bytes for broken characters, the bytes of a text one by one for split ones.
            let singles = text.bytes().map(|b| vec![b]);
            let tokens: Vec<_> = tokens.into_iter().chain(singles).collect();
            let table = table(&tokens.iter().map(|t| (&t[..], false)).collect::<Vec<_>>(), 0);
            let ids: Vec<u32> = picks.iter().map(|p| p.index(tokens.len()) as u32).collect();
            let all: Vec<u8> = ids.iter().flat_map(|&id| tokens[id as usize].clone()).collect();
            prop_assert_eq!(pieces(&table, &ids).concat(), String::from_utf8_lossy(&all));
        }
    }
}
