//! Text against `pictures.txt`; SVG and HTML as XML, with shares measured in what is drawn.

use super::*;
use crate::placement::{Interleaved, Ragged};
use crate::{BackendKind, DType, DeviceMapping, Place, ReduceOp};
use Place::{Partial, Replicated, Sharded, Unknown};
use proptest::prelude::*;

fn mesh(sizes: &[usize], names: &[&str]) -> DeviceMesh {
    DeviceMesh::simulated(BackendKind::SIM, sizes, names).unwrap()
}

fn line(n: usize) -> DeviceMesh {
    mesh(&[n], &["tp"])
}

fn grid(dp: usize, tp: usize) -> DeviceMesh {
    mesh(&[dp, tp], &["dp", "tp"])
}

fn lay(shape: &[usize], mesh: &DeviceMesh, places: &[Place]) -> TensorLayout {
    TensorLayout::new(DType::F32, shape, DeviceMapping::new(mesh, places).unwrap()).unwrap()
}

/// Compares with the section of that name in `pictures.txt`. With `UPDATE_PICTURES` set, prints what it should be.
#[track_caller]
fn check(name: &str, what: &dyn Visualize) {
    let got = visualize(what).to_string();
    if std::env::var_os("UPDATE_PICTURES").is_some() {
        println!("##### {name}\n{got}\n");
        return;
    }
    let sections = include_str!("pictures.txt").split("##### ");
    let known = sections.filter_map(|section| section.split_once('\n'));
    let want = known.filter(|(title, _)| *title == name).map(|(_, text)| text.trim_end()).next();
    assert_eq!(Some(got.trim_end()), want, "{name}: got\n{got}");
}

#[test]
fn meshes() {
    check("mesh of one axis", &line(4));
    check("mesh of two axes", &grid(2, 2));
    check("mesh of three axes", &mesh(&[2, 2, 2], &["pp", "dp", "tp"]));
    check("mesh of two axes that count", &mesh(&[2, 1, 2], &["pp", "dp", "tp"]));
    check("one device", &DeviceMesh::single(crate::Device::cpu()));
    check("no axes", &mesh(&[], &[]));
    check("mesh of a million devices", &grid(1024, 1024));
}

#[test]
fn layouts() {
    check("one axis over two mesh axes", &lay(&[10, 8], &grid(2, 2), &[Sharded(0), Sharded(0)]));
    check("columns over the outer mesh axis", &lay(&[10, 7], &grid(2, 2), &[Sharded(1), Sharded(0)]));
    check("fewer rows than devices", &lay(&[2, 7], &line(4), &[Sharded(0)]));
    check("one tensor axis", &lay(&[7], &line(4), &[Sharded(0)]));
    check("no tensor axis", &lay(&[], &line(4), &[Partial(ReduceOp::Max)]));
    check("no elements", &lay(&[0, 3], &line(4), &[Sharded(0)]));
    check("the middle of three axes", &lay(&[6, 3, 9], &grid(2, 2), &[Sharded(1), Replicated]));
    check("three split axes", &lay(&[2, 2, 2], &mesh(&[2, 2, 2], &["a", "b", "c"]), &[0, 1, 2].map(Sharded)));
}

#[test]
fn other_placements() {
    check("terms of a sum", &lay(&[5, 8], &grid(2, 2), &[Sharded(0), Place::PARTIAL]));
    check("terms with copies", &lay(&[6, 3], &grid(2, 4), &[Place::PARTIAL, Replicated]));
    check(
        "terms over both axes",
        &lay(&[6, 3], &grid(2, 4), &[Partial(ReduceOp::Prod), Partial(ReduceOp::Prod)]),
    );
    check("ragged", &lay(&[10, 3], &line(4), &[Ragged::place(0, [7, 0, 2, 1])]));
    check("ragged, not to scale", &lay(&[1001, 3], &line(2), &[Ragged::place(0, [1000, 1])]));
    let interleaved = Place::custom(Interleaved::new(1, [8, 2, 2]));
    check("interleaved", &lay(&[3, 12], &line(2), &[interleaved]));
    check("unknown", &lay(&[3, 12], &grid(2, 2), &[Unknown, Sharded(0)]));
}

