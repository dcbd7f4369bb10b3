//! `paddock login`.

use super::run::launch;
use crate::cli::Login;
use crate::error::Error;
use crate::launch::{Form, Request};

/// Launches the program with which a person signs in to an agent's service.
pub(crate) fn login(options: Login) -> Result<u8, Error> {
    launch(options.how, |_| {
        Ok(Request {
            agent: Some(options.agent),
            tier: options.tier,
            form: Some(Form::Login),
            arguments: options.arguments,
            ..Request::default()
        })
    })
}
