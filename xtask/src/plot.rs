//! Draws lines on two logarithmic axes, as an SVG that can be read on a light and on a dark page.

use std::fmt::Write as _;

pub(crate) struct Chart {
    pub(crate) title: &'static str,
    /// What x and y are.
    pub(crate) axes: [&'static str; 2],
    pub(crate) series: Vec<Series>,
}

pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

const WIDTH: f64 = 780.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 72.0;
const RIGHT: f64 = 220.0;
const TOP: f64 = 44.0;
const BOTTOM: f64 = 56.0;

/// In the middle between black and white, as all colours here.
const GREY: &str = "#7d8590";
const OURS: &str = "#e8590c";
const OTHERS: [&str; 6] = ["#3b82c4", "#2f9e63", "#9a6dd7", "#c0528f", "#8a8f2a", "#1c98a6"];
const DASHES: [&str; 2] = ["none", "7 4"];

/// One axis: the values at its ends, and where these are drawn.
struct Axis {
    ends: [f64; 2],
    at: [f64; 2],
}

impl Axis {
    fn place(&self, value: f64) -> f64 {
        let [from, to] = self.ends.map(f64::log10);
        self.at[0] + (value.log10() - from) / (to - from) * (self.at[1] - self.at[0])
    }
}

impl Chart {
    pub(crate) fn svg(&self) -> String {
        let values = |pick: fn(&(f64, f64)) -> f64| {
            let mut values: Vec<f64> =
                self.series.iter().flat_map(|series| &series.points).map(pick).collect();
            values.sort_by(f64::total_cmp);
            values.dedup();
            values
        };
        let (xs, ys) = (values(|point| point.0), values(|point| point.1));
        let lines = round_values(&ys);
        let x = Axis { ends: ends(&xs), at: [LEFT, WIDTH - RIGHT] };
        let y = Axis { ends: ends(&lines), at: [HEIGHT - BOTTOM, TOP] };

        let mut svg = String::new();
        let _ = writeln!(
            svg,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" \
             height=\"{HEIGHT}\" font-family=\"system-ui, sans-serif\" font-size=\"13\" fill=\"{GREY}\">"
        );
        let title = escaped(self.title);
        let _ = writeln!(svg, "<title>{title}</title>");
        let _ =
            writeln!(svg, "<text x=\"{LEFT}\" y=\"24\" font-size=\"15\" font-weight=\"600\">{title}</text>");
        self.grid(&mut svg, (&x, &xs), (&y, &lines));
        // Ours last, so that they lie above the others.
        let mut order: Vec<&Series> = self.series.iter().collect();
        order.sort_by_key(|series| series.is_ours());
        for series in order {
            let line: Vec<String> = series
                .points
                .iter()
                .map(|point| format!("{:.1},{:.1}", x.place(point.0), y.place(point.1)))
                .collect();
            let (colour, width, dash) = self.look(series);
            let _ = writeln!(
                svg,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\" \
                 stroke-dasharray=\"{dash}\" stroke-linejoin=\"round\"/>",
                line.join(" ")
            );
            for point in &line {
                let (x, y) = point.split_once(',').unwrap_or_default();
                let radius = width + 1.0;
                let _ = writeln!(svg, "<circle cx=\"{x}\" cy=\"{y}\" r=\"{radius}\" fill=\"{colour}\"/>");
            }
        }
        self.legend(&mut svg);
        svg.push_str("</svg>\n");
        svg
    }

    fn grid(&self, svg: &mut String, (x, xs): (&Axis, &[f64]), (y, lines): (&Axis, &[f64])) {
        let [left, right] = x.at;
        let [bottom, top] = y.at;
        for value in lines {
            let at = y.place(*value);
            let _ = writeln!(
                svg,
                "<path d=\"M{left} {at:.1}H{right}\" stroke=\"{GREY}\" stroke-opacity=\"0.3\"/>\
                 <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                left - 8.0,
                at + 4.5,
                short(*value)
            );
        }
        for value in xs {
            let at = x.place(*value);
            let _ = writeln!(
                svg,
                "<path d=\"M{at:.1} {bottom}v5\" stroke=\"{GREY}\"/>\
                 <text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                bottom + 20.0,
                short(*value)
            );
        }
        let _ = writeln!(svg, "<path d=\"M{left} {top}V{bottom}H{right}\" fill=\"none\" stroke=\"{GREY}\"/>");
        let [across, up] = self.axes.map(escaped);
        let (middle, low) = (f64::midpoint(left, right), HEIGHT - 12.0);
        let _ = writeln!(svg, "<text x=\"{middle}\" y=\"{low}\" text-anchor=\"middle\">{across}</text>");
        let middle = f64::midpoint(top, bottom);
        let _ = writeln!(
            svg,
            "<text transform=\"translate(18 {middle}) rotate(-90)\" text-anchor=\"middle\">{up}</text>"
        );
    }

