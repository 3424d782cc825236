//! Which plots a case has.

use crate::bench::report::{
    Better, Case, FigureSummary, Measurement, Percentiles, Report, Series, Spread,
};
use crate::show::plot::{Bar, BarChart, Drawing, LinePlot, PlotLine};

/// A plot with a name that is unique in its case.
pub(super) struct Chart {
    pub(super) name: String,
    pub(super) drawing: Drawing,
}

/// A distribution's percentile, and what to call it.
type Percentile = (&'static str, &'static str, fn(&Percentiles) -> f64);

const PERCENTILES: [Percentile; 3] = [
    ("latency-p50", "Latency, median", |latency| latency.p50_us),
    ("latency-p99", "Latency, 99th percentile", |latency| latency.p99_us),
    ("latency-p999", "Latency, 99.9th percentile", |latency| latency.p999_us),
];

/// More would hide the lines.
const MOMENTS_MAX: usize = 4;

/// All plots of a case: bars for what is compared, lines for what happened over time.
pub(super) fn of_case(report: &Report, case: &Case) -> Vec<Chart> {
    let mut charts = figure_charts(report, case);
    charts.extend(latency_charts(report, case));
    charts.extend(intake_chart(report, case));
    charts.extend(rate_charts(case));
    charts.extend(series_charts(report, case));
    charts
}

/// Every contender has the same colour everywhere.
fn colour(report: &Report, contender: &str) -> usize {
    report.manifest.contenders.iter().position(|known| known.name == contender).unwrap_or(0)
}

fn note(rounds: usize, better: Better) -> String {
    let better = match better {
        Better::Higher => "; longer is better",
        Better::Lower => "; shorter is better",
        Better::Neither => "",
    };
    if rounds > 1 {
        format!("median of {rounds}, whiskers from least to most{better}")
    } else {
        format!("one round{better}")
    }
}

fn bar<'a>(report: &Report, case: &Case, contender: &'a str, spread: &'a Spread) -> Bar<'a> {
    let invalid = case.is_invalid(contender);
    Bar { label: contender, colour: colour(report, contender), spread, invalid }
}

fn figure_charts(report: &Report, case: &Case) -> Vec<Chart> {
    let mut names: Vec<&str> = vec![];
    for summary in case.summaries.iter().filter(|summary| summary.better != Better::Neither) {
        if !names.contains(&&*summary.figure) {
            names.push(&summary.figure);
        }
    }
    let chart = |name: &str| {
        let of_name = |summary: &&FigureSummary| summary.figure == name;
        let first = case.summaries.iter().find(of_name)?;
        let bars = case.summaries.iter().filter(of_name);
        let bars = bars.map(|summary| bar(report, case, &summary.contender, &summary.spread));
        let note = note(case.rounds.len(), first.better);
        let chart =
            BarChart { title: &first.title, note: &note, unit: &first.unit, bars: bars.collect() };
        Some(Chart { name: name.to_owned(), drawing: chart.draw() })
    };
    names.into_iter().filter_map(chart).collect()
}

fn latency_charts(report: &Report, case: &Case) -> Vec<Chart> {
    let chart = |(name, title, percentile): &Percentile| {
        let spreads: Vec<(&str, Spread)> = contenders(case)
            .into_iter()
            .filter_map(|contender| {
                let latencies =
                    measurements(case, contender).filter_map(|one| one.latency.as_ref());
                Some((contender, Spread::of(latencies.map(percentile).collect())?))
            })
            .collect();
        let bars = spreads.iter().map(|(contender, spread)| bar(report, case, contender, spread));
        let bars: Vec<Bar<'_>> = bars.collect();
        let note = note(case.rounds.len(), Better::Lower);
        let chart = BarChart { title, note: &note, unit: "µs", bars };
        (!chart.bars.is_empty()).then(|| Chart { name: (*name).to_owned(), drawing: chart.draw() })
    };
    PERCENTILES.iter().filter_map(chart).collect()
}

