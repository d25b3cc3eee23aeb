//! Arguments: the argument descriptions of COMMAND DOCS, which redis-cli shows as hints.
//!
//! A line of assets/arguments.txt is a command: its name, a tab, its arguments. An argument is
//! `name=TOKEN:type`, with `?` if it is optional, `*` if it may repeat, `+` if each repetition has
//! the token, and its sub-arguments in parentheses. The types are the first letters of Redis's:
//! key, string, integer, double, pattern, unix-time, token, oneof, block.
//!
//! Source of the lines: COMMAND DOCS of Valkey 9.1; commands of later versions of Redis and of this
//! server follow the same rules.

use cellar_protocol::resp::Reply;

const LINES: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/assets/arguments.txt"));

/// An argument as it is written.
struct Argument {
    name: &'static str,
    token: Option<&'static str>,
    kind: &'static str,
    flags: &'static str,
    /// The arguments that it consists of; empty for most.
    parts: &'static str,
}

/// The arguments of the command with this name, empty if it has none.
pub(super) fn of(name: &str) -> &'static str {
    let mut lines = LINES.lines();
    let found = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix('\t'));
    found.unwrap_or("")
}

/// Writes arguments in the format of COMMAND DOCS.
pub(super) fn describe(reply: &mut Reply<'_>, arguments: &'static str) {
    describe_all(reply, arguments, &mut 0);
}

fn describe_all(reply: &mut Reply<'_>, arguments: &'static str, keys: &mut i64) {
    let (start, mut count, mut rest) = (reply.out.len(), 0, arguments);
    while let Some((argument, behind)) = Argument::first(rest) {
        argument.describe(reply, keys);
        (count, rest) = (count + 1, behind);
    }
    reply.array_around(start, count);
}

impl Argument {
    /// The first of these arguments, and the text behind it.
    fn first(text: &'static str) -> Option<(Argument, &'static str)> {
        let (named, rest) = text.trim_start().split_once(':')?;
        let (name, token) = match named.split_once('=') {
            Some((name, token)) => (name, Some(token)),
            None => (named, None),
        };
        let (letter, rest) = rest.split_at_checked(1)?;
        let kind = match letter {
            "k" => "key",
            "s" => "string",
            "i" => "integer",
            "d" => "double",
            "p" => "pattern",
            "u" => "unix-time",
            "t" => "pure-token",
            "o" => "oneof",
            "b" => "block",
            _ => return None,
        };
        let behind = rest.trim_start_matches(['?', '*', '+']);
        let flags = &rest[..rest.len() - behind.len()];
        let (parts, rest) = match behind.strip_prefix('(') {
            Some(inside) => inside.split_at(end_of_parts(inside)?),
            None => ("", behind),
        };
        let argument = Argument {
            name,
            token,
            kind,
            flags,
            parts,
        };
        Some((argument, rest.strip_prefix(')').unwrap_or(rest)))
    }

    fn describe(&self, reply: &mut Reply<'_>, keys: &mut i64) {
        let is_key = self.kind == "key";
        let is_there = [
            is_key,
            self.token.is_some(),
            !self.flags.is_empty(),
            !self.parts.is_empty(),
        ];
        reply.map(3 + is_there.iter().filter(|it| **it).count());
        for (name, text) in [
            ("name", self.name),
            ("type", self.kind),
            ("display_text", self.name),
        ] {
            reply.bulk(name);
            reply.bulk(text);
        }
        if is_key {
            reply.bulk("key_spec_index");
            reply.integer(*keys);
            *keys += 1;
        }
        if let Some(token) = self.token {
            reply.bulk("token");
            reply.bulk(token);
        }
        if !self.flags.is_empty() {
            reply.bulk("flags");
            reply.set(self.flags.len());
            for flag in self.flags.chars() {
                reply.simple(match flag {
                    '?' => "optional",
                    '*' => "multiple",
                    _ => "multiple_token",
                });
            }
        }
        if !self.parts.is_empty() {
            reply.bulk("arguments");
            describe_all(reply, self.parts, keys);
        }
    }
}

/// Where the parenthesis is that closes one before the text.
fn end_of_parts(text: &str) -> Option<usize> {
    let mut depth = 1;
    let mut closing = text.char_indices().filter(|(_, letter)| {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        depth == 0
    });
    closing.next().map(|(place, _)| place)
}

#[cfg(test)]
mod tests {
    use cellar_protocol::resp::command::TABLE;

    use super::*;

    /// Number of arguments in a text, including nested ones.
    fn count(text: &'static str) -> usize {
        let (mut count, mut rest) = (0, text);
        while let Some((argument, behind)) = Argument::first(rest) {
            count += 1 + self::count(argument.parts);
            rest = behind;
        }
        assert!(rest.trim().is_empty(), "{rest}");
        count
    }

    #[test]
    fn every_command_that_takes_arguments_has_a_line_and_every_line_a_command() {
        let mut names = Vec::new();
        for row in TABLE {
            names.push((
                row.name.to_owned(),
                row.arity,
                1,
                !row.subcommands.is_empty(),
            ));
            for sub in row.subcommands {
                names.push((format!("{}|{}", row.name, sub.name), sub.arity, 2, false));
            }
        }
        for (name, arity, own, is_container) in &names {
            let needs = usize::from(arity.unsigned_abs()) > *own;
            if needs && !is_container {
                assert!(count(of(name)) > 0, "{name}");
            }
        }
        for line in LINES.lines() {
            let (name, arguments) = line.split_once('\t').unwrap();
            assert!(names.iter().any(|row| row.0 == name), "{name}");
            let written = arguments.matches(':').count();
            assert_eq!(count(arguments_of(line, arguments)), written, "{line}");
        }
    }

    /// The arguments of a line, which live as long as all lines.
    fn arguments_of(line: &str, arguments: &str) -> &'static str {
        let name = &line[..line.len() - arguments.len() - 1];
        of(name)
    }
}
