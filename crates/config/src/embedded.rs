//! The configuration of a first look.

/// Name used for it in messages.
pub(super) const EMBEDDED_NAME: &str = "the built-in default";

/// The configuration of `postrider serve` without a file, as TOML.
pub const EMBEDDED: &str = r#"# What `postrider serve` runs when it is given no file: safe for a first look.
# It listens on this machine only, accepts mail for any domain, keeps it in Maildirs, and relays
# nothing to the outside.
hostname = "localhost"

[spool]
path = "./postrider-data/spool"

[[listener]]
name = "local"
address = "127.0.0.1:2525"
exempt_from_limits = ["127.0.0.0/8"] # try it as hard as you like

[[route]]                            # no domains: everything
maildir = { path = "./postrider-data/mail/{domain}/{local}" }

[admin]
address = "127.0.0.1:8025"           # /metrics and /healthz
"#;
