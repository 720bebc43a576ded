//! Draws bars and lines as SVG, without a library and without anything fetched.
//!
//! Colours are classes (`s0`…`s5`, `axis`, `text`) that the surrounding page defines for light and
//! dark. Invariant: every chart is 400 units wide, so that it is legible on a phone, and every
//! text is escaped.

use std::fmt::Write as _;

/// One bar.
#[derive(Debug, Clone, PartialEq)]
pub struct Bar {
    /// What it stands for.
    pub label: String,
    /// Its length, in the unit of its chart.
    pub value: f64,
    /// The value as text.
    pub text: String,
    /// Its colour.
    pub series: usize,
}

/// Horizontal bars, all on one scale that starts at zero.
#[allow(clippy::cast_precision_loss)]
pub fn bars(title: &str, bars: &[Bar]) -> String {
    let most = bars.iter().map(|bar| bar.value).fold(0.0, f64::max);
    // Labels take what they need from the bars, within reason.
    let longest = bars.iter().map(|bar| bar.label.chars().count()).max().unwrap_or(0);
    let left = (longest as f64 * CHARACTER_WIDTH).clamp(BAR_LEFT_MIN, BAR_LEFT_MAX);
    let room = BAR_RIGHT - left;
    let mut body = String::new();
    let mut y = 0.0;
    for bar in bars {
        let width = if most > 0.0 { (bar.value / most * room).max(1.0) } else { 1.0 };
        let (label, text) = (escape(&bar.label), escape(&bar.text));
        let _ = write!(
            body,
            "<text class=\"text\" x=\"0\" y=\"{}\">{label}</text>\
             <rect class=\"s{}\" x=\"{left:.0}\" y=\"{}\" width=\"{width:.1}\" height=\"14\" rx=\"2\"/>\
             <text class=\"text value\" x=\"{:.1}\" y=\"{}\">{text}</text>",
            y + 14.0,
            bar.series % SERIES,
            y + 3.0,
            left + width + 4.0,
            y + 14.0,
        );
        y += BAR_PITCH;
    }
    wrap(title, y.max(BAR_PITCH), &body)
}

/// One line of a chart.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Its name in the legend.
    pub name: String,
    /// Its colour.
    pub series: usize,
    /// Points, x rising.
    pub points: Vec<(f64, f64)>,
}

/// Lines over a common axis.
#[derive(Debug, Clone)]
pub struct LineChart<'a> {
    /// Title for readers and screen readers.
    pub title: &'a str,
    /// Ticks of the horizontal axis.
    pub x_ticks: Vec<(f64, String)>,
    /// Whether the vertical axis is logarithmic; otherwise it starts at zero.
    pub is_logarithmic: bool,
    /// Text of a vertical tick.
    pub y_text: fn(f64) -> String,
    /// The lines.
    pub lines: Vec<Line>,
}

impl LineChart<'_> {
    /// The drawing; empty when there is no point.
    pub fn render(&self) -> String {
        let points = || self.lines.iter().flat_map(|line| line.points.iter().copied());
        if points().next().is_none() {
            return String::new();
        }
        let ticks_x = || self.x_ticks.iter().map(|(x, _)| *x);
        let left = points().map(|point| point.0).chain(ticks_x()).fold(f64::INFINITY, f64::min);
        let right =
            points().map(|point| point.0).chain(ticks_x()).fold(f64::NEG_INFINITY, f64::max);
        let top = points().map(|point| point.1).fold(0.0, f64::max);
        let least = points().map(|point| point.1).fold(f64::INFINITY, f64::min);
        let y_ticks = if self.is_logarithmic { decades(least, top) } else { steps(top) };
        let (low, high) =
            (y_ticks.first().copied().unwrap_or(0.0), y_ticks.last().copied().unwrap_or(1.0));
        let scale = |value: f64| {
            if self.is_logarithmic { value.max(low).log10() } else { value }
        };
        let x_at = |x: f64| PLOT_LEFT + (x - left) / (right - left).max(f64::EPSILON) * PLOT_WIDTH;
        let y_at = |y: f64| {
            let share = (scale(y) - scale(low)) / (scale(high) - scale(low)).max(f64::EPSILON);
            PLOT_TOP + PLOT_HEIGHT - share * PLOT_HEIGHT
        };
        let mut body = String::new();
        for tick in &y_ticks {
            let (y, text) = (y_at(*tick), escape(&(self.y_text)(*tick)));
            let _ = write!(
                body,
                "<line class=\"axis\" x1=\"{PLOT_LEFT}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                 <text class=\"text end\" x=\"{:.1}\" y=\"{:.1}\">{text}</text>",
                PLOT_LEFT + PLOT_WIDTH,
                PLOT_LEFT - 4.0,
                y + 4.0
            );
        }
        for (x, text) in &self.x_ticks {
            let (x, y, text) = (x_at(*x), PLOT_TOP + PLOT_HEIGHT + 16.0, escape(text));
            let _ =
                write!(body, "<text class=\"text middle\" x=\"{x:.1}\" y=\"{y:.1}\">{text}</text>");
        }
        let mut y = PLOT_TOP + PLOT_HEIGHT + 36.0;
        for line in &self.lines {
            let path: Vec<String> = line
                .points
                .iter()
                .map(|(x, y)| format!("{:.1},{:.1}", x_at(*x), y_at(*y)))
                .collect();
            let (series, name) = (line.series % SERIES, escape(&line.name));
            let _ = write!(
                body,
                "<polyline class=\"line s{series}\" points=\"{}\"/>\
                 <rect class=\"s{series}\" x=\"{PLOT_LEFT}\" y=\"{:.1}\" width=\"12\" height=\"10\" rx=\"2\"/>\
                 <text class=\"text\" x=\"{:.1}\" y=\"{y:.1}\">{name}</text>",
                path.join(" "),
                y - 9.0,
                PLOT_LEFT + 18.0
            );
            y += 16.0;
        }
        wrap(self.title, y, &body)
    }
}

