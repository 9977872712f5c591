//! `/api/vssds`: the virtual SSDs under the tenants, and the operators' orders to change them.

use crate::admin::http::{HttpRequest, Response};
use crate::shared::ServerState;
use crate::vssds::VssdOrder;

/// The list; `None` if the tenants have no virtual SSDs.
pub(super) fn of(shared: &ServerState) -> Option<Response> {
    let listed = shared.config.vssds.as_ref()?.list();
    Some(match listed {
        Ok(list) => super::json(list),
        Err(why) => Response::text(500, &format!("not listed: {why}\n")),
    })
}

/// The order of a request; the inner error says what is missing or wrong. `None` if the path is not that of an order.
pub(in crate::admin) fn order(request: &HttpRequest) -> Option<Result<VssdOrder, &'static str>> {
    Some(match &*request.path {
        "/api/vssds/create" => create(request),
        "/api/vssds/grow" => grow(request),
        "/api/vssds/delete" => delete(request),
        _ => return None,
    })
}

/// A number of the query; `None` if it is not there.
fn number<N: std::str::FromStr>(
    request: &HttpRequest,
    name: &str,
    wrong: &'static str,
) -> Result<Option<N>, &'static str> {
    request.value(name).map(|text| text.parse().map_err(|_| wrong)).transpose()
}

fn vssd(request: &HttpRequest) -> Result<u32, &'static str> {
    let wrong = "which vSSD? Name one as ?vssd=NUMBER\n";
    number(request, "vssd", wrong)?.ok_or(wrong)
}

fn create(request: &HttpRequest) -> Result<VssdOrder, &'static str> {
    Ok(VssdOrder::Create {
        name: request.value("name").unwrap_or_default(),
        isolation: request
            .value("isolation")
            .ok_or("which isolation? Give isolation=channel, die, software or none\n")?,
        weight: number(request, "weight", "weight: must be a number\n")?,
        units: number(request, "units", "units: must be a number\n")?,
        capacity: number(request, "capacity", "capacity: must be a number of bytes\n")?,
    })
}

fn grow(request: &HttpRequest) -> Result<VssdOrder, &'static str> {
    let wrong = "by how much? Give units=NUMBER\n";
    let units = number(request, "units", wrong)?.ok_or(wrong)?;
    Ok(VssdOrder::Grow { vssd: vssd(request)?, units })
}

fn delete(request: &HttpRequest) -> Result<VssdOrder, &'static str> {
    let destroy_data = match request.value("destroy_data").as_deref() {
        None | Some("false") => false,
        Some("true") => true,
        Some(_) => return Err("destroy_data: must be true or false\n"),
    };
    Ok(VssdOrder::Delete { vssd: vssd(request)?, destroy_data })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(path: &str) -> Option<Result<VssdOrder, &'static str>> {
        let head = format!("POST {path} HTTP/1.1\r\nHost: a");
        order(&HttpRequest::parse(head.as_bytes()).unwrap())
    }

    #[test]
    fn orders_are_read_or_say_what_they_lack() {
        let made = asked("/api/vssds/create?name=a%20b&isolation=die&units=2").unwrap().unwrap();
        let wanted = VssdOrder::Create {
            name: "a b".to_owned(),
            isolation: "die".to_owned(),
            weight: None,
            units: Some(2),
            capacity: None,
        };
        assert_eq!(made, wanted);
        let grown = asked("/api/vssds/grow?vssd=3&units=1");
        assert_eq!(grown, Some(Ok(VssdOrder::Grow { vssd: 3, units: 1 })));
        let deleted = asked("/api/vssds/delete?vssd=3&destroy_data=true");
        assert_eq!(deleted, Some(Ok(VssdOrder::Delete { vssd: 3, destroy_data: true })));
        for (path, lack) in [
            ("/api/vssds/create", "which isolation"),
            ("/api/vssds/create?isolation=die&units=two", "units: must"),
            ("/api/vssds/grow?vssd=3", "by how much"),
            ("/api/vssds/grow?units=3", "which vSSD"),
            ("/api/vssds/grow?vssd=-1&units=3", "which vSSD"),
            ("/api/vssds/delete?vssd=1&destroy_data=yes", "must be true or false"),
        ] {
            let says = asked(path).unwrap().unwrap_err();
            assert!(says.contains(lack) && says.ends_with('\n'), "{path}: {says}");
        }
        assert_eq!(asked("/api/vssds"), None);
    }
}
