//! A Rust file cut into code, comments and literals, so that rules look at the right part.
//!
//! A hand-written scanner, not a parser: it knows line and nested block comments, strings, raw
//! strings, characters and lifetimes. It replaces what a rule must not see by spaces and keeps
//! every line break, so line numbers stay true.

/// A Rust source text in parts; each part has the lines of the whole.
#[derive(Clone, Debug)]
pub struct Source {
    /// The code alone, `#[cfg(test)]` modules left out.
    pub code: String,
    /// The code alone, tests included.
    pub code_with_tests: String,
    /// Everything but the contents of literals.
    pub without_literals: String,
    /// Lines that are not in a `#[cfg(test)]` module.
    pub lines_without_tests: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Code,
    Comment,
    Literal,
}

impl Source {
    /// Cuts `text`.
    #[must_use]
    pub fn cut(text: &str) -> Source {
        let chars: Vec<char> = text.chars().collect();
        let parts = parts_of(&chars);
        let code_with_tests = keep(&chars, &parts, |part| part == Part::Code);
        let without_literals = keep(&chars, &parts, |part| part != Part::Literal);
        let (code, test_lines) = blank_test_modules(&code_with_tests);
        let lines_without_tests = text.lines().count() - test_lines;
        Source {
            code,
            code_with_tests,
            without_literals,
            lines_without_tests,
        }
    }
}

/// The words (identifiers and keywords) of a code text with their byte offsets.
pub fn words(code: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut from = 0;
    std::iter::from_fn(move || {
        let start = from + code[from..].find(is_word)?;
        let length = code[start..]
            .find(|c| !is_word(c))
            .unwrap_or(code.len() - start);
        from = start + length;
        Some((start, &code[start..from]))
    })
}

/// The line, from 1, of the byte at `offset`.
#[must_use]
pub fn line_at(text: &str, offset: usize) -> usize {
    text[..offset].matches('\n').count() + 1
}

fn keep(chars: &[char], parts: &[Part], wanted: impl Fn(Part) -> bool) -> String {
    let pairs = chars.iter().zip(parts);
    pairs
        .map(|(&c, &part)| if wanted(part) || c == '\n' { c } else { ' ' })
        .collect()
}

fn parts_of(chars: &[char]) -> Vec<Part> {
    let mut parts = vec![Part::Code; chars.len()];
    let mut at = 0;
    while at < chars.len() {
        let (part, end) = token_at(chars, at);
        parts[at..end].fill(part);
        at = end;
    }
    parts
}

/// The part that starts at `at`, and where it ends.
fn token_at(chars: &[char], at: usize) -> (Part, usize) {
    let next = chars.get(at + 1).copied();
    match chars[at] {
        '/' if next == Some('/') => (Part::Comment, line_end(chars, at)),
        '/' if next == Some('*') => (Part::Comment, block_comment_end(chars, at)),
        '"' => (Part::Literal, quoted_end(chars, at, '"')),
        '\'' if is_char_literal(chars, at) => (Part::Literal, quoted_end(chars, at, '\'')),
        c if c.is_alphanumeric() || c == '_' => word_or_raw_string(chars, at),
        _ => (Part::Code, at + 1),
    }
}

fn word_or_raw_string(chars: &[char], at: usize) -> (Part, usize) {
    let length = chars[at..]
        .iter()
        .take_while(|c| c.is_alphanumeric() || **c == '_')
        .count();
    let word: String = chars[at..at + length].iter().collect();
    let end = at + length;
    if !matches!(word.as_str(), "r" | "br" | "cr") {
        return (Part::Code, end);
    }
    let hashes = chars[end..].iter().take_while(|c| **c == '#').count();
    if chars.get(end + hashes) != Some(&'"') {
        return (Part::Code, end);
    }
    let mut at = end + hashes + 1;
    while at < chars.len() {
        let closing = chars[at + 1..]
            .iter()
            .take_while(|c| **c == '#')
            .take(hashes)
            .count();
        if chars[at] == '"' && closing == hashes {
            return (Part::Literal, at + 1 + hashes);
        }
        at += 1;
    }
    (Part::Literal, chars.len())
}

