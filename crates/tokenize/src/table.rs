//! The bytes of every id.

use crate::{Result, TokenizeError};

/// What ids decode to; shared by a tokenizer and its detokenizers.
pub(crate) struct TokenTable {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    flags: Vec<u8>,
    /// Spaces taken from the start of a decoded text, because encoding put them there.
    pub(crate) strip_left: usize,
}

const KNOWN: u8 = 1;
const SPECIAL: u8 = 2;

impl TokenTable {
    pub(crate) fn new(strip_left: usize) -> Self {
        Self { bytes: vec![], ends: vec![], flags: vec![], strip_left }
    }

    /// Gives the next id its bytes; `None` leaves a gap.
    pub(crate) fn push(&mut self, bytes: Option<&[u8]>, special: bool) {
        self.bytes.extend(bytes.unwrap_or_default());
        self.ends.push(self.bytes.len());
        self.flags.push(if bytes.is_some() { KNOWN } else { 0 } | if special { SPECIAL } else { 0 });
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn get(&self, id: u32) -> Result<&[u8]> {
        let i = id as usize;
        if self.flags.get(i).is_none_or(|f| f & KNOWN == 0) {
            return Err(TokenizeError::UnknownId { id, size: self.len() as u32 });
        }
        let start = if i == 0 { 0 } else { self.ends[i - 1] };
        Ok(&self.bytes[start..self.ends[i]])
    }

    pub(crate) fn is_special(&self, id: u32) -> bool {
        self.flags.get(id as usize).is_some_and(|f| f & SPECIAL != 0)
    }

    pub(crate) fn mark_special(&mut self, id: u32) {
        if let Some(flags) = self.flags.get_mut(id as usize) {
            *flags |= SPECIAL;
        }
    }
}

/// The byte that a character stands for in byte-level vocabularies, which write printable Latin-1
/// bytes as themselves and the 68 others as U+0100 and up, in order.
pub(crate) fn byte_of(c: char) -> Option<u8> {
    match c as u32 {
        c @ (0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff) => Some(c as u8),
        c @ 0x100..=0x120 => Some((c - 0x100) as u8), // 0x00 to 0x20
        c @ 0x121..=0x142 => Some((c - 0x121 + 0x7f) as u8), // 0x7f to 0xa0
        0x143 => Some(0xad),
        _ => None,
    }
}

/// The bytes of a byte-level token. One that has characters outside the byte alphabet is text.
pub(crate) fn byte_level(token: &str) -> Vec<u8> {
    token.chars().map(byte_of).collect::<Option<_>>().unwrap_or_else(|| token.as_bytes().to_vec())
}

/// The byte of a token like `<0x0A>`.
pub(crate) fn fallback_byte(token: &str) -> Option<u8> {
    let digits = token.strip_prefix("<0x")?.strip_suffix('>')?;
    if digits.len() != 2 || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    u8::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_byte_alphabet_covers_every_byte_once() {
        let mut seen = [false; 256];
        for c in (0..0x400).filter_map(char::from_u32) {
            if let Some(b) = byte_of(c) {
                assert!(!std::mem::replace(&mut seen[b as usize], true), "{c:?}");
            }
        }
        assert!(seen.iter().all(|&s| s));
        assert_eq!((byte_of('Ġ'), byte_of('Ċ'), byte_of('ł')), (Some(b' '), Some(b'\n'), Some(0xa0)));
    }

    #[test]
    fn fallback_tokens_are_recognised_exactly() {
        assert_eq!(fallback_byte("<0x0A>"), Some(10));
        assert_eq!(fallback_byte("<0xff>"), Some(255));
        for other in ["<0x0>", "<0x0A", "0x0A", "<0x+1>", "<0x0AB>", "<0xé>"] {
            assert_eq!(fallback_byte(other), None, "{other}");
        }
    }
}
