//! A table; the first cell of a row is the row's heading.

use maud::{Markup, html};

use crate::report::page::{Cell, Table, Tone};

/// The table, in a figure of this caption.
pub fn table(table: &Table, caption: &str) -> Markup {
    let grid = table.grid;
    html! {
        div.scroll role="region" aria-label=(table.caption) tabindex="0" {
            table class=[grid.then_some("grid")] {
                caption class=[(grid || table.caption == caption).then_some("sr")] { (table.caption) }
                thead {
                    tr {
                        @for (index, column) in table.columns.iter().enumerate() {
                            th scope="col" class=[column.number.then_some("number")] {
                                @if grid && index > 0 { span { (column.label) } } @else { (column.label) }
                            }
                        }
                    }
                }
                tbody {
                    @for row in &table.rows {
                        tr {
                            @for (index, cell) in row.iter().enumerate() {
                                @let is_number = table.columns.get(index).is_some_and(|column| column.number);
                                @if index == 0 {
                                    th scope="row" { (content(cell)) }
                                } @else {
                                    td class={ (cell.tone.0) @if is_number { " number" } } { (content(cell)) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn content(cell: &Cell) -> Markup {
    html! {
        @if cell.tone == Tone::CODE { code { (cell.text) } } @else { (cell.text) }
        @if !cell.small.is_empty() { small { (cell.small) } }
    }
}
