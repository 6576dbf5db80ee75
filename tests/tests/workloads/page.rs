//! What `docs/workloads.md` says, with the values of a test in place of its reader's.

const PAGE: &str = include_str!("../../../docs/workloads.md");

/// The issuer of the page.
pub(crate) const ISSUER: &str = "https://oidc.example.com";
/// The audience of its cluster.
pub(crate) const CLUSTER: &str = "https://kubernetes.example.com";

/// The first block of this `kind` that has `text` in it.
pub(crate) fn block(kind: &str, text: &str) -> &'static str {
    let opening = format!("```{kind}\n");
    let blocks = PAGE.split(&opening).skip(1).map(|block| block.split("```").next().unwrap());
    blocks.into_iter().find(|block| block.contains(text)).unwrap_or_else(|| panic!("no {kind} with {text}"))
}

/// An `AuthenticationConfiguration` in which each issuer, by its URL, stands as the page has its one, with who vouches
/// for it in PEM.
pub(crate) fn authentication(issuers: &[(&str, &str)]) -> String {
    let (head, entry) = block("yaml", "AuthenticationConfiguration").split_once("jwt:\n").unwrap();
    let (before, rest) = entry.split_once("      -----BEGIN").unwrap();
    let (_, after) = rest.split_once("CERTIFICATE-----\n  claim").unwrap();
    let entries = issuers.iter().map(|(url, ca)| {
        let ca: String = ca.lines().map(|line| format!("      {line}\n")).collect();
        format!("{before}{ca}  claim{after}").replace(ISSUER, url)
    });
    format!("{head}jwt:\n{}", entries.collect::<String>())
}
