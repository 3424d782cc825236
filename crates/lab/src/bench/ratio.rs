//! Rounds into medians, and contenders against each other, pair by pair within a round.

use super::report::{Ending, Figure, FigureSummary, Measurement, Ratio, Round, Spread};

/// The measurements of one contender that count, one for each round.
fn of<'a>(rounds: &'a [Round], contender: &str) -> impl Iterator<Item = Option<&'a Measurement>> {
    rounds.iter().map(move |round| {
        let mut finished = round.measurements.iter().filter(|m| m.ending == Ending::Finished);
        finished.find(|measurement| measurement.contender == contender)
    })
}

/// The figures that a contender has in any round, each once, in their order.
fn figures<'a>(rounds: &'a [Round], contender: &'a str) -> Vec<&'a Figure> {
    let mut all: Vec<&Figure> = Vec::new();
    for figure in of(rounds, contender).flatten().flat_map(|measurement| &measurement.figures) {
        if !all.iter().any(|known| known.name == figure.name) {
            all.push(figure);
        }
    }
    all
}

/// Each figure of each contender over the rounds.
pub(super) fn summarize(rounds: &[Round], contenders: &[String]) -> Vec<FigureSummary> {
    let mut summaries = Vec::new();
    for contender in contenders {
        for figure in figures(rounds, contender) {
            let values = of(rounds, contender).flatten().filter_map(|m| m.figure(&figure.name));
            let Some(spread) = Spread::of(values.collect()) else { continue };
            summaries.push(FigureSummary {
                contender: contender.clone(),
                figure: figure.name.clone(),
                title: figure.title.clone(),
                unit: figure.unit.clone(),
                better: figure.better,
                spread,
            });
        }
    }
    summaries
}

/// Each figure of the first contender divided by each other's of the same round.
pub(super) fn compare(rounds: &[Round], contenders: &[String]) -> Vec<Ratio> {
    let Some((first, others)) = contenders.split_first() else { return Vec::new() };
    let mut ratios = Vec::new();
    for other in others {
        for figure in figures(rounds, first) {
            let pairs = of(rounds, first).zip(of(rounds, other));
            let values = pairs.filter_map(|(of, to)| {
                let (of, to) = (of?.figure(&figure.name)?, to?.figure(&figure.name)?);
                (to != 0.0).then(|| of / to)
            });
            let Some(spread) = Spread::of(values.collect()) else { continue };
            ratios.push(Ratio {
                of: first.clone(),
                to: other.clone(),
                figure: figure.name.clone(),
                title: figure.title.clone(),
                better: figure.better,
                spread,
            });
        }
    }
    ratios
}

#[cfg(test)]
mod tests {
    use super::{compare, summarize};
    use crate::bench::report::{Ending, Figure, Measurement, Round};

    fn measurement(contender: &str, value: f64, ending: Ending) -> Measurement {
        let figure = Figure { name: "rate".to_owned(), value, ..Figure::default() };
        let contender = contender.to_owned();
        Measurement { contender, ending, figures: vec![figure], ..Measurement::default() }
    }

    fn rounds() -> Vec<Round> {
        let round = |number, a, b, ending| Round {
            number,
            measurements: vec![measurement("b", b, ending), measurement("a", a, Ending::Finished)],
        };
        vec![
            // A machine that is twice as slow in the second round changes no ratio.
            round(1, 100.0, 10.0, Ending::Finished),
            round(2, 50.0, 5.0, Ending::Finished),
            round(3, 90.0, 10.0, Ending::Finished),
            round(4, 90.0, 1.0, Ending::TimedOut),
        ]
    }

    #[test]
    fn ratios_are_taken_within_a_round_and_only_of_what_finished() {
        let names = ["a".to_owned(), "b".to_owned()];
        let ratios = compare(&rounds(), &names);
        assert_eq!(ratios.len(), 1);
        assert_eq!((ratios[0].of.as_str(), ratios[0].to.as_str()), ("a", "b"));
        assert_eq!(ratios[0].spread.values, [10.0, 10.0, 9.0]);
        assert_eq!(ratios[0].spread.median, 10.0);
    }

    #[test]
    fn summaries_have_one_value_for_each_round_that_finished() {
        let names = ["a".to_owned(), "b".to_owned(), "c".to_owned()];
        let summaries = summarize(&rounds(), &names);
        assert_eq!(summaries.len(), 2);
        assert_eq!(summaries[0].spread.values, [100.0, 50.0, 90.0, 90.0]);
        assert_eq!(summaries[1].spread.values, [10.0, 5.0, 10.0]);
        assert_eq!((summaries[1].spread.median, summaries[1].spread.min), (10.0, 5.0));
    }
}