/// Text made safe for markup.
pub fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            control if control.is_control() => safe.push(' '),
            other => safe.push(other),
        }
    }
    safe
}

fn wrap(title: &str, height: f64, body: &str) -> String {
    let title = escape(title);
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"{title}\"><title>{title}</title>{body}</svg>"
    )
}

/// Powers of ten around a range.
fn decades(least: f64, most: f64) -> Vec<f64> {
    let first = least.max(1.0).log10().floor();
    let last = most.max(10.0).log10().ceil().max(first + 1.0);
    std::iter::successors(Some(first), |power| (power + 1.0 <= last).then_some(power + 1.0))
        .map(|power| 10_f64.powf(power))
        .collect()
}

/// Up to five round steps from zero to beyond the most.
fn steps(most: f64) -> Vec<f64> {
    let most = if most > 0.0 { most } else { 1.0 };
    let power = 10_f64.powf((most / 4.0).log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .map(|factor| factor * power)
        .into_iter()
        .find(|step| step * 4.0 >= most);
    let step = step.unwrap_or(power * 10.0);
    (0..=4).map(|index| f64::from(index) * step).collect()
}

const SERIES: usize = 6;
const WIDTH: f64 = 400.0;
const BAR_LEFT_MIN: f64 = 110.0;
const BAR_LEFT_MAX: f64 = 250.0;
/// Leaves room for the value's text.
const BAR_RIGHT: f64 = 310.0;
/// Of a label, about.
const CHARACTER_WIDTH: f64 = 6.2;
const BAR_PITCH: f64 = 22.0;
const PLOT_LEFT: f64 = 62.0;
const PLOT_TOP: f64 = 10.0;
const PLOT_WIDTH: f64 = 326.0;
const PLOT_HEIGHT: f64 = 160.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_scale_to_the_longest() {
        let bar = |value| Bar { label: "a<b".into(), value, text: "5 /s".into(), series: 7 };
        let drawing = bars("rates", &[bar(10.0), bar(5.0)]);
        assert!(drawing.contains("width=\"200.0\"") && drawing.contains("width=\"100.0\""));
        assert!(drawing.contains("a&lt;b") && drawing.contains("class=\"s1\""));
        let long = Bar { label: "l".repeat(30), ..bar(10.0) };
        assert!(bars("rates", &[long]).contains("width=\"124.0\""), "long labels shorten bars");
        assert!(drawing.starts_with("<svg viewBox=\"0 0 400 44\"") && drawing.ends_with("</svg>"));
    }

    #[test]
    fn lines_stay_inside_the_plot() {
        let chart = LineChart {
            title: "t",
            x_ticks: vec![(0.0, "0".into())],
            is_logarithmic: true,
            y_text: |value| format!("{value}"),
            lines: vec![Line {
                name: "n".into(),
                series: 0,
                points: vec![(0.0, 100.0), (1.0, 1000.0)],
            }],
        };
        assert!(chart.render().contains("points=\"62.0,170.0 388.0,10.0\""), "{}", chart.render());
        assert!(LineChart { lines: Vec::new(), ..chart }.render().is_empty());
    }

    #[test]
    fn nothing_to_show_is_still_a_drawing() {
        assert!(bars("none", &[]).contains("viewBox=\"0 0 400 22\""));
        assert_eq!(steps(0.0).len(), 5);
        assert_eq!(steps(4_100.0), [0.0, 2_000.0, 4_000.0, 6_000.0, 8_000.0]);
    }
}
