//! The report as people see it: in a headless Chromium.

use std::path::PathBuf;
use std::sync::LazyLock;

use crate::browser::{Browser, Lease};
use crate::common::{runs, skipped};
use gush_lab::report;
use tempfile::TempDir;

/// Made once: the figures of all runs take a second.
static HTML: LazyLock<String> = LazyLock::new(|| report::html(&runs()));

/// The page of the stored runs in a browser; none where there is no browser.
fn page(width: u32, colours: &str) -> Option<(Lease, PathBuf, TempDir)> {
    let mut browser = match Lease::new() {
        Ok(browser) => browser,
        Err(why) => {
            skipped(&why);
            return None;
        }
    };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("report.html");
    std::fs::write(&path, HTML.as_str()).unwrap();
    browser.open(&path, width, colours);
    Some((browser, path, dir))
}

/// What several tests ask the page.
const HELP: &str = "
    globalThis.shown = (one) => one.checkVisibility() && one.getBoundingClientRect().height > 0;
    globalThis.channels = (colour) => {
        const canvas = new OffscreenCanvas(1, 1).getContext('2d');
        canvas.fillStyle = colour;
        canvas.fillRect(0, 0, 1, 1);
        return [...canvas.getImageData(0, 0, 1, 1).data];
    };
    globalThis.light = (colour) => {
        const [r, g, b] = channels(colour).slice(0, 3).map((channel) => {
            const part = channel / 255;
            return part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
        });
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    globalThis.ground = (one) => {
        for (; one; one = one.parentElement) {
            const colour = getComputedStyle(one).backgroundColor;
            if (channels(colour)[3] === 255) return colour;
        }
        return 'white';
    };
    // As WCAG 2 defines it.
    globalThis.contrast = (one) => {
        const [a, b] = [light(getComputedStyle(one).color), light(ground(one))].sort((x, y) => y - x);
        return (a + 0.05) / (b + 0.05);
    };
    0";

#[test]
fn nothing_is_requested_and_nothing_complained_of() {
    let Some((mut browser, path, _dir)) = page(1280, "light") else { return };
    browser.value("document.querySelectorAll('.views > input').forEach((one) => one.click())");
    browser.value("scrollTo(0, document.documentElement.scrollHeight)");
    assert_eq!(browser.complaints(), Vec::<serde_json::Value>::new());
    let own = format!("file://{}", path.display());
    for address in browser.requests() {
        assert!(address == own || address.starts_with("data:"), "{address} was asked for");
    }
    // The test would see it: the policy stops a request, and the console shows it.
    browser.value("new Image().src = 'https://gush.invalid/x.png'; 0");
    assert!(!browser.complaints().is_empty(), "the policy let a request pass in silence");
}

#[test]
fn bars_are_as_long_as_their_figures() {
    let Some((mut browser, ..)) = page(1280, "light") else { return };
    let figures = browser.value(
        "[...document.querySelectorAll('#pipe figure')].map((figure) =>
            [...figure.querySelectorAll('.row')].filter((row) => row.checkVisibility()).map((row) => [
                row.querySelector('.value b').textContent,
                row.querySelector('rect.bar').getBoundingClientRect().width,
                row.querySelector('rect.bar').getBoundingClientRect().height,
            ]))",
    );
    let figures = figures.as_array().unwrap();
    assert_eq!(figures.len(), 3, "a figure for each group");
    let figure = |bar: &serde_json::Value| bar[0].as_str().unwrap().parse::<f64>().unwrap();
    for bars in figures {
        let bars = bars.as_array().unwrap();
        let longest = bars.iter().max_by(|a, b| figure(a).total_cmp(&figure(b))).unwrap();
        for bar in bars {
            let (width, height) = (bar[1].as_f64().unwrap(), bar[2].as_f64().unwrap());
            let expected = longest[1].as_f64().unwrap() * figure(bar) / figure(longest);
            assert!(height > 5.0 && width > 0.0, "{bar}");
            assert!((width - expected).abs() < 1.0, "{bar}: {expected}");
        }
    }
}

#[test]
fn sizes_cells_and_pictures_are_drawn() {
    let Some((mut browser, ..)) = page(1280, "light") else { return };
    browser.value(HELP);
    let bars = "[...document.querySelectorAll('#copy .row')].filter(shown).length";
    assert_eq!(browser.value(bars), 10, "a bar for each case of the largest size alone");
    let cells = "[...document.querySelectorAll('#matrix table.grid td')].filter(shown).length";
    assert!(browser.value(cells).as_u64().unwrap() >= 16, "cells of the matrix");
    let picture = browser.value("document.querySelector('.picture img').naturalWidth");
    assert!(picture.as_u64().unwrap() > 0, "the flame graph is not drawn");
}

#[test]
fn colours_follow_the_system_and_text_has_contrast() {
    let Some((mut browser, ..)) = page(1280, "light") else { return };
    let lightness = |browser: &mut Browser| {
        browser.value(HELP);
        browser.value("light(getComputedStyle(document.body).backgroundColor)").as_f64().unwrap()
    };
    const TEXTS: &str = "
        ['h1', 'h1 strong', '.byline', '.said', '.note', '.legend span', '.unit', '.row .name code',
         '.row .name small', '.row .value small', '.also .sound', '.also .unsound', 'figcaption', 'nav a',
         'caption', 'td', 'td.refused', 'td.h5', 'td.h4', 'td.h3', 'td.h2', '.differs', '.button',
         '.views > label', '.views > input:checked + label', '.warnings li']
        .map((selector) => [selector, Math.min(...[...document.querySelectorAll(selector)].map(contrast))])
        .filter(([, least]) => least < 4.5)";
    assert!(lightness(&mut browser) > 0.8);
    assert_eq!(browser.value(TEXTS), serde_json::json!([]), "text too faint on light");
    browser.colours("dark");
    assert!(lightness(&mut browser) < 0.05);
    assert_eq!(browser.value(TEXTS), serde_json::json!([]), "text too faint on dark");
}

