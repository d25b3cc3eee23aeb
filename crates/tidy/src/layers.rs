//! Rules between files: who may import whom, and which crates meet where.
//!
//! Inside a crate the `mod` lines of its root file stand in layer order, and so do those of a
//! module with children: code refers only to modules declared above its own. A parent may use its
//! children. Between crates [`ARROWS`] lists every allowed dependency.

use std::collections::BTreeMap;

use crate::source::{Source, line_at, words};
use crate::tree::{File, Finding, Tree};

/// Every crate and the crates of the project it may depend on.
const ARROWS: [(&str, &[&str]); 17] = [
    ("engine", &[]),
    ("protocol", &[]),
    ("values", &["cellar-engine"]),
    ("script", &["cellar-engine", "cellar-protocol"]),
    ("system", &["cellar-engine"]),
    (
        "config",
        &["cellar-engine", "cellar-protocol", "cellar-system"],
    ),
    ("net", &["cellar-engine", "cellar-system", "cellar-config"]),
    ("cluster", &["cellar-protocol", "cellar-config"]),
    (
        "shared",
        &[
            "cellar-engine",
            "cellar-protocol",
            "cellar-values",
            "cellar-script",
            "cellar-system",
            "cellar-config",
            "cellar-net",
            "cellar-cluster",
        ],
    ),
    (
        "execute",
        &[
            "cellar-engine",
            "cellar-protocol",
            "cellar-values",
            "cellar-script",
            "cellar-system",
            "cellar-config",
            "cellar-net",
            "cellar-cluster",
            "cellar-shared",
        ],
    ),
    (
        "server",
        &[
            "cellar-engine",
            "cellar-protocol",
            "cellar-values",
            "cellar-script",
            "cellar-system",
            "cellar-config",
            "cellar-net",
            "cellar-cluster",
            "cellar-shared",
            "cellar-execute",
        ],
    ),
    ("near", &["cellar-protocol"]),
    ("capi", &["cellar-near"]),
    ("load", &["cellar-protocol"]),
    // The server's own map of a cluster is what a simulation asks.
    (
        "measure",
        &[
            "cellar-cluster",
            "cellar-config",
            "cellar-engine",
            "cellar-load",
            "cellar-near",
            "cellar-protocol",
        ],
    ),
    ("runner", &[]),
    ("tidy", &["cellar-runner"]),
];

/// The crates that the server is made of, lowest first.
pub(crate) const SERVER: [&str; 7] = [
    "system", "config", "net", "cluster", "shared", "execute", "server",
];

/// The only crate of the server whose files may name both the protocol's and the engine's types.
const MEETING_PLACE: &str = "crates/execute/src/";

/// The protocols, each with a room of its own in codecs and execution.
pub(crate) const PROTOCOLS: [&str; 3] = ["memcached", "resp", "http"];

/// The server's files that tell one protocol from the others, beside `execute/src/NAME.rs`, which
/// has its `PROTOCOL`. All others ask its row (`config/src/protocol.rs`) or what implements
/// `Intake`.
const NAMING_PROTOCOLS: [&str; 4] = [
    "shared/src/auth/wrong_protocol.rs",
    "cluster/src/table.rs",
    "config/src/settings.rs",
    "execute/src/link.rs",
];

/// The server's event loops, which do not name the protocols.
const LOOPS: [&str; 3] = [
    "crates/server/src/server/event_loop/connection.rs",
    "crates/server/src/server/event_loop/worker.rs",
    "crates/server/src/server/event_loop/worker/",
];

/// What a crate's root files say about `unsafe`; the engine may use it.
const UNSAFE_ATTRIBUTES: [(&str, &str); 16] = [
    ("values", "#![forbid(unsafe_code)]"),
    ("script", "#![forbid(unsafe_code)]"),
    ("protocol", "#![forbid(unsafe_code)]"),
    ("system", "#![forbid(unsafe_code)]"),
    ("config", "#![forbid(unsafe_code)]"),
    ("net", "#![forbid(unsafe_code)]"),
    ("cluster", "#![forbid(unsafe_code)]"),
    ("shared", "#![forbid(unsafe_code)]"),
    ("execute", "#![forbid(unsafe_code)]"),
    ("server", "#![deny(unsafe_code)]"),
    ("near", "#![forbid(unsafe_code)]"),
    ("capi", "#![deny(unsafe_code)]"),
    ("load", "#![forbid(unsafe_code)]"),
    ("measure", "#![forbid(unsafe_code)]"),
    ("runner", "#![forbid(unsafe_code)]"),
    ("tidy", "#![forbid(unsafe_code)]"),
];

