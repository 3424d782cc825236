//! The unit of `docs/hosting.md` and those of the packages fit the examples and the other pages.

use super::blocks::{pages, root};
use crate::support::Files;
use crate::support::foreign::is_installed;
use crate::support::server::POSTRIDER;
use crate::support::tool::run;
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
    writable_paths_of_examples(&writable);
}

/// Checks that each path that an example writes is below one of these.
fn writable_paths_of_examples(writable: &[PathBuf]) {
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

/// The values of a key in a unit file of the packages.
fn packaged(file: &str, key: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join("contrib/systemd").join(file)).expect("a file");
    let lines = text.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    lines.flat_map(str::split_whitespace).map(str::to_owned).collect()
}

/// The units of the packages in a directory, with the program under test.
fn installed(files: &Files, drop_ins: &[&str]) -> PathBuf {
    for name in ["postrider.service", "postrider.socket"] {
        let text = fs::read_to_string(root().join("contrib/systemd").join(name)).expect("a unit");
        files.write(name, &text.replace("/usr/bin/postrider", POSTRIDER));
    }
    let directory = files.path("postrider.service.d");
    fs::create_dir_all(&directory).expect("a directory");
    for name in drop_ins {
        fs::copy(root().join("contrib/systemd").join(name), directory.join(name)).expect("a file");
    }
    files.path("postrider.service")
}

#[test]
fn units_of_the_packages_are_valid_and_confined() {
    if !is_installed("systemd-analyze") {
        return;
    }
    let files = Files::new();
    let with_all = installed(&files, &["pipe.conf", "mailbox-owners.conf"]).display().to_string();
    let output = run("systemd-analyze", &["verify", "--man=no", &with_all]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !said.contains("postrider.service.d"), "{said}");
    fs::remove_dir_all(files.path("postrider.service.d")).expect("ours");
    let service = installed(&files, &[]).display().to_string();
    let socket = files.path("postrider.socket").display().to_string();
    let output = run("systemd-analyze", &["verify", "--man=no", &service, &socket]);
    let said = String::from_utf8_lossy(&output.stderr);
    let ours: Vec<&str> = said.lines().filter(|line| line.contains("postrider")).collect();
    assert!(output.status.success() && ours.is_empty(), "{said}");
    // In tenths: 2.0 is the limit.
    let words = ["security", "--offline=true", "--threshold=20", &service];
    let output = run("systemd-analyze", &words);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("Overall exposure level"), "{said}");
}

#[test]
fn unit_of_the_packages_lets_examples_write_their_paths() {
    let below = |root: &'static str| move |name: String| Path::new(root).join(name);
    let of = |key| packaged("postrider.service", key).into_iter();
    let mut writable: Vec<PathBuf> =
        of("ReadWritePaths").map(|path| PathBuf::from(path.trim_start_matches('-'))).collect();
    writable.extend(of("LogsDirectory").map(below("/var/log")));
    writable.extend(of("StateDirectory").map(below("/var/lib")));
    writable.extend(of("RuntimeDirectory").map(below("/run")));
    writable_paths_of_examples(&writable);
}

#[test]
fn files_of_the_packages_agree() {
    let [user] = &packaged("postrider.service", "User")[..] else { panic!("one user") };
    let text =
        |name: &str| fs::read_to_string(root().join("contrib/systemd").join(name)).expect("a file");
    assert!(text("postrider-sysusers.conf").contains(&format!("\nu {user} - ")));
    let directories = text("postrider-tmpfiles.conf");
    for (root, key) in [("/var/lib", "State"), ("/var/log", "Logs"), ("/run", "Runtime")] {
        for name in packaged("postrider.service", &format!("{key}Directory")) {
            let mode = &packaged("postrider.service", &format!("{key}DirectoryMode"))[0];
            let line = format!("\nd {root}/{name} {mode} {user} {user} -\n");
            assert!(directories.contains(&line), "{line}");
        }
    }
}
