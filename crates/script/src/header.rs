//! Header: the optional shebang line of a script, `#!lua flags=no-writes,...`, and the one of a
//! library, `#!lua name=...`.
//!
//! Source: redis.io/docs/latest/develop/interact/programmability/eval-intro, "Script flags".

use cellar_protocol::resp::unquoted_words;

use super::functions::is_name;

/// The declarations in a script's shebang line.
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
    /// Reads the shebang line of a script; the error is Redis's text.
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

/// The declarations in a library's shebang line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LibraryHeader<'a> {
    /// Its name.
    pub name: String,
    /// The program, from the shebang line's end on.
    pub body: &'a [u8],
}

impl LibraryHeader<'_> {
    /// Reads the shebang line of a library; the error is Redis's text.
    ///
    /// # Errors
    /// A text for the client.
    pub fn read(source: &[u8]) -> Result<LibraryHeader<'_>, String> {
        const INVALID: &str = "ERR Invalid library metadata";
        if !source.starts_with(b"#!") {
            return Err("ERR Missing library metadata".to_owned());
        }
        let end = source.iter().position(|&byte| byte == b'\n');
        let end = end.ok_or(INVALID)?;
        let line = &source[..end];
        let words = unquoted_words(line).filter(|_| !line.contains(&0));
        let words = words.ok_or(INVALID)?;
        let (engine, options) = words.split_first().ok_or(INVALID)?;
        let engine = engine.strip_prefix(b"#!").unwrap_or_default();
        let mut name = None;
        for option in options {
            let pair = option.split_at_checked(b"name=".len());
            let pair = pair.filter(|(key, _)| key.eq_ignore_ascii_case(b"name="));
            let Some((_, given)) = pair else {
                let option = String::from_utf8_lossy(option);
                return Err(format!("ERR Invalid metadata value given: {option}"));
            };
            if name.replace(given).is_some() {
                return Err(
                    "ERR Invalid metadata value, name argument was given multiple times".to_owned(),
                );
            }
        }
        let name = name.ok_or("ERR Library name was not given")?;
        if !is_name(name) {
            return Err(WRONG_NAME.to_owned());
        }
        if !engine.eq_ignore_ascii_case(b"lua") {
            let engine = String::from_utf8_lossy(engine);
            return Err(format!("ERR Engine '{engine}' not found"));
        }
        Ok(LibraryHeader {
            name: String::from_utf8_lossy(name).into_owned(),
            body: &source[end..],
        })
    }
}

/// The error for an invalid name of a library or a function.
pub(super) const WRONG_NAME: &str = "ERR Library names can only contain letters, numbers, or \
    underscores(_) and must be at least one character long";

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

    #[test]
    fn a_library_has_a_name() {
        for (source, name) in [
            ("#!lua name=abc\nreturn 1", "abc"),
            ("#!LUA   NAME=\"a\\x41\" \r\nreturn 1", "aA"),
            ("#!\"lua\" na'me=b_1'\nreturn 1", "b_1"),
        ] {
            let header = LibraryHeader::read(source.as_bytes()).unwrap();
            assert_eq!(header.name, name);
            assert_eq!(header.body, b"\nreturn 1");
        }
        for (source, text) in [
            ("return 1", "Missing library metadata"),
            ("#!lua name=a", "Invalid library metadata"),
            ("#!lua name=\"a\n", "Invalid library metadata"),
            ("#!\n", "Library name was not given"),
            ("#!lua\n", "Library name was not given"),
            ("#! lua name=a\n", "Invalid metadata value given: lua"),
            (
                "#!lua foo=1 name=a\n",
                "Invalid metadata value given: foo=1",
            ),
            ("#!js name=a\n", "Engine 'js' not found"),
            (
                "#!lua name=a name=b\n",
                "Invalid metadata value, name argument was given multiple times",
            ),
            ("#!lua name=a-b\n", &WRONG_NAME[4..]),
            ("#!lua name=\n", &WRONG_NAME[4..]),
        ] {
            let refused = LibraryHeader::read(source.as_bytes());
            assert_eq!(refused, Err(format!("ERR {text}")), "{source}");
        }
    }
}