/// All rules between files.
#[must_use]
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = arrows(tree);
    findings.extend(meeting_places(tree));
    findings.extend(loops(tree));
    findings.extend(naming_protocols(tree));
    findings.extend(unsafe_attributes(tree));
    for (name, _) in ARROWS {
        findings.extend(module_order(tree.sources_of(name)));
    }
    findings
}

fn arrows(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files() {
        let Some((_, name, "Cargo.toml")) = file.package() else {
            continue;
        };
        let Some((_, allowed)) = ARROWS.iter().find(|(known, _)| *known == name) else {
            let what = "a new crate needs a row in the arrow table of crates/tidy";
            findings.push(Finding::new(file, 0, what));
            continue;
        };
        for (index, line) in file.text.lines().enumerate() {
            let dependency = line.split(['.', ' ', '=']).next().unwrap_or_default();
            let ours = dependency == "cellar" || dependency.starts_with("cellar-");
            // A crate's tests may take the crate with features that are off by default.
            let itself = dependency.strip_prefix("cellar-") == Some(name);
            if ours && !itself && !allowed.contains(&dependency) {
                let what = format!("crate {name} may not depend on {dependency}");
                findings.push(Finding::new(file, index + 1, what));
            }
        }
    }
    findings
}

fn meeting_places(tree: &Tree) -> Vec<Finding> {
    sources_of_the_server(tree).flat_map(meeting).collect()
}

fn sources_of_the_server(tree: &Tree) -> impl Iterator<Item = &File> {
    SERVER.into_iter().flat_map(|name| tree.sources_of(name))
}

/// Checks one file of the server.
fn meeting(file: &File) -> Option<Finding> {
    if file.path.starts_with(MEETING_PLACE) {
        return None;
    }
    let code = Source::cut(&file.text).code;
    let place = |name| words(&code).find(|(_, word)| *word == name);
    let (offset, _) = place("cellar_protocol")?;
    place("cellar_engine")?;
    let what = "protocol and engine meet only in crates/execute";
    Some(Finding::new(file, line_at(&code, offset), what))
}

fn loops(tree: &Tree) -> Vec<Finding> {
    let is_loop = |file: &&File| LOOPS.iter().any(|place| file.path.starts_with(place));
    tree.rust().filter(is_loop).filter_map(in_loop).collect()
}

/// Checks one file of the event loops.
fn in_loop(file: &File) -> Option<Finding> {
    let code = Source::cut(&file.text).code;
    let (offset, name) =
        words(&code).find(|(_, word)| *word == "cellar_protocol" || PROTOCOLS.contains(word))?;
    let what = format!("event loops know no protocol: `{name}` is for crates/execute");
    Some(Finding::new(file, line_at(&code, offset), what))
}

/// Checks that the files of [`NAMING_PROTOCOLS`], and no others, name a variant of `Protocol`.
fn naming_protocols(tree: &Tree) -> Vec<Finding> {
    sources_of_the_server(tree).filter_map(naming).collect()
}

/// Checks one file of the server.
fn naming(file: &File) -> Option<Finding> {
    let path = file.path.strip_prefix("crates/")?;
    let is_own = |name: &&str| path == format!("execute/src/{name}.rs");
    if PROTOCOLS.iter().any(is_own) || file.is_test() {
        return None;
    }
    let code = Source::cut(&file.text).code;
    let variants = ["Memcached", "Resp", "Http"].map(|name| format!("Protocol::{name}"));
    let is_named = |offset: usize| variants.iter().any(|name| code[offset..].starts_with(name));
    let mut places = words(&code).filter(|(_, word)| *word == "Protocol");
    let named = places.find(|(offset, _)| is_named(*offset));
    match (named, NAMING_PROTOCOLS.contains(&path)) {
        (Some((offset, _)), false) => {
            let what = "a protocol's row or its `Intake` says what differs between protocols";
            Some(Finding::new(file, line_at(&code, offset), what))
        }
        (None, true) => {
            let what = "it names no protocol: crates/tidy/src/layers.rs need not list it";
            Some(Finding::new(file, 1, what))
        }
        _ => None,
    }
}

fn unsafe_attributes(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, attribute) in UNSAFE_ATTRIBUTES {
        for root in ["lib.rs", "main.rs"] {
            let is_root = |file: &&File| file.path.ends_with(&format!("/{name}/src/{root}"));
            let Some(file) = tree.sources_of(name).find(is_root) else {
                continue;
            };
            let stricter = attribute.replace("deny", "forbid");
            if !file.text.contains(attribute) && !file.text.contains(&stricter) {
                findings.push(Finding::new(file, 1, format!("`{attribute}` is missing")));
            }
        }
    }
    findings
}

