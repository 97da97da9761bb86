//! Seconds in, a table of ratios out.

use std::fmt::Write;

use super::worker::About;

/// The seconds of one item.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) item: String,
    pub(super) ours: f64,
    /// The numbers of other workers, with their seconds.
    pub(super) others: Vec<(usize, f64)>,
}

/// How a peer did on an item, in its fastest way.
struct Cell<'a> {
    about: &'a About,
    /// Its seconds over ours: above 1, we are faster.
    ratio: f64,
}

/// The value in the middle; no number, if there is none.
pub(super) fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The table in Markdown, and in words where we are slower.
pub(super) fn text(rows: &[Row], others: &[&About]) -> String {
    let mut peers: Vec<&str> = others.iter().map(|other| other.peer.as_str()).collect();
    peers.dedup();
    let mut text = format!("| work | {} |\n|---|{}\n", peers.join(" | "), "---|".repeat(peers.len()));
    let mut slower = Vec::new();
    for row in rows {
        let cells: Vec<String> = peers
            .iter()
            .map(|peer| {
                let Some(cell) = fastest(row, others, peer) else { return String::new() };
                if cell.ratio < 1.0 {
                    slower.push(format!("`{}`: {peer} takes {} of our time", row.item, spelled(cell.ratio)));
                }
                cell.text(others)
            })
            .collect();
        // Writing to a string cannot fail.
        let _ = writeln!(text, "| `{}` | {} |", row.item, cells.join(" | "));
    }
    text.push('\n');
    if slower.is_empty() {
        text.push_str("Nothing of this takes us longer than a peer.\n");
    } else {
        let _ = writeln!(text, "Where we are slower:\n\n* {}", slower.join("\n* "));
    }
    text.push_str(&ways(rows));
    text
}

/// What splitting over two devices of one machine costs: our items whose names differ in `tp1` and `tp2` alone.
fn ways(rows: &[Row]) -> String {
    let mut text = String::new();
    for two in rows {
        let one =
            rows.iter().find(|one| one.item != two.item && one.item == two.item.replace("/tp2/", "/tp1/"));
        if let Some(one) = one {
            let ratio = spelled(two.ours / one.ours);
            let _ = writeln!(text, "\nOurs, `{}`: {ratio} times as long as `{}`.", two.item, one.item);
        }
    }
    text
}

fn fastest<'a>(row: &Row, others: &[&'a About], peer: &str) -> Option<Cell<'a>> {
    let cells = row.others.iter().filter_map(|(number, seconds)| {
        let about = others.get(*number)?;
        (about.peer == peer).then_some(Cell { about, ratio: seconds / row.ours })
    });
    cells.min_by(|a, b| a.ratio.total_cmp(&b.ratio))
}

impl Cell<'_> {
    /// The ratio; in bold where we are slower; with the way where the peer has several.
    fn text(&self, others: &[&About]) -> String {
        let ratio = spelled(self.ratio);
        let ratio = if self.ratio < 1.0 { format!("**{ratio}**") } else { ratio };
        let ways = others.iter().filter(|other| other.peer == self.about.peer).count();
        if ways > 1 { format!("{ratio} {}", self.about.way) } else { ratio }
    }
}

/// A ratio, to about three digits: more is noise.
fn spelled(ratio: f64) -> String {
    let decimals = if ratio < 10.0 { 2 } else { usize::from(ratio < 100.0) };
    format!("{ratio:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about(peer: &str, way: &str) -> About {
        About { peer: peer.to_owned(), way: way.to_owned(), ..About::default() }
    }

    #[test]
    fn the_fastest_way_counts_and_slower_is_said() {
        let others = [about("A", "slow"), about("A", "fast"), about("B", "only")];
        let others: Vec<&About> = others.iter().collect();
        let row = |item: &str, ours: f64, others: &[(usize, f64)]| Row {
            item: item.to_owned(),
            ours,
            others: others.to_vec(),
        };
        let rows =
            [row("x/tp1/8", 2.0, &[(0, 50.0), (1, 25.0), (2, 1.0)]), row("x/tp2/8", 2.1, &[(0, 2000.0)])];
        let want = "\
| work | A | B |
|---|---|---|
| `x/tp1/8` | 12.5 fast | **0.50** |
| `x/tp2/8` | 952 slow |  |

Where we are slower:

* `x/tp1/8`: B takes 0.50 of our time

Ours, `x/tp2/8`: 1.05 times as long as `x/tp1/8`.
";
        assert_eq!(text(&rows, &others), want);
        assert!(text(&rows[1..], &others).contains("Nothing of this takes us longer"));
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert!(median(&[]).is_nan());
        assert_eq!([0.123, 9.876, 12.34, 123.4].map(spelled), ["0.12", "9.88", "12.3", "123"]);
    }
}
