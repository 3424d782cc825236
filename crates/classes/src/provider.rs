//! Who runs a host, by its name.

/// A pattern of host names: one name, or all below one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostPattern {
    /// In lower case, without `*.`.
    name: Box<str>,
    is_below: bool,
}

impl HostPattern {
    /// Reads `mx.example.com` or `*.example.com`.
    pub(crate) fn read(word: &str) -> Result<HostPattern, String> {
        let lower = word.to_ascii_lowercase();
        let (name, is_below) = match lower.strip_prefix("*.") {
            Some(name) => (name, true),
            None => (lower.as_str(), false),
        };
        let is_label = |label: &str| {
            !label.is_empty()
                && label.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
        };
        if !name.contains('.') || !name.split('.').all(is_label) {
            return Err(format!("`{word}` is no host: mx.example.com or *.example.com is wanted"));
        }
        Ok(HostPattern { name: name.into(), is_below })
    }

    /// `host` is in lower case.
    pub(crate) fn matches(&self, host: &str) -> bool {
        match host.strip_suffix(&*self.name) {
            Some("") => !self.is_below,
            Some(before) => self.is_below && before.ends_with('.'),
            None => false,
        }
    }
}

/// A provider's name is of these characters.
pub(crate) fn is_name(word: &str) -> bool {
    let starts = word.starts_with(|c: char| c.is_ascii_lowercase());
    starts
        && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_".contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_match_by_name_or_below_it() {
        let matches = |pattern: &str, host| HostPattern::read(pattern).unwrap().matches(host);
        assert!(matches("*.google.com", "gmail-smtp-in.l.google.com"));
        assert!(
            !matches("*.google.com", "google.com") && !matches("*.google.com", "notgoogle.com")
        );
        assert!(
            matches("MX.Example.com", "mx.example.com") && !matches("mx.a.test", "x.mx.a.test")
        );
        for bad in ["", "*", "*.", "*.com", "com", "a..b", "a b.c", "*.*.c", "mx.é.test"] {
            assert!(HostPattern::read(bad).is_err(), "{bad}");
        }
    }
}