/// A module's place in its crate: `["execute", "storage"]`.
type ModulePath = Vec<String>;

/// Checks the references between the modules of one crate.
fn module_order<'a>(files: impl Iterator<Item = &'a File>) -> Vec<Finding> {
    let mut codes = Vec::new();
    let mut children: BTreeMap<ModulePath, Vec<String>> = BTreeMap::new();
    for file in files {
        let code = Source::cut(&file.text).code;
        let own = module_path(&file.path);
        children
            .entry(own.clone())
            .or_default()
            .extend(declared_modules(&code));
        codes.push((file, own, code));
    }
    let mut findings = Vec::new();
    for (file, own, code) in &codes {
        for (offset, target) in references(code, own) {
            if let Some(what) = wrong_way(&children, own, &target) {
                findings.push(Finding::new(file, line_at(code, offset), what));
            }
        }
    }
    // A group import names a module once for each of its items.
    findings.dedup();
    findings
}

fn module_path(path: &str) -> ModulePath {
    let (_, inner) = path.split_once("src/").expect("the file is a source");
    let name = inner.strip_suffix(".rs").expect("a Rust file");
    match name {
        "lib" | "main" => Vec::new(),
        _ => name.split('/').map(str::to_owned).collect(),
    }
}

/// The names of the `mod x;` lines, in order.
fn declared_modules(code: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut last = "";
    for (offset, word) in words(code) {
        if last == "mod" && code[offset + word.len()..].trim_start().starts_with(';') {
            names.push(word.to_owned());
        }
        last = word;
    }
    names
}

/// Why a reference from module `own` to `target` breaks the order, if it does.
fn wrong_way(
    children: &BTreeMap<ModulePath, Vec<String>>,
    own: &ModulePath,
    target: &ModulePath,
) -> Option<String> {
    let shared = own.iter().zip(target).take_while(|(a, b)| a == b).count();
    let siblings = children.get(&own[..shared])?;
    let place = |path: &ModulePath| {
        let name = path.get(shared)?;
        siblings.iter().position(|sibling| sibling == name)
    };
    let (own_place, target_place) = (place(own)?, place(target)?);
    (target_place > own_place).then(|| {
        let (own, target) = (&siblings[own_place], &siblings[target_place]);
        format!("`{own}` uses `{target}`, which is declared below it")
    })
}

/// All paths below `crate::` and `super::` in the code of module `own`, with their offsets.
fn references(code: &str, own: &ModulePath) -> Vec<(usize, ModulePath)> {
    let mut found = Vec::new();
    let mut after_super = 0;
    for (offset, word) in words(code) {
        let is_super = word == "super";
        if word != "crate" && (!is_super || offset < after_super) {
            continue;
        }
        let mut base = if is_super { own.clone() } else { Vec::new() };
        let mut rest = &code[offset..];
        while let Some(tail) = rest.strip_prefix("super") {
            base.pop();
            let Some(tail) = tail.strip_prefix("::") else {
                break;
            };
            rest = tail;
        }
        after_super = code.len() - rest.len();
        let rest = rest.strip_prefix("crate::").unwrap_or(rest);
        if rest.starts_with("crate") {
            continue;
        }
        found.extend(tree_paths(rest).into_iter().map(|path| {
            let whole = base.iter().cloned().chain(path).collect();
            (offset, whole)
        }));
    }
    found
}

/// The paths of a use tree such as `a::{b, c::D}`; a plain path is a tree with one path.
fn tree_paths(text: &str) -> Vec<ModulePath> {
    let Some(inner) = text.strip_prefix('{') else {
        let length = text
            .find(|c: char| !c.is_alphanumeric() && c != '_')
            .unwrap_or(text.len());
        let head = text[..length].to_owned();
        let Some(tail) = text[length..].strip_prefix("::") else {
            return vec![vec![head]];
        };
        let tails = tree_paths(tail);
        return tails
            .into_iter()
            .map(|tail| [vec![head.clone()], tail].concat())
            .collect();
    };
    split_group(inner)
        .into_iter()
        .flat_map(|branch| tree_paths(branch.trim()))
        .collect()
}

