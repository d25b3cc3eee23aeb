//! File: the users as an operator writes them, in TOML.
//!
//! ```text
//! [[user]]
//! name = "shop"
//! passwords = ["$argon2id$..."]    # cellar hash-password
//! certificates = ["shop.example"]
//! uids = [33]                      # over a socket file
//! role = "write"                   # read, write, admin
//! prefixes = ["shop:"]             # all keys if left out
//! databases = [0, 3]               # all if left out
//! enabled = true
//! ```
//!
//! An invalid file is refused as a whole, with a one-line error that names the position.

use std::collections::HashMap;
use std::ops::Range;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use cellar_system::named_file;
use toml::Spanned;

use super::role::{Role, User};
use super::secrets;

/// Longest file that is read.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// Most users.
pub const USERS_MAX: usize = 10_000;
/// Longest name of a user.
pub const NAME_BYTES_MAX: usize = 64;
/// Most passwords, certificates, uids, prefixes or databases of one user.
const LIST_MAX: usize = 64;
/// Longest prefix, and longest name in a certificate.
const TEXT_BYTES_MAX: usize = 250;
/// Permission bits of everybody else.
const OTHERS_MODE: u32 = 0o007;
/// User IDs that the system uses for unmapped users, as of another container; and for none.
const NOBODYS_UIDS: [u32; 2] = [65_534, u32::MAX];

/// An error in a file, with its line if known.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FileError(pub(super) String);

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct FileRows {
    #[serde(default)]
    user: Vec<UserRow>,
}

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct UserRow {
    name: Spanned<String>,
    #[serde(default)]
    passwords: Vec<Spanned<String>>,
    #[serde(default)]
    certificates: Vec<Spanned<String>>,
    #[serde(default)]
    uids: Vec<Spanned<u32>>,
    role: Role,
    #[serde(default)]
    prefixes: Vec<Spanned<String>>,
    #[serde(default)]
    databases: Vec<u32>,
    #[serde(default = "yes")]
    enabled: bool,
}

fn yes() -> bool {
    true
}

/// Reads the users of a file that only its owner and group may read or write.
pub(super) fn read(path: &Path) -> Result<Vec<User>, FileError> {
    let fail = |error: std::io::Error| FileError(error.to_string());
    let (file, facts) = named_file::open(path).map_err(fail)?;
    let mode = facts.permissions().mode() & 0o777;
    if mode & OTHERS_MODE != 0 {
        return Err(FileError(format!(
            "every user of this machine has access (mode {mode:o}); use chmod o-rwx, or a mode of \
             0440 for a mounted secret"
        )));
    }
    let bytes = named_file::read(file, FILE_BYTES_MAX).map_err(fail)?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let line = line_of(error.as_bytes(), error.utf8_error().valid_up_to());
        FileError(format!("line {line}: it is not UTF-8"))
    })?;
    parse(&text)
}

/// The users of a text.
pub(super) fn parse(text: &str) -> Result<Vec<User>, FileError> {
    let rows: FileRows = toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        wrong(
            text,
            &(at..at),
            &without_value(error.message(), key_at(text, at)),
        )
    })?;
    if rows.user.is_empty() {
        // The file may be in the middle of a rewrite; without users no client could log in any
        // more.
        return Err(FileError("the file contains no [[user]]".to_owned()));
    }
    if rows.user.len() > USERS_MAX {
        return Err(FileError(format!("it has more than {USERS_MAX} users")));
    }
    let mut offsets = HashMap::new();
    let (mut certificates, mut uids) = (HashMap::new(), HashMap::new());
    let mut users = Vec::with_capacity(rows.user.len());
    for row in &rows.user {
        let (name, span) = (row.name.get_ref(), row.name.span());
        if let Some(first) = offsets.insert(name.as_str(), span.start) {
            let line = line_of(text.as_bytes(), first);
            let reason = format!("the user {name:?} is already at line {line}");
            return Err(wrong(text, &span, &reason));
        }
        for subject in &row.certificates {
            if let Some(other) = certificates.insert(subject.get_ref().as_str(), name) {
                let reason = format!("the user {other:?} has this certificate already");
                return Err(wrong(text, &subject.span(), &reason));
            }
        }
        for uid in &row.uids {
            if let Some(other) = uids.insert(*uid.get_ref(), name) {
                let reason = format!("the user {other:?} has this uid already");
                return Err(wrong(text, &uid.span(), &reason));
            }
        }
        users.push(
            row.check()
                .map_err(|(span, reason)| wrong(text, &span, &reason))?,
        );
    }
    Ok(users)
}

