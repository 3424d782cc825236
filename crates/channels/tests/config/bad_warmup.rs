//! Mistakes in how a source warms up.

/// A file that is right but for `<HERE>`, which stands on line 9, in a source.
const SOURCE: &str = "\n[[listener]]\naddress = \"127.0.0.1:25\"\n[[route]]\ndiscard = {}\n\
                      [[source]]\nname = \"ip-1\"\naddress = \"192.0.2.11\"\n<HERE>\n";

/// As the table of all mistakes.
pub(crate) const WARMUPS: &[(&str, &str, &str)] = &[
    (SOURCE, "warmup = { start = \"soon\", per_day = [50] }", "9:20: \"soon\" is not a date"),
    (
        SOURCE,
        "warmup = { start = \"2026-02-30\", per_day = [50] }",
        "9:20: \"2026-02-30\" is not a date",
    ),
    (SOURCE, "warmup = { per_day = [50] }", "9:1: \"\" is not a date"),
    (SOURCE, "warmup = { start = \"2026-12-01\" }", "9:1: between 1 and 366 days"),
    (SOURCE, "warmup = { start = \"2026-12-01\", per_day = [] }", "9:44: between 1 and 366 days"),
    (
        SOURCE,
        "warmup = { start = \"2026-12-01\", per_day = [50, 0] }",
        "9:49: at least 1 recipient",
    ),
    (
        SOURCE,
        "warmup = { start = \"2026-12-01\", per_day = [50], hold_above = 1.5 }",
        "9:63: `hold_above` must be between 0 and 1",
    ),
    (
        SOURCE,
        "warmup = { start = \"2026-12-01\", per_day = [50], hold = 0.5 }",
        "9:50: unknown key `hold` in `source.warmup`",
    ),
];

#[test]
fn a_year_of_days_is_the_longest() {
    let parse = |days: usize| {
        let counts = vec!["50"; days].join(", ");
        let plan = format!("warmup = {{ start = \"2026-12-01\", per_day = [{counts}] }}");
        channels::schema().parse(&SOURCE.replace("<HERE>", &plan), "f.toml")
    };
    let config = parse(366).unwrap();
    let plan = config.sources[0].warmup.as_ref().unwrap();
    assert_eq!((plan.per_day.len(), plan.hold_above_ppm, plan.line), (366, 50_000, 9));
    assert!(parse(367).unwrap_err().to_string().contains("between 1 and 366 days"));
}
