//! Why a request gets no connection.

use std::io;
use std::net::IpAddr;

use ipnet::IpNet;

use crate::{Host, HostError};

/// Why a request was refused: the guard would not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The secret that the guard demands was not presented.
    #[error("the credential of this proxy was not presented")]
    Unauthenticated,
    /// A method that is not passed on: `TRACE`.
    #[error("TRACE is not served")]
    Method,
    /// The request target is neither of the two forms that a proxy is asked
    /// with.
    #[error("the request target is neither host:port, with CONNECT, nor an http:// URL")]
    TargetForm,
    /// The request target is a URL with a scheme other than `http`.
    #[error("only http:// URLs are forwarded: https goes through a tunnel (CONNECT)")]
    Scheme,
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
    /// More than one `Host` header.
    #[error("the request has more than one Host header")]
    HostHeaders,
    /// The request asks for another protocol.
    #[error("the request asks for an upgrade, which only a tunnel (CONNECT) allows")]
    Upgrade,
    /// A body in a coding other than `chunked`.
    #[error("the request has a transfer coding other than chunked")]
    TransferCoding,
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
    /// The host is, or resolves to, an address of this machine's own.
    #[error("{address} is an address of this machine itself")]
    OwnAddress {
        /// The address.
        address: IpAddr,
    },
    /// The name has more addresses than can be meant well.
    #[error("the name has {count} addresses, which is too many")]
    TooManyAddresses {
        /// How many.
        count: usize,
    },
}

impl Refusal {
    /// The reason as a word that does not change: kebab-case.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unauthenticated => "unauthenticated",
            Self::Method => "method-not-allowed",
            Self::TargetForm => "bad-target",
            Self::Scheme => "scheme-not-allowed",
            Self::UserInfo => "userinfo",
            Self::Host(_) => "bad-host",
            Self::MissingPort => "missing-port",
            Self::BadPort => "bad-port",
            Self::Body => "unexpected-body",
            Self::HostHeaders => "host-headers",
            Self::Upgrade => "upgrade",
            Self::TransferCoding => "transfer-coding",
            Self::HostNotAllowed { .. } => "host-not-allowed",
            Self::PortNotAllowed { .. } => "port-not-allowed",
            Self::SpecialAddress { .. } => "special-address",
            Self::OwnAddress { .. } => "own-address",
            Self::TooManyAddresses { .. } => "too-many-addresses",
        }
    }

    /// The address that was refused, if it was one.
    pub fn address(&self) -> Option<IpAddr> {
        match self {
            Self::SpecialAddress { address, .. } | Self::OwnAddress { address } => Some(*address),
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
    #[error("the upstream gave no valid reply: {0}")]
    Reply(hyper::Error),
    #[error("the upstream did not reply in time")]
    FirstByteTimeout,
    #[error("the upstream switched protocols, which it was not asked for")]
    Switched,
}

impl Failure {
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::Resolve(_) => "resolve-failed",
            Self::ResolveTimeout => "resolve-timeout",
            Self::NoAddress => "no-address",
            Self::Connect { .. } => "connect-failed",
            Self::ConnectTimeout { .. } => "connect-timeout",
            Self::Reply(_) | Self::Switched => "bad-reply",
            Self::FirstByteTimeout => "first-byte-timeout",
        }
    }

    /// The address that was tried last.
    pub(crate) fn address(&self) -> Option<IpAddr> {
        match self {
            Self::Connect { address, .. } | Self::ConnectTimeout { address } => Some(*address),
            Self::Resolve(_)
            | Self::ResolveTimeout
            | Self::NoAddress
            | Self::Reply(_)
            | Self::FirstByteTimeout
            | Self::Switched => None,
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
