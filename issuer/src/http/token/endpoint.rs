//! The URL by which discovery names the token endpoint, where that is another one than `ISS/token`.

use http::Uri;

/// Whether clients can be sent to `url` with a credential.
///
/// # Errors
/// What is wrong, in words.
pub(crate) fn check(url: &str) -> Result<(), String> {
    if !url.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("it holds white space, control characters or characters beyond ASCII".to_owned());
    }
    if url.contains('#') {
        return Err(format!("{url} has a fragment"));
    }
    let parsed: Uri = url.parse().map_err(|_| format!("{url} is no URL"))?;
    let (Some(scheme), Some(authority)) = (parsed.scheme_str(), parsed.authority()) else {
        return Err(format!("{url} has no scheme and host"));
    };
    if authority.as_str().contains('@') {
        return Err("it has a user name".to_owned());
    }
    match scheme {
        "https" => Ok(()),
        "http" if is_loopback(authority.host()) => Ok(()),
        _ => Err(format!("{url} is not https")),
    }
}

fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse();
    host == "localhost" || address.is_ok_and(|address: std::net::IpAddr| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_goes_to_https_or_to_this_host() {
        for good in
            ["https://a.example/token", "https://a:8444/x?y=1", "http://127.0.0.1:1/t", "http://[::1]/t"]
        {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for (bad, words) in [
            ("", "no URL"),
            ("/token", "no scheme"),
            ("http://a.example/token", "not https"),
            ("ftp://a.example/token", "not https"),
            ("https://a.example/token#x", "fragment"),
            ("https://u:p@a.example/token", "user name"),
            ("https://a.example/ token", "white space"),
        ] {
            let said = check(bad).expect_err(bad);
            assert!(said.contains(words) && !said.contains("u:p"), "{bad}: {said}");
        }
    }
}
