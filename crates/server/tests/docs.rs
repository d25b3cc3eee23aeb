//! Generated pages: the stored ones are what the tables say.

use crate::support::daemon;
use std::path::Path;

fn check(name: &str, expected: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs")
        .join(name);
    if std::env::var_os("CELLAR_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, expected).unwrap();
    }
    let stored = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        stored == expected,
        "docs/{name} is stale; CELLAR_BLESS=1 writes it anew"
    );
}

#[test]
fn the_settings_page_is_what_the_table_says() {
    let settings = cellar::settings::page::page(cellar::parameters::can_change);
    check("config.md", &(settings + &cellar::parameters::page()));
}

/// Checks a file that packages install.
fn check_packaged(name: &str, expected: &[u8]) {
    let text = String::from_utf8(expected.to_vec()).unwrap();
    check(&format!("../packaging/made/{name}"), &text);
}

#[test]
fn the_manual_page_and_the_words_for_shells_are_what_the_flags_say() {
    let mut manual = Vec::new();
    let command = || cellar::settings::load::command().name("cellar");
    clap_mangen::Man::new(command())
        .render(&mut manual)
        .unwrap();
    check_packaged("cellar.1", &manual);
    for (shell, name) in [
        (clap_complete::Shell::Bash, "cellar.bash"),
        (clap_complete::Shell::Zsh, "_cellar"),
        (clap_complete::Shell::Fish, "cellar.fish"),
    ] {
        let mut words = Vec::new();
        clap_complete::generate(shell, &mut command(), "cellar", &mut words);
        check_packaged(name, &words);
    }
}

#[test]
fn the_limits_page_is_what_the_bounds_say() {
    check("limits.md", &cellar::limits_page::page());
}

#[test]
fn the_metrics_page_is_what_the_tables_say() {
    check("metrics.md", &cellar::metrics::page::page());
}

#[test]
fn stats_shows_every_figure_under_the_name_on_the_page() {
    let daemon = daemon::Daemon::start(&[]);
    for name in cellar::metrics::tables::stat_names() {
        daemon.stat(name);
    }
}
