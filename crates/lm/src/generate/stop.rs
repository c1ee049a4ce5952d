//! Stop texts in a stream of pieces.

/// Holds back text that may turn out to begin a stop text.
#[derive(Debug, Default)]
pub(super) struct StopStrings {
    stops: Vec<String>,
    held: String,
}

impl StopStrings {
    pub(super) fn new(stops: &[String]) -> StopStrings {
        StopStrings { stops: stops.iter().filter(|s| !s.is_empty()).cloned().collect(), held: String::new() }
    }

    /// Takes the next piece; gives the text that is safe to show, and whether a stop text came, of which and
    /// of what follows nothing is shown.
    pub(super) fn push(&mut self, piece: &str) -> (String, bool) {
        if self.stops.is_empty() {
            return (piece.to_owned(), false);
        }
        self.held.push_str(piece);
        // The first to begin wins.
        if let Some(at) = self.stops.iter().filter_map(|s| self.held.find(s.as_str())).min() {
            self.held.truncate(at);
            return (std::mem::take(&mut self.held), true);
        }
        let safe = self.held.len() - self.longest_beginning();
        let rest = self.held.split_off(safe);
        (std::mem::replace(&mut self.held, rest), false)
    }

    /// What was held back, when the stream ends without a stop text.
    pub(super) fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }

    /// Bytes at the end that are the beginning of some stop text.
    fn longest_beginning(&self) -> usize {
        let of = |stop: &String| {
            let ends = stop.char_indices().map(|(i, _)| i).filter(|&i| i > 0);
            ends.filter(|&i| self.held.ends_with(&stop[..i])).max().unwrap_or(0)
        };
        self.stops.iter().map(of).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn run(stops: &[&str], pieces: &[&str]) -> (String, bool) {
        let mut s = StopStrings::new(&stops.iter().map(|s| s.to_string()).collect::<Vec<_>>());
        let mut out = String::new();
        for piece in pieces {
            let (text, stopped) = s.push(piece);
            out.push_str(&text);
            if stopped {
                return (out, true);
            }
        }
        (out + &s.finish(), false)
    }

    #[test]
    fn a_stop_text_over_several_pieces_is_not_shown() {
        assert_eq!(run(&["</s>"], &["a<", "/", "s", ">b"]), ("a".into(), true));
        assert_eq!(run(&["</s>"], &["a<", "/", "t>"]), ("a</t>".into(), false));
        assert_eq!(run(&["aab"], &["a", "a", "a", "b"]), ("a".into(), true));
        assert_eq!(run(&["é!"], &["caf", "é", "?"]), ("café?".into(), false));
        assert_eq!(run(&["", "x"], &["", "y"]), ("y".into(), false));
    }

    proptest! {
        #[test]
        fn the_text_is_what_comes_before_the_first_stop_text(
            text in "[ab]{0,30}",
            stops in proptest::collection::vec("[ab]{1,4}", 0..4),
            cuts in proptest::collection::vec(1usize..4, 0..30),
        ) {
            let mut pieces = Vec::new();
            let mut rest = &text[..];
            for cut in cuts {
                let (piece, tail) = rest.split_at(cut.min(rest.len()));
                pieces.push(piece);
                rest = tail;
            }
            pieces.push(rest);
            let stops: Vec<&str> = stops.iter().map(String::as_str).collect();
            let (shown, stopped) = run(&stops, &pieces);
            // The stop text that is complete first ends the stream; of those, the one that begins first.
            let end = stops.iter().filter_map(|s| text.find(s).map(|at| at + s.len())).min();
            prop_assert_eq!(stopped, end.is_some());
            if stopped {
                prop_assert!(text.starts_with(&shown));
                prop_assert!(stops.iter().any(|s| text[shown.len()..].starts_with(s)));
            } else {
                prop_assert_eq!(shown, text);
            }
        }
    }
}
