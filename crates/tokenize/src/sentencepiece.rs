//! Byte-pair encoding as SentencePiece does it: merges by the score of the merged piece.
//!
//! Source: Kudo and Richardson, "SentencePiece" (2018), and the behaviour of its BPE encoder:
//! among all adjacent pairs whose concatenation is a piece the one with the highest score merges
//! first, the leftmost on a tie.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use ahash::AHashMap;
use aho_corasick::{AhoCorasick, MatchKind};

use crate::{Result, TokenizeError};

pub(crate) struct SentencePiece {
    ids: AHashMap<Box<str>, u32>,
    scores: Vec<f32>,
    roles: Vec<Role>,
    bytes: Option<Box<[u32; 256]>>,
    unknown: Option<u32>,
    special: Finder,
    user_defined: Finder,
    add_space_prefix: bool,
}

/// The parts of a vocabulary that encoding needs.
pub(crate) struct Parts<'a> {
    /// All tokens that have a name.
    pub(crate) ids: AHashMap<Box<str>, u32>,
    /// The score of every id.
    pub(crate) scores: Vec<f32>,
    /// The role of every id.
    pub(crate) roles: Vec<Role>,
    /// The ids of the 256 byte tokens.
    pub(crate) bytes: Option<Box<[u32; 256]>>,
    pub(crate) unknown: Option<u32>,
    /// Tokens that are found in the text before anything else.
    pub(crate) special: Vec<(&'a str, u32)>,
    /// Pieces that are found next, in the text between, and are never merged with others.
    pub(crate) user_defined: Vec<(&'a str, u32)>,
    pub(crate) add_space_prefix: bool,
}

/// What merging may do with a token.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Role {
    /// Text is segmented into these.
    Piece,
    /// Appears while merging but not in the result.
    Unused,
    /// Never comes out of merging.
    Apart,
}

const SPACE: &str = "▁";

impl SentencePiece {
    pub(crate) fn new(parts: Parts<'_>) -> Result<Self> {
        if parts.bytes.is_none() && parts.unknown.is_none() {
            let message = "neither byte tokens nor an unknown token: some text has no ids";
            return Err(TokenizeError::Vocabulary(message.into()));
        }
        Ok(Self {
            ids: parts.ids,
            scores: parts.scores,
            roles: parts.roles,
            bytes: parts.bytes,
            unknown: parts.unknown,
            special: Finder::new(parts.special.into_iter().map(|(t, id)| (t.to_owned(), id)))?,
            user_defined: Finder::new(parts.user_defined.into_iter().map(|(t, id)| (escape(t), id)))?,
            add_space_prefix: parts.add_space_prefix,
        })
    }

    pub(crate) fn encode(&self, text: &str) -> Vec<u32> {
        let mut out = Vec::new();
        self.special.split(text, &mut out, |fragment, out| {
            // Spaces are escaped before user-defined pieces are looked for: runs of spaces are
            // such pieces in some vocabularies, and the one put in front counts among them.
            let mut escaped = escape(fragment);
            if self.add_space_prefix {
                escaped.insert_str(0, SPACE);
            }
            self.user_defined.split(&escaped, out, |rest, out| self.merge(rest, out));
        });
        out
    }

    /// The id of any token by its name.
    pub(crate) fn id(&self, token: &str) -> Option<u32> {
        self.ids.get(token).copied()
    }

    fn piece(&self, text: &str) -> Option<u32> {
        self.id(text).filter(|&id| self.roles[id as usize] != Role::Apart)
    }

