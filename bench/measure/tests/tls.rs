//! `cellar-bench tls` as a program: that every door is asked, every storm blows, and that it tells
//! what it found. What it found depends on the machine and is not checked.

use crate::program::{self, Folder, cellar, figures};

#[test]
fn all_doors_are_asked_and_all_storms_blow() {
    let Some(cellar) = cellar() else { return };
    let folder = Folder::new();
    let options = format!("tls --quick --cellar {cellar} --redis off");
    let figures = figures(&folder, &program::run(&folder, &options));
    let all = |name: &str| figures[name].as_array().unwrap().clone();
    let doors = all("doors");
    assert_eq!(doors.len(), 18, "three protocols, depths and doors");
    for row in doors {
        assert_eq!(row["misses"], 0, "{row}");
        assert!(row["server_cpu_us"].as_f64().unwrap() > 0.0);
        let is_encrypted = row["cipher"] == "TLS13_AES_256_GCM_SHA384";
        assert_eq!(is_encrypted, row["door"] == "TLS", "{row}");
    }
    let storms = all("storms");
    assert_eq!(storms.len(), 6, "two loads beside three storms");
    for row in storms {
        let names = ["connections_per_s", "per_s", "handshakes_share"];
        let [made, per_s, handshakes] = names.map(|it| row[it].as_f64().unwrap());
        assert!(made > 0.0 && per_s > 0.0, "{row}");
        // The load's own are all that there are beside a calm.
        assert!(row["storm"] != "TLS" || handshakes > 0.0, "{row}");
    }
    let idle = all("idle_rounds");
    assert!(idle.len() == 2 && idle.iter().all(|it| it["bytes"].as_f64().unwrap() > 0.0));
    let page = folder.read("page.md");
    for part in [
        "| maximum | over TLS |",
        "TLS over TCP",
        "| idle connection over TLS, KiB |",
    ] {
        assert!(page.contains(part), "{part} in\n{page}");
    }
}
