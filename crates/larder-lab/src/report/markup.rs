//! A builder of markup in which tags are always closed and text is always escaped.
//!
//! Everything on the page goes through [`Markup`], so that no string of a user can become a tag, and the result is
//! well-formed both as HTML and as XML.

use std::fmt::{Display, Write};

/// Name and value of an attribute.
pub(super) type Attribute<'a> = (&'a str, &'a dyn Display);

/// Inline elements: no line break is added after them.
const INLINE: [&str; 7] = ["a", "b", "code", "span", "td", "th", "title"];

/// A document under construction.
#[derive(Default)]
pub(super) struct Markup {
    text: String,
}

impl Markup {
    /// An empty document that begins with the HTML document type.
    pub(super) fn document() -> Self {
        Self { text: "<!DOCTYPE html>\n".to_owned() }
    }

    /// The document as text.
    pub(super) fn finish(self) -> String {
        self.text
    }

    /// An element with content.
    pub(super) fn tag(
        &mut self,
        name: &str,
        attributes: &[Attribute<'_>],
        content: impl FnOnce(&mut Self),
    ) {
        self.open(name, attributes);
        self.text.push('>');
        content(self);
        self.text.push_str("</");
        self.text.push_str(name);
        self.text.push('>');
        self.end_line(name);
    }

    /// An element that holds only text.
    pub(super) fn leaf(&mut self, name: &str, attributes: &[Attribute<'_>], text: &str) {
        self.tag(name, attributes, |m| m.text(text));
    }

    /// An element that has no content.
    pub(super) fn empty(&mut self, name: &str, attributes: &[Attribute<'_>]) {
        self.open(name, attributes);
        self.text.push_str("/>");
        self.end_line(name);
    }

    /// Text, escaped.
    pub(super) fn text(&mut self, text: &str) {
        escape_into(&mut self.text, text);
    }

    /// One of our style sheets. It must not contain characters that need escaping.
    pub(super) fn style(&mut self, sheet: &'static str) {
        assert!(!sheet.contains(['<', '>', '&']), "style sheet would need escaping");
        self.tag("style", &[], |m| m.text.push_str(sheet));
    }

    fn open(&mut self, name: &str, attributes: &[Attribute<'_>]) {
        self.text.push('<');
        self.text.push_str(name);
        for (key, value) in attributes {
            self.text.push(' ');
            self.text.push_str(key);
            self.text.push_str("=\"");
            write!(Escaping(&mut self.text), "{value}").expect("a string takes any text");
            self.text.push('"');
        }
    }

    fn end_line(&mut self, name: &str) {
        if !INLINE.contains(&name) {
            self.text.push('\n');
        }
    }
}

/// Escapes everything that is formatted into it.
struct Escaping<'a>(&'a mut String);

impl Write for Escaping<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        escape_into(self.0, text);
        Ok(())
    }
}

/// Appends `text` so that neither HTML nor XML sees a tag, an entity or the end of an attribute in it.
///
/// Control characters, which XML forbids even as entities, become the replacement character.
fn escape_into(out: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(c),
            c if c.is_control() || c == '\u{fffe}' || c == '\u{ffff}' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_attributes_are_escaped() {
        let mut m = Markup::default();
        m.leaf("b", &[("title", &"\"><script>")], "a < b & 'c'\u{0}\u{1b}");
        assert_eq!(
            m.finish(),
            "<b title=\"&quot;&gt;&lt;script&gt;\">a &lt; b &amp; &#39;c&#39;\u{fffd}\u{fffd}</b>"
        );
    }

    #[test]
    fn blocks_end_lines_and_inline_elements_do_not() {
        let mut m = Markup::default();
        m.tag("p", &[], |m| {
            m.leaf("b", &[], "x");
            m.text("y");
        });
        m.empty("rect", &[("x", &1), ("y", &2.5)]);
        assert_eq!(m.finish(), "<p><b>x</b>y</p>\n<rect x=\"1\" y=\"2.5\"/>\n");
    }
}
