use super::*;

fn policy(allow: &[&str], exceptions: &[(&str, &str)]) -> Result<Policy, PolicyError> {
    let place = |text: &str| text.parse::<Place>().unwrap();
    Policy::new(allow, exceptions.iter().map(|(host, text)| (host, place(text))))
}

#[test]
fn routes() {
    let policy = policy(
        &[
            "Example.com.",
            "api.example.com:8443",
            "*.Sub.example",
            "*.sub.example:9000",
            "one.sub.example:22",
            "8.8.8.8",
            "127.0.0.1",
            "[::1]:443",
            "2606:4700::1111",
            "10.0.0.7:5432",
            "db.internal:5432",
            "*.lan",
            "10.1.2.3",
            "172.16.0.1",
        ],
        &[
            ("10.0.0.7", "10.0.0.7"),
            ("DB.internal", "10.0.0.8"),
            ("pinned.lan", "::ffff:10.0.0.9"),
            ("not-allowed.internal", "10.0.0.10"),
            ("net.lan", "192.168.0.0/16"),
            ("10.1.2.3", "10.0.0.0/8"),
            ("172.16.0.1", "10.0.0.0/8"),
        ],
    )
    .unwrap();
    for (host, port, expected) in [
        ("example.com", 443, "resolve example.com"),
        ("EXAMPLE.COM..", 80, "resolve example.com"),
        ("example.com", 8443, "port-not-allowed"),
        ("www.example.com", 443, "host-not-allowed"),
        ("badexample.com", 443, "host-not-allowed"),
        ("com", 443, "host-not-allowed"),
        ("api.example.com", 8443, "resolve api.example.com"),
        ("api.example.com", 443, "port-not-allowed"),
        ("a.sub.example", 443, "resolve a.sub.example"),
        ("a.sub.example", 9000, "resolve a.sub.example"),
        ("b.a.sub.example", 80, "resolve b.a.sub.example"),
        ("sub.example", 443, "host-not-allowed"),
        ("xsub.example", 443, "host-not-allowed"),
        ("one.sub.example", 22, "resolve one.sub.example"),
        ("one.sub.example", 443, "resolve one.sub.example"),
        ("two.sub.example", 22, "port-not-allowed"),
        ("8.8.8.8", 443, "literal 8.8.8.8"),
        ("134744072", 443, "literal 8.8.8.8"),
        ("::ffff:8.8.8.8", 443, "literal 8.8.8.8"),
        ("8.8.4.4", 443, "host-not-allowed"),
        ("2606:4700::1111", 443, "literal 2606:4700::1111"),
        ("127.1", 443, "special-address"),
        ("::1", 443, "special-address"),
        ("::1", 80, "port-not-allowed"),
        ("10.0.0.7", 5432, "exception 10.0.0.7"),
        ("10.0.0.8", 5432, "host-not-allowed"),
        ("db.internal", 5432, "exception 10.0.0.8"),
        ("db.internal", 443, "port-not-allowed"),
        ("pinned.lan", 443, "exception 10.0.0.9"),
        ("other.lan", 443, "resolve other.lan"),
        ("not-allowed.internal", 443, "host-not-allowed"),
        ("NET.lan", 443, "resolve net.lan in 192.168.0.0/16"),
        ("net.lan", 22, "port-not-allowed"),
        ("10.1.515", 443, "exception 10.1.2.3"),
        ("172.16.0.1", 443, "special-address"),
    ] {
        let host = Host::parse(host).unwrap();
        let found = match policy.route(&host, port) {
            Ok(Route::Resolve(name)) => format!("resolve {name}"),
            Ok(Route::Literal(address)) => format!("literal {address}"),
            Ok(Route::Exception(address)) => format!("exception {address}"),
            Ok(Route::Within(name, place)) => format!("resolve {name} in {place}"),
            Err(refusal) => refusal.code().to_owned(),
        };
        assert_eq!(found, expected, "{host} {port}");
    }
}

#[test]
fn bad_entries_are_named() {
    for (allow, exceptions, message) in [
        (&["ok.example", ""][..], &[][..], "allow entry \"\": the host is empty"),
        (
            &["https://a.example"],
            &[],
            "allow entry \"https://a.example\": the port is not a number from 1 to 65535",
        ),
        (
            &["a.example:0"],
            &[],
            "allow entry \"a.example:0\": the port is not a number from 1 to 65535",
        ),
        (
            &["a.example:"],
            &[],
            "allow entry \"a.example:\": the port is not a number from 1 to 65535",
        ),
        (
            &["*"],
            &[],
            "allow entry \"*\": the host contains a character that is not allowed in host names",
        ),
        (&["*."], &[], "allow entry \"*.\": the host is empty"),
        (
            &["a.*.example"],
            &[],
            "allow entry \"a.*.example\": the host contains a character that is not allowed in host names",
        ),
        (&["*.1"], &[], "allow entry \"*.1\": an address has no subdomains"),
        (
            &["a b\n"],
            &[],
            "allow entry \"a b\\n\": the host contains a character that is not allowed in host names",
        ),
        (
            &[],
            &[("*.a", "10.0.0.1")],
            "exception \"*.a\": the host contains a character that is not allowed in host names",
        ),
        (&[], &[("a", "0.0.0.0")], "exception \"a\": 0.0.0.0 is not the address of a host"),
        (
            &[],
            &[("a", "0.0.0.0/0")],
            "exception \"a\": 0.0.0.0/0 is not a network inside one block of addresses that are not public",
        ),
        (
            &[],
            &[("a", "10.0.0.1"), ("A.", "10.0.0.2")],
            "exception \"A.\": the same host has another address in another exception",
        ),
    ] {
        let error = policy(allow, exceptions).unwrap_err();
        assert_eq!(error.to_string(), message);
    }
    assert!(policy(&["a", "A."], &[("a", "10.0.0.1"), ("A.", "::ffff:10.0.0.1")]).is_ok());
}

#[test]
fn the_default_allows_nothing() {
    let host = Host::parse("example.com").unwrap();
    assert!(Policy::default().route(&host, 443).is_err());
}

#[test]
fn what_was_allowed_is_judged_by_another_policy() {
    let allow = ["a.test", "b.test:22", "pinned.test", "net.test", "8.8.8.8"];
    let exceptions = [("pinned.test", "10.0.0.1"), ("net.test", "10.0.0.0/8")];
    let policy = policy(&allow, &exceptions).unwrap();
    for (host, port, address, permitted) in [
        ("a.test", 443, "8.8.8.8", true),
        ("a.test", 443, "10.0.0.1", false),
        ("a.test", 22, "8.8.8.8", false),
        ("c.test", 443, "8.8.8.8", false),
        ("b.test", 22, "8.8.8.8", true),
        ("b.test", 443, "8.8.8.8", false),
        ("pinned.test", 443, "10.0.0.1", true),
        ("pinned.test", 443, "8.8.8.8", false),
        ("net.test", 443, "10.9.9.9", true),
        ("net.test", 443, "::ffff:10.9.9.9", true),
        ("net.test", 443, "8.8.8.8", true),
        ("net.test", 443, "192.168.0.1", false),
        ("8.8.8.8", 443, "8.8.8.8", true),
        ("8.8.8.8", 443, "8.8.4.4", false),
    ] {
        let asked = Host::parse(host).unwrap();
        let found = policy.permits(&asked, port, address.parse().unwrap());
        assert_eq!(found, permitted, "{host} {port} {address}");
    }
}