/// The error without the wrong value: it may be a password, or the hash of one.
fn without_value(message: &str, key: &str) -> String {
    let repeats = ["invalid type: ", "invalid value: ", "unknown variant "];
    if !repeats.iter().any(|begin| message.starts_with(begin)) {
        // It contains at most the name of a row, which may have line breaks.
        return message.lines().next().unwrap_or_default().to_owned();
    }
    // The expected value is last.
    match message.rsplit_once("expected ") {
        Some((_, expected)) => format!("{key} expects {expected}"),
        None => format!("{key} has an invalid value"),
    }
}

/// The row of a user that a place in a text belongs to.
fn key_at(text: &str, at: usize) -> &'static str {
    const KEYS: [&str; 8] = [
        "name",
        "passwords",
        "certificates",
        "uids",
        "role",
        "prefixes",
        "databases",
        "enabled",
    ];
    let before = text.get(..at).unwrap_or(text);
    let begins = |key: &&'static str| {
        let mut places = before.rmatch_indices(*key);
        let is_row = |place: usize| {
            let is_whole = !before[..place].ends_with(|last: char| last.is_alphanumeric());
            is_whole && before[place + key.len()..].trim_start().starts_with('=')
        };
        places
            .find(|(place, _)| is_row(*place))
            .map(|(place, _)| (place, *key))
    };
    KEYS.iter()
        .filter_map(begins)
        .max()
        .map_or("this row", |(_, key)| key)
}

impl UserRow {
    /// The parsed user, or the error with its position.
    fn check(&self) -> Result<User, (Range<usize>, String)> {
        let name = self.name.get_ref();
        let of_name = |reason: String| (self.name.span(), reason);
        check_name(name).map_err(of_name)?;
        if self.passwords.is_empty() && self.certificates.is_empty() && self.uids.is_empty() {
            let reason = format!("the user {name:?} has no passwords, certificates or uids");
            return Err(of_name(reason));
        }
        for (what, count) in [
            ("passwords", self.passwords.len()),
            ("certificates", self.certificates.len()),
            ("uids", self.uids.len()),
            ("prefixes", self.prefixes.len()),
            ("databases", self.databases.len()),
        ] {
            if count > LIST_MAX {
                let reason = format!("the user {name:?} has more than {LIST_MAX} {what}");
                return Err(of_name(reason));
            }
        }
        for hash in &self.passwords {
            secrets::check(hash.get_ref()).map_err(|reason| (hash.span(), reason))?;
        }
        for text in self.prefixes.iter().chain(&self.certificates) {
            if !(1..=TEXT_BYTES_MAX).contains(&text.get_ref().len()) {
                let reason = format!("a prefix or certificate has 1 to {TEXT_BYTES_MAX} bytes");
                return Err((text.span(), reason));
            }
        }
        for uid in &self.uids {
            if NOBODYS_UIDS.contains(uid.get_ref()) {
                let reason = format!("the uid {} is not a single user", uid.get_ref());
                return Err((uid.span(), reason));
            }
        }
        Ok(User {
            name: name.as_str().into(),
            hashes: self
                .passwords
                .iter()
                .map(|one| one.get_ref().as_str().into())
                .collect(),
            certificates: self
                .certificates
                .iter()
                .map(|one| one.get_ref().as_str().into())
                .collect(),
            uids: self.uids.iter().map(|one| *one.get_ref()).collect(),
            role: self.role,
            prefixes: without_covered(self.prefixes.iter().map(|one| one.get_ref().as_str())),
            databases: self.databases.clone(),
            enabled: self.enabled,
            since: 0,
        })
    }
}

