//! Plots in programs that render SVG: each shows the same colours, and no text touches an edge.

use lab::show::number::Spread;
use lab::show::plot::{Bar, BarChart, LinePlot, PlotLine};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Renders an SVG file as a PNG file, 800 pixels wide.
type Renderer = fn(&Path, &Path) -> Command;

fn rsvg(svg: &Path, png: &Path) -> Command {
    let mut command = Command::new("rsvg-convert");
    command.args(["--width", "800", "--output"]).arg(png).arg(svg);
    command
}

fn cairo(svg: &Path, png: &Path) -> Command {
    let mut command = Command::new("/usr/bin/python3");
    let program = "import cairosvg, sys\ncairosvg.svg2png(url=sys.argv[1], write_to=sys.argv[2], output_width=800)";
    command.args(["-c", program]).arg(svg).arg(png);
    command
}

fn chromium(svg: &Path, png: &Path) -> Command {
    let mut command = Command::new("chromium");
    command.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        "--window-size=800,900",
    ]);
    command.arg(format!("--screenshot={}", png.display())).arg(format!("file://{}", svg.display()));
    command
}

/// Plots of the documents, and one of each kind drawn now.
fn plots(directory: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> =
        fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/plots"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "svg"))
            .collect();
    assert!(!found.is_empty());
    let spreads: Vec<Spread> = [[7.0, 8.0, 9.0], [1.0, 2.0, 3.0]]
        .map(|values| Spread::of(values.to_vec()).unwrap())
        .into();
    let bars = spreads.iter().enumerate();
    let bars = bars
        .map(|(n, spread)| Bar { label: "a contender", colour: n, spread, invalid: n == 1 })
        .collect();
    let bars = BarChart { title: "Delivered", note: "more is better", unit: "/s", bars };
    let rising: Vec<(f64, f64)> = (0..100).map(|n| (f64::from(n), f64::from(n * n))).collect();
    let lines = (0..8)
        .map(|n| PlotLine { label: "a line", colour: n, points: &rising[n * 10..] })
        .collect();
    let moments = vec![(40.0, "the next hop is down")];
    let lines = LinePlot { title: "Queued", across: "s", unit: "", lines, moments };
    for (name, drawing) in [("bars.svg", bars.draw()), ("lines.svg", lines.draw())] {
        let path = directory.join(name);
        fs::write(&path, drawing.standalone()).unwrap();
        found.push(path);
    }
    found
}

/// Fails unless the picture has the plot's paper, ink and series colours, with free edges.
fn check_picture(svg: &Path, png: &Path) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/load_tools/plots.py");
    let output = Command::new("/usr/bin/python3").arg(script).arg(svg).arg(png).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{}: {text}{}",
        svg.display(),
        String::from_utf8_lossy(&output.stderr)
    );
}

fn check_all(render: Renderer) {
    let directory = tempfile::tempdir().unwrap();
    let png = directory.path().join("plot.png");
    for svg in plots(directory.path()) {
        let output = render(&svg, &png).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        check_picture(&svg, &png);
    }
}

fn has(program: &str, arguments: &[&str]) -> bool {
    let output = Command::new(program).args(arguments).output();
    output.is_ok_and(|output| output.status.success()) || skips::missing(program)
}

#[test]
fn rsvg_shows_plots_in_colour() {
    if has("rsvg-convert", &["--version"]) && has("/usr/bin/python3", &["-c", "import PIL"]) {
        check_all(rsvg);
    }
}

#[test]
fn cairosvg_shows_plots_in_colour() {
    if has("/usr/bin/python3", &["-c", "import cairosvg, PIL"]) {
        check_all(cairo);
    }
}

#[test]
#[ignore = "make test-peers: needs Chromium"]
fn chromium_shows_plots_in_colour() {
    check_all(chromium);
}

#[test]
fn a_black_picture_fails() {
    if !has("/usr/bin/python3", &["-c", "import PIL"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (svg, png) = (plots(directory.path()).remove(0), directory.path().join("black.png"));
    let program =
        "import sys\nfrom PIL import Image\nImage.new('RGB', (800, 300)).save(sys.argv[1])";
    let made = Command::new("/usr/bin/python3").args(["-c", program]).arg(&png).status().unwrap();
    assert!(made.success());
    let checked = std::panic::catch_unwind(|| check_picture(&svg, &png));
    assert!(checked.is_err());
}
