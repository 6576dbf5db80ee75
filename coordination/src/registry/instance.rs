//! What a replica is called from one boot to the next.

use std::fmt;

/// The name of an instance: the pod's, else host name and public port. It outlives a restart, and no two that run may
/// share it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InstanceId(String);

impl InstanceId {
    /// The most that a name may take: a host name of 253 bytes, and a port.
    const LONGEST: usize = 260;

    /// The name `text`.
    ///
    /// # Errors
    /// [`NotAnInstance`] unless it is 1 to 260 visible ASCII characters.
    pub fn new(text: impl Into<String>) -> Result<Self, NotAnInstance> {
        let text = text.into();
        let is_visible = text.bytes().all(|byte| byte.is_ascii_graphic());
        if text.is_empty() || text.len() > Self::LONGEST || !is_visible {
            return Err(NotAnInstance);
        }
        Ok(Self(text))
    }

    /// Of `pod` where there is one; else of the replica that listens on `port` of `host`.
    ///
    /// # Errors
    /// [`NotAnInstance`] if the name is none.
    pub fn of(pod: Option<&str>, host: &str, port: u16) -> Result<Self, NotAnInstance> {
        match pod.filter(|pod| !pod.is_empty()) {
            Some(pod) => Self::new(pod),
            None if host.is_empty() => Err(NotAnInstance),
            None => Self::new(format!("{host}:{port}")),
        }
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A text names no instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the name of an instance is 1 to 260 visible ASCII characters")]
pub struct NotAnInstance;

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn the_pod_names_it_else_host_and_port() {
        assert_eq!(InstanceId::of(Some("oneseal-0"), "node", 8080).unwrap().as_str(), "oneseal-0");
        assert_eq!(InstanceId::of(None, "node", 8080).unwrap().as_str(), "node:8080");
        assert_eq!(InstanceId::of(Some(""), "node", 8080).unwrap().as_str(), "node:8080");
    }

    #[test]
    fn what_could_not_be_told_apart_in_a_list_is_no_name() {
        for text in ["", " ", "a b", "a\n", "é", &"x".repeat(261)] {
            assert_eq!(InstanceId::new(text), Err(NotAnInstance), "{text:?}");
        }
        InstanceId::new("x".repeat(260)).unwrap();
        assert_eq!(InstanceId::of(None, "", 8080), Err(NotAnInstance));
    }
}
