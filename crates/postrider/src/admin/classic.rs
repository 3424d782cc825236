//! The older text format of Prometheus (version 0.0.4), made from the OpenMetrics text.

use axum::http::HeaderMap;
use axum::http::header::ACCEPT;
use std::fmt::Write as _;

/// The content type of OpenMetrics.
pub(super) const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// The content type of the older format.
pub(super) const CLASSIC: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Returns true if the client accepts OpenMetrics. Clients without a preference get the older format, as all readers
/// know it.
pub(super) fn wants_open_metrics(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut ranges = values.flat_map(|value| value.split(','));
    ranges.any(|range| {
        let mut parts = range.split(';').map(str::trim);
        let is_it = parts
            .next()
            .is_some_and(|name| name.eq_ignore_ascii_case("application/openmetrics-text"));
        // RFC 9110 §12.4.2: a weight of 0 excludes.
        is_it
            && !parts.any(|part| {
                let weight = part.strip_prefix("q=").or_else(|| part.strip_prefix("Q="));
                weight.is_some_and(|weight| weight.parse() == Ok(0.0))
            })
    })
}

/// Converts the text. In this format the names of a counter and of an info metric include their suffixes, infos are
/// gauges, and units and the end have no lines.
pub(super) fn classic(open_metrics: &str) -> String {
    let mut out = String::with_capacity(open_metrics.len());
    // The help precedes the type, which decides the name.
    let mut help = None;
    for line in open_metrics.lines() {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some("HELP"), Some(name), text) => help = Some((name, text.unwrap_or(""))),
            (Some("#"), Some("TYPE"), Some(name), Some(kind)) => {
                let (suffix, kind) = match kind {
                    "counter" => ("_total", kind),
                    "info" => ("_info", "gauge"),
                    _ => ("", kind),
                };
                if let Some((_, text)) = help.take().filter(|(of, _)| *of == name) {
                    let _ = writeln!(out, "# HELP {name}{suffix} {text}");
                }
                let _ = writeln!(out, "# TYPE {name}{suffix} {kind}");
            }
            (Some("#"), ..) => {}
            _ => {
                out.push_str(line);
                out.push('\n');
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_metrics_becomes_the_older_format() {
        let open = "# HELP p_a Mail received.\n# TYPE p_a counter\np_a_total{x=\"# HELP\"} 3\n\
                    # HELP p_t_seconds Time of a sync.\n# TYPE p_t_seconds histogram\n\
                    # UNIT p_t_seconds seconds\np_t_seconds_sum 0.5\n\
                    # HELP p_build Version.\n# TYPE p_build info\np_build_info{v=\"1\"} 1\n# EOF\n";
        let expected = "# HELP p_a_total Mail received.\n# TYPE p_a_total counter\n\
                        p_a_total{x=\"# HELP\"} 3\n\
                        # HELP p_t_seconds Time of a sync.\n# TYPE p_t_seconds histogram\n\
                        p_t_seconds_sum 0.5\n\
                        # HELP p_build_info Version.\n# TYPE p_build_info gauge\n\
                        p_build_info{v=\"1\"} 1\n";
        assert_eq!(classic(open), expected);
    }

    #[test]
    fn open_metrics_is_for_clients_that_accept_it() {
        let wants = |accept: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, accept.parse().unwrap());
            wants_open_metrics(&headers)
        };
        // Prometheus 2.42.
        let prometheus = "application/openmetrics-text;version=1.0.0,\
                          application/openmetrics-text;version=0.0.1;q=0.75,\
                          text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        assert!(wants(prometheus) && wants("text/html, Application/OpenMetrics-Text ; q=0.1"));
        for other in
            ["*/*", "text/plain", "application/openmetrics-text;q=0", "application/json", ""]
        {
            assert!(!wants(other), "{other}");
        }
        assert!(!wants_open_metrics(&HeaderMap::new()));
    }
}
