//! `cellar-bench engine` as a program: the engine and its peers hold what they were given.

use std::process::Command;

#[test]
fn a_quick_run_has_every_operation_of_every_cache_and_what_an_item_takes() {
    let output = Command::new(env!("CARGO_BIN_EXE_cellar-bench"))
        .args(["engine", "--quick", "--items", "2k", "--operations", "3200"])
        .args(["--memory-items", "2k", "--memory-mib", "64"])
        .output()
        .expect("the program starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let text = String::from_utf8(output.stdout).expect("it prints text");
    for (cache, operations) in [
        (
            "cellar-engine",
            ["get", "get_many 16", "get_many 32", "set"].as_slice(),
        ),
        ("quick_cache", &["get", "set"]),
        ("moka", &["get", "set"]),
    ] {
        for operation in operations {
            for threads in [1, 2] {
                let row = format!("| {cache} | {operation} | zipf:0.99 | {threads} |");
                assert!(text.contains(&row), "{row}\n{text}");
            }
        }
    }
    for peer in ["quick_cache", "moka"] {
        assert!(text.contains(&format!("The same in {peer}: ")), "{text}");
    }
}
