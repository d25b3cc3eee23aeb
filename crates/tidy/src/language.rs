//! The rule for the language of README, guide and help texts.
//!
//! A reader who runs caches for a living understands each sentence the first time: pages use the
//! terms of the field, an actor is the subject, and sentences are short. The rule looks at prose
//! only: code blocks, code spans and the targets of links are left out.

use crate::tree::{File, Finding, Tree};

/// Terms that pages do not use, and what to write instead.
const TERMS: [(&str, &str); 56] = [
    ("places on the earth", "geospatial indexes (GEO)"),
    ("sketches", "HyperLogLog"),
    ("commands that wait", "blocking commands"),
    ("those that wait", "blocking commands, blocked clients"),
    ("the dead", "expired items"),
    ("dead bytes", "reclaimable bytes"),
    ("what is over", "expired items"),
    ("time is over", "has expired, has ended"),
    ("are over", "have expired, have ended"),
    ("a wave", "mass expiration"),
    ("upkeep", "background maintenance"),
    ("doorstep", "unauthenticated connections, pre-auth limits"),
    ("strangers", "wrong-protocol detection"),
    ("crowd", "many clients"),
    ("cession", "hot restart"),
    ("heir", "new process"),
    ("successor", "new server"),
    ("told of", "notified, published, reported"),
    ("is told", "gets an error, is notified, is logged"),
    ("are told", "get an error, are notified, are logged"),
    ("told so", "gets an error"),
    ("unless told otherwise", "by default"),
    ("hears of", "is notified"),
    ("hear of", "are notified"),
    ("databases that keep", "databases without eviction"),
    ("is kept", "is stored, is not evicted"),
    ("make room", "reclaim space, evict"),
    ("makes room", "reclaims space, evicts"),
    ("no room", "no free space"),
    ("letting go", "release"),
    ("lets go", "releases"),
    ("let go", "released"),
    ("gives up", "aborts, releases"),
    ("goes on", "continues"),
    ("go on", "continue"),
    ("going on", "continuing"),
    ("stands still", "is blocked"),
    ("stand still", "be blocked"),
    ("stood still", "was blocked"),
    ("comes in", "connects, arrives"),
    ("come in", "connect, arrive"),
    ("of others' own", "upstream"),
    ("suites of others", "upstream test suites"),
    ("a server of others", "Redis, memcached"),
    ("figures", "metrics, results"),
    ("otherwise than", "differences from"),
    ("its kin", "related commands, derivatives"),
    ("by and by", "in the background"),
    ("anew", "again"),
    ("lies in", "is in"),
    ("lies on", "is on"),
    ("stands in", "is in"),
    ("stand in", "are in"),
    ("key spaces", "databases, keyspaces"),
    ("for want of", "for lack of"),
    ("keeps true", "keeps consistent"),
];

/// Words that begin a sentence without an actor; a question may begin so.
const WITHOUT_ACTOR: [&str; 4] = ["who", "whoever", "whatever", "what"];

/// Most words of a sentence in README.md.
const README_WORDS_MAX: usize = 25;
/// Most words of a sentence in the guide.
const GUIDE_WORDS_MAX: usize = 35;

/// The text of `--help`, which is Rust, not Markdown.
const HELP: &str = "crates/config/src/settings/help.rs";
/// Pages whose terms are checked, beside README and guide: they are made of help texts.
const GENERATED: [&str; 3] = ["docs/config.md", "docs/limits.md", "docs/metrics.md"];

/// Terms and sentences of all texts that the rule covers.
#[must_use]
pub fn check(tree: &Tree) -> Vec<Finding> {
    tree.files().flat_map(check_file).collect()
}

fn check_file(file: &File) -> Vec<Finding> {
    let words_max = match file.path.as_str() {
        "README.md" => README_WORDS_MAX,
        path if path.starts_with("docs/guide/") => GUIDE_WORDS_MAX,
        path if GENERATED.contains(&path) => usize::MAX,
        HELP => return help_terms(file),
        _ => return Vec::new(),
    };
    let mut findings = Vec::new();
    for (line, passage) in passages(&file.text) {
        findings.extend(terms(file, line, &passage));
        findings.extend(sentences(file, line, &passage, words_max));
    }
    findings
}

/// Terms in the strings of a Rust file: in its lines without comments.
fn help_terms(file: &File) -> Vec<Finding> {
    let lines = file.text.lines().enumerate();
    let shown = lines.filter(|(_, line)| !line.trim_start().starts_with("//"));
    shown
        .flat_map(|(index, line)| terms(file, index + 1, line))
        .collect()
}

fn terms(file: &File, line: usize, passage: &str) -> Vec<Finding> {
    let text = normalized(passage);
    let found = TERMS.iter().filter(|(term, _)| {
        let term = normalized(term);
        text.contains(&term)
    });
    found
        .map(|(term, instead)| Finding::new(file, line, format!("`{term}`: write {instead}")))
        .collect()
}

