//! Mail for users of a directory goes into Maildirs: the relay run with mailboxes behind the server,
//! and what is asked of it besides.

use super::measurement::Figures;
use super::relay;
use super::report::{Measurement, Series};
use super::trial::Trial;
use crate::stand::{Load, Result};
use std::time::Instant;

/// A quarter of an intake that is shorter than this tells nothing: it is less than a minute.
const QUARTERS_SECONDS_MIN: f64 = 240.0;

/// Measures one contender.
///
/// # Errors
/// What kept it from being measured.
pub(super) fn measure(trial: &mut Trial<'_>, load: &Load, limit: Instant) -> Result<Measurement> {
    let mut measurement = relay::measure(trial, load, limit)?;
    let mut figures = Figures::default();
    let refused = trial.refused_for_now()? as f64;
    figures.lower("refused_for_now", "refused for now (4yz)", "", refused);
    let seconds = measurement.accept_seconds;
    for (series, name, title) in [
        ("accepted_per_second", "accepted_last_of_first", "accepted, last quarter ÷ first"),
        ("delivered_per_second", "delivered_last_of_first", "delivered, last quarter ÷ first"),
    ] {
        let series = measurement.series.iter().find(|one| one.name == series);
        if let Some(ratio) = series.and_then(|series| last_of_first(series, seconds)) {
            figures.higher(name, title, "", ratio);
        }
    }
    measurement.figures.extend(figures.done());
    measurement.minutes = trial.take_minutes();
    Ok(measurement)
}

/// What happened in the last quarter of so many seconds, divided by what happened in the first.
fn last_of_first(series: &Series, seconds: f64) -> Option<f64> {
    if seconds < QUARTERS_SECONDS_MIN {
        return None;
    }
    let mean = |from: f64, to: f64| {
        let values = series.points.iter().filter(|(at, _)| *at > from && *at <= to);
        let values: Vec<f64> = values.map(|(_, value)| *value).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    };
    let (first, last) = (mean(0.0, seconds / 4.0)?, mean(seconds * 0.75, seconds)?);
    (first > 0.0).then(|| last / first)
}

#[cfg(test)]
mod tests {
    use super::last_of_first;
    use crate::bench::report::Series;

    #[test]
    fn quarters_are_those_of_the_intake() {
        let points = (1..=480).map(|second| {
            let value = match second {
                1..=60 => 100.0,
                61..=180 => 5.0,
                181..=240 => 50.0,
                _ => 1000.0,
            };
            (f64::from(second), value)
        });
        let series = Series { points: points.collect(), ..Series::default() };
        assert_eq!(last_of_first(&series, 240.0), Some(0.5));
        assert_eq!(last_of_first(&series, 239.0), None);
        assert_eq!(last_of_first(&Series::default(), 240.0), None);
        let nothing = Series { points: vec![(1.0, 0.0), (240.0, 3.0)], ..Series::default() };
        assert_eq!(last_of_first(&nothing, 240.0), None);
    }
}
