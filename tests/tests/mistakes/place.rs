//! A newcomer's machine: a directory with keys and a configuration, and what is typed there.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

/// The directory, which the golden files call `/srv/oneseal`.
pub(crate) struct Place {
    dir: TempDir,
}

impl Place {
    /// With an RSA key in `signing.pem`, and a configuration that would do.
    pub(crate) fn new() -> Self {
        let place = Self { dir: tempfile::tempdir().unwrap() };
        place.key("signing.pem", "signing.pem");
        place.configure(GOOD);
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Puts one of the keys of `tests/vectors/mistakes` here, for its owner alone.
    pub(crate) fn key(&self, name: &str, of: &str) {
        let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors/mistakes");
        self.write(name, &fs::read(vectors.join(of)).unwrap(), 0o600);
    }

    pub(crate) fn write(&self, name: &str, bytes: &[u8], mode: u32) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }

    /// Writes `oneseal.toml`; `/srv/oneseal` in it means this directory.
    pub(crate) fn configure(&self, text: &str) {
        self.write("oneseal.toml", text.replace(NAME, &self.name()).as_bytes(), 0o644);
    }

    /// Types `oneseal ARGS` and gives what comes back, as golden files show it.
    pub(crate) fn run(&self, args: &str) -> String {
        self.told(args, &self.command(args).output().unwrap())
    }

    /// The command of `oneseal ARGS`, in an environment that says no more than that this directory is as durable as a
    /// real one (where tests run, it may lie in memory or in a container's own layer) and that nobody need be asked at
    /// the issuer's URL, which is only an example.
    pub(crate) fn command(&self, args: &str) -> Command {
        let mut command = Command::new(oneseal_tests::binary());
        command.args(args.split_whitespace()).current_dir(self.dir.path()).stdin(Stdio::null());
        command.env_clear().env("ONESEAL__PROVIDER__DURABLE", "true").env(SELF_CHECK, "false");
        command
    }

    /// A transcript: the line that was typed, how it ended, what it said.
    pub(crate) fn told(&self, args: &str, output: &Output) -> String {
        let exit = output.status.code().map_or("killed".to_owned(), |code| code.to_string());
        let said = [&output.stdout, &output.stderr].map(|said| str::from_utf8(said).unwrap()).concat();
        self.shown(&format!("$ oneseal {args}\n? {exit}\n{said}"))
    }

    /// `text` with this directory called by its name in the golden files.
    pub(crate) fn shown(&self, text: &str) -> String {
        text.replace(&self.name(), NAME)
    }

    fn name(&self) -> String {
        self.dir.path().display().to_string()
    }
}

/// Whether the start asks the issuer's own URL which keys it serves.
pub(crate) const SELF_CHECK: &str = "ONESEAL__ISSUER__SELF_CHECK";

/// What this directory is called in texts.
const NAME: &str = "/srv/oneseal";

/// A configuration without a mistake.
pub(crate) const GOOD: &str = r#"[issuer]
url = "https://oidc.example"

[provider]
kind = "file"
path = "/srv/oneseal/signing.pem"

[listen]
documents = "127.0.0.1:0"
ops = "127.0.0.1:0"
admin = "/srv/oneseal/admin.sock"

[admin]
mint = true
mint_audiences = ["sts.amazonaws.com"]
"#;