#[test]
fn many_devices() {
    check("a million devices with terms", &lay(&[5000, 3], &grid(1024, 1024), &[Sharded(0), Place::PARTIAL]));
    check(
        "a million devices, half of them empty",
        &lay(&[500_000, 8], &grid(1024, 1024), &[Sharded(0), Sharded(0)]),
    );
    let sizes: Vec<usize> = (0..100).map(|i| i % 3).collect();
    check("a hundred ragged pieces", &lay(&[99, 2], &line(100), &[Ragged::place(0, sizes)]));
    check("a million unknown shards", &lay(&[5], &grid(1024, 1024), &[Unknown, Replicated]));
}

#[test]
fn several_side_by_side() {
    let (rows, columns) = (lay(&[4, 8], &line(2), &[Sharded(0)]), lay(&[4, 8], &line(2), &[Sharded(1)]));
    check("side by side", &[("before", &rows), ("after", &columns)]);
    let (mesh, wide) = (grid(2, 2), lay(&[70, 70], &line(2), &[Sharded(1)]));
    let all: [(&str, &dyn Visualize); 3] = [("mesh", &mesh), ("rows", &rows), ("wide", &wide)];
    check("several kinds", &all);
    check("nothing", &Vec::<(String, DeviceMesh)>::new());
    // A list of lists has both names.
    let nested = [("x", [("before", &rows)])];
    assert!(visualize(&nested).to_string().starts_with("x before:\n"));
}

#[test]
fn the_time_for_a_million_devices_is_that_for_a_hundred() {
    let draw = |n: usize| {
        let layout = lay(&[500_000, 8], &grid(n, n), &[Sharded(0), Sharded(0)]);
        let started = std::time::Instant::now();
        for _ in 0..20 {
            std::hint::black_box(visualize(&layout).html());
        }
        started.elapsed()
    };
    // The wide margin is for a busy machine; visiting the devices would take ten thousand times as long.
    let (few, many) = (draw(10), draw(1024));
    assert!(many < few * 50, "{few:?} for 100 devices, {many:?} for a million");
}

/// A document that a parser of XML accepts; the page has a document type, which has no entities.
fn parse(text: &str) -> roxmltree::Document<'_> {
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
    roxmltree::Document::parse_with_options(text, options)
        .unwrap_or_else(|error| panic!("{error} in\n{text}"))
}

#[test]
fn names_are_escaped() {
    let nasty = "<b>&\"'\u{0}\n]]>-->\u{7f}é漢";
    let mesh = DeviceMesh::simulated(BackendKind::SIM, [2, 2], [nasty, "</title><script>alert(1)</script>"])
        .unwrap();
    let layout = lay(&[3, 2], &mesh, &[Sharded(0), Unknown]);
    let all: [(&str, &dyn Visualize); 3] = [(nasty, &mesh), ("b", &layout), ("c", &mesh)];
    let picture = visualize(&all);
    let shown = "<b>&\"'\u{fffd}\u{fffd}]]>-->\u{fffd}é漢";
    for text in [picture.svg(), picture.html()] {
        let document = parse(&text);
        let says = document.descendants().filter_map(|node| node.text()).any(|text| text.contains(shown));
        assert!(says, "{text}");
        assert!(!document.descendants().any(|node| node.has_tag_name("script") || node.has_tag_name("b")));
    }
    let text = picture.to_string();
    assert!(text.contains(shown) && !text.contains('\u{0}'), "{text}");
}

/// Names that hide, turn or fill lines: they are cut, and what a terminal or browser would obey is replaced.
#[test]
fn hostile_names_take_no_line_and_turn_none() {
    let long = "x".repeat(3000);
    for name in [
        long.as_str(),
        "ab\u{202e}cd\u{2066}\u{200b}",
        "a\u{2028}b\r\n\tc",
        "日本語の軸の名前が長い場合".repeat(9).as_str(),
    ] {
        let mesh = mesh(&[2, 2], &[name, "tp"]);
        let layout = lay(&[10, 7], &mesh, &[Sharded(1), Sharded(0)]);
        let all: [(&str, &dyn Visualize); 2] = [(name, &mesh), ("layout", &layout)];
        let picture = visualize(&all);
        let text = picture.to_string();
        // Two panels, side by side or one below the other.
        assert!([13, 27].contains(&text.lines().count()), "{text}");
        let widest = text.lines().map(crate::text::columns).max().unwrap();
        assert!(widest <= 160, "{widest} columns in\n{text}");
        for document in [text, picture.svg(), picture.html()] {
            assert!(document.len() < 40_000, "{} bytes", document.len());
            assert!(!document.contains(['\u{202e}', '\u{2066}', '\u{200b}', '\u{2028}', '\r', '\t']));
        }
    }
    // Text of two columns a character keeps the borders below each other.
    let text = visualize(&mesh(&[2, 2], &["数据", "張量"])).to_string();
    let borders = |line: &str| {
        line.char_indices()
            .filter(|(_, c)| "┌├└│".contains(*c))
            .map(|(at, _)| crate::text::columns(&line[..at]))
            .next()
    };
    let firsts: Vec<usize> = text.lines().filter_map(borders).collect();
    assert!(firsts.len() == 7 && firsts.iter().all(|first| *first == firsts[0]), "{firsts:?}\n{text}");
}

