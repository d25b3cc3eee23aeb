//! ACL LOG, and how ACL shows users of some databases.

use crate::support::{daemon, resp, users};

use daemon::Daemon;
use resp::{Client, ok};
use users::UsersFile;

fn login(daemon: &Daemon, name: &str) -> Client {
    let mut client = Client::connect(daemon);
    assert_eq!(client.run(&format!("AUTH {name} {name}-pw")), ok());
    client
}

fn serve() -> (UsersFile, Daemon) {
    let file = UsersFile::of_roles();
    let flags = file.flags();
    let daemon = Daemon::spawn(&flags.each_ref().map(String::as_str));
    (file, daemon)
}

#[test]
fn the_log_tells_what_was_refused_and_no_secret() {
    let (_file, daemon) = serve();
    let mut root = login(&daemon, "root");
    root.check("ACL LOG => []");
    let mut app = login(&daemon, "app");
    for words in [
        "GET other",
        "GET other",
        "FLUSHALL",
        "PUBLISH news x",
        "MULTI",
        "GET third",
    ] {
        app.run(words);
    }
    app.run("DISCARD");
    app.run("AUTH app s3cret-try");
    let log = root.run("ACL LOG 20").shown();
    for entry in [
        "[count, :1, reason, auth, context, toplevel, object, AUTH, username, app, age-seconds, ",
        "[count, :1, reason, key, context, multi, object, third, username, app, ",
        "[count, :1, reason, channel, context, toplevel, object, news, username, app, ",
        "[count, :1, reason, command, context, toplevel, object, flushall, username, app, ",
        "[count, :2, reason, key, context, toplevel, object, other, username, app, ",
    ] {
        assert!(log.contains(entry), "{entry}: {log}");
    }
    assert!(
        log.starts_with("[[count, :1, reason, auth"),
        "the newest first: {log}"
    );
    assert!(
        log.contains("user=app") && log.contains("entry-id, :4, timestamp-created"),
        "{log}"
    );
    assert!(
        !log.contains("s3cret-try") && !log.contains("argon2"),
        "{log}"
    );
    assert_eq!(root.run("ACL LOG 1").shown().matches("reason").count(), 1);
    root.check(
        "ACL LOG 0 => []
         ACL LOG x => -ERR value is not an integer or out of range
         ACL LOG RESET => +OK
         ACL LOG => []",
    );
    assert!(app.run("ACL LOG").shown().starts_with("-NOPERM"));
}

#[test]
fn a_user_of_some_databases_is_shown_as_one() {
    let (_file, daemon) = serve();
    let mut root = login(&daemon, "root");
    let list = root.run("ACL LIST").shown();
    let line = "user app on ~app:* &app:* db=0,2 -@all +@read +@write +@connection";
    assert!(list.contains(line), "{list}");
    assert!(list.contains("user reader on ~* &* -@all"), "{list}");
    let shown = root.run("ACL GETUSER app").shown();
    assert!(
        shown.ends_with("databases, db=0,2, selectors, []]"),
        "{shown}"
    );
    let shown = root.run("ACL GETUSER reader").shown();
    assert!(
        shown.ends_with("databases, alldbs, selectors, []]"),
        "{shown}"
    );
    // INFO counts what was refused by its reason.
    let mut app = login(&daemon, "app");
    app.run("FLUSHALL");
    app.run("GET elsewhere");
    app.run("SELECT 1");
    let info = root.run("INFO stats").shown();
    for line in [
        "acl_access_denied_auth:0",
        "acl_access_denied_cmd:1",
        "acl_access_denied_key:1",
        "acl_access_denied_channel:0",
    ] {
        assert!(info.lines().any(|one| one == line), "{line}: {info}");
    }
}
