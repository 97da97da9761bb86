//! Pictures as a page of HTML.

use super::panel::Panel;
use super::svg::{self, escape};
use super::text;
use std::fmt::Write;

const STYLE: &str =
    "body { font-family: system-ui, sans-serif; margin: 2rem; color: #222; background: #fff; }
figure { margin: 0 0 2rem 0; overflow-x: auto; }
h2 { font-size: 1rem; font-family: ui-monospace, monospace; }
pre { background: #f6f6f6; padding: 1rem; overflow-x: auto; line-height: 1.15; }
table { border-collapse: collapse; font-family: ui-monospace, monospace; font-size: 0.8rem; }
th, td { border: 1px solid #ccc; padding: 0.2rem 0.6rem; text-align: left; }
th { background: #f0f0f0; }";

/// A page without a link to anything outside it.
pub(super) fn page(panels: &[Panel]) -> String {
    let names: Vec<&str> =
        panels.iter().map(|panel| panel.name.as_deref().unwrap_or(&panel.headline)).collect();
    let title = escape(&names.join(", "));
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n<title>{title}</title>\n<style>\n{STYLE}\n</style>\n</head>\n<body>\n<figure>\n{}</figure>\n",
        svg::document(panels)
    );
    for panel in panels {
        let heading = panel.name.as_deref().unwrap_or(&panel.headline);
        let text = text::panel(panel).join("\n");
        let _ = write!(page, "<section>\n<h2>{}</h2>\n<pre>{}</pre>\n", escape(heading), escape(&text));
        table(&mut page, &panel.table);
        page.push_str("</section>\n");
    }
    page.push_str("</body>\n</html>\n");
    page
}

fn table(page: &mut String, rows: &[Vec<String>]) {
    let Some((head, rows)) = rows.split_first() else { return };
    let row = |tag: &str, words: &[String]| {
        let cells = words.iter().map(|word| format!("<{tag}>{}</{tag}>", escape(word)));
        format!("<tr>{}</tr>\n", cells.collect::<String>())
    };
    page.push_str("<table>\n<thead>");
    page.push_str(&row("th", head));
    page.push_str("</thead>\n<tbody>\n");
    rows.iter().for_each(|words| page.push_str(&row("td", words)));
    page.push_str("</tbody>\n</table>\n");
}
