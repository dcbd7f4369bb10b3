//! Why a request gets no tunnel.

use std::io;
use std::net::IpAddr;

use ipnet::IpNet;

use crate::{Host, HostError};

/// Why a request was refused: the guard would not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A method other than `CONNECT`.
    #[error("only CONNECT is served")]
    Method,
    /// The request target is not of the form `host:port`.
    #[error("the request target is not of the form host:port")]
    TargetForm,
    /// The request target has a user name before the host.
    #[error("the request target contains user information")]
    UserInfo,
    /// The host has no canonical form.
    #[error("{0}")]
    Host(#[from] HostError),
    /// The request target names no port.
    #[error("the request target has no port")]
    MissingPort,
    /// The port is not one.
    #[error("the port is not a number from 1 to 65535")]
    BadPort,
    /// A `CONNECT` announced a body, which it cannot have.
    #[error("a CONNECT request has no body")]
    Body,
    /// No allow entry matches the host.
    #[error("{host} is not on the allow list")]
    HostNotAllowed {
        /// The host that was asked for.
        host: Host,
    },
    /// Allow entries match the host, but none of them the port.
    #[error("{host} is on the allow list, but not with port {port}")]
    PortNotAllowed {
        /// The host that was asked for.
        host: Host,
        /// The port that was asked for.
        port: u16,
    },
    /// The host is, or resolves to, an address that is not an ordinary place
    /// on the Internet.
    #[error("{address} is not a public address: {purpose} ({block})")]
    SpecialAddress {
        /// The address, as it was found.
        address: IpAddr,
        /// The block that it is in, or that the IPv4 address in it is in.
        block: IpNet,
        /// What the block is for.
        purpose: &'static str,
    },
}

impl Refusal {
    /// The reason as a word that does not change: kebab-case.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Method => "method-not-allowed",
            Self::TargetForm => "bad-target",
            Self::UserInfo => "userinfo",
            Self::Host(_) => "bad-host",
            Self::MissingPort => "missing-port",
            Self::BadPort => "bad-port",
            Self::Body => "unexpected-body",
            Self::HostNotAllowed { .. } => "host-not-allowed",
            Self::PortNotAllowed { .. } => "port-not-allowed",
            Self::SpecialAddress { .. } => "special-address",
        }
    }

    /// The address that was refused, if it was one.
    pub fn address(&self) -> Option<IpAddr> {
        match self {
            Self::SpecialAddress { address, .. } => Some(*address),
            _ => None,
        }
    }
}

/// Why an allowed request failed: the guard could not.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("the name could not be resolved: {0}")]
    Resolve(io::Error),
    #[error("the name was not resolved in time")]
    ResolveTimeout,
    #[error("the name has no address")]
    NoAddress,
    #[error("{address} could not be connected to: {error}")]
    Connect { address: IpAddr, error: io::Error },
    #[error("{address} did not answer in time")]
    ConnectTimeout { address: IpAddr },
}

impl Failure {
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::Resolve(_) => "resolve-failed",
            Self::ResolveTimeout => "resolve-timeout",
            Self::NoAddress => "no-address",
            Self::Connect { .. } => "connect-failed",
            Self::ConnectTimeout { .. } => "connect-timeout",
        }
    }

    /// The address that was tried last.
    pub(crate) fn address(&self) -> Option<IpAddr> {
        match self {
            Self::Connect { address, .. } | Self::ConnectTimeout { address } => Some(*address),
            Self::Resolve(_) | Self::ResolveTimeout | Self::NoAddress => None,
        }
    }
}

/// Either of the two.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Denial {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(transparent)]
    Failed(#[from] Failure),
}

impl Denial {
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::Refused(refusal) => refusal.code(),
            Self::Failed(failure) => failure.code(),
        }
    }

    pub(crate) fn address(&self) -> Option<IpAddr> {
        match self {
            Self::Refused(refusal) => refusal.address(),
            Self::Failed(failure) => failure.address(),
        }
    }
}
