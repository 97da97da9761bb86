//! Where a tensor lies, drawn: text to the terminal, and a page for a browser.
//!
//! `cargo run --example visualize -- out.html`

use sharding_ops::*;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(path) = std::env::args_os().nth(1) else {
        eprintln!("usage: cargo run --example visualize -- out.html");
        return ExitCode::from(2);
    };
    let outcome = pictures(BackendKind::CPU).map_err(|error| error.to_string()).and_then(|(text, page)| {
        println!("{text}");
        std::fs::write(&path, page).map_err(|error| format!("cannot write {}: {error}", path.display()))
    });
    match outcome {
        Ok(()) => {
            println!("\nwritten to {}", path.display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// The text and the page of a column-parallel product: what its operands are, what it leaves, what a reshard makes of it.
pub fn pictures(kind: BackendKind) -> Result<(String, String)> {
    let mesh = DeviceMesh::simulated(kind, [2, 2], ["dp", "tp"])?;
    // Ten rows over two devices, and a weight that is split along the axis that the product sums.
    let x = full([10, 8], 1.0, DType::F32, &DeviceMapping::new(&mesh, [Sharded(0), Sharded(1)])?)?;
    let w = full([8, 6], 1.0, DType::F32, &DeviceMapping::new(&mesh, [Replicated, Sharded(0)])?)?;
    let product = x.matmul(&w)?;
    let rows = product.transfer_to(&DeviceMapping::new(&mesh, [Sharded(0), Sharded(0)])?)?;
    let uneven =
        full([10, 8], 1.0, DType::F32, &DeviceMapping::new(&mesh, [Ragged::place(1, [5, 3]), Replicated])?)?;
    let million = DeviceMesh::simulated(kind, [1024, 1024], ["dp", "tp"])?;
    let wide = TensorLayout::new(
        DType::F32,
        [1_000_000, 8192],
        DeviceMapping::new(&million, [Sharded(0), Sharded(1)])?,
    )?;
    let all: [(&str, &dyn Visualize); 7] = [
        ("the mesh", &mesh),
        ("x", &x),
        ("w", &w),
        ("x @ w", &product),
        ("x @ w, reduced and scattered", &rows),
        ("chosen sizes", &uneven),
        ("on a million devices", &wide),
    ];
    let picture = visualize(&all);
    Ok((picture.to_string(), picture.html()))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_pictures_show_terms_and_pieces() {
        let (text, page) = super::pictures(super::BackendKind::CPU).unwrap();
        for word in ["0 + 1", "8:10", "1048576 devices"] {
            assert!(text.contains(word) && page.contains(word), "{word} is not in\n{text}");
        }
    }
}

#[cfg(test)]
#[cfg(feature = "browser")]
mod browser {
    use std::path::{Path, PathBuf};
    use std::process::{Command, Output, Stdio};
    use std::time::{Duration, Instant};

    /// Where browsers of this family are looked for, after the variable `BROWSER`.
    const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

    fn starts(name: &str) -> bool {
        let outcome =
            Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        outcome.is_ok_and(|status| status.success())
    }

    fn find() -> Option<String> {
        let chosen = std::env::var("BROWSER").ok().into_iter();
        chosen.chain(NAMES.map(str::to_owned)).find(|name| starts(name))
    }

    /// A folder of its own that goes away again.
    struct Folder(PathBuf);

    impl Folder {
        fn new() -> Self {
            let path = std::env::temp_dir().join(format!("sharding-visualize-{}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    /// What the browser says, or that it took too long.
    fn look(browser: &str, folder: &Path, page: &Path, task: &str) -> Output {
        let mut child = Command::new(browser)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"])
            .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
            .args(["--disable-dev-shm-usage", "--hide-scrollbars", "--window-size=3600,1200"])
            .arg(format!("--user-data-dir={}", folder.join("profile").display()))
            .arg(task)
            .arg(format!("file://{}", page.display()))
            .stdin(Stdio::null())
            .stdout(std::fs::File::create(folder.join("out")).unwrap())
            .stderr(std::fs::File::create(folder.join("err")).unwrap())
            .spawn()
            .unwrap();
        let started = Instant::now();
        let status = loop {
            match child.try_wait().unwrap() {
                Some(status) => break status,
                None if started.elapsed() > Duration::from_secs(120) => {
                    child.kill().unwrap();
                    break child.wait().unwrap();
                }
                None => std::thread::sleep(Duration::from_millis(50)),
            }
        };
        let read = |name: &str| std::fs::read(folder.join(name)).unwrap();
        Output { status, stdout: read("out"), stderr: read("err") }
    }

    #[test]
    fn a_browser_shows_the_page() {
        let Some(browser) = find() else {
            println!(
                "SKIPPED: no browser: none of {NAMES:?} starts; install one, or name it in the variable BROWSER"
            );
            return;
        };
        let folder = Folder::new();
        let page = folder.0.join("out.html");
        // What the browser makes of the page, measured where it lays the page out: a script is added that writes how large the
        // blocks of the drawing are on the screen.
        let measure = "<script>document.body.setAttribute('data-blocks', Array.from(document.querySelectorAll('figure svg \
            g[class] > rect:first-of-type')).map(r => { const b = r.getBoundingClientRect(); return [b.width, b.height].join('x'); \
            }).join(' '));</script></body>";
        let (_, html) = super::pictures(super::BackendKind::CPU).unwrap();
        std::fs::write(&page, html.replace("</body>", measure)).unwrap();
        let seen = look(&browser, &folder.0, &page, "--dump-dom");
        let dom = String::from_utf8_lossy(&seen.stdout);
        assert!(seen.status.success(), "{}: {}", seen.status, String::from_utf8_lossy(&seen.stderr));
        // The parser of HTML found the structure that we wrote: it would have moved or dropped what is misplaced.
        assert_eq!(dom.matches("<section>").count(), 7, "{dom}");
        assert_eq!(dom.matches("<table>").count(), 6, "the panel of a million devices has no table");
        assert!(dom.contains("1048576 devices") && dom.contains("x @ w, reduced and scattered"), "{dom}");
        let blocks = dom.split("data-blocks=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
        let sizes: Vec<(f64, f64)> = blocks
            .split(' ')
            .map(|size| {
                let (width, height) = size.split_once('x').unwrap();
                (width.parse().unwrap(), height.parse().unwrap())
            })
            .collect();
        // mesh 4, x 4, w 2, product 2, rows 4, chosen sizes 2.
        assert_eq!(sizes.len(), 18, "{blocks}");
        assert!(sizes.iter().all(|(width, height)| *width > 20.0 && *height > 10.0), "{blocks}");
        let (wide, narrow) = (sizes[16].0, sizes[17].0);
        assert!((wide / narrow - 5.0 / 3.0).abs() < 0.01, "5 and 3 columns are {wide} and {narrow} wide");
        let heights: Vec<f64> = sizes[12..16].iter().map(|(_, height)| *height).collect();
        assert!((heights[0] / heights[2] - 1.5).abs() < 0.01, "3, 3, 2, 2 rows are {heights:?} high");

        let picture = folder.0.join("page.png");
        let task = format!("--screenshot={}", picture.display());
        let seen = look(&browser, &folder.0, &page, &task);
        assert!(seen.status.success(), "{}", String::from_utf8_lossy(&seen.stderr));
        let png = std::fs::read(&picture).unwrap();
        assert!(png.starts_with(b"\x89PNG") && png.len() > 20_000, "a picture of {} bytes", png.len());
    }
}
