//! The unit of `docs/hosting.md` fits the examples and the other pages.

use super::blocks::{pages, root};
use std::fs;
use std::path::{Path, PathBuf};

/// The values of a key of the unit.
fn values(key: &str) -> Vec<String> {
    let page = pages("ini").into_iter().find(|page| page.name == "docs/hosting.md");
    let text = &page.expect("the page has a unit").blocks[0].text;
    let lines = text.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    lines.flat_map(str::split_whitespace).map(str::to_owned).collect()
}

/// The paths below which the server of an example writes.
fn written(text: &str) -> Vec<PathBuf> {
    let mut section = "";
    let mut found = Vec::new();
    for line in text.lines().map(str::trim) {
        if line.starts_with('[') {
            section = line;
        }
        let path = match section {
            "[spool]" | "[events]" => line.strip_prefix("path = \""),
            _ => line.strip_prefix("maildir = { path = \""),
        };
        // Placeholders are below the directory.
        let path = path.and_then(|rest| rest.split(['"', '{']).next());
        found.extend(path.map(PathBuf::from));
    }
    found
}

#[test]
fn unit_lets_examples_write_their_paths() {
    let below = |root: &'static str| move |name: String| Path::new(root).join(name);
    let mut writable: Vec<PathBuf> =
        values("ReadWritePaths").into_iter().map(PathBuf::from).collect();
    writable.extend(values("LogsDirectory").into_iter().map(below("/var/log")));
    writable.extend(values("StateDirectory").into_iter().map(below("/var/lib")));
    let examples = fs::read_dir(root().join("examples")).expect("examples").flatten();
    let mut count = 0;
    for path in examples.map(|entry| entry.path()) {
        let text = fs::read_to_string(&path).unwrap_or_default();
        for place in written(&text) {
            assert!(
                writable.iter().any(|directory| place.starts_with(directory)),
                "{}: {} is not below {writable:?}",
                path.display(),
                place.display()
            );
            count += 1;
        }
    }
    assert!(count >= 15, "{count}");
}

#[test]
fn keys_belong_to_the_group_of_the_unit() {
    let signing = fs::read_to_string(root().join("docs/signing.md")).expect("a page");
    let groups: Vec<&str> = signing
        .split("chown root:")
        .skip(1)
        .filter_map(|rest| rest.split_whitespace().next())
        .collect();
    assert_eq!(groups, values("User"));
}
