use proptest::prelude::*;

use super::*;

#[test]
fn accepted() {
    let long_label = "a".repeat(63);
    let longest = [long_label.as_str(); 4].join(".")[..253].to_owned();
    let rows = [
        ("example.com", "example.com"),
        ("EXAMPLE.Com", "example.com"),
        ("example.com.", "example.com"),
        ("example.com..", "example.com"),
        ("example。com。", "example.com"),
        ("ｅｘａｍｐｌｅ.com", "example.com"),
        ("exam\u{ad}ple.com", "example.com"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("BÜCHER.example", "xn--bcher-kva.example"),
        ("bu\u{308}cher.example", "xn--bcher-kva.example"),
        ("XN--bcher-KVA.example.", "xn--bcher-kva.example"),
        ("straße.example", "xn--strae-oqa.example"),
        ("_dmarc.example.com", "_dmarc.example.com"),
        ("r3---sn-4g5e.example", "r3---sn-4g5e.example"),
        ("1.2.3.example", "1.2.3.example"),
        ("0x7f.1.example", "0x7f.1.example"),
        ("localhost", "localhost"),
        ("0xample", "0xample"),
        (&longest, &longest),
        ("127.0.0.1", "127.0.0.1"),
        ("127.0.0.1.", "127.0.0.1"),
        ("127.1", "127.0.0.1"),
        ("127.0.1", "127.0.0.1"),
        ("0x7f.1", "127.0.0.1"),
        ("0X7F.0.0.0X1", "127.0.0.1"),
        ("0x7f000001", "127.0.0.1"),
        ("2130706433", "127.0.0.1"),
        ("017700000001", "127.0.0.1"),
        ("0177.0.0.01", "127.0.0.1"),
        ("000000000000000000000000177.1", "127.0.0.1"),
        ("127.0.65535", "127.0.255.255"),
        ("127.16777215", "127.255.255.255"),
        ("4294967295", "255.255.255.255"),
        ("0", "0.0.0.0"),
        ("0x", "0.0.0.0"),
        ("１２７.0.0.1", "127.0.0.1"),
        ("127。0。0。1", "127.0.0.1"),
        ("[::1]", "::1"),
        ("::1", "::1"),
        ("[0:0:0:0:0:0:0:1]", "::1"),
        ("[2001:DB8::00A]", "2001:db8::a"),
        ("[::ffff:127.0.0.1]", "127.0.0.1"),
        ("::ffff:7f00:1", "127.0.0.1"),
    ];
    for (text, canonical) in rows {
        let host = Host::parse(text).map(|host| host.to_string());
        assert_eq!(host.as_deref(), Ok(canonical), "{text:?}");
        assert_eq!(Host::parse(canonical), Host::parse(text), "{text:?}");
    }
}

#[test]
fn refused() {
    let long_label = "a".repeat(64);
    let long_name = ["a".repeat(63).as_str(); 4].join(".");
    let long_text = "\u{ad}".repeat(600) + "a";
    let rows = [
        ("", HostError::Empty),
        (".", HostError::Empty),
        ("..", HostError::Empty),
        ("\u{ad}", HostError::Empty),
        (".example.com", HostError::EmptyLabel),
        ("example..com", HostError::EmptyLabel),
        ("a.\u{ad}.com", HostError::EmptyLabel),
        (&long_label, HostError::TooLong),
        (&long_name, HostError::TooLong),
        (&long_text, HostError::TooLong),
        ("example%2ecom", HostError::Percent),
        ("[fe80::1%eth0]", HostError::Percent),
        ("fe80::1%1", HostError::Percent),
        ("exa mple.com", HostError::Character),
        ("example.com\n", HostError::Character),
        ("example.com\0", HostError::Character),
        ("\u{85}example.com", HostError::Character),
        ("\u{3000}example.com", HostError::Character),
        ("user@example.com", HostError::Character),
        ("example.com/path", HostError::Character),
        ("*.example.com", HostError::Character),
        ("a,b.com", HostError::Character),
        ("xn--a", HostError::Idna),
        ("℀.com", HostError::Idna),
        ("a\u{202e}b.com", HostError::Idna),
        ("example.1", HostError::Ipv4),
        ("example.0x1", HostError::Ipv4),
        ("1.2.3.4.5", HostError::Ipv4),
        ("256.0.0.1", HostError::Ipv4),
        ("127.0.0.256", HostError::Ipv4),
        ("127.0.65536", HostError::Ipv4),
        ("1.2.3.08", HostError::Ipv4),
        ("0x7g.1", HostError::Ipv4),
        ("-1.1", HostError::Ipv4),
        ("4294967296", HostError::Ipv4),
        ("99999999999999999999999", HostError::Ipv4),
        ("[::1", HostError::Ipv6),
        ("::1]", HostError::Ipv6),
        ("[127.0.0.1]", HostError::Ipv6),
        ("[]", HostError::Ipv6),
        ("[::1].", HostError::Ipv6),
        ("[v1.x]", HostError::Ipv6),
        ("example.com:443", HostError::Ipv6),
        ("1:2:3", HostError::Ipv6),
    ];
    for (text, error) in rows {
        assert_eq!(Host::parse(text), Err(error), "{text:?}");
    }
}

/// The full-width form of an ASCII character.
fn wide(character: char) -> char {
    let wide = u32::from(character) + 0xfee0;
    if character.is_ascii_alphanumeric() { char::from_u32(wide).unwrap() } else { character }
}

proptest! {
    #[test]
    fn every_ipv4_notation_is_one(bits: u32) {
        let address = Ipv4Addr::from_bits(bits);
        let [a, b, c, d] = address.octets();
        let host = Host::from(IpAddr::V4(address));
        for text in [
            format!("{a}.{b}.{c}.{d}"),
            format!("{a}.{b}.{}", bits & 0xffff),
            format!("{a}.{}", bits & 0xff_ffff),
            format!("{bits}"),
            format!("0x{bits:x}"),
            format!("0X{bits:08X}."),
            format!("0{bits:o}"),
            format!("0{a:o}.0x{b:x}.{c}.{d}"),
            format!("::ffff:{address}"),
            format!("[{}]", address.to_ipv6_mapped()),
        ] {
            prop_assert_eq!(Host::parse(&text), Ok(host.clone()), "{}", text);
        }
    }

    #[test]
    fn every_notation_of_a_name_is_one(name in "[a-z0-9_-]{1,20}(\\.[a-z][a-z0-9_]{0,10}){1,3}") {
        let Ok(host) = Host::parse(&name) else {
            // Labels that only look like IDNA.
            prop_assert!(name.contains("--"), "{}", name);
            return Ok(());
        };
        let wide: String = name.chars().map(wide).collect();
        let soft = name.replace('.', "\u{ad}.");
        let mixed: String = name.chars().enumerate().map(|(i, c)| {
            if i % 2 == 0 { c.to_ascii_uppercase() } else { c }
        }).collect();
        for text in [
            name.to_uppercase(),
            mixed,
            format!("{name}."),
            format!("{name}\u{3002}"),
            name.replace('.', "\u{ff0e}"),
            soft,
            wide,
        ] {
            prop_assert_eq!(Host::parse(&text), Ok(host.clone()), "{}", text);
        }
    }

    #[test]
    fn every_notation_of_an_international_name_is_one(label in "[äöüéñøαβγжщ한中]{1,10}") {
        let name = format!("{label}.example");
        let Ok(host) = Host::parse(&name) else { return Ok(()) };
        for text in [host.to_string(), host.to_string().to_uppercase(), name.to_uppercase()] {
            prop_assert_eq!(Host::parse(&text), Ok(host.clone()), "{}", text);
        }
    }

    #[test]
    fn every_ipv6_notation_is_one(bits: u128) {
        let address = Ipv6Addr::from_bits(bits);
        let host = Host::from(IpAddr::V6(address));
        let full = address.segments().map(|segment| format!("{segment:04X}")).join(":");
        for text in [address.to_string(), format!("[{address}]"), full.clone(), format!("[{full}]")] {
            prop_assert_eq!(Host::parse(&text), Ok(host.clone()), "{}", text);
        }
    }

    #[test]
    fn no_bytes_are_too_strange(bytes: Vec<u8>) {
        if let Ok(host) = Host::parse(&String::from_utf8_lossy(&bytes)) {
            prop_assert_eq!(Host::parse(&host.to_string()), Ok(host));
        }
    }

    #[test]
    fn canonical_form_is_stable_and_plain(text in "\\PC{0,40}") {
        if let Ok(host) = Host::parse(&text) {
            let canonical = host.to_string();
            prop_assert!(canonical.bytes().all(|b| b.is_ascii_graphic()), "{:?}", canonical);
            prop_assert_eq!(Host::parse(&canonical), Ok(host));
        }
    }
}
