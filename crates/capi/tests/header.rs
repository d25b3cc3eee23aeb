//! The C header is what cbindgen generates from the sources, and every function catches panics.
//!
//! `CELLAR_BLESS=1` writes the header.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs;
use std::path::Path;

/// The sources, in layer order.
const SOURCES: [&str; 8] = [
    "border",
    "key",
    "value",
    "store",
    "local",
    "codec",
    "near_options",
    "near",
];
const HEADER: &str = "include/cellar/near.h";

fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn sources() -> Vec<String> {
    let path = |name: &&str| folder().join("src").join(format!("{name}.rs"));
    let read = |name| fs::read_to_string(path(name)).unwrap();
    SOURCES.iter().map(read).collect()
}

#[test]
fn the_header_is_what_the_sources_say() {
    let config = cbindgen::Config::from_file(folder().join("cbindgen.toml")).unwrap();
    let mut builder = cbindgen::Builder::new().with_config(config);
    for name in SOURCES {
        builder = builder.with_src(folder().join("src").join(format!("{name}.rs")));
    }
    let mut made = Vec::new();
    builder.generate().unwrap().write(&mut made);
    let (made, path) = (String::from_utf8(made).unwrap(), folder().join(HEADER));
    if std::env::var_os("CELLAR_BLESS").is_some() {
        fs::write(&path, &made).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == made, "{HEADER} is stale: `make docs` writes it");
}

/// Functions that cannot panic, because they only return constants.
const PLAIN: [&str; 3] = [
    "cellar_version",
    "cellar_local_defaults",
    "cellar_near_defaults",
];

#[test]
fn every_function_of_the_interface_catches_panics() {
    let mut seen = 0;
    for source in sources() {
        for function in source.split("extern \"C\" fn cellar_").skip(1) {
            let name = function.split('(').next().unwrap();
            let body = &function[..function.find("\n}\n").unwrap()];
            seen += 1;
            let is_plain = PLAIN.contains(&format!("cellar_{name}").as_str());
            assert!(is_plain || body.contains("border("), "cellar_{name}");
        }
    }
    assert!(seen > 30, "{seen} functions");
}