    fn merge(&self, text: &str, out: &mut Vec<u32>) {
        let mut symbols: Vec<Symbol> = text
            .char_indices()
            .enumerate()
            .map(|(i, (start, c))| Symbol {
                start,
                len: c.len_utf8(),
                prev: i.checked_sub(1),
                next: i + 1,
                halves: None,
            })
            .collect();
        let mut queue = BinaryHeap::new();
        let candidate = |symbols: &[Symbol], left: usize| {
            let right = symbols[left].next;
            let (a, b) = (&symbols[left], symbols.get(right)?);
            let len = a.len + b.len;
            let id = self.piece(&text[a.start..a.start + len])?;
            Some(Candidate { score: self.scores[id as usize], left, right, len, id })
        };
        queue.extend((0..symbols.len()).filter_map(|i| candidate(&symbols, i)));

        // Halves of merges into unused pieces, which the result undoes.
        let mut undone = Vec::new();
        while let Some(Candidate { left, right, len, id, .. }) = queue.pop() {
            // A symbol that was merged away has no length; one that has grown makes the lengths
            // differ. Either way the candidate is stale.
            if symbols[left].len == 0
                || symbols[right].len == 0
                || symbols[left].len + symbols[right].len != len
            {
                continue;
            }
            if self.roles[id as usize] == Role::Unused {
                let part = |s: &Symbol| Part { start: s.start, len: s.len, halves: s.halves };
                undone.push((part(&symbols[left]), part(&symbols[right])));
                symbols[left].halves = Some(undone.len() - 1);
            } else {
                symbols[left].halves = None;
            }
            symbols[left].len = len;
            let next = symbols[right].next;
            symbols[left].next = next;
            symbols[right].len = 0;
            if let Some(s) = symbols.get_mut(next) {
                s.prev = Some(left);
            }
            if let Some(prev) = symbols[left].prev {
                queue.extend(candidate(&symbols, prev));
            }
            queue.extend(candidate(&symbols, left));
        }

        let mut stack = Vec::new();
        let mut at = 0;
        while let Some(s) = symbols.get(at) {
            stack.push(Part { start: s.start, len: s.len, halves: s.halves });
            while let Some(part) = stack.pop() {
                match part.halves {
                    Some(i) => {
                        let (left, right): (Part, Part) = undone[i];
                        stack.push(right);
                        stack.push(left);
                    }
                    None => self.emit(&text[part.start..part.start + part.len], out),
                }
            }
            at = s.next;
        }
    }

    /// The id of a final piece, or of its bytes, or the unknown id.
    fn emit(&self, piece: &str, out: &mut Vec<u32>) {
        if let Some(id) = self.piece(piece) {
            out.push(id);
        } else if let Some(bytes) = &self.bytes {
            out.extend(piece.bytes().map(|b| bytes[b as usize]));
        } else if let Some(unknown) = self.unknown
            && out.last() != Some(&unknown)
        {
            out.push(unknown);
        }
    }
}

fn escape(text: &str) -> String {
    text.replace(' ', SPACE)
}

/// Finds tokens in text, the leftmost first and of those the longest.
struct Finder(Option<(AhoCorasick, Vec<u32>)>);

impl Finder {
    fn new(tokens: impl Iterator<Item = (String, u32)>) -> Result<Self> {
        let (texts, ids): (Vec<_>, Vec<_>) = tokens.unzip();
        if texts.is_empty() {
            return Ok(Self(None));
        }
        let finder = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(texts)
            .map_err(|e| TokenizeError::Vocabulary(format!("special tokens: {e}")))?;
        Ok(Self(Some((finder, ids))))
    }

    /// Puts the ids of the tokens found into `out`, and hands what is between them to `between`.
    fn split(&self, text: &str, out: &mut Vec<u32>, between: impl Fn(&str, &mut Vec<u32>)) {
        let rest = |part: &str, out: &mut Vec<u32>| {
            if !part.is_empty() {
                between(part, out);
            }
        };
        let mut start = 0;
        if let Some((finder, ids)) = &self.0 {
            for found in finder.find_iter(text) {
                rest(&text[start..found.start()], out);
                out.push(ids[found.pattern().as_usize()]);
                start = found.end();
            }
        }
        rest(&text[start..], out);
    }
}

struct Symbol {
    start: usize,
    len: usize,
    prev: Option<usize>,
    /// Index of the following symbol; past the end after the last.
    next: usize,
    halves: Option<usize>,
}

#[derive(Clone, Copy)]
struct Part {
    start: usize,
    len: usize,
    halves: Option<usize>,
}

struct Candidate {
    score: f32,
    left: usize,
    right: usize,
    len: usize,
    id: u32,
}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        self.score.total_cmp(&other.score).then(other.left.cmp(&self.left)).then(self.len.cmp(&other.len))
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Candidate {}
