//! Header: the shebang line that may stand before a script, `#!lua flags=no-writes,...`.
//!
//! Source: redis.io/docs/latest/develop/interact/programmability/eval-intro, "Script flags".

/// What a script says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header<'a> {
    /// Whether there is a shebang line.
    pub is_present: bool,
    /// Whether the script promises to write nothing.
    pub no_writes: bool,
    /// The program, from the shebang line's end on.
    pub body: &'a [u8],
}

impl Header<'_> {
    /// Reads what stands before a program; the error is Redis's text.
    ///
    /// # Errors
    /// A text for the client.
    pub fn read(source: &[u8]) -> Result<Header<'_>, String> {
        let mut header = Header {
            is_present: false,
            no_writes: false,
            body: source,
        };
        if !source.starts_with(b"#!") {
            return Ok(header);
        }
        let end = source.iter().position(|&byte| byte == b'\n');
        let end = end.ok_or("ERR Invalid script shebang")?;
        let line = String::from_utf8_lossy(&source[..end]);
        let mut words = line.split_ascii_whitespace();
        let engine = words.next().unwrap_or_default();
        if engine != "#!lua" {
            return Err(format!("ERR Unexpected engine in script shebang: {engine}"));
        }
        for word in words {
            let Some(flags) = word.strip_prefix("flags=") else {
                return Err(format!("ERR Unknown lua shebang option: {word}"));
            };
            for flag in flags.split(',').filter(|flag| !flag.is_empty()) {
                match flag {
                    "no-writes" => header.no_writes = true,
                    "allow-oom" | "allow-stale" | "no-cluster" | "allow-cross-slot-keys" => {}
                    _ => return Err(format!("ERR Unexpected flag in script shebang: {flag}")),
                }
            }
        }
        header.is_present = true;
        header.body = &source[end..];
        Ok(header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_cut_off_and_its_line_end_stays() {
        let header = Header::read(b"#!lua flags=no-writes,allow-oom\nreturn 1").unwrap();
        assert!(header.is_present && header.no_writes);
        assert_eq!(header.body, b"\nreturn 1");
        let header = Header::read(b"return 1").unwrap();
        assert!(!header.is_present && !header.no_writes);
    }

    #[test]
    fn other_engines_options_and_flags_are_refused() {
        for (source, text) in [
            ("#!lua", "ERR Invalid script shebang"),
            ("#!js\n", "ERR Unexpected engine in script shebang: #!js"),
            ("#!lua foo\n", "ERR Unknown lua shebang option: foo"),
            (
                "#!lua flags=xx\n",
                "ERR Unexpected flag in script shebang: xx",
            ),
        ] {
            assert_eq!(Header::read(source.as_bytes()), Err(text.to_owned()));
        }
    }
}
