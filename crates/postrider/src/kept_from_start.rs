//! Settings that change only at a start: a reload names them, and applies all the rest.

use config::Config;
use mta::event::EventSettings;
use std::sync::Arc;

/// A startup setting by name, and a comparison of two configurations.
type StartupSetting = (&'static str, fn(&Config, &Config) -> bool);

const KEPT: [StartupSetting; 7] = [
    ("user and group", |one, other| (&one.user, &one.group) == (&other.user, &other.group)),
    ("listener names and addresses", |one, other| listens(one) == listens(other)),
    ("spool paths", |one, other| one.spool.paths == other.spool.paths),
    (
        "durability, node, segments, free bytes and unsettled recipients of the spool",
        |one, other| {
            let of = |config: &Config| {
                let spool = &config.spool;
                let segments = (spool.segment_bytes, spool.spare_segments, spool.min_free_bytes);
                (spool.durability, spool.node, segments, spool.unsettled_max)
            };
            of(one) == of(other)
        },
    ),
    ("shards", |one, other| one.shards == other.shards),
    ("admin", |one, other| one.admin == other.admin),
    ("events", |one, other| {
        let file = |config: &Config| config.of::<EventSettings>().map(|events| events.file.clone());
        file(one) == file(other)
    }),
];

fn listens(config: &Config) -> Vec<(Arc<str>, String)> {
    config.listeners.iter().map(|l| (Arc::clone(&l.name), l.place().to_string())).collect()
}

/// The changes of a new configuration that take effect only at the next start, for the operator.
pub(crate) fn kept_from_start(first: &Config, now: &Config) -> String {
    let kept = KEPT.iter().filter(|(_, is_same)| !is_same(first, now));
    let words: Vec<_> = kept.map(|(words, _)| *words).collect();
    if words.is_empty() {
        String::new()
    } else {
        format!("; {} change at the next start", words.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::NEXT_START;
    use std::collections::BTreeSet;

    const FIRST: &str = "[[listener]]\nname = \"a\"\naddress = \"127.0.0.1:2525\"\n[spool]\npath = \"/x\"\n\
                         [[route]]\ndiscard = {}\n";

    fn config(text: &str) -> Config {
        crate::sections::schema()
            .parse(text, "test.toml")
            .unwrap_or_else(|all| panic!("{text}: {all}"))
    }

    /// Keys whose new value holds from the next start on: what replaces what in [`FIRST`], and the words.
    const STARTS: [(&str, &str, &str, &str); 17] = [
        ("user", "[[listener]]", "user = \"nobody\"\n[[listener]]", "user and group"),
        (
            "group",
            "[[listener]]",
            "user = \"nobody\"\ngroup = \"nogroup\"\n[[listener]]",
            "user and group",
        ),
        ("listener.name", "\"a\"", "\"b\"", "listener names"),
        ("listener.address", ":2525", ":2526", "listener names"),
        ("spool.path", "\"/x\"", "\"/y\"", "spool paths"),
        ("spool.paths", "path = \"/x\"", "paths = [\"/x\", \"/y\"]", "spool paths"),
        ("spool.durability", "[spool]", "[spool]\ndurability = \"memory\"", "durability"),
        ("spool.node", "[spool]", "[spool]\nnode = 7", "node"),
        ("spool.segment_bytes", "[spool]", "[spool]\nsegment_bytes = \"128MiB\"", "segments"),
        ("spool.spare_segments", "[spool]", "[spool]\nspare_segments = 3", "segments"),
        ("spool.min_free_bytes", "[spool]", "[spool]\nmin_free_bytes = \"3GiB\"", "free bytes"),
        ("spool.unsettled_max", "[spool]", "[spool]\nunsettled_max = 77", "unsettled"),
        ("shards", "[[listener]]", "shards = 3\n[[listener]]", "shards"),
        ("admin.address", "[spool]", "[admin]\naddress = \"127.0.0.1:8025\"\n[spool]", "admin"),
        ("admin.control", "[spool]", "[admin]\ncontrol = \"/c\"\n[spool]", "admin"),
        ("events.path", "[spool]", "[events]\npath = \"/e\"\n[spool]", "events"),
        ("events", "[[listener]]", "events = \"off\"\n[[listener]]", "events"),
    ];

    /// What a reload puts in force, and where, of sections without an owner that says so itself. A section without a
    /// point has all its keys there: the shards get it whole.
    const RELOADED: [(&str, &str); 27] = [
        ("access", "shards"),
        ("certificate", "Certificates::adopt"),
        ("copy", "shards"),
        ("dns", "Resolver::adopt, Shared::adopt"),
        ("header_check", "shards"),
        ("hostname", "shards"),
        ("listener", "shards"),
        ("log", "ConsoleLog::follow"),
        ("policy", "shards"),
        ("pool", "shards"),
        ("postmaster", "shards"),
        ("proxy_addresses", "shards"),
        ("recipient_delimiter", "shards"),
        ("reports", "shards"),
        ("retry", "Schedule::follow_changes"),
        ("rewrite", "shards"),
        ("route", "shards"),
        ("shaping", "Shared::set_rules"),
        ("signer", "SigningKeys::adopt"),
        ("source", "shards"),
        ("spool.blob_bytes", "Custody::adopt"),
        ("spool.body_memory_bytes", "Shared::adopt"),
        ("spool.hold_for", "Custody::adopt"),
        ("spool.queue_recipients_max", "Shared::adopt"),
        ("table", "Registry::adopt"),
        ("tenant", "shards"),
        ("tls", "Shared::adopt, Certificates::adopt"),
    ];

    /// All keys of the file, as `section` or `section.key`.
    fn keys() -> BTreeSet<String> {
        let schema = crate::sections::schema().json();
        let mut keys = BTreeSet::new();
        for (section, of) in schema["properties"].as_object().unwrap() {
            let named = of.get("$ref").or_else(|| of["items"].get("$ref"));
            let name = named.and_then(|name| name.as_str()?.rsplit('/').next());
            let inner = name.and_then(|name| schema["$defs"][name]["properties"].as_object());
            match inner {
                Some(inner) => keys.extend(inner.keys().map(|key| format!("{section}.{key}"))),
                None => _ = keys.insert(section.clone()),
            }
        }
        keys
    }

    #[test]
    fn what_holds_from_the_start_is_named() {
        let first = config(FIRST);
        assert_eq!(kept_from_start(&first, &config(FIRST)), "");
        for (key, from, to, words) in STARTS {
            assert!(FIRST.contains(from), "{key}");
            let now = config(&FIRST.replacen(from, to, 1));
            let told = kept_from_start(&first, &now);
            assert!(told.contains(words) && told.contains("next start"), "{key}: {told:?}");
        }
    }

    #[test]
    fn each_key_is_put_in_force_by_a_reload_or_named() {
        let keys = keys();
        for key in &keys {
            let section = key.split('.').next().unwrap();
            let is_named = STARTS.iter().any(|(named, ..)| named == key);
            let is_reloaded = match crate::sections::schema().in_force_by(section) {
                Some(place) => place != NEXT_START,
                None => RELOADED.iter().any(|(name, _)| name == key || *name == section),
            };
            assert!(is_named || is_reloaded, "{key}: does a reload put it in force?");
        }
        for (name, place) in RELOADED {
            let is_key = keys.iter().any(|key| key == name || key.starts_with(&format!("{name}.")));
            assert!(is_key, "{name} ({place}) is no key");
        }
    }
}
