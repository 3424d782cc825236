//! Times and limits of the queue, and reports.

use super::moving::Moving;
use crate::commands::migrate::new_config::Keys;

/// A time of Postfix in seconds; `unit` is that of a number without one.
pub(super) fn seconds(text: &str, unit: u64) -> Option<u64> {
    let text = text.trim();
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let factor = match suffix {
        "" => unit,
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86400,
        "w" => 604_800,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

const DAY: u64 = 86400;

impl Moving {
    /// A time as a key; the default of Postfix is written, too, for the defaults here differ.
    fn time(&mut self, keys: &mut Keys, name: &str, unit: u64, key: &str) {
        let of = self.get(name);
        match seconds(&of.text, unit) {
            Some(time) => {
                let text = match time {
                    time if time >= DAY && time.is_multiple_of(DAY) => format!("{}d", time / DAY),
                    time => format!("{time}s"),
                };
                keys.text(key, &text);
                self.carried(&of, &format!("`{key}`"));
            }
            None => self.site.trouble(&of.origin, format!("{name}: {:?} is no time", of.text)),
        }
    }
}

/// [retry], [reports] and [dns].
pub(super) fn write(m: &mut Moving) {
    let mut retry = Keys::new();
    m.time(&mut retry, "minimal_backoff_time", 1, "first");
    m.time(&mut retry, "maximal_backoff_time", 1, "longest");
    m.time(&mut retry, "maximal_queue_lifetime", DAY, "give_up_after");
    m.time(&mut retry, "delay_warning_time", 3600, "warn_after");
    m.config.section("[retry]", retry);
    let mut reports = Keys::new();
    let mut empty = Keys::new();
    m.time(&mut empty, "bounce_queue_lifetime", DAY, "give_up_after");
    reports.set("retry", empty.inline());
    let classes = m.get("notify_classes");
    let has = |class: &str| classes.words().iter().any(|word| word == class);
    let origin = m.get("myorigin").text;
    let full = |address: String| match address.contains('@') {
        true => address,
        false => format!("{address}@{origin}"),
    };
    for (class, parameter, key) in [
        ("bounce", "bounce_notice_recipient", "copy_to"),
        ("2bounce", "2bounce_notice_recipient", "double_bounce_to"),
    ] {
        let of = m.get(parameter);
        if has(class) {
            reports.text(key, &full(of.text.clone()));
            m.carried(&of, &format!("`{key}` of [reports]"));
        }
    }
    let known = ["bounce", "2bounce"];
    let others: Vec<String> =
        classes.words().into_iter().filter(|word| !known.contains(&word.as_str())).collect();
    match others.is_empty() {
        true => m.carried(&classes, "[reports]"),
        false if classes.is_set => {
            let why = format!("no notices about {}", others.join(", "));
            m.different(&classes, &why, "watch `postrider status` and events: docs/problems.md");
        }
        false => {}
    }
    m.config.section("[reports]", reports);
    if m.needs_dnssec {
        let mut dns = Keys::new();
        dns.set("validating", "true");
        m.config.section("[dns]", dns);
    }
    let soft = m.get("soft_bounce");
    if soft.is_yes() {
        let why = "5yz replies and bounces stay permanent";
        m.missing(&soft, why, "test on a separate port; `defer_classes` of a route");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        let all = ["5d", "1w", "300s", "4", "2h", "x", "3y", ""].map(|text| seconds(text, 3600));
        let expected = [Some(432_000), Some(604_800), Some(300), Some(14_400), Some(7200)];
        assert_eq!(all[..5], expected);
        assert_eq!(all[5..], [None, None, None]);
    }
}
