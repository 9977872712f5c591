//! The page for people; its files are embedded in the program.

use super::http::Response;

/// Path, content type, content.
const FILES: [(&str, &str, &str); 6] = [
    ("/", "text/html; charset=utf-8", include_str!("page/index.html")),
    ("/page.css", "text/css; charset=utf-8", include_str!("page/page.css")),
    ("/page.js", "text/javascript; charset=utf-8", include_str!("page/page.js")),
    ("/charts.js", "text/javascript; charset=utf-8", include_str!("page/charts.js")),
    ("/numbers.js", "text/javascript; charset=utf-8", include_str!("page/numbers.js")),
    ("/icon.svg", "image/svg+xml", include_str!("page/icon.svg")),
];

/// The file at this path, if it belongs to the page.
pub(super) fn file(path: &str) -> Option<Response> {
    let (_, content_type, content) = FILES.iter().find(|(known, ..)| *known == path)?;
    Some(Response::new(200, content_type, content.as_bytes().to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_nothing_inline_and_nothing_from_elsewhere() {
        for (path, _, content) in FILES {
            for wrong in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("]
            {
                assert!(!content.contains(wrong), "{path}: {wrong}");
            }
            let urls = content.matches("http").count();
            let names = content.matches("http://www.w3.org/2000/svg").count();
            assert_eq!(urls, names, "{path} names another place");
        }
        let (_, _, html) = FILES[0];
        for wrong in ["style=", " onclick", " onload", "<style", "javascript:"] {
            assert!(!html.contains(wrong), "{wrong}");
        }
        for script in html.split("<script").skip(1) {
            assert!(
                script.split('>').next().unwrap().contains("src="),
                "a script within: {script}"
            );
        }
    }

    #[test]
    fn what_the_page_names_is_there() {
        let (_, _, html) = FILES[0];
        for named in
            html.split(['"', '\'']).filter(|it| it.ends_with(".css") || it.ends_with(".js"))
        {
            assert!(file(&format!("/{}", named.trim_start_matches('/'))).is_some(), "{named}");
        }
        assert!(file("/page").is_none() && file("/../Cargo.toml").is_none());
    }
}
