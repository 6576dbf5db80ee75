//! What the holder of an admin token may do.

use std::fmt;

/// One right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Look: status.
    Read,
    /// Look at keys with their times, and change them.
    Keys,
    /// Mint tokens, and preview them.
    Mint,
}

impl Scope {
    /// All of them, in the order in which they are shown.
    pub(crate) const ALL: [Self; 3] = [Self::Read, Self::Keys, Self::Mint];

    /// Its name in the configuration and in the `scope` of a refusal (RFC 6750 section 3).
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Keys => "keys",
            Self::Mint => "mint",
        }
    }

    /// The scope of this name.
    pub(crate) fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == name)
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A set of them. None implies another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Scopes([bool; Scope::ALL.len()]);

impl Scopes {
    /// Adds one; whether it was not there yet.
    pub(crate) fn add(&mut self, scope: Scope) -> bool {
        !std::mem::replace(&mut self.0[scope as usize], true)
    }

    /// Whether it is there.
    pub(crate) fn has(self, scope: Scope) -> bool {
        self.0[scope as usize]
    }

    /// Those that are there.
    pub(crate) fn iter(self) -> impl Iterator<Item = Scope> {
        Scope::ALL.into_iter().filter(move |scope| self.has(*scope))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_scope_implies_another() {
        for scope in Scope::ALL {
            let mut scopes = Scopes::default();
            assert!(scopes.add(scope) && !scopes.add(scope));
            assert_eq!(scopes.iter().collect::<Vec<_>>(), [scope]);
            assert_eq!(Scope::find(scope.as_str()), Some(scope));
        }
        assert_eq!(Scope::find("admin"), None);
    }
}