/// Whether intake slows down as the queue grows.
fn intake_chart(report: &Report, case: &Case) -> Option<Chart> {
    let measured = contenders(case).into_iter().filter_map(|contender| {
        let last =
            measurements(case, contender).filter(|one| one.intake_by_tenth.len() > 1).last()?;
        let points = last.intake_by_tenth.iter().enumerate();
        let points = points.map(|(n, rate)| ((n + 1) as f64, *rate));
        Some((contender, points.collect::<Vec<_>>()))
    });
    let measured: Vec<(&str, Vec<(f64, f64)>)> = measured.collect();
    let lines = measured.iter().map(|(contender, points)| PlotLine {
        label: contender,
        colour: colour(report, contender),
        points,
    });
    let plot = LinePlot {
        title: "Intake by tenth of the last round",
        across: "tenth of the run",
        unit: "1/s",
        lines: lines.collect(),
        moments: vec![],
    };
    (!plot.lines.is_empty()).then(|| Chart { name: "intake".to_owned(), drawing: plot.draw() })
}

/// What went in and out of each contender, in its last round.
fn rate_charts(case: &Case) -> Vec<Chart> {
    let chart = |(contender, round, measurement): (&str, u32, &Measurement)| {
        let rates = measurement.series.iter().filter(|series| is_rate(series));
        let lines = rates.enumerate().map(|(n, series)| PlotLine {
            label: &series.title,
            colour: n,
            points: &series.points,
        });
        let lines: Vec<PlotLine<'_>> = lines.collect();
        let moments = measurement.moments.iter().map(|moment| (moment.seconds, &*moment.what));
        let title = format!("{contender}, round {round}");
        let moments = moments.take(MOMENTS_MAX).collect();
        let plot = LinePlot { title: &title, across: "s", unit: "1/s", lines, moments };
        (!plot.lines.is_empty())
            .then(|| Chart { name: format!("rates-{contender}"), drawing: plot.draw() })
    };
    last_rounds(case).into_iter().filter_map(chart).collect()
}

/// Everything else over time, all contenders in one plot.
fn series_charts(report: &Report, case: &Case) -> Vec<Chart> {
    let last = last_rounds(case);
    let mut names: Vec<&str> = vec![];
    for (_, _, measurement) in &last {
        for series in measurement.series.iter().filter(|series| !is_rate(series)) {
            if !names.contains(&&*series.name) {
                names.push(&series.name);
            }
        }
    }
    let chart = |name: &str| {
        let of_name = last.iter().filter_map(|(contender, _, measurement)| {
            Some((*contender, measurement.series.iter().find(|series| series.name == name)?))
        });
        let of_name: Vec<(&str, &Series)> = of_name.collect();
        let (_, first) = of_name.first()?;
        let lines = of_name.iter().map(|(contender, series)| PlotLine {
            label: contender,
            colour: colour(report, contender),
            points: &series.points,
        });
        let title = format!("{}, last round", first.title);
        let plot = LinePlot {
            title: &title,
            across: "s",
            unit: &first.unit,
            lines: lines.collect(),
            moments: vec![],
        };
        Some(Chart { name: name.to_owned(), drawing: plot.draw() })
    };
    names.into_iter().filter_map(chart).collect()
}

fn is_rate(series: &Series) -> bool {
    series.unit == "1/s"
}

/// Everybody who was measured in a case, in the manifest's order as far as rounds begin with it.
pub(super) fn contenders(case: &Case) -> Vec<&str> {
    let mut names: Vec<&str> = vec![];
    for measurement in case.rounds.iter().flat_map(|round| &round.measurements) {
        if !names.contains(&&*measurement.contender) {
            names.push(&measurement.contender);
        }
    }
    names
}

/// The rounds of one contender.
fn measurements<'a>(case: &'a Case, contender: &str) -> impl Iterator<Item = &'a Measurement> {
    let all = case.rounds.iter().flat_map(|round| &round.measurements);
    all.filter(move |measurement| measurement.contender == contender)
}

/// The last round of each contender of which there is anything to draw.
fn last_rounds(case: &Case) -> Vec<(&str, u32, &Measurement)> {
    let last = |contender| {
        let rounds = case.rounds.iter().rev();
        let mut drawn = rounds.flat_map(|round| {
            let here = round.measurements.iter();
            here.map(|measurement| (contender, round.number, measurement))
        });
        drawn.find(|(_, _, one)| one.contender == contender && !one.series.is_empty())
    };
    contenders(case).into_iter().filter_map(last).collect()
}
