//! Arbitrary text as a configuration.

/// The bytes are the file.
pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match channels::schema().parse(text, "fuzz.toml") {
        Ok(config) => {
            let _ = config.render(&config.warnings, false);
            check_places(text, &config.warnings, false);
            assert!(!config.listeners.is_empty(), "a server without a listener");
            for route in &config.routes {
                assert!(config.route_named(&route.name).is_some());
            }
        }
        Err(errors) => {
            check_places(text, errors.problems(), true);
            let shown = errors.to_string();
            assert!(shown.lines().any(|line| line.contains(": error: ")), "{shown}");
            assert!(!errors.render(false).is_empty());
        }
    }
}

fn check_places(text: &str, problems: &[config::Problem], fatal: bool) {
    assert_eq!(problems.iter().any(|p| p.fatal), fatal);
    for problem in problems {
        assert!(!problem.message.is_empty());
        assert!(problem.line >= 1 && problem.column >= 1, "{problem:?}");
        let span = problem.span.clone();
        assert!(text.get(span).is_some(), "{problem:?} is not in the text");
        let lines = text.split('\n').count();
        assert!(problem.line as usize <= lines, "{problem:?} of {lines} lines");
        let line = text.split('\n').nth(problem.line as usize - 1).unwrap_or_default();
        assert!(problem.column as usize <= line.chars().count() + 1, "{problem:?}");
    }
}
