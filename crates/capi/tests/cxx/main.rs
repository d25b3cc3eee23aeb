//! The interface from outside: programs in C and C++, compiled, linked and run.
//!
//! `CELLAR_SANITIZE=address` or `thread` compiles them for that sanitizer. The library must be
//! compiled for the same one, as `make asan-library` and `make tsan-library` do.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod build;
mod servers;
#[path = "../../../server/tests/support/wait.rs"]
mod wait;

use std::process::Command;

use build::{Language, Linked, compile, folder, install, passes, root};
use servers::{SecuredServers, Servers};

/// Runs a program of `cxx/tests` with `words`.
fn run_test(name: &str, language: Language, words: &[&str]) {
    let source = folder().join("cxx/tests").join(name);
    let program = compile(&source, language, Linked::Built);
    passes(program.command().args(words));
}

#[test]
fn the_interface_for_c_keeps_its_promises() {
    run_test("plain.c", Language::C, &[]);
}

#[test]
fn the_local_store_in_cpp_keeps_its_promises() {
    run_test("local.cpp", Language::Cpp, &[]);
}

#[test]
fn the_near_cache_in_cpp_keeps_its_promises() {
    let servers = Servers::start();
    let (redis, memcached) = (servers.redis(), servers.memcached());
    run_test("near.cpp", Language::Cpp, &[&redis, &memcached]);
}

#[test]
fn a_server_that_asks_for_a_certificate_is_shown_one() {
    let servers = SecuredServers::start();
    let (redis, memcached) = (servers.redis(), servers.memcached());
    let words = [redis.as_str(), &memcached, servers.papers()];
    run_test("tls.cpp", Language::Cpp, &words);
}

#[test]
fn the_installed_library_is_found_by_cmake_and_pkg_config() {
    if build::is_sanitized() {
        // The same programs again; the installed library has no sanitizer.
        return;
    }
    let installed = install();
    let library = installed.libraries().join("libcellar-near.so");
    let mut sections = Command::new("readelf");
    let sections = passes(sections.args(["--sections", "--wide"]).arg(library));
    let has_symbols = sections.contains(".symtab") || sections.contains(".debug_info");
    assert!(!has_symbols, "it is stripped: {sections}");
    let expected = format!("hello from {}\n", env!("CARGO_PKG_VERSION"));
    let build = tempfile::tempdir().unwrap();
    let consumer = folder().join("cxx/consumer");
    let prefix = format!("-DCMAKE_PREFIX_PATH={}", installed.prefix().display());
    let mut configure = Command::new("cmake");
    configure
        .arg("-S")
        .arg(&consumer)
        .arg("-B")
        .arg(build.path());
    passes(configure.arg(prefix));
    passes(Command::new("cmake").arg("--build").arg(build.path()));
    for program in ["shared", "static"] {
        let output = passes(&mut Command::new(build.path().join(program)));
        assert_eq!(output, expected, "by CMake, {program}");
    }
    for package in ["cellar-near", "cellar-near-static"] {
        let program = compile(
            &consumer.join("main.cpp"),
            Language::Cpp,
            Linked::Package(&installed, package),
        );
        assert_eq!(passes(&mut program.command()), expected, "{package}");
    }
    let mut version = installed.pkg_config();
    version.args(["--modversion", "cellar-near"]);
    assert_eq!(passes(&mut version).trim(), env!("CARGO_PKG_VERSION"));
}

#[test]
fn the_library_in_packages_is_found_by_pkg_config_and_by_the_loader() {
    if build::is_sanitized() {
        return;
    }
    let source = folder().join("cxx/consumer/main.cpp");
    let expected = format!("hello from {}\n", env!("CARGO_PKG_VERSION"));
    for form in ["deb", "rpm"] {
        let Some((installed, package)) = build::packaged(form) else {
            continue;
        };
        for name in ["cellar-near", "cellar-near-static"] {
            let linked = Linked::Package(&installed, name);
            let program = compile(&source, Language::Cpp, linked);
            assert_eq!(
                passes(&mut program.command()),
                expected,
                "{name} in a .{form}"
            );
        }
        for header in ["near.h", "near.hpp"] {
            let header = installed.prefix().join("include/cellar").join(header);
            assert!(header.exists(), "{}", header.display());
        }
        if form == "deb" {
            let mut triggers = Command::new("dpkg-deb");
            let triggers = passes(triggers.arg("--info").arg(&package).arg("triggers"));
            assert_eq!(triggers.trim(), "activate-noawait ldconfig");
        }
    }
}

/// The blocks of a page in this language, and the text block after each, if any.
fn programs(page: &str, language: &str) -> Vec<(String, Option<String>)> {
    let mut blocks = page.split("```").skip(1).step_by(2).peekable();
    let mut found = Vec::new();
    while let Some(block) = blocks.next() {
        let Some(code) = block.strip_prefix(&format!("{language}\n")) else {
            continue;
        };
        let output = blocks.next_if(|next| next.starts_with("text\n"));
        let output = output.and_then(|text| text.strip_prefix("text\n"));
        found.push((code.to_owned(), output.map(str::to_owned)));
    }
    found
}

#[test]
fn the_programs_of_the_guide_run_and_print_what_stands_there() {
    let servers = Servers::start();
    let page = std::fs::read_to_string(root().join("docs/near-cxx.md")).unwrap();
    let all = [("cpp", Language::Cpp), ("c", Language::C)];
    for (name, language) in all {
        let programs = programs(&page, name);
        assert!(!programs.is_empty(), "{name}");
        for (code, expected) in programs {
            let code = code.replace("redis://127.0.0.1:6379", &servers.redis());
            let place = tempfile::tempdir().unwrap();
            let source = place.path().join(format!("program.{name}"));
            std::fs::write(&source, code).unwrap();
            let program = compile(&source, language, Linked::Built);
            let output = passes(&mut program.command());
            assert_eq!(output, expected.expect("what it prints stands behind it"));
        }
    }
}
