//! `cellar-bench cluster` as a program: that clusters are simulated, that nodes in a file and in
//! etcd are asked, come, go and are killed, and that it tells what it found. Times are not checked.

use std::process::Command;

use crate::program::{self, Folder, cellar, figures};

#[test]
fn clusters_are_simulated_and_nodes_come_go_and_die() {
    let Some(cellar) = cellar() else { return };
    let has_etcd = Command::new("etcd").arg("--version").output().is_ok();
    let folder = Folder::new();
    let etcd = if has_etcd { "etcd" } else { "off" };
    let options = format!("cluster --quick --cellar {cellar} --etcd {etcd}");
    let figures = figures(&folder, &program::run(&folder, &options));
    let all = |name: &str| figures[name].as_array().unwrap().clone();
    let simulated = all("simulated");
    assert_eq!(simulated.len(), 4, "two sizes, two kinds of weights");
    for row in simulated {
        let [largest, bound] = ["largest", "bound"].map(|it| row[it].as_f64().unwrap());
        assert!((1.0..=bound).contains(&largest), "{row}");
        for change in ["comes", "goes", "rack"] {
            let [moved, own] = ["moved", "own"].map(|it| row[change][it].as_f64().unwrap());
            assert!(moved >= own && own > 0.0, "{change} of {row}");
        }
        assert_eq!(
            row["agreement"]["stores"],
            row["nodes"].as_u64().unwrap() + 1
        );
    }
    let sources = 1 + usize::from(has_etcd);
    let misses = all("misses");
    assert_eq!(misses.len(), 2 * sources);
    for row in misses {
        let keys = row["keys_of_newcomer"].as_u64();
        assert!(
            keys > Some(0) && row["passed"]["misses"].as_u64() >= keys,
            "{row}"
        );
        assert!(row["passed"]["moved"].as_u64() > Some(0), "{row}");
    }
    let tails = all("tails");
    assert_eq!(tails.len(), 2);
    for row in tails {
        assert_eq!(row["failed"], 0, "{row}");
        assert!(row["before_us"].as_f64() > Some(0.0) && row["during_us"].as_f64() > Some(0.0));
    }
    assert_eq!(
        all("costs").len(),
        8 * (2 + sources),
        "protocols, requests, depths"
    );
    let page = folder.read("page.md");
    for part in [
        "### Simulated: the map",
        "| 3 | 1, 2, 1, 4 |",
        "| 3 + 1 | a file |",
    ] {
        assert!(page.contains(part), "{part} in\n{page}");
    }
    if has_etcd {
        for row in all("deaths") {
            assert_eq!(row["hits"], row["keys"], "{row}");
        }
        assert!(page.contains("killed node are served again"), "{page}");
    }
}