#[test]
fn everything_works_from_the_keyboard() {
    let Some((mut browser, ..)) = page(1280, "light") else { return };
    browser.press("Tab");
    assert_eq!(browser.value("document.activeElement.className"), "skip");
    assert!(
        browser.value("document.activeElement.getBoundingClientRect().top").as_f64() >= Some(0.0)
    );
    browser.press("Enter");
    assert_eq!(browser.value("document.activeElement.id"), "main");

    browser.press("Tab");
    assert_eq!(browser.value("document.activeElement.id"), "pipe-1-1");
    let outline = "getComputedStyle(document.activeElement.nextElementSibling).outlineStyle";
    assert_eq!(browser.value(outline), "solid", "the focus is seen");
    browser.press("ArrowRight");
    assert_eq!(browser.value("document.activeElement.nextElementSibling.textContent"), "Table");
    let table = "document.querySelector('#pipe table').checkVisibility()";
    assert_eq!(browser.value(table), true);
    browser.press("ArrowLeft");
    assert_eq!(browser.value(table), false);

    assert_eq!(browser.complaints(), Vec::<serde_json::Value>::new());
}

#[test]
fn a_narrow_window_and_paper_lose_nothing() {
    let Some((mut browser, path, _dir)) = page(360, "light") else { return };
    let wider = "[...document.querySelectorAll('.views > input')].map((one) => {
        one.click();
        return [one.id, document.documentElement.scrollWidth];
    }).filter(([, width]) => width > 360)";
    assert_eq!(browser.value(wider), serde_json::json!([]), "views wider than the window");
    browser.open(&path, 1000, "dark");
    browser.call("Emulation.setEmulatedMedia", serde_json::json!({ "media": "print" }));
    browser.value(HELP);
    let ground = browser.value("light(getComputedStyle(document.body).backgroundColor)");
    assert!(ground.as_f64().unwrap() > 0.8, "paper is light");
    let grids = "[...document.querySelectorAll('#matrix table.grid')].filter(shown).length";
    assert_eq!(browser.value(grids), 4, "every grid is printed");
    let parted = "[...document.querySelectorAll('figcaption, .legend, .axis')]
        .filter((one) => getComputedStyle(one).breakAfter !== 'avoid').length";
    assert_eq!(browser.value(parted), 0, "an axis may stand on another page than its bars");
    let buttons = "[...document.querySelectorAll('.button')].filter(shown).length";
    assert_eq!(browser.value(buttons), 0, "nobody presses a button on paper");
}

#[test]
fn the_samples_in_the_page_give_the_same_page() {
    let Some((mut browser, ..)) = page(1280, "light") else { return };
    let json = browser
        .value("atob(document.querySelector('a[download=\"gush-lab.json\"]').href.split(',')[1])");
    // atob gives a letter for each byte.
    let bytes: Vec<u8> = json.as_str().unwrap().chars().map(|byte| byte as u8).collect();
    let again: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    let list = again.get("runs").unwrap_or(&again).clone();
    let again: Vec<gush_lab::model::Run> = serde_json::from_value(list).unwrap();
    assert!(report::html(&again) == *HTML, "another page");
}

#[test]
fn a_screen_reader_finds_its_way() {
    let Some((mut browser, ..)) = page(1280, "light") else { return };
    let headings = browser
        .value("[...document.querySelectorAll('h1, h2, h3, h4')].map((one) => +one.tagName[1])");
    let levels: Vec<u64> =
        headings.as_array().unwrap().iter().filter_map(serde_json::Value::as_u64).collect();
    assert_eq!(levels.first(), Some(&1));
    assert!(levels.len() > 8 && levels[1..].iter().all(|level| *level == 2), "{levels:?}");
    for landmark in ["header", "nav[aria-label]", "main", "aside[aria-labelledby]"] {
        let count = browser.value(&format!("document.querySelectorAll('{landmark}').length"));
        assert_eq!(count, 1, "{landmark}");
    }
    let silent = "[...document.querySelectorAll('svg, img, input, figure, section, [role=region]')].filter((one) =>
        !one.closest('[aria-hidden=true], [role=img] *') && one.closest('[role=img]') !== one
        && !(one.alt || one.ariaLabel || one.labels?.length || one.getAttribute('aria-labelledby'))
     ).map((one) => one.outerHTML.slice(0, 120))";
    assert_eq!(browser.value(silent), serde_json::json!([]), "no name, and not hidden");
    let lost = "[...document.querySelectorAll('[aria-labelledby]')]
        .filter((one) => !document.getElementById(one.getAttribute('aria-labelledby'))).length";
    assert_eq!(browser.value(lost), 0, "names that point nowhere");
}

#[test]
fn texts_of_axes_have_contrast_in_both_colours() {
    let Some((mut browser, ..)) = page(1280, "light") else { return };
    for colours in ["light", "dark"] {
        browser.colours(colours);
        browser.value(HELP);
        let faint = browser.value(
            "[...document.querySelectorAll('svg text')].filter(shown).map((one) => {
                const [a, b] = [getComputedStyle(one).fill, ground(one)].map(light).sort((x, y) => y - x);
                return [one.textContent, (a + 0.05) / (b + 0.05)];
            }).filter(([, contrast]) => contrast < 4.5)",
        );
        assert_eq!(faint, serde_json::json!([]), "{colours}");
    }
}