/// The branches of a group whose opening brace has been taken off.
fn split_group(inner: &str) -> Vec<&str> {
    let mut branches = Vec::new();
    let (mut depth, mut start) = (0, 0);
    for (offset, c) in inner.char_indices() {
        match c {
            '{' => depth += 1,
            ',' if depth == 0 => {
                branches.push(&inner[start..offset]);
                start = offset + 1;
            }
            '}' if depth == 0 => {
                branches.push(&inner[start..offset]);
                return branches;
            }
            '}' => depth -= 1,
            _ => {}
        }
    }
    branches
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<File> = files
            .iter()
            .map(|(path, text)| File {
                path: format!("src/{path}"),
                text: (*text).into(),
            })
            .collect();
        module_order(files.iter())
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn a_module_may_use_what_is_declared_above_it() {
        let lib = ("lib.rs", "pub mod key;\nmod item;\npub use item::Item;\n");
        assert!(findings(&[lib, ("key.rs", ""), ("item.rs", "use crate::key::Key;")]).is_empty());
    }

    #[test]
    fn a_use_of_a_lower_module_is_found_in_every_form() {
        let lib = ("lib.rs", "mod key;\nmod item;\nmod log;\n");
        for line in [
            "use crate::item::Item;",
            "use crate::{key::Key, log::{Log, Segment}};",
            "use super::log;",
            "fn a(b: crate::log::Log) {}",
        ] {
            let found = findings(&[lib, ("key.rs", &format!("fn b() {{}}\n{line}\n"))]);
            assert_eq!(found.len(), 1, "{line}");
            assert!(
                found[0].starts_with("src/key.rs:2: `key` uses `"),
                "{found:?}"
            );
        }
    }

    #[test]
    fn protocol_and_engine_meet_in_execute_only() {
        let met = |path: &str, text: &str| {
            let file = File {
                path: format!("crates/{path}"),
                text: text.into(),
            };
            meeting(&file).is_some()
        };
        let both = "use cellar_engine::Cache;\nuse cellar_protocol::memcached::Request;\n";
        let decoding = "use cellar_engine::Cache;\n\
            use cellar_protocol::memcached;\nfn a() { memcached::decode() }\n";
        assert!(!met("execute/src/read.rs", both));
        assert!(met("net/src/output.rs", both));
        assert!(met("server/src/worker/steps.rs", both));
        assert!(met("server/src/worker/steps.rs", decoding));
        assert!(!met("net/src/output.rs", "use cellar_engine::Cache;\n"));
    }

    #[test]
    fn event_loops_name_no_protocol() {
        let named = |text: &str| {
            let file = File {
                path: "crates/server/src/server/event_loop/worker/steps.rs".into(),
                text: text.into(),
            };
            in_loop(&file).is_some()
        };
        assert!(named("use cellar_execute::memcached;\n"));
        assert!(named("fn a() { cellar_protocol::resp::decode() }\n"));
        assert!(!named("//! For memcached.\nuse cellar_execute::Link;\n"));
    }

    #[test]
    fn few_files_name_a_protocol_and_the_list_has_no_others() {
        let found = |path: &str, text: &str| {
            let file = File {
                path: format!("crates/{path}"),
                text: text.into(),
            };
            naming(&file).map(|finding| finding.to_string())
        };
        let names = "fn a() {\n    b(Protocol::Http)\n}\n";
        let at = "crates/net/src/tls.rs:2: a protocol's row or its `Intake` says what \
                  differs between protocols";
        assert_eq!(found("net/src/tls.rs", names).as_deref(), Some(at));
        assert_eq!(found("execute/src/http.rs", names), None);
        assert_eq!(found("execute/src/link.rs", names), None);
        assert!(found("execute/src/link.rs", "fn a() {}\n").is_some());
        assert_eq!(
            found("net/src/tls.rs", "fn a() { b(OldProtocol::Http) }\n"),
            None
        );
        assert_eq!(
            found("net/src/tls.rs", "fn a() { b(Protocol::ALL) }\n"),
            None
        );
    }

    #[test]
    fn tests_and_comments_may_name_lower_modules() {
        let lib = ("lib.rs", "mod key;\nmod item;\n");
        let key = "//! See crate::item.\n#[cfg(test)]\nmod tests { use crate::item::Item; }\n";
        assert!(findings(&[lib, ("key.rs", key)]).is_empty());
    }

    #[test]
    fn children_stand_in_layer_order_too_and_parents_use_children() {
        let files = [
            ("lib.rs", "mod execute;\n"),
            (
                "execute.rs",
                "mod read;\nmod store;\nuse self::store::Store;\n",
            ),
            ("execute/read.rs", "use super::store::Store;\n"),
            (
                "execute/store.rs",
                "use crate::execute::read::Read;\nuse super::Context;\n",
            ),
        ];
        let found = findings(&files);
        assert_eq!(
            found,
            ["src/execute/read.rs:1: `read` uses `store`, which is declared below it"]
        );
    }
}
