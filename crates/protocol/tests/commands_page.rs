//! The page of commands is the tables of commands.

use std::path::Path;

#[test]
fn the_page_of_commands_is_not_stale() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/commands.md");
    let page = cellar_protocol::page::commands();
    if std::env::var_os("CELLAR_BLESS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let stored = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(
        stored, page,
        "docs/commands.md is stale: run this test with CELLAR_BLESS=1"
    );
}
