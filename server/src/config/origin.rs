//! Where a value came from: needed for precedence, for the place of a finding, and for `check --explain`.

use std::fmt;

use super::table::Key;

/// The source of one value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Nobody said anything.
    Default,
    /// The configuration file.
    File {
        /// The file's name as it was given.
        file: String,
        /// The line, from 1.
        line: usize,
    },
    /// An environment variable.
    Variable(String),
    /// A file that an environment variable names.
    VariableFile {
        /// The variable, `…_FILE`.
        variable: String,
        /// What it names.
        file: String,
    },
    /// A command-line flag, with its hyphens.
    Flag(&'static str),
}

impl Origin {
    /// How strong: of two values for one key the stronger holds.
    pub(crate) fn rank(&self) -> Rank {
        match self {
            Self::Default => Rank::Default,
            Self::File { .. } => Rank::File,
            Self::Variable(_) | Self::VariableFile { .. } => Rank::Environment,
            Self::Flag(_) => Rank::Flag,
        }
    }

    /// Where a finding about `key` is.
    pub(crate) fn place(&self, key: &Key) -> String {
        match self {
            Self::Default => key.path.to_owned(),
            Self::File { file, line } => format!("{} ({file}:{line})", key.path),
            Self::Variable(variable) | Self::VariableFile { variable, .. } => variable.clone(),
            Self::Flag(flag) => (*flag).to_owned(),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { file, line } => write!(f, "{file}:{line}"),
            Self::Variable(variable) => f.write_str(variable),
            Self::VariableFile { variable, file } => write!(f, "{variable} = {file}"),
            Self::Flag(flag) => f.write_str(flag),
        }
    }
}

/// The order of sources, weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    /// The table's own value.
    Default,
    /// The file.
    File,
    /// Variables.
    Environment,
    /// The command line.
    Flag,
}
