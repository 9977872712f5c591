//! A running server, over its admin address.

use std::time::Duration;

use larder_workload::Error;
use ureq::http::{Response, StatusCode, header};
use ureq::{Agent, Body};

/// An order to a set of shards is answered only after it has been written to all its devices.
const PATIENCE: Duration = Duration::from_secs(60);
const CONNECT: Duration = Duration::from_secs(5);

/// The admin address of a server, which the option `--server` names.
pub(crate) struct AdminClient {
    agent: Agent,
    address: String,
}

impl AdminClient {
    pub(crate) fn at(address: &str) -> Self {
        let agent = Agent::config_builder()
            .timeout_global(Some(PATIENCE))
            .timeout_connect(Some(CONNECT))
            .http_status_as_error(false)
            // It is a server's own address, often on this machine.
            .proxy(None)
            .max_redirects(0)
            .build()
            .new_agent();
        Self { agent, address: address.to_owned() }
    }

    /// The status and the text at `path`.
    pub(crate) fn get(&self, path: &str) -> Result<(StatusCode, String), Error> {
        self.heard(self.agent.get(format!("http://{}{path}", self.address)).call())
    }

    /// Sends an order with the admin token, if there is one.
    pub(crate) fn post(
        &self,
        path: &str,
        query: &[(&str, String)],
        token: Option<&str>,
    ) -> Result<(StatusCode, String), Error> {
        let mut request = self.agent.post(format!("http://{}{path}", self.address));
        for (name, value) in query {
            request = request.query(name, value);
        }
        if let Some(token) = token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        self.heard(request.send_empty())
    }

    fn heard(
        &self,
        answer: Result<Response<Body>, ureq::Error>,
    ) -> Result<(StatusCode, String), Error> {
        let mut answer = answer.map_err(|error| {
            self.failed(&format!(
                "cannot be asked: {error}; is it the admin address of a running server?"
            ))
        })?;
        let text = answer.body_mut().read_to_string();
        let text = text.map_err(|error| self.failed(&format!("broke off its answer: {error}")))?;
        Ok((answer.status(), text))
    }

    /// The error for an answer with a status that refuses.
    pub(crate) fn refused(&self, status: StatusCode, text: &str) -> Error {
        let way_out = match status {
            StatusCode::UNAUTHORIZED => "; give the file that has it by --token-file",
            StatusCode::FORBIDDEN => "; start the server with --admin-token",
            _ => "",
        };
        self.failed(&format!("{} {}{way_out}", status.as_u16(), text.trim().replace('\n', " ")))
    }

    pub(crate) fn failed(&self, complaint: &str) -> Error {
        Error::run(format!("--server {}: {complaint}", self.address))
    }
}
