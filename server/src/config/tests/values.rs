//! Single values: what each kind of key takes, and in which words it refuses the rest.

use std::time::Duration;

use super::super::table::{Default, Kind, find, keys, toml_of};
use super::super::value::{from_literal, from_text, in_units};

fn message(path: &str, text: &str) -> String {
    let key = find(path).expect("a key");
    from_text(key, text).map(|value| value.shown()).expect_err(text).message
}

fn shown(path: &str, text: &str) -> String {
    let key = find(path).expect("a key");
    toml_of(&from_text(key, text).map_err(|fault| fault.message).expect(text).shown())
}

#[test]
fn every_default_and_example_is_a_value_of_its_key() {
    for key in keys() {
        from_literal(key, key.example).map_err(|fault| fault.message).expect(key.path);
        if let Default::Value(literal, _) = key.default {
            from_literal(key, literal).map_err(|fault| fault.message).expect(key.path);
        }
    }
}

#[test]
fn durations_have_a_unit_that_cannot_be_misread() {
    for text in ["15m", "0s", "5m 30s", "5m30s", "90s", "500ms", "1h"] {
        assert_eq!(shown("process.boot_timeout", text), format!("\"{text}\""));
    }
    for text in [
        "15",
        "0",
        "",
        "m",
        "15M",
        "1month",
        "1y",
        "-1s",
        "1.5h",
        "1h 30",
        "٣s",
        "1e3s",
        "99999999999999999999s",
    ] {
        message("process.boot_timeout", text);
    }
    assert!(message("process.boot_timeout", "2h").ends_with("the most is 1h"));
    assert!(message("rotation.skew", "367d").ends_with("the most is 366d"));
    assert_eq!(
        [0, 1, 1000, 90_000, 5_400_000].map(Duration::from_millis).map(in_units),
        ["0s", "1ms", "1s", "90s", "90m"]
    );
    assert!(message("rotation.refresh", "1500ms").ends_with("whole seconds"));
}

#[test]
fn lists_are_written_with_commas_or_in_brackets() {
    for text in ["RS256,ES256", " RS256 , ES256 ,", "['RS256', \"ES256\"]"] {
        assert_eq!(shown("issuer.algorithms", text), "[\"RS256\", \"ES256\"]");
    }
    assert_eq!(shown("admin.mint_audiences", ""), "[]");
    for text in ["", "RS256,RS256", "EdDSA,Ed25519", "none", "HS256", "['RS256'", "[1]", "[['RS256']]"] {
        message("issuer.algorithms", text);
    }
    assert!(message("issuer.algorithms", "rs256").ends_with("did you mean \"RS256\"?"));
    assert!(message("admin.mint_audiences", "a,b,a").contains("twice"));
}

#[test]
fn booleans_and_numbers_have_one_spelling() {
    for text in ["1", "yes", "True", "TRUE", "on", ""] {
        message("admin.mint", text);
    }
    for text in ["-1", "+1", "1.0", "0x1", "", "9007199254740992", "99999999999999999999"] {
        message("rotation.generation", text);
    }
    assert_eq!(shown("rotation.generation", "9007199254740991"), "9007199254740991");
}

#[test]
fn the_admin_socket_is_a_path_or_off() {
    assert_eq!(shown("listen.admin", "none"), "\"none\"");
    assert_eq!(shown("listen.admin", ""), "\"none\"");
    assert_eq!(shown("listen.admin", "./a.sock"), "\"./a.sock\"");
    assert!(message("listen.admin", "127.0.0.1:9").contains("goes into listen.admin_tcp"));
    for word in ["off", "admin.sock"] {
        assert!(message("listen.admin", word).contains("begins with \"./\""), "{word}");
    }
    assert!(message("listen.admin", &format!("/{}", "a".repeat(107))).contains("108 bytes"));
}

#[test]
fn a_key_in_the_wrong_place_is_not_repeated() {
    let pem = "-----BEGIN PRIVATE KEY-----\nCANARY\n-----END PRIVATE KEY-----";
    let long = "CANARY".repeat(20);
    for key in keys().filter(|key| !matches!(key.kind, Kind::Secret)) {
        for text in [pem, &long, "{\"d\":\"CANARY\"}"] {
            if let Err(fault) = from_text(key, text) {
                assert!(!fault.message.contains("CANARY"), "{}: {}", key.path, fault.message);
            }
        }
        let accepts_pem = matches!(key.kind, Kind::IssuerUrl | Kind::Audiences);
        assert!(accepts_pem || from_text(key, pem).is_err(), "{}", key.path);
    }
}

#[test]
fn fleets_and_variables_are_names() {
    for text in ["Fleet", "-a", "a-", "a_b", "a b", "ä", &"a".repeat(201)] {
        message("ring.fleet", text);
    }
    assert_eq!(shown("ring.fleet", "oidc.example-a"), "\"oidc.example-a\"");
    for text in ["1A", "A-B", "A=B", "A B", &"A".repeat(201)] {
        message("provider.variable", text);
    }
}

#[test]
fn addresses_in_other_styles_get_a_hint() {
    assert!(message("listen.documents", ":8080").ends_with("did you mean \"[::]:8080\"?"));
    assert!(message("listen.documents", "8080").ends_with("did you mean \"[::]:8080\"?"));
    assert!(message("listen.documents", "localhost:80").ends_with("did you mean \"127.0.0.1:80\"?"));
    assert!(!message("listen.documents", "host:http").contains("did you mean"));
}