fn line_end(chars: &[char], at: usize) -> usize {
    chars[at..]
        .iter()
        .position(|c| *c == '\n')
        .map_or(chars.len(), |length| at + length)
}

fn block_comment_end(chars: &[char], at: usize) -> usize {
    let mut depth = 0;
    let mut at = at;
    while at < chars.len() {
        match (chars[at], chars.get(at + 1)) {
            ('/', Some('*')) => (depth, at) = (depth + 1, at + 2),
            ('*', Some('/')) => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    chars.len()
}

fn quoted_end(chars: &[char], at: usize, quote: char) -> usize {
    let mut at = at + 1;
    while at < chars.len() {
        match chars[at] {
            '\\' => at += 2,
            c if c == quote => return at + 1,
            _ => at += 1,
        }
    }
    chars.len()
}

/// Tells `'a'` and `'\n'` from the lifetime `'a`.
fn is_char_literal(chars: &[char], at: usize) -> bool {
    chars.get(at + 1) == Some(&'\\') || chars.get(at + 2) == Some(&'\'')
}

/// Replaces the `#[cfg(test)]` modules by spaces; also counts their lines.
fn blank_test_modules(code: &str) -> (String, usize) {
    const MARK: &str = "#[cfg(test)]";
    let mut kept = String::with_capacity(code.len());
    let mut rest = code;
    let mut lines = 0;
    while let Some(start) = rest.find(MARK) {
        let end = start + test_module_length(&rest[start..]).unwrap_or(MARK.len());
        let is_module = end > start + MARK.len();
        let block = &rest[start..end];
        kept.push_str(&rest[..start]);
        if is_module {
            lines += block.matches('\n').count() + 1;
            kept.extend(block.chars().map(|c| if c == '\n' { c } else { ' ' }));
        } else {
            kept.push_str(block);
        }
        rest = &rest[end..];
    }
    kept.push_str(rest);
    (kept, lines)
}

/// The length of the test module with a body that starts with its attribute.
fn test_module_length(code: &str) -> Option<usize> {
    let open = code.find('{')?;
    let head = &code[..open];
    if head.contains(';') || !words(head).any(|(_, word)| word == "mod") {
        return None;
    }
    let mut depth = 0;
    for (offset, c) in code.char_indices().skip_while(|(offset, _)| *offset < open) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(offset + 1);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_not_code() {
        let text = "let a = \"x // y\"; // unsafe\nlet b = r#\"\"unsafe\"\"#; /* a /* b */ c */ fn";
        let source = Source::cut(text);
        let seen: Vec<_> = words(&source.code).map(|(_, word)| word).collect();
        assert_eq!(seen, ["let", "a", "let", "b", "fn"]);
        assert_eq!(source.code.len(), text.len());
    }

    #[test]
    fn lifetimes_and_characters_are_told_apart() {
        let source = Source::cut("fn f<'a>(x: &'a str) { '\"'; '\\''; b'{'; \"}\" }");
        assert_eq!(source.code.matches("'a").count(), 2);
        assert!(!source.code.contains('"'));
        assert_eq!(source.code.matches(['{', '}']).count(), 2);
    }

    #[test]
    fn test_modules_are_left_out_but_their_lines_stay() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\nfn c() {}\n";
        let source = Source::cut(text);
        let seen: Vec<_> = words(&source.code).map(|(_, word)| word).collect();
        assert_eq!(seen, ["fn", "a", "fn", "c"]);
        assert_eq!(line_at(&source.code, source.code.find('c').unwrap()), 6);
        assert_eq!(source.lines_without_tests, 2);
    }

    #[test]
    fn a_test_module_in_its_own_file_takes_no_lines() {
        let source = Source::cut("#[cfg(test)]\nmod tests;\nfn a() {}\n");
        assert_eq!(source.lines_without_tests, 3);
    }
}