/// The prefixes of which none begins with another.
fn without_covered<'a>(prefixes: impl Iterator<Item = &'a str>) -> Vec<Box<[u8]>> {
    let mut sorted: Vec<&[u8]> = prefixes.map(str::as_bytes).collect();
    sorted.sort_unstable();
    let mut kept: Vec<Box<[u8]>> = Vec::new();
    for prefix in sorted {
        if !kept.last().is_some_and(|before| prefix.starts_with(before)) {
            kept.push(prefix.into());
        }
    }
    kept
}

/// Whether a text can be a name in all protocols: HTTP ends it at a colon, memcached at a space.
fn check_name(name: &str) -> Result<(), String> {
    let is_of_name = |byte: u8| byte.is_ascii_graphic() && !b":\"'\\".contains(&byte);
    if (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_of_name) {
        return Ok(());
    }
    Err(format!(
        "a name has 1 to {NAME_BYTES_MAX} letters, digits and signs, without spaces, colons, \
         quotes and backslashes"
    ))
}

fn wrong(text: &str, span: &Range<usize>, reason: &str) -> FileError {
    let line = line_of(text.as_bytes(), span.start);
    FileError(format!("line {line}: {reason}"))
}

/// The line of an offset in a text; scans all before it.
fn line_of(text: &[u8], at: usize) -> usize {
    let before = &text[..at.min(text.len())];
    before.iter().filter(|byte| **byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "$argon2id$v=19$m=64,t=1,p=1$c29tZXNhbHRzYWx0$\
        AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

    fn user(rest: &str) -> String {
        format!("[[user]]\nname = \"a\"\npasswords = [\"{HASH}\"]\nrole = \"read\"\n{rest}\n")
    }

    #[test]
    fn a_user_has_what_its_rows_say() {
        let text = user("prefixes = [\"a:\", \"b:\", \"a:b\"]\ndatabases = [0, 2]\nuids = [33, 0]");
        let users = parse(&text).unwrap();
        let one = &users[0];
        assert_eq!((users.len(), &*one.name, one.role), (1, "a", Role::Read));
        assert_eq!(
            one.prefixes,
            [(*b"a:").into(), Box::from(*b"b:") as Box<[u8]>]
        );
        assert_eq!((&*one.databases, one.enabled), (&[0, 2][..], true));
        assert_eq!(one.uids, [33, 0]);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let long = "x".repeat(251);
        for (text, expected) in [
            (String::new(), "the file contains no [[user]]"),
            ("user = []".to_owned(), "the file contains no [[user]]"),
            ("user = 3".to_owned(), "line 1: "),
            ("[[user]]\nname = 3".to_owned(), "line 2: "),
            ("\n\n[[user]\n".to_owned(), "line 3: "),
            (user("prefix = []"), "line 5: unknown field `prefix`"),
            (user("role = \"read\""), "line 5: duplicate key"),
            (user("databases = [-1]"), "line 5: "),
            (
                user("prefixes = [\"\"]"),
                "line 5: a prefix or certificate has 1 to 250 bytes",
            ),
            (
                user(&format!("prefixes = [\"{long}\"]")),
                "line 5: a prefix or",
            ),
            (
                user("") + &user(""),
                "line 7: the user \"a\" is already at line 2",
            ),
            (user("").replace("\"a\"", "\"a b\""), "line 2: a name has"),
            (user("").replace("\"a\"", "\"a:b\""), "line 2: a name has"),
            (user("").replace("\"a\"", "\"\""), "line 2: a name has"),
            (
                user("").replace("\"read\"", "\"root\""),
                "line 4: role expects one of `read`, `write`, `admin`",
            ),
            (user("").replace(HASH, "secret"), "line 3: "),
            (user("").replace("argon2id", "argon2i"), "line 3: "),
            (user("").replace("m=64", "m=99999999"), "line 3: "),
            (
                "[[user]]\nname = \"a\"\nrole = \"read\"".to_owned(),
                "line 2: the user \"a\" has no passwords, certificates or uids",
            ),
            (
                user("uids = [7, 7]"),
                "line 5: the user \"a\" has this uid already",
            ),
            (
                user("uids = [65534]"),
                "line 5: the uid 65534 is not a single user",
            ),
            (user("uids = [4294967295]"), "line 5: the uid 4294967295"),
            (user("uids = [-1]"), "line 5: "),
            (user("uids = [\"www-data\"]"), "line 5: "),
            (
                user("certificates = [\"x\", \"x\"]"),
                "line 5: the user \"a\" has this certificate already",
            ),
        ] {
            let FileError(reason) = parse(&text).unwrap_err();
            assert!(reason.starts_with(expected), "{text}: {reason}");
            assert!(
                !reason.contains('\n') && !reason.contains("secret"),
                "{reason}"
            );
        }
    }

    #[test]
    fn a_row_of_the_wrong_type_is_told_by_what_it_expects_not_by_what_it_has() {
        for (text, expected) in [
            (
                user("").replace(&format!("[\"{HASH}\"]"), "\"secret\""),
                "line 3: passwords expects a sequence",
            ),
            (
                user("").replace(&format!("\"{HASH}\""), "{ hash = \"secret\" }"),
                "line 3: passwords expects ",
            ),
            (
                user("").replace("\"read\"", "\"secret, expected nothing\""),
                "line 4: role expects one of `read`, `write`, `admin`",
            ),
            (
                user("enabled = \"secret\\n, expected 1\""),
                "line 5: enabled expects a boolean",
            ),
            (
                user("databases = [\n\"secret\"]"),
                "line 6: databases expects u32",
            ),
            (
                "user = \"secret\"".to_owned(),
                "line 1: this row expects a sequence",
            ),
            (user("secret"), "line 5: "),
        ] {
            let FileError(reason) = parse(&text).unwrap_err();
            assert!(reason.starts_with(expected), "{text}: {reason}");
            assert!(!reason.contains("secret"), "{reason}");
        }
    }

    #[test]
    fn hostile_files_are_refused_in_time() {
        let nested = "[".repeat(100_000);
        let users = (0..=USERS_MAX).map(|n| user("").replace("\"a\"", &format!("\"{n}\"")));
        for text in [
            nested.clone(),
            format!("user = {nested}"),
            users.collect(),
            "\0\u{1}\u{2}".to_owned(),
            "[[user]]\n".repeat(50_000),
        ] {
            assert!(parse(&text).is_err());
        }
    }

    #[test]
    fn a_file_for_everybody_or_of_other_bytes_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("users.toml");
        let tried = |bytes: &[u8], mode: u32| {
            std::fs::write(&path, bytes).unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            read(&path)
                .map(|users| users.len())
                .map_err(|FileError(reason)| reason)
        };
        assert_eq!(tried(user("").as_bytes(), 0o640), Ok(1));
        for mode in [0o644, 0o602, 0o601] {
            let reason = tried(user("").as_bytes(), mode).unwrap_err();
            assert!(reason.contains("chmod o-rwx"), "{reason}");
        }
        let binary = tried(b"\n\xff\xfe", 0o600).unwrap_err();
        assert_eq!(binary, "line 2: it is not UTF-8");
        let huge = tried(&vec![b'#'; 5 << 20], 0o600).unwrap_err();
        assert_eq!(huge, "it has more than 4194304 bytes");
        assert!(read(folder.path()).is_err() && read(&folder.path().join("no")).is_err());
    }
}
