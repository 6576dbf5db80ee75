//! Which label is on which version.

use std::collections::HashMap;

use uuid::Uuid;

use crate::Revision;

/// The label of the version that is used.
pub(super) const CURRENT: &str = "AWSCURRENT";
const PENDING: &str = "AWSPENDING";
const PREVIOUS: &str = "AWSPREVIOUS";

/// How the labels begin under which we put values.
const OWN: &str = "oneseal-";

/// What a version is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Current,
    Pending,
    Previous,
}

impl Role {
    const ALL: [Self; 3] = [Self::Current, Self::Pending, Self::Previous];

    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Current => CURRENT,
            Self::Pending => PENDING,
            Self::Previous => PREVIOUS,
        }
    }

    /// The entry that holds its key.
    pub(super) fn entry(self) -> &'static str {
        match self {
            Self::Current => "current",
            Self::Pending => "next",
            Self::Previous => "previous",
        }
    }
}

/// The versions that have a role, and the labels that we left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Stages {
    roles: Vec<(Role, String)>,
    /// Labels of ours, each with its version.
    own: Vec<(String, String)>,
}

impl Stages {
    /// From versions with their labels. AWS has each label on one version; the error names one that is on two.
    pub(super) fn of(labels: &HashMap<String, Vec<String>>) -> Result<Self, &'static str> {
        let mut stages = Self::default();
        for role in Role::ALL {
            let mut versions = labels.iter().filter(|(_, on)| on.iter().any(|label| label == role.label()));
            match (versions.next(), versions.next()) {
                (Some(_), Some(_)) => return Err(role.label()),
                (Some((version, _)), None) => stages.roles.push((role, version.clone())),
                (None, _) => {}
            }
        }
        for (version, on) in labels {
            let own = on.iter().filter(|label| label.starts_with(OWN));
            stages.own.extend(own.map(|label| (label.clone(), version.clone())));
        }
        stages.own.sort();
        Ok(stages)
    }

    /// The version of a role.
    pub(super) fn version(&self, role: Role) -> Option<&str> {
        self.roles.iter().find(|(of, _)| *of == role).map(|(_, version)| version.as_str())
    }

    /// Every role that has a version, the strongest first.
    pub(super) fn roles(&self) -> impl Iterator<Item = (Role, &str)> {
        self.roles.iter().map(|(role, version)| (*role, version.as_str()))
    }

    /// Labels that we left, each with its version.
    pub(super) fn own(&self) -> &[(String, String)] {
        &self.own
    }
}

/// The label under which a change's value is put.
pub(super) fn own_label(change: Uuid) -> String {
    let (first, ..) = change.as_fields();
    format!("{OWN}{first:08x}")
}

/// The revision in which these roles have these versions.
pub(super) fn revision<'v>(roles: impl IntoIterator<Item = (Role, &'v str)>) -> Revision {
    let parts: Vec<_> =
        roles.into_iter().map(|(role, version)| format!("{}={version}", role.label())).collect();
    Revision::new(parts.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(of: &[(&str, &[&str])]) -> HashMap<String, Vec<String>> {
        of.iter().map(|(id, on)| ((*id).to_owned(), on.iter().map(|&on| on.to_owned()).collect())).collect()
    }

    #[test]
    fn each_label_finds_its_version_and_other_labels_do_not_matter() {
        let stages = Stages::of(&labels(&[
            ("v1", &["AWSPREVIOUS"]),
            ("v2", &["AWSCURRENT", "AWSPENDING", "oneseal-01234567"]),
            ("v3", &["blue", "oneseal-89abcdef"]),
            ("v4", &[]),
        ]))
        .expect("each on one");
        assert_eq!(revision(stages.roles()).as_str(), "AWSCURRENT=v2,AWSPENDING=v2,AWSPREVIOUS=v1");
        assert_eq!(stages.version(Role::Pending), Some("v2"));
        let own: Vec<_> = stages.own().iter().map(|(label, version)| (&**label, &**version)).collect();
        assert_eq!(own, [("oneseal-01234567", "v2"), ("oneseal-89abcdef", "v3")]);
        assert_eq!(Stages::of(&labels(&[])).expect("nothing").version(Role::Current), None);
    }

    #[test]
    fn a_label_on_two_versions_is_named() {
        let twice = labels(&[("v1", &["AWSCURRENT"]), ("v2", &["AWSCURRENT"])]);
        assert_eq!(Stages::of(&twice), Err("AWSCURRENT"));
    }

    #[test]
    fn a_label_of_our_own_begins_with_the_change() {
        let id = Uuid::parse_str("0a1b2c3d-0000-4000-8000-000000000000").expect("a UUID");
        assert_eq!(own_label(id), "oneseal-0a1b2c3d");
    }
}
