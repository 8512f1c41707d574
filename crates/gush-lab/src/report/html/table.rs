//! A table; the first cell of a row is the row's heading.

use crate::report::markup::{Html, each, html, numbered, when};
use crate::report::page::{Cell, Column, Table, Tone};

pub fn html(table: &Table, caption: &str) -> Html {
    let grid = table.grid;
    html!(
        r#"<div class="scroll" role="region" aria-label="{caption}" tabindex="0">
<table{grid}>
<caption{hidden}>{caption}</caption>
<thead><tr>
{heads}</tr></thead>
<tbody>
{rows}</tbody>
</table>
</div>
"#,
        caption = table.caption,
        grid = when(grid, || html!(" class=\"grid\"")),
        hidden = when(grid || table.caption == caption, || html!(" class=\"sr\"")),
        heads = numbered(&table.columns, |index, column| head(column, grid && index > 0)),
        rows = each(&table.rows, |row| html!(
            "<tr>\n{}</tr>\n",
            numbered(row, |index, cell| match index {
                0 => html!("<th scope=\"row\">{}</th>\n", content(cell)),
                _ => data(cell, table.columns.get(index).is_some_and(|column| column.number)),
            })
        )),
    )
}

fn head(column: &Column, is_narrow: bool) -> Html {
    let label =
        if is_narrow { html!("<span>{}</span>", column.label) } else { html!("{}", column.label) };
    html!("<th scope=\"col\"{}>{}</th>", when(column.number, || html!(" class=\"number\"")), label)
}

fn data(cell: &Cell, is_number: bool) -> Html {
    html!(
        "<td class=\"{}{}\">{}</td>\n",
        cell.tone.0,
        if is_number { " number" } else { "" },
        content(cell),
    )
}

fn content(cell: &Cell) -> Html {
    html!(
        "{text}{small}",
        text = match cell.tone {
            Tone::CODE => html!("<code>{}</code>", cell.text),
            _ => html!("{}", cell.text),
        },
        small = when(!cell.small.is_empty(), || html!("<small>{}</small>", cell.small)),
    )
}
