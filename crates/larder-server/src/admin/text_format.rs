//! The older text format of Prometheus (0.0.4), made from OpenMetrics: for scrapers and tools that read no other.

/// The content type of the format.
pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Whether a client that sends this `Accept` field wants the older format: it names that, and not OpenMetrics.
pub(super) fn is_wanted(accept: &str) -> bool {
    let mut types = accept.split(',').filter_map(|it| it.split(';').next());
    let has = |name: &str, it: &str| it.trim().eq_ignore_ascii_case(name);
    let is_open = types.clone().any(|it| has("application/openmetrics-text", it));
    !is_open && types.any(|it| has("text/plain", it))
}

/// The same metrics. There a family has the name of its samples, no unit, and no kind for what only labels say.
pub(super) fn of(open: &str) -> String {
    let mut text = String::with_capacity(open.len());
    let mut end = "";
    for line in open.lines() {
        if line == "# EOF" || line.starts_with("# UNIT ") {
            continue;
        }
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|it| it.split_once(' ')) {
            let kind = match kind {
                "counter" => ("_total", kind),
                "info" => ("_info", "gauge"),
                "stateset" => ("", "gauge"),
                "unknown" => ("", "untyped"),
                kind => ("", kind),
            };
            end = kind.0;
            text.extend(["# TYPE ", name, end, " ", kind.1]);
        } else if let Some((name, help)) =
            line.strip_prefix("# HELP ").and_then(|it| it.split_once(' '))
        {
            text.extend(["# HELP ", name, end, " ", help]);
        } else {
            text.push_str(line);
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_named_as_their_samples() {
        let open = "# TYPE a counter\n# UNIT a bytes\n# HELP a What.\na_total{b=\"c\"} 1\n\
                    # TYPE d info\n# HELP d Of it.\nd_info{e=\"f\"} 1\n\
                    # TYPE g gauge\n# HELP g Now.\ng 2\n# EOF\n";
        let old = "# TYPE a_total counter\n# HELP a_total What.\na_total{b=\"c\"} 1\n\
                   # TYPE d_info gauge\n# HELP d_info Of it.\nd_info{e=\"f\"} 1\n\
                   # TYPE g gauge\n# HELP g Now.\ng 2\n";
        assert_eq!(of(open), old);
    }

    #[test]
    fn it_is_for_clients_that_ask_for_it_alone() {
        assert!(is_wanted("text/plain") && is_wanted("text/plain; version=0.0.4;q=0.5, */*;q=0.1"));
        let prometheus =
            "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5";
        assert!(!is_wanted(prometheus) && !is_wanted("*/*") && !is_wanted(""));
    }
}
