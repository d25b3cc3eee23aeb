//! `cellar-bench restart` as a program: that servers are ended, killed and renewed, that what
//! Cellar promises to keep is there, and that it tells what it found. Times are not checked.

use std::path::Path;

use crate::program::{self, Folder, cellar, figures};
use serde_json::Value;

/// Debian's program of this name, or off.
fn installed(name: &str) -> String {
    let program = format!("/usr/bin/{name}");
    if Path::new(&program).exists() {
        return program;
    }
    println!("without {name}, which is not installed");
    "off".to_owned()
}

fn all(figures: &Value, name: &str) -> Vec<Value> {
    figures[name].as_array().unwrap().clone()
}

#[test]
fn servers_are_ended_killed_and_renewed_and_cellar_keeps_its_items() {
    let Some(cellar) = cellar() else { return };
    let (memcached, redis) = (installed("memcached"), installed("redis-server"));
    let folder = Folder::new();
    let peers = format!("--memcached {memcached} --redis {redis}");
    let options = format!("restart --quick --items 3k --rounds 1 --cellar {cellar} {peers}");
    let figures = figures(&folder, &program::run(&folder, &options));

    let attaches = all(&figures, "attaches");
    let servers = 1 + usize::from(memcached != "off") + 2 * usize::from(redis != "off");
    assert_eq!(attaches.len(), 2 * servers, "two ends");
    for row in attaches {
        assert_eq!(row["items_wrong"], 0, "{row}");
        let is_kept = row["server"] == "cellar" || row["is_killed"] == false;
        let is_kept = is_kept || row["server"] == "redis-server, log";
        let (items, there) = (row["items"].as_u64(), row["items_there"].as_u64());
        assert_eq!(there, items.filter(|_| is_kept).or(Some(0)), "{row}");
        assert_eq!(row["is_hit"], is_kept, "{row}");
    }
    let killed = &figures["killed"];
    assert_eq!(
        (&figures["kills"], &killed["wrong_items"]),
        (&3.into(), &0.into())
    );
    assert!(killed["writes"].as_u64() > Some(0));
    assert_eq!(all(&figures, "costs").len(), 4, "two requests, two depths");

    let renewals = all(&figures, "renewals");
    assert_eq!(renewals.len(), servers);
    for row in renewals {
        assert!(row["acknowledged"].as_u64() > Some(0), "{row}");
        let notices = [
            "lost_items",
            "wrong_items",
            "items_wrong",
            "connections_refused",
            "unanswered",
            "unanswered_at_close",
            "errors",
        ];
        for figure in notices.into_iter().filter(|_| row["server"] == "cellar") {
            assert_eq!(row[figure], 0, "{figure} of {row}");
        }
    }
    let page = folder.read("page.md");
    for part in [
        "| 3 k | kill -9 | cellar ",
        "**Kills**",
        "| set | 32 |",
        "--takeover",
    ] {
        assert!(page.contains(part), "{part} in\n{page}");
    }
}

#[test]
fn without_a_server_nothing_is_measured() {
    let options = "restart --quick --cellar off --memcached off --redis off";
    let output = program::run(&Folder::new(), options);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(errors.contains("no server"), "{errors}");
}
