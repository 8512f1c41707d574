//! Explanations of a case: flame graphs, call paths.

use maud::html;

use crate::report::data::Data;
use crate::report::number::bytes;
use crate::report::page::{Figure, Section};
use crate::report::render;

pub fn section(data: &Data<'_>) -> Option<Section> {
    let figures: Vec<Figure> = data
        .own()
        .rev()
        .flat_map(|run| &run.attachments)
        .map(|attachment| {
            let case = format!("{}:{}", attachment.suite, attachment.case);
            let title = super::opened(&attachment.title);
            let caption = format!("{title}, {}", super::code(&case));
            let body = if attachment.media_type == "image/svg+xml" {
                let href = render::data_uri("image/svg+xml", attachment.text.as_bytes());
                let size = bytes(attachment.text.len() as u64);
                let name = format!("{}.svg", case.replace([':', '/'], "-"));
                html! {
                    div.picture { img src=(href) alt={ (attachment.title) " of " (case) ", " (size) }; }
                    p { a.button download=(name) href=(href) { "Save as " (name) } }
                }
            } else {
                html! { pre tabindex="0" { (attachment.text) } }
            };
            Figure::new(caption).with("", body)
        })
        .collect();
    (!figures.is_empty()).then(|| Section {
        id: "explained",
        title: "Where the time goes".to_owned(),
        figures,
        notes: vec![
            "Saved and opened alone, a flame graph can be searched and zoomed into.".to_owned(),
        ],
        ..Section::default()
    })
}
