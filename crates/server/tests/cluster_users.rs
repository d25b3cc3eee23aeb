//! A cluster in an etcd that has users: a name, a password in a file, tokens that end.

use std::process::Command;
use std::thread::sleep;

use crate::support::daemon::Daemon;
use crate::support::etcd::{Etcd, EtcdForm};
use crate::support::etcd_node::{EtcdNode, LEASE_LASTS};
use crate::support::http::Http;
use crate::support::resp::Client;
use crate::support::wait::wait_until;

/// How long a token holds, in seconds.
const TOKEN_S: u64 = 2;

/// An etcd with users whose tokens hold for a moment: `root`, and `node`, which may write what is
/// below `/cellar/test/`.
fn etcd_with_users(folder: &std::path::Path) -> Option<Etcd> {
    let path = |file: &str| folder.join(file).display().to_string();
    let (private, public) = (path("private"), path("public"));
    let openssl = |words: &[&str]| {
        let output = Command::new("openssl").args(words).output().unwrap();
        assert!(output.status.success(), "{words:?}");
    };
    openssl(&["genrsa", "-traditional", "-out", &private, "2048"]);
    openssl(&["rsa", "-in", &private, "-pubout", "-out", &public]);
    let token = format!("jwt,pub-key={public},priv-key={private},sign-method=RS256,ttl={TOKEN_S}s");
    let form = EtcdForm {
        more: ["--auth-token", &token, "--bcrypt-cost", "4"]
            .map(str::to_owned)
            .to_vec(),
        ..EtcdForm::default()
    };
    let etcd = Etcd::start_as(&form)?;
    etcd.wait();
    let ask = |path: &str, question: &str| etcd.ask(path, question);
    for name in ["root", "node"] {
        let user = format!("{{\"name\":\"{name}\",\"password\":\"{name}'s secret\"}}");
        ask("auth/user/add", &user);
        ask("auth/role/add", &format!("{{\"name\":\"{name}\"}}"));
        let both = format!("{{\"user\":\"{name}\",\"role\":\"{name}\"}}");
        ask("auth/user/grant", &both);
    }
    // "/cellar/test/" up to "/cellar/test0", in base64.
    let range = "{\"name\":\"node\",\"perm\":{\"permType\":\"READWRITE\",\
                 \"key\":\"L2NlbGxhci90ZXN0Lw==\",\"range_end\":\"L2NlbGxhci90ZXN0MA==\"}}";
    ask("auth/role/grant", range);
    ask("auth/enable", "{}");
    Some(etcd)
}

#[test]
fn a_node_speaks_to_etcd_as_a_user_whose_tokens_end() {
    let folder = tempfile::tempdir().unwrap();
    let Some(etcd) = etcd_with_users(folder.path()) else {
        return;
    };
    let file = folder.path().join("password");
    std::fs::write(&file, "node's secret\n").unwrap();
    let login = |user: &str| {
        let path = file.display().to_string();
        ["--cluster-user", user, "--cluster-password-file", &path].map(str::to_owned)
    };
    let mut one = EtcdNode::of("one", &etcd.address());
    one.more = login("node").to_vec();
    one.start_until("all nodes use this map");
    // Tokens end meanwhile, of the watch too, and nobody notices.
    for _ in 0..2 {
        // paced: leases and tokens of etcd end by its own clock.
        sleep(LEASE_LASTS);
        assert_eq!(one.info("cluster_state"), "ok");
    }
    let mut other = EtcdNode::of("other", &etcd.address());
    other.more = login("node").to_vec();
    other.start_until("all nodes use this map");
    one.running().log_until("all nodes use this map");
    assert_eq!(one.served() + other.served(), 16_384);
    assert_eq!(one.lost_leases(), 0);
    // Somebody without a name, and one without the right password, are told in one line.
    let mut nobody = EtcdNode::of("nobody", &etcd.address());
    let line = nobody.start_until("keeping the previous map");
    assert!(
        line.contains("set --cluster-user and --cluster-password-file"),
        "{line}"
    );
    std::fs::write(&file, "node's mistake\n").unwrap();
    let mut wrong = EtcdNode::of("wrong", &etcd.address());
    wrong.more = login("node").to_vec();
    let line = wrong.start_until("keeping the previous map");
    assert!(line.contains("--cluster-user node: etcd says: ") && line.contains("password"));
    assert!(!line.contains("mistake"), "{line}");
    is_refused(wrong.running());
    // The file is read again for each login.
    std::fs::write(&file, "node's secret\n").unwrap();
    wrong.running().log_until("all nodes use this map");
}

#[test]
fn a_password_that_is_not_right_any_more_ends_with_the_lease() {
    let folder = tempfile::tempdir().unwrap();
    let Some(etcd) = etcd_with_users(folder.path()) else {
        return;
    };
    let file = folder.path().join("password");
    std::fs::write(&file, "node's secret\n").unwrap();
    let path = file.display().to_string();
    let mut node = EtcdNode::of("one", &etcd.address());
    node.more = ["--cluster-user", "node", "--cluster-password-file", &path]
        .map(str::to_owned)
        .to_vec();
    node.start_until("all nodes use this map");
    // Somebody gives that user another password, and then changes what this node looks at.
    let root = etcd.ask(
        "auth/authenticate",
        "{\"name\":\"root\",\"password\":\"root's secret\"}",
    );
    let token = root.split("\"token\":\"").nth(1).unwrap();
    let token = token.split('"').next().unwrap();
    let change = "{\"name\":\"node\",\"password\":\"another\"}";
    etcd.ask_as(token, "auth/user/changepw", change);
    let root = etcd.ask(
        "auth/authenticate",
        "{\"name\":\"root\",\"password\":\"root's secret\"}",
    );
    let token = root.split("\"token\":\"").nth(1).unwrap();
    let token = token.split('"').next().unwrap();
    // "/cellar/test/zz", in base64.
    let key = "\"key\":\"L2NlbGxhci90ZXN0L3p6\"";
    etcd.ask_as(token, "kv/put", &format!("{{{key},\"value\":\"\"}}"));
    etcd.ask_as(token, "kv/deleterange", &format!("{{{key}}}"));
    let told = node.running().log_until("keeping the previous map");
    let line = told.last().unwrap();
    assert!(line.contains("--cluster-user node: etcd says: "), "{line}");
    node.running()
        .log_until("the lease was not renewed in time");
    is_refused(node.running());
    std::fs::write(&file, "another\n").unwrap();
    // The lease is renewed, or another one is taken, if that was too late.
    let mut client = Client::connect(node.running());
    wait_until("the node serves again", || {
        client.run("GET k").shown() == "nil"
    });
}

/// Checks that a node serves nothing, and that a metric says that its list is bad.
fn is_refused(daemon: &Daemon) {
    Client::connect(daemon).check("GET k => -CLUSTERDOWN Hash slot not served");
    let metrics = Http::to(daemon).get("/metrics");
    assert!(metrics.text().contains("\ncellar_cluster_list_is_bad 1\n"));
}
