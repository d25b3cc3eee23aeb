//! Console: the page at `/` and the files it is made of, kept in the binary.
//!
//! The files are in assets/console and are served unchanged. They contain no data, so all clients
//! get the same files. Browsers cache them and revalidate them at each load.
//!
//! Page: docs/console.md. Tests: at the end of this file; server/tests/console.rs;
//! foreign-clients/node.

use std::borrow::Cow;

use sha1::{Digest, Sha1};

use super::Page;

/// The content security policy: the page's own files and requests to this server, nothing else.
const POLICY: &str = "default-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'; object-src 'none'";

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const PICTURE: &str = "image/svg+xml";

/// One file.
struct Asset {
    path: &'static str,
    content_type: &'static str,
    body: &'static [u8],
}

macro_rules! asset {
    ($name:literal, $content_type:expr) => {
        Asset {
            path: concat!("/assets/", $name),
            content_type: $content_type,
            body: include_bytes!(concat!("../../../assets/console/", $name)),
        }
    };
}

/// All files; the page itself is the first.
static ASSETS: &[Asset] = &[
    Asset {
        path: "/",
        ..asset!("index.html", HTML)
    },
    asset!("icon.svg", PICTURE),
    asset!("style/tokens.css", STYLE),
    asset!("style/page.css", STYLE),
    asset!("style/controls.css", STYLE),
    asset!("style/panels.css", STYLE),
    asset!("theme.js", SCRIPT),
    asset!("main.js", SCRIPT),
    asset!("dom.js", SCRIPT),
    asset!("format.js", SCRIPT),
    asset!("histogram.js", SCRIPT),
    asset!("history.js", SCRIPT),
    asset!("poller.js", SCRIPT),
    asset!("chart.js", SCRIPT),
    asset!("connection_state.js", SCRIPT),
    asset!("panels/compression.js", SCRIPT),
    asset!("panels/connections.js", SCRIPT),
    asset!("panels/events.js", SCRIPT),
    asset!("panels/expiry.js", SCRIPT),
    asset!("panels/figures.js", SCRIPT),
    asset!("panels/hits.js", SCRIPT),
    asset!("panels/hot_keys.js", SCRIPT),
    asset!("panels/latency.js", SCRIPT),
    asset!("panels/look_up.js", SCRIPT),
    asset!("panels/memory.js", SCRIPT),
    asset!("panels/settings.js", SCRIPT),
    asset!("panels/throughput.js", SCRIPT),
    asset!("panels/what_if.js", SCRIPT),
    asset!("vendor/uplot.min.js", SCRIPT),
    asset!("vendor/uplot.min.css", STYLE),
];

/// Whether this is the path of the page or of one of its files. They contain no data, and every
/// client that may see the console can load them.
pub(super) fn has(path: &str) -> bool {
    find(path).is_some()
}

/// The file of a path; without its body if the client has it already.
pub(super) fn answer(path: &str, if_none_match: Option<&[u8]>) -> Option<Page> {
    let asset = find(path)?;
    let tag = tag_of(asset.body);
    let is_known = if_none_match.is_some_and(|known| names(known, &tag));
    let mut headers = vec![
        ("ETag", tag),
        ("Cache-Control", "no-cache".to_owned()),
        ("Referrer-Policy", "no-referrer".to_owned()),
    ];
    if asset.content_type == HTML {
        headers.push(("Content-Security-Policy", POLICY.to_owned()));
    }
    Some(Page {
        status: if is_known { 304 } else { 200 },
        content_type: asset.content_type,
        headers,
        body: Cow::Borrowed(if is_known { b"" } else { asset.body }),
    })
}

fn find(path: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.path == path)
}

/// The entity tag of a body.
fn tag_of(body: &[u8]) -> String {
    let digest = Sha1::digest(body);
    let hex: String = digest[..8]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("\"{hex}\"")
}

/// Whether an If-None-Match field names a tag.
///
/// Source: RFC 9110, section 13.1.2.
fn names(field: &[u8], tag: &str) -> bool {
    field.split(|&byte| byte == b',').any(|part| {
        let part = part.trim_ascii();
        let part = part.strip_prefix(b"W/").unwrap_or(part);
        part == b"*" || part == tag.as_bytes()
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::*;

    const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/console");

    fn files_below(folder: &Path, found: &mut BTreeSet<String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                files_below(&path, found);
            } else {
                let name = path.strip_prefix(FOLDER).unwrap().to_str().unwrap();
                found.insert(format!("/assets/{name}"));
            }
        }
    }

    #[test]
    fn every_file_of_the_folder_is_served_but_what_is_for_people() {
        let mut expected = BTreeSet::new();
        files_below(Path::new(FOLDER), &mut expected);
        expected.retain(|path| !path.ends_with(".md") && !path.ends_with(".LICENSE"));
        assert!(expected.remove("/assets/index.html"));
        expected.insert("/".to_owned());
        let served: BTreeSet<String> = ASSETS.iter().map(|asset| asset.path.to_owned()).collect();
        assert_eq!(served, expected);
    }

    #[test]
    fn what_the_files_refer_to_is_served_and_no_other_host_is_named() {
        let ours = ASSETS
            .iter()
            .filter(|asset| !asset.path.contains("/vendor/"));
        let mut references = 0;
        for asset in ours {
            let text = std::str::from_utf8(asset.body).unwrap();
            for part in text.split("\"/assets/").skip(1) {
                let path = format!("/assets/{}", part.split('"').next().unwrap());
                assert!(has(&path), "{} refers to {path}", asset.path);
                references += 1;
            }
            let hosts = text.replace("http://www.w3.org/2000/svg", "");
            assert!(!hosts.contains("://"), "{} names a host", asset.path);
        }
        assert!(references >= 9, "the page refers to its files");
    }

    #[test]
    fn nothing_turns_text_into_markup() {
        for asset in ASSETS {
            let text = std::str::from_utf8(asset.body).unwrap();
            for word in [
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
            ] {
                assert!(!text.contains(word), "{} has {word}", asset.path);
            }
        }
    }

    #[test]
    fn a_browser_that_has_a_file_does_not_get_it_again() {
        let page = answer("/assets/main.js", None).unwrap();
        assert_eq!((page.status, page.content_type), (200, SCRIPT));
        let (_, tag) = &page.headers[0];
        for (field, status) in [
            (tag.clone(), 304),
            (format!("\"other\", W/{tag}"), 304),
            ("*".to_owned(), 304),
            ("\"other\"".to_owned(), 200),
        ] {
            let page = answer("/assets/main.js", Some(field.as_bytes())).unwrap();
            assert_eq!(page.status, status, "{field}");
            assert_eq!(page.body.is_empty(), status == 304);
        }
        assert!(answer("/assets/other.js", None).is_none());
        assert!(answer("/assets/../main.js", None).is_none());
    }
}