fn sentences(file: &File, line: usize, passage: &str, words_max: usize) -> Vec<Finding> {
    let mut findings = Vec::new();
    for sentence in split(passage) {
        let words: Vec<&str> = sentence.split_whitespace().collect();
        let count = words
            .iter()
            .filter(|word| word.contains(char::is_alphanumeric))
            .count();
        if count > words_max {
            let begin = words[..words.len().min(8)].join(" ");
            let what = format!("{count} words in a sentence, at most {words_max}: {begin} ...");
            findings.push(Finding::new(file, line, what));
        }
        let first = words.first().map(|word| {
            word.trim_matches(|c: char| !c.is_alphanumeric())
                .to_lowercase()
        });
        let has_no_actor = first.is_some_and(|word| WITHOUT_ACTOR.contains(&word.as_str()));
        if has_no_actor && words.len() > 4 && !sentence.ends_with('?') {
            let begin = words[..words.len().min(8)].join(" ");
            let what = format!("name the actor at the beginning of: {begin} ...");
            findings.push(Finding::new(file, line, what));
        }
    }
    findings
}

/// The words of a text in lower case, each between two spaces.
fn normalized(text: &str) -> String {
    let is_part = |c: char| c.is_alphanumeric() || c == '\'' || c == '-';
    let words = text
        .split(|c: char| !is_part(c))
        .filter(|it| !it.is_empty());
    let mut line = String::from(" ");
    for word in words {
        line.extend(word.chars().flat_map(char::to_lowercase));
        line.push(' ');
    }
    line
}

/// The sentences of a passage.
fn split(passage: &str) -> Vec<&str> {
    let mut sentences = Vec::new();
    let mut start = 0;
    for (at, _) in passage.match_indices([' ', '\n']) {
        let before = passage[start..at].trim_end_matches(['*', ')', '"']);
        if before.ends_with(['.', '!', '?']) {
            sentences.push(passage[start..at].trim());
            start = at + 1;
        }
    }
    sentences.push(passage[start..].trim());
    sentences
}

/// The paragraphs, list items, headings and table cells of a page, each with its first line.
fn passages(page: &str) -> Vec<(usize, String)> {
    let mut passages: Vec<(usize, String)> = Vec::new();
    let (mut is_code, mut is_open) = (false, false);
    for (index, line) in page.lines().enumerate() {
        let text = line.trim();
        let is_fence = text.starts_with("```");
        is_code ^= is_fence;
        if is_code || is_fence || text.is_empty() {
            is_open = false;
            continue;
        }
        let numbered = text.trim_start_matches(|c: char| c.is_ascii_digit());
        let is_item =
            text.starts_with("- ") || numbered.len() < text.len() && numbered.starts_with(". ");
        if text.starts_with('|') {
            passages.extend(
                text.split('|')
                    .map(|cell| (index + 1, cell.trim().to_owned())),
            );
            is_open = false;
        } else if is_open && !is_item && !text.starts_with('#') {
            if let Some((_, passage)) = passages.last_mut() {
                passage.push(' ');
                passage.push_str(text);
            }
        } else {
            passages.push((
                index + 1,
                text.trim_start_matches(['-', '#', ' ']).to_owned(),
            ));
            is_open = !text.starts_with('#');
        }
    }
    passages
        .into_iter()
        .map(|(line, text)| (line, prose(&text)))
        .collect()
}

/// A passage without its code spans and the targets of its links.
fn prose(passage: &str) -> String {
    let spans = passage.split('`').enumerate();
    let text = spans.map(|(at, span)| if at % 2 == 1 { "X" } else { span });
    let text: String = text.collect();
    let mut parts = text.split("](");
    let mut prose = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        prose.push_str(part.split_once(')').map_or(part, |(_, rest)| rest));
    }
    prose
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> Vec<String> {
        let file = File {
            path: path.into(),
            text: text.into(),
        };
        check_file(&file).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_term_is_found_over_a_line_break_but_not_in_code_or_in_a_longer_word() {
        let text = "A text.\n\nThe server makes\nroom.\n\n`make room`, [a](no/room)\n\n\
                    ```sh\nmake room\n```\nThe upkeeper.\n";
        let found = findings("docs/guide/a.md", text);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("docs/guide/a.md:3: `makes room`"));
        assert!(findings("docs/decisions/a.md", text).is_empty());
    }

    #[test]
    fn a_long_sentence_is_found_and_two_short_ones_are_not() {
        let long = format!("The server {}stops.", "really ".repeat(33));
        assert_eq!(findings("docs/guide/a.md", &long).len(), 1);
        assert_eq!(
            findings("docs/guide/a.md", &long.replacen("really ", "", 1)).len(),
            0
        );
        assert_eq!(
            findings("README.md", &long.replacen("really ", "", 9)).len(),
            1
        );
        let two = long.replacen("really really", "really. Really", 2);
        assert!(findings("docs/guide/a.md", &two).is_empty());
    }

    #[test]
    fn a_sentence_without_an_actor_is_found_and_a_question_is_not() {
        let text = "Who waits and hangs up gets nothing. What does the server do then?";
        let found = findings("docs/guide/a.md", text);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("name the actor"), "{found:?}");
    }

    #[test]
    fn terms_of_the_help_are_checked_and_its_comments_are_not() {
        let text = "// The upkeep.\ntitle: \"The upkeep\",\n";
        assert_eq!(findings(HELP, text).len(), 1);
    }
}
