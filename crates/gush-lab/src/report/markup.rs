//! HTML out of pieces: text is escaped, HTML is taken unchanged, and the compiler knows which is
//! which.

use std::fmt::{self, Display, Formatter, Write};

/// HTML, in which all text is escaped.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Html(pub(super) String);

pub trait ToHtml {
    fn write_html(&self, out: &mut Formatter<'_>) -> fmt::Result;
}

/// HTML by a format string. Each argument is [`ToHtml`] and so is escaped unless the argument is
/// HTML. A variable cannot be named in the string alone, because `concat!` forbids it: nothing
/// passes by the escaping.
macro_rules! html {
    ($format:literal $(, $name:ident = $value:expr)* $(,)?) => {
        $crate::report::markup::Html(format!(
            concat!($format) $(, $name = $crate::report::markup::Shown(&$value))*
        ))
    };
    ($format:literal $(, $value:expr)* $(,)?) => {
        $crate::report::markup::Html(format!(concat!($format) $(, $crate::report::markup::Shown(&$value))*))
    };
}
pub(super) use html;

/// An argument of [`html!`].
pub struct Shown<'a, T: ?Sized>(pub &'a T);

impl<T: ToHtml + ?Sized> Display for Shown<'_, T> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        self.0.write_html(out)
    }
}

impl ToHtml for str {
    fn write_html(&self, out: &mut Formatter<'_>) -> fmt::Result {
        for letter in self.chars() {
            match letter {
                '&' => out.write_str("&amp;")?,
                '<' => out.write_str("&lt;")?,
                '>' => out.write_str("&gt;")?,
                '"' => out.write_str("&quot;")?,
                '\'' => out.write_str("&#39;")?,
                letter => out.write_char(letter)?,
            }
        }
        Ok(())
    }
}

impl ToHtml for String {
    fn write_html(&self, out: &mut Formatter<'_>) -> fmt::Result {
        self.as_str().write_html(out)
    }
}

impl ToHtml for Html {
    fn write_html(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl ToHtml for usize {
    fn write_html(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "{self}")
    }
}

/// A place in percent.
impl ToHtml for f64 {
    fn write_html(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "{self}")
    }
}

impl<T: ToHtml + ?Sized> ToHtml for &T {
    fn write_html(&self, out: &mut Formatter<'_>) -> fmt::Result {
        (*self).write_html(out)
    }
}

/// Nothing, unless `is_so`.
pub fn when(is_so: bool, html: impl FnOnce() -> Html) -> Html {
    if is_so { html() } else { Html::default() }
}

/// The HTML of each item, one after the other.
pub fn each<T>(items: impl IntoIterator<Item = T>, mut html: impl FnMut(T) -> Html) -> Html {
    Html(items.into_iter().map(|item| html(item).0).collect())
}

/// The same, with the number of each item, counted from 0.
pub fn numbered<T>(
    items: impl IntoIterator<Item = T>,
    mut html: impl FnMut(usize, T) -> Html,
) -> Html {
    each(items.into_iter().enumerate(), |(index, item)| html(index, item))
}

/// A sentence: everything escaped, then `code` and **weight** marked.
pub fn said(text: &str) -> Html {
    // Escaped first: the marks are no letters of HTML, so they survive it.
    let coded = marked(&html!("{}", text).0, "`", "code");
    Html(marked(&coded, "**", "strong"))
}

/// Text between two `mark`s becomes an element; a mark without a second one stays.
fn marked(text: &str, mark: &str, element: &str) -> String {
    let parts: Vec<&str> = text.split(mark).collect();
    let mut html = String::with_capacity(text.len());
    for (index, part) in parts.iter().enumerate() {
        let closed = index + 1 < parts.len();
        match (index % 2, closed) {
            (1, true) => html.push_str(&format!("<{element}>{part}</{element}>")),
            // A mark without its partner is a letter as any.
            (1, false) => html.push_str(&format!("{mark}{part}")),
            _ => html.push_str(part),
        }
    }
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_and_html_is_not() {
        let inner = html!("<b>{}</b>", "a<&>\"'");
        assert_eq!(inner.0, "<b>a&lt;&amp;&gt;&quot;&#39;</b>");
        assert_eq!(
            html!("<p title=\"{t}\">{i}</p>", t = "\">", i = inner).0.matches('<').count(),
            4
        );
    }

    #[test]
    fn sentences_mark_code_and_weight_and_nothing_else() {
        let said = |text: &str| said(text).0;
        assert_eq!(said("`a` moves **4** GiB"), "<code>a</code> moves <strong>4</strong> GiB");
        assert_eq!(said("<b>`x"), "&lt;b&gt;`x");
        assert_eq!(said("a ** b"), "a ** b");
    }
}
