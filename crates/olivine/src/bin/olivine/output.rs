//! Standard output and error, without a panic when nobody reads them.

use std::io::{self, Write};

/// Writes text to standard output at once.
pub fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// A line on standard output.
pub fn line(text: &str) -> io::Result<()> {
    print(&format!("{text}\n"))
}

/// A line for the user beside the output. That nobody reads it is no error.
///
/// Messages quote files, whose control characters must not reach the terminal.
pub fn note(text: &str) {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() && c != '\n' {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    let _ = writeln!(io::stderr().lock(), "{shown}");
}

/// Bytes as people read them, in powers of 1000.
pub fn bytes(n: usize) -> String {
    const UNITS: [&str; 5] = ["B", "kB", "MB", "GB", "TB"];
    let mut value = n as f64;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    if unit == 0 { format!("{n} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}

#[cfg(test)]
mod tests {
    use super::bytes;

    #[test]
    fn bytes_read_well() {
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(1000), "1.0 kB");
        assert_eq!(bytes(253_000_000), "253.0 MB");
        assert_eq!(bytes(usize::MAX), "18446744.1 TB");
    }
}