#[test]
fn pages_need_nothing_from_outside() {
    let html = visualize(&[("x", &lay(&[10, 8], &grid(2, 2), &[Sharded(0), Place::PARTIAL]))]).html();
    let document = parse(&html);
    for node in document.descendants().filter(|node| node.is_element()) {
        for attribute in node.attributes() {
            assert!(!["href", "src", "action", "data"].contains(&attribute.name()), "{attribute:?}");
            let outside = attribute.value().contains("://") || attribute.value().contains("url(h");
            assert!(!outside, "{attribute:?}");
        }
        assert!(!["script", "link", "img", "iframe", "object"].contains(&node.tag_name().name()));
    }
    let style = document.descendants().find(|node| node.has_tag_name("style")).unwrap().text().unwrap();
    assert!(!style.contains("url") && !style.contains("@import"));
    assert_eq!(html.matches("id=\"").count(), 1, "an id is given once");
}

/// The area of each block of a drawing beside that of all.
fn drawn_shares(svg: &str) -> Vec<f64> {
    let document = parse(svg);
    let number = |node: &roxmltree::Node<'_, '_>, name| node.attribute(name).unwrap().parse::<f64>().unwrap();
    let blocks = document.descendants().filter(|node| node.attribute("class").is_some());
    let areas: Vec<f64> = blocks
        .map(|block| {
            let rect = block.children().find(|node| node.has_tag_name("rect")).unwrap();
            number(&rect, "width") * number(&rect, "height")
        })
        .collect();
    let all: f64 = areas.iter().sum();
    areas.iter().map(|area| area / all).collect()
}

fn place() -> impl Strategy<Value = Place> {
    prop_oneof![
        Just(Replicated),
        Just(Sharded(0)),
        Just(Sharded(1)),
        Just(Place::PARTIAL),
        Just(Unknown),
        Just(Place::custom(Interleaved::new(0, [3, 2]))),
        Just(Ragged::place(1, [4, 0])),
        Just(Ragged::place(1, [1, 2, 1])),
    ]
}

proptest! {
    /// Whatever is placed wherever: documents are well-formed, every device is named, and blocks are as large as shares.
    #[test]
    fn any_layout(sizes in (1_usize..4, 1_usize..4), places in (place(), place()), rows in 0_usize..9) {
        let mesh = grid(sizes.0, sizes.1);
        let shape = match places { // What a custom placement fixes.
            (a, b) if [a, b].contains(&Place::custom(Interleaved::new(0, [3, 2]))) => [5, 4],
            _ => [rows, 4],
        };
        let Ok(mapping) = DeviceMapping::new(&mesh, [places.0, places.1]) else { return Ok(()) };
        let Ok(layout) = TensorLayout::new(DType::F32, shape, mapping) else { return Ok(()) };
        let picture = visualize(&layout);
        parse(&picture.html());
        let text = picture.to_string();
        for device in 0..mesh.num_devices() {
            prop_assert!(text.contains(&format!("device {device}")), "{}", text);
        }
        let svg = picture.svg();
        let drawn = drawn_shares(&svg);
        let unknown = layout.places().contains(&Unknown);
        prop_assert_eq!(drawn.is_empty(), layout.shape().elements() == 0 && !unknown);
        if unknown || drawn.is_empty() {
            return Ok(());
        }
        // Devices that hold the same block share it: each block is the part of the tensor that its first holder has.
        let panel = Panel::layout(&layout);
        let cells = panel.grid.unwrap().cells;
        prop_assert_eq!(cells.len(), drawn.len());
        for device in 0..mesh.num_devices() {
            let of_device: f64 = cells.iter().zip(&drawn)
                .filter(|(cell, _)| layout.region(cell.device) == layout.region(device))
                .map(|(_, share)| share).sum();
            let share = layout.local_shape(device).elements() as f64 / layout.shape().elements() as f64;
            prop_assert!((of_device - share).abs() < 1e-3, "device {}: {} drawn, {} held\n{}", device, of_device, share, text);
        }
    }
}