    /// Ours first.
    fn legend(&self, svg: &mut String) {
        let mut names: Vec<&Series> = self.series.iter().collect();
        names.sort_by_key(|series| !series.is_ours());
        let left = WIDTH - RIGHT + 20.0;
        let mut at = TOP + 8.0;
        for series in names {
            let (colour, width, dash) = self.look(series);
            let weight = if series.is_ours() { "600" } else { "400" };
            let _ = writeln!(
                svg,
                "<path d=\"M{left} {at}h26\" stroke=\"{colour}\" stroke-width=\"{width}\" stroke-dasharray=\"{dash}\"/>\
                 <text x=\"{}\" y=\"{}\" font-weight=\"{weight}\">{}</text>",
                left + 34.0,
                at + 4.5,
                escaped(&series.name)
            );
            at += 22.0;
        }
    }

    /// Colour, width and dashes of a line.
    fn look(&self, series: &Series) -> (&'static str, f64, &'static str) {
        let alike = self.series.iter().filter(|other| other.is_ours() == series.is_ours());
        let place = alike.take_while(|other| other.name != series.name).count();
        if series.is_ours() {
            (OURS, 3.5, DASHES[place % DASHES.len()])
        } else {
            (OTHERS[place % OTHERS.len()], 1.75, DASHES[place / OTHERS.len() % DASHES.len()])
        }
    }
}

impl Series {
    fn is_ours(&self) -> bool {
        self.name.starts_with("limiter")
    }
}

/// The values 1, 2 and 5 of each power of ten, from below all that there are to above them.
fn round_values(sorted: &[f64]) -> Vec<f64> {
    let [least, most] = ends(sorted);
    let powers = (-3..12).map(|power| 10_f64.powi(power));
    let all: Vec<f64> = powers.flat_map(|power| [power, 2.0 * power, 5.0 * power]).collect();
    let below = all.iter().rposition(|value| *value <= least).unwrap_or(0);
    let above = all.iter().position(|value| *value >= most).unwrap_or(all.len() - 1);
    all[below..=above].to_vec()
}

/// The least and the most; where that is one value, as much room as can be drawn.
fn ends(sorted: &[f64]) -> [f64; 2] {
    match sorted {
        [] => [1.0, 10.0],
        [only] => [*only, only * 10.0],
        [least, .., most] => [*least, *most],
    }
}

/// `1k` for a thousand, `10M` for ten million.
fn short(value: f64) -> String {
    match value {
        1e6.. => format!("{}M", value / 1e6),
        1e3.. => format!("{}k", value / 1e3),
        _ => format!("{value}"),
    }
}

fn escaped(text: impl AsRef<str>) -> String {
    text.as_ref().replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_power_of_ten_takes_the_same_room_wherever_it_is() {
        let axis = Axis { ends: [1.0, 1000.0], at: [0.0, 300.0] };
        let places = [1.0, 10.0, 100.0, 1000.0].map(|value| format!("{:.3}", axis.place(value)));
        assert_eq!(places, ["0.000", "100.000", "200.000", "300.000"]);
    }

    #[test]
    fn lines_lie_below_and_above_all_values() {
        assert_eq!(round_values(&[44.0, 745.0]), [20.0, 50.0, 100.0, 200.0, 500.0, 1000.0]);
        assert_eq!(round_values(&[7476.0, 41106.0]), [5e3, 1e4, 2e4, 5e4]);
    }

    #[test]
    fn ours_stands_out_and_all_are_named() {
        let points = vec![(1.0, 2.0), (10.0, 3.0)];
        let series = ["limiter", "a peer", "<another>"];
        let series = series.map(|name| Series { name: name.to_owned(), points: points.clone() });
        let chart = Chart { title: "a title", axes: ["x", "y"], series: Vec::from(series) };
        let svg = chart.svg();
        assert!(
            svg.contains("a title") && svg.contains(">a peer<") && svg.contains(">&lt;another><"),
            "{svg}"
        );
        let last = svg.rfind("<polyline").unwrap();
        assert!(svg[last..].starts_with("<polyline points") && svg[last..].contains(OURS), "{svg}");
    }
}
