//! Who fetches the key set, by the beginning of `User-Agent`: a closed list, the rest is folded.
//!
//! Open-ended labels would let anybody on the network fill a metrics store. The list has the HTTP clients that known
//! relying parties are built on.

/// A kind of client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Agent {
    /// Go's net/http: Vault, kube-apiserver (older), Argo CD, Teleport.
    Go,
    /// kube-apiserver and other Kubernetes components by their own name.
    Kubernetes,
    /// Node's `jose`, and node-fetch, undici, axios.
    Node,
    /// Python: urllib (PyJWT), requests, httpx, aiohttp, Authlib.
    Python,
    /// Java: HttpURLConnection, Apache HttpClient, okhttp.
    Java,
    /// .NET.
    DotNet,
    /// Envoy and Istio.
    Envoy,
    /// Browsers.
    Browser,
    /// curl and Wget: mostly people.
    Curl,
    /// This project's own tools and probes.
    Oneseal,
    /// All others, and none at all.
    Other,
}

impl Agent {
    pub(crate) const COUNT: usize = 11;
    pub(crate) const ALL: [Self; Self::COUNT] = [
        Self::Go,
        Self::Kubernetes,
        Self::Node,
        Self::Python,
        Self::Java,
        Self::DotNet,
        Self::Envoy,
        Self::Browser,
        Self::Curl,
        Self::Oneseal,
        Self::Other,
    ];

    /// Reads the beginning of a `User-Agent`, without regard to case.
    pub(crate) fn of(user_agent: &[u8]) -> Self {
        let begins_with = |prefix: &str| {
            user_agent.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix.as_bytes()))
        };
        PREFIXES.iter().find(|(prefix, _)| begins_with(prefix)).map_or(Self::Other, |(_, agent)| *agent)
    }

    /// The `agent` label.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Go => "go",
            Self::Kubernetes => "kubernetes",
            Self::Node => "node",
            Self::Python => "python",
            Self::Java => "java",
            Self::DotNet => "dotnet",
            Self::Envoy => "envoy",
            Self::Browser => "browser",
            Self::Curl => "curl",
            Self::Oneseal => "oneseal",
            Self::Other => "other",
        }
    }
}

const PREFIXES: &[(&str, Agent)] = &[
    ("Go-http-client", Agent::Go),
    ("kube-", Agent::Kubernetes),
    ("Kubernetes", Agent::Kubernetes),
    ("jose/", Agent::Node),
    ("node", Agent::Node),
    ("undici", Agent::Node),
    ("axios/", Agent::Node),
    ("Python", Agent::Python),
    ("httpx", Agent::Python),
    ("aiohttp", Agent::Python),
    ("Authlib/", Agent::Python),
    ("Java/", Agent::Java),
    ("Java-http-client", Agent::Java),
    ("Apache-HttpClient", Agent::Java),
    ("okhttp", Agent::Java),
    ("Microsoft", Agent::DotNet),
    ("Envoy", Agent::Envoy),
    ("Istio", Agent::Envoy),
    ("Mozilla/", Agent::Browser),
    ("curl/", Agent::Curl),
    ("Wget/", Agent::Curl),
    ("oneseal", Agent::Oneseal),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginnings_are_known_in_any_case_and_the_rest_is_other() {
        assert_eq!(Agent::of(b"Go-http-client/2.0"), Agent::Go);
        assert_eq!(Agent::of(b"jose/v6.0.0"), Agent::Node);
        assert_eq!(Agent::of(b"python-requests/2.32"), Agent::Python);
        assert_eq!(Agent::of(b"CURL/8"), Agent::Curl);
        for odd in [&b""[..], b"go", b"x curl/8", b"\xff\xfe", b"kube"] {
            assert_eq!(Agent::of(odd), Agent::Other, "{odd:?}");
        }
    }

    #[test]
    fn the_counter_of_an_agent_is_its_own() {
        for (i, agent) in Agent::ALL.into_iter().enumerate() {
            assert_eq!(agent as usize, i);
        }
    }
}
